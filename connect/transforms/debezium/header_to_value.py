"""HeaderToValue: copies or moves headers into the value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import AllOf, one_of
from connect.data.headers import Header, Headers
from connect.data.schema import Schema, Type
from connect.data.struct import Struct, validate_field_value
from connect.errors import ConfigError, DataError, SchemaError
from connect.record import ConnectRecord
from connect.strict import is_strict
from connect.transforms.api import Transformation
from connect.transforms.config import NonEmptyList
from connect.transforms.record_copies import copy_record
from connect.transforms.structs import fields_of, new_struct, null_error, require_struct, struct_schema_like

PURPOSE = "Header field insertion"
_MOST_SCHEMAS = 64
_Path = tuple[str, ...]
_Addition = tuple[_Path, Schema | None]


@dataclass(frozen=True, slots=True)
class _PlainNames:
    """A list of names that are not empty and have no spaces."""

    def __call__(self, name: str, value: Any) -> None:
        if any(not one for one in value or ()):
            raise ConfigError.invalid(name, value, "Empty string element(s) not permitted")
        if any(" " in one for one in value or ()):
            raise ConfigError.invalid(name, value, "Element(s) containing space not permitted")

    def __str__(self) -> str:
        return "names without spaces"


_NAMES = AllOf((NonEmptyList(), _PlainNames()))
_TABLE = (
    ConfigDef()
    .define(
        "headers", ConfigType.LIST, importance=Importance.HIGH, validator=_NAMES, display_name="Header names list",
        doc="The headers to copy or move.",
    )
    .define(
        "fields", ConfigType.LIST, importance=Importance.HIGH, validator=_NAMES, display_name="Field names list",
        doc="The field that each header becomes, in the order of headers. A dot leads into a struct: source.id is the field id "
        "of source.",
    )
    .define(
        "operation", ConfigType.STRING, importance=Importance.HIGH, validator=one_of("move", "copy", ignore_case=True),
        display_name="Operation: move or copy", doc="move takes the headers off the record, copy leaves them.",
    )
)  # fmt: skip


class HeaderToValue(Transformation):
    """Adds fields after those that are there, or sets those of the same name. A record without value or without any of the
    headers passes; a value that is no struct is refused."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _TABLE

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _TABLE.parse(configs)
        headers, fields = values["headers"], values["fields"]
        if len(headers) != len(fields):
            raise ConfigError(
                f"'fields' config must have the same number of elements as 'headers' config: there are {len(fields)} fields and "
                f"{len(headers)} headers",
                key="fields",
            )
        self._paths: dict[str, _Path] = {}
        for header, field in zip(headers, fields, strict=True):
            self._paths.setdefault(header, tuple(field.split(".")))
        self._moves = values["operation"].lower() == "move"
        self._strict = is_strict(configs)
        self._schemas: dict[tuple[Schema, tuple[_Addition, ...]], Schema] = {}

    def close(self) -> None:
        self._schemas.clear()

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if record.value is None:
            return record
        value = require_struct(record.value_schema, record.value, PURPOSE)
        found = [header for header in record.headers or () if header.key in self._paths]
        if not found:
            return record
        schema = self._schema(value.schema, found)
        new = copy_record(record)
        new.value_schema, new.value = schema, _copied(value, schema, [self._paths[header.key] for header in found])
        for header in found:
            self._put(new.value, self._paths[header.key], header)
        if self._moves:
            new.headers = Headers(header for header in record.headers or () if header.key not in self._paths)
        return new

    def _schema(self, old: Schema, headers: list[Header]) -> Schema:
        added = [(self._paths[header.key], header.schema) for header in headers]
        key = (old, tuple(added))
        known = self._schemas.get(key)
        if known is None:
            if len(self._schemas) >= _MOST_SCHEMAS:
                del self._schemas[next(iter(self._schemas))]
            known = self._schemas[key] = _extended(old, added, "")
        return known

    def _put(self, value: Struct, path: _Path, header: Header) -> None:
        current: Any = value
        for step in path[:-1]:
            current = current.get_without_default(step)
            if current is None:
                # The original leaves the header's value out then, and with move takes the header off all the same.
                if self._strict:
                    where = ".".join(path)
                    raise DataError(f"The header {header.key} cannot become {where}: {step} is null, so its value would be lost")
                return
        field = current.schema.field(path[-1])
        if header.value is None and not field.schema.optional:
            raise null_error(".".join(path), field.schema)
        if header.value is not None and header.schema is not None and header.schema.type is not field.schema.type:
            raise DataError(
                f'The header {header.key} is of type {header.schema.type.name}, and the field "{".".join(path)}" of type '
                f"{field.schema.type.name}"
            )
        validate_field_value(".".join(path), field.schema, header.value)
        current.values[field.index] = header.value


def _copied(old: Struct, schema: Schema, paths: list[_Path]) -> Struct:
    """The values under the new schema, with defaults in place of nulls, and the structs on the paths copied too."""
    values: list[Any] = []
    for field in fields_of(schema):
        before = old.schema.field(field.name)
        value = None if before is None else old.get(before)
        inner = [path[1:] for path in paths if len(path) > 1 and path[0] == field.name]
        if inner and isinstance(value, Struct):
            value = _copied(value, field.schema, inner)
        elif inner and before is None:
            value = _blank(field.schema)
        values.append(value)
    return new_struct(schema, values)


def _blank(schema: Schema) -> Struct:
    """A struct of nulls, and of such structs where there are inner ones: all of them are there because a path leads through."""
    return new_struct(schema, [_blank(f.schema) if f.schema.type is Type.STRUCT else None for f in fields_of(schema)])


def _extended(old: Schema, added: list[_Addition], at: str) -> Schema:
    """The struct schema with fields added, and after them inner structs that come to be for fields in them. Raises SchemaError
    for a new field without a schema."""
    members = {field.name: field.schema for field in fields_of(old)}
    for path, schema in added:
        if len(path) == 1 and path[0] not in members:
            if schema is None:
                raise SchemaError(
                    f"The header for the field {at}{path[0]} has no schema, so it cannot become a field of a struct"
                )
            members[path[0]] = schema
    for (name, *rest), schema in added:
        if not rest:
            continue
        known = members.get(name)
        if known is None:
            members[name] = _extended(Schema(Type.STRUCT), [((*rest,), schema)], f"{at}{name}.").as_optional()
        elif known.type is not Type.STRUCT:
            raise DataError(f"{at}{name} is of type {known.type.name} and no struct, so it cannot get the field {'.'.join(rest)}")
        else:
            inner = _extended(known, [((*rest,), schema)], f"{at}{name}.")
            is_new = old.field(name) is None
            members[name] = inner.as_optional() if is_new else inner
    return struct_schema_like(old, members.items())
