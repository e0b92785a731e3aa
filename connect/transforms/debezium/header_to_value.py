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
from connect.transforms.structs import new_struct, null_error, require_fields, require_struct, struct_schema_like

PURPOSE = "Header field insertion"
_MAX_SCHEMAS = 64
_Path = tuple[str, ...]
_Addition = tuple[_Path, Schema | None]


@dataclass(frozen=True, slots=True)
class _PlainNames:
    """Validates a list of names that are not empty and have no spaces."""

    def __call__(self, name: str, value: Any) -> None:
        if any(not one for one in value or ()):
            raise ConfigError.invalid(name, value, "Empty string element(s) not permitted")
        if any(" " in one for one in value or ()):
            raise ConfigError.invalid(name, value, "Element(s) containing space not permitted")

    def __str__(self) -> str:
        return "names without spaces"


_NAMES = AllOf((NonEmptyList(), _PlainNames()))
_CONFIG_DEF = (
    ConfigDef()
    .define(
        "headers", ConfigType.LIST, importance=Importance.HIGH, validator=_NAMES, display_name="Header names list",
        doc="Headers to copy or move.",
    )
    .define(
        "fields", ConfigType.LIST, importance=Importance.HIGH, validator=_NAMES, display_name="Field names list",
        doc="Field for each header, in the order of headers. A dot separates a struct from its field: source.id is the field id "
        "of source.",
    )
    .define(
        "operation", ConfigType.STRING, importance=Importance.HIGH, validator=one_of("move", "copy", ignore_case=True),
        display_name="Operation: move or copy", doc="move removes the headers from the record, copy keeps them.",
    )
)  # fmt: skip


class HeaderToValue(Transformation):
    """Adds fields after the existing ones, or sets existing fields. A record without value or without any of the headers passes.
    Raises DataError for a value that is not a struct."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        headers, fields = values["headers"], values["fields"]
        if len(headers) != len(fields):
            raise ConfigError(
                f"'fields' config must have the same number of elements as 'headers' config: found {len(fields)} fields and "
                f"{len(headers)} headers",
                key="fields",
            )
        self._paths: dict[str, _Path] = {}
        for header, field in zip(headers, fields, strict=True):
            self._paths.setdefault(header, tuple(field.split(".")))
        self._is_move = values["operation"].lower() == "move"
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
        new.value_schema, new.value = schema, _copy_to_schema(value, schema, [self._paths[header.key] for header in found])
        for header in found:
            self._set_field(new.value, self._paths[header.key], header)
        if self._is_move:
            new.headers = Headers(header for header in record.headers or () if header.key not in self._paths)
        return new

    def _schema(self, old: Schema, headers: list[Header]) -> Schema:
        added = [(self._paths[header.key], header.schema) for header in headers]
        key = (old, tuple(added))
        known = self._schemas.get(key)
        if known is None:
            if len(self._schemas) >= _MAX_SCHEMAS:
                del self._schemas[next(iter(self._schemas))]
            known = self._schemas[key] = _extend_schema(old, added, "")
        return known

    def _set_field(self, value: Struct, path: _Path, header: Header) -> None:
        current: Any = value
        for step in path[:-1]:
            current = current.get_without_default(step)
            if current is None:
                # Debezium then drops the value of the header; with move, it removes the header nevertheless.
                if self._strict:
                    where = ".".join(path)
                    raise DataError(
                        f"The header {header.key} cannot become {where}: {step} is null, so the header's value would be lost"
                    )
                return
        field = current.schema.field(path[-1])
        if header.value is None and not field.schema.optional:
            raise null_error(".".join(path), field.schema)
        if header.value is not None and header.schema is not None and header.schema.type is not field.schema.type:
            raise DataError(
                f'The header {header.key} is of type {header.schema.type.name}, but the field "{".".join(path)}" is of type '
                f"{field.schema.type.name}"
            )
        validate_field_value(".".join(path), field.schema, header.value)
        current.values[field.index] = header.value


def _copy_to_schema(old: Struct, schema: Schema, paths: list[_Path]) -> Struct:
    """Copies a struct to the new schema, with nulls filled by defaults; also copies the structs on the paths."""
    values: list[Any] = []
    for field in require_fields(schema):
        before = old.schema.field(field.name)
        value = None if before is None else old.get(before)
        inner = [path[1:] for path in paths if len(path) > 1 and path[0] == field.name]
        if inner and isinstance(value, Struct):
            value = _copy_to_schema(value, field.schema, inner)
        elif inner and before is None:
            value = _empty_struct(field.schema)
        values.append(value)
    return new_struct(schema, values)


def _empty_struct(schema: Schema) -> Struct:
    """Creates a struct of nulls. Its inner structs are created too, because a path leads through each of them."""
    return new_struct(schema, [_empty_struct(f.schema) if f.schema.type is Type.STRUCT else None for f in require_fields(schema)])


def _extend_schema(old: Schema, added: list[_Addition], path_prefix: str) -> Schema:
    """Adds fields to a struct schema, and after them the structs that new nested fields need. Raises SchemaError for a new field
    without a schema."""
    members = {field.name: field.schema for field in require_fields(old)}
    for path, schema in added:
        if len(path) == 1 and path[0] not in members:
            if schema is None:
                raise SchemaError(
                    f"The header for the field {path_prefix}{path[0]} has no schema, so it cannot become a field of a struct"
                )
            members[path[0]] = schema
    for (name, *rest), schema in added:
        if not rest:
            continue
        known = members.get(name)
        if known is None:
            members[name] = _extend_schema(Schema(Type.STRUCT), [((*rest,), schema)], f"{path_prefix}{name}.").as_optional()
        elif known.type is not Type.STRUCT:
            raise DataError(
                f"{path_prefix}{name} is of type {known.type.name}, not a struct, so it cannot get the field {'.'.join(rest)}"
            )
        else:
            inner = _extend_schema(known, [((*rest,), schema)], f"{path_prefix}{name}.")
            is_new = old.field(name) is None
            members[name] = inner.as_optional() if is_new else inner
    return struct_schema_like(old, members.items())
