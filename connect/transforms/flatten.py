"""Flatten: brings the fields of nested structs or maps to the top, under joined names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import ConnectRecord
from connect.transforms.casting import inferred_type
from connect.transforms.record_sides import KeySide, Plan, SideTransformation, ValueSide
from connect.transforms.structs import (
    class_name_under,
    fields_of,
    new_struct,
    require_map,
    require_struct,
    settle_nulls,
    struct_schema_like,
    struct_under,
)

PURPOSE = "flattening"
_TABLE = ConfigDef().define(
    "delimiter", ConfigType.STRING, ".", importance=Importance.MEDIUM,
    doc="Delimiter to insert between field names from the input record when generating field names for the output record",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Level:
    """One struct level: per field its level if it is a struct itself, else None; and how many flat fields come of it."""

    schema: Schema
    inner: tuple[_Level | None, ...]
    width: int


class Flatten(SideTransformation):
    """Lists stay as they are; a struct that has a map is refused. What lies under an optional struct becomes optional, and the
    default of a struct gives defaults to its fields."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _TABLE

    def configure(self, configs: Mapping[str, Any]) -> None:
        delimiter: str | None = _TABLE.parse(configs)["delimiter"]
        # Java writes null as text when it joins names (vector Flatten.Value-0041).
        self._delimiter = "null" if delimiter is None else delimiter

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None:
            require_struct(schema, datum, PURPOSE)

    def plan(self, schema: Schema | None) -> Plan:
        return Plan(None, self._of_map()) if schema is None else self._of_struct(schema)

    def _joined(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _of_map(self) -> Callable[[Any, ConnectRecord], Any]:
        def convert(datum: Any, _: ConnectRecord) -> Any:
            flat: dict[str, Any] = {}
            try:
                self._flatten_map(require_map(datum, PURPOSE), "", flat)
            except RecursionError as e:
                raise DataError("A map is nested too deeply to be flattened") from e
            return flat

        return convert

    def _flatten_map(self, value: dict[Any, Any], prefix: str, flat: dict[str, Any]) -> None:
        for key, member in value.items():
            name = self._joined(prefix, key)
            if isinstance(member, dict):
                self._flatten_map(member, name, flat)
                continue
            if member is not None:
                kind = inferred_type(member)
                if kind is None:
                    raise DataError(
                        f"Flatten transformation was passed a value of type class {class_name_under(None, member)} "
                        "which is not supported by Connect's data API"
                    )
                if kind is Type.STRUCT:
                    raise DataError(
                        f"Flatten transformation does not support class {class_name_under(None, member)} for record without "
                        f"schemas (for field {name})."
                    )
            flat[name] = member

    def _of_struct(self, schema: Schema) -> Plan:
        members: list[tuple[str, Schema]] = []
        default = schema.default if isinstance(schema.default, Struct) else None
        level = self._level(schema, "", schema.optional, default, members)
        changed = struct_schema_like(schema, members)
        fields = fields_of(changed)
        # An optional field without default takes any null: most schemas need no look at their nulls.
        nested = any(inner is not None for inner in level.inner)

        def convert(datum: Any, _: ConnectRecord) -> Any:
            if datum.__class__ is not Struct or datum.schema is not schema:
                datum = struct_under(schema, datum, PURPOSE)
            if not nested:
                values = datum.values[:]
                if None in values:
                    settle_nulls(values, level_fields, True)
                return new_struct(changed, values)
            values = []
            _collect(datum, level, values)
            return new_struct(changed, values)

        level_fields = fields_of(schema) if not nested else fields
        return Plan(changed, convert)

    def _level(
        self, schema: Schema, prefix: str, optional: bool, default: Struct | None, members: list[tuple[str, Schema]]
    ) -> _Level:
        inner: list[_Level | None] = []
        before = len(members)
        for field in fields_of(schema):
            name = self._joined(prefix, field.name)
            is_optional = optional or field.schema.optional
            own_default = field.schema.default
            if own_default is None and default is not None:
                own_default = default.get(field.name)
            if field.schema.type is Type.MAP:
                raise DataError(f"Flatten transformation does not support MAP for record with schemas (for field {name}).")
            if field.schema.type is Type.STRUCT:
                inner.append(self._level(field.schema, name, is_optional, own_default, members))
                continue
            inner.append(None)
            same = is_optional == field.schema.optional and own_default is field.schema.default
            members.append((name, field.schema if same else field.schema.replace(optional=is_optional, default=own_default)))
        return _Level(schema, tuple(inner), len(members) - before)


def _collect(struct: Struct | None, level: _Level, values: list[Any]) -> None:
    """Appends the flat values of a struct; a struct that is null leaves its fields null, whatever their schemas say."""
    if struct is None:
        values.extend([None] * level.width)
        return
    for value, inner, field in zip(struct.values, level.inner, fields_of(level.schema), strict=True):
        if inner is not None:
            # The default of a struct is not put in its place, as in the original (vector Flatten.Value-0021).
            _collect(value, inner, values)
        elif value is None:
            values.append(field.schema.default)
        else:
            values.append(value)


class FlattenKey(KeySide, Flatten):
    """Flatten on the record's key."""


class FlattenValue(ValueSide, Flatten):
    """Flatten on the record's value."""
