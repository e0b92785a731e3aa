"""Cast: changes the type of fields, or of the whole key or value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.data.schema import Schema, Type
from connect.data.struct import validate_value
from connect.errors import ConfigError, DataError, SchemaError
from connect.java.hash_order import hash_map_order
from connect.record import ConnectRecord
from connect.strict import is_strict
from connect.transforms.columnar.column_casts import ColumnCaster, column_caster, schemaless_column_caster
from connect.transforms.columnar.columns import PartColumns, RecordColumns, column_filler
from connect.transforms.config import define_replace_null, java_list_text, read_replace_null, split_at_colons
from connect.transforms.key_or_value import ConvertColumns, KeyOrValueTransformation, OnKey, OnValue, Plan
from connect.transforms.lossless import Caster
from connect.transforms.structs import (
    copier,
    raise_first_error,
    require_fields,
    require_map,
    schema_metadata,
    struct_schema_like,
    with_field_name,
)
from connect.transforms.value_casts import OUTPUT_TYPES, caster_for, schemaless_caster, type_names

PURPOSE = "cast types"
_WHOLE = None
"""Stands for a cast of the whole key or value; no field has this name."""


class _Spec:
    """Validates ``spec``."""

    def __call__(self, name: str, value: Any) -> None:
        _parse_spec(value)

    def __str__(self) -> str:
        return "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"


def _parse_spec(mappings: list[str] | None) -> dict[str | None, Type]:
    """The type of each field, or the type of the whole key or value under the name _WHOLE. Raises ConfigError."""
    if not mappings:
        raise ConfigError("Must specify at least one field to cast.")
    casts: dict[str | None, Type] = {}
    for mapping in mappings:
        parts = split_at_colons(mapping)
        if len(parts) > 2:
            # Apache names a key of another transformation here (vector Cast, spec a:b:c).
            raise ConfigError.invalid("renames", java_list_text(mappings), f"Invalid rename mapping: {mapping}")
        if not parts:
            raise ConfigError.invalid("spec", java_list_text(mappings), "expected field:type")
        casts[_WHOLE if len(parts) == 1 else parts[0].strip()] = _parse_type(parts[-1].strip())
    if _WHOLE in casts and len(mappings) > 1:
        raise ConfigError(
            "Cast transformations that specify a type to cast the entire value to may only specify a single cast in their spec"
        )
    return casts


def _parse_type(text: str) -> Type:
    name = text.upper()
    if name not in Type.__members__:
        reason = f"java.lang.IllegalArgumentException: No enum constant org.apache.kafka.connect.data.Schema.Type.{name}"
        raise ConfigError.invalid(f"Invalid type found in casting spec: {text}", reason)
    target = Type[name]
    if target not in OUTPUT_TYPES:
        raise ConfigError(
            f"Cast transformation does not support casting to {name}; supported types are {type_names(OUTPUT_TYPES)}"
        )  # fmt: skip
    return target


_CONFIG_DEF = define_replace_null(
    ConfigDef().define(
        "spec", ConfigType.LIST, validator=_Spec(), importance=Importance.HIGH,
        doc="List of fields and the type to cast them to of the form field1:type,field2:type to cast fields of Maps or "
        "Structs. A single type to cast the entire value. Valid types are int8, int16, int32, int64, float32, float64, "
        "boolean, and string. Note that binary fields can only be cast to string.",
    )
)  # fmt: skip


class Cast(KeyOrValueTransformation):
    """Casts as Java does: numbers that are too large wrap or saturate; text that is not a number is an error. A null key or value
    passes."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        self._casts = _parse_spec(values["spec"])
        self._replace_null = read_replace_null(values)
        self._strict = is_strict(configs)

    def plan(self, schema: Schema | None) -> Plan:
        whole = self._casts.get(_WHOLE)
        if whole is not None:
            return self._whole_plan(schema, whole)
        return (
            Plan(None, self._map_converter(), None, self._map_columns_converter())
            if schema is None
            else self._struct_plan(schema)
        )

    def _strict_for(self, field: str | None) -> str | None:
        """How errors of a strict cast name the value; None if casts may lose data as in Java."""
        if not self._strict:
            return None
        return f"Cast of the {self.part}" if field is None else f'Cast of field "{field}" of the {self.part}'

    def _whole_plan(self, schema: Schema | None, target: Type) -> Plan:
        if schema is None:
            cast = schemaless_caster(target, self._strict_for(_WHOLE))
            return Plan(None, lambda datum, _: cast(datum))
        cast = caster_for(schema, target, self._strict_for(_WHOLE))
        changed = Schema(target, optional=schema.optional, default=cast(schema.default), **schema_metadata(schema))
        if changed.default is not None:
            # The schema name stays, so the default of a date may no longer fit; Apache's schema builder rejects that.
            try:
                validate_value(changed, changed.default)
            except DataError as e:
                raise SchemaError("Invalid default value") from e
        cast_column = column_caster(schema, target, cast, strict=self._strict)
        return Plan(changed, lambda datum, _: cast(datum), None, lambda part, _: part.set_data(cast_column(part.data())))

    def _map_casters(self) -> list[tuple[str, Type, Caster]]:
        names = hash_map_order([name for name in self._casts if name is not None])
        targets = [(name, self._casts[name]) for name in names]
        return [(name, target, schemaless_caster(target, self._strict_for(name))) for name, target in targets]

    def _map_columns_converter(self) -> ConvertColumns:
        casters = [
            (name, schemaless_column_caster(target, cast, strict=self._strict)) for name, target, cast in self._map_casters()
        ]

        def convert_columns(part: PartColumns, _: RecordColumns) -> None:
            changed = [dict(require_map(datum, PURPOSE)) for datum in part.data()]
            for name, cast_column in casters:
                for datum, value in zip(changed, cast_column([datum.get(name) for datum in changed]), strict=True):
                    datum[name] = value
            part.set_data(changed)

        return convert_columns

    def _map_converter(self) -> Callable[[Any, ConnectRecord], Any]:
        casters = [(name, with_field_name(name, cast)) for name, _, cast in self._map_casters()]

        def convert(datum: Any, _: ConnectRecord) -> Any:
            value = datum if datum.__class__ is dict else require_map(datum, PURPOSE)
            changed = dict(value)
            for name, cast in casters:
                # A missing field is added as null (vector Cast, spec absent:int64).
                changed[name] = cast(value.get(name))
            return changed

        return convert

    def _struct_plan(self, schema: Schema) -> Plan:
        fields = require_fields(schema)
        casters: list[tuple[int, Caster]] = []
        column_casters: list[tuple[int, ColumnCaster]] = []
        members: list[tuple[str, Schema]] = []
        for field in fields:
            target = self._casts.get(field.name)
            if target is None:
                members.append((field.name, field.schema))
                continue
            cast = caster_for(field.schema, target, self._strict_for(field.name))
            casters.append((field.index, with_field_name(field.name, cast)))
            column_casters.append((field.index, column_caster(field.schema, target, cast, strict=self._strict)))
            members.append((field.name, Schema(target, optional=field.schema.optional, default=cast(field.schema.default))))
        # Apache also casts the default of the struct, and fails.
        caster_for(schema, Type.STRING)(schema.default)
        changed = struct_schema_like(schema, members, optional=schema.optional)
        copy = copier(fields, self._replace_null)

        replace_null = self._replace_null

        def convert(old: list[Any], _: ConnectRecord) -> list[Any]:
            try:
                values = copy(old)
                for i, cast in casters:
                    values[i] = cast(values[i])
            except DataError:
                raise_first_error(old, fields, replace_null, changed, dict(casters))
                raise
            return values

        fill_columns = column_filler(fields, self._replace_null)

        def convert_columns(part: PartColumns, _: RecordColumns) -> None:
            columns = fill_columns(part.columns())
            for i, cast_column in column_casters:
                columns[i] = cast_column(columns[i])
            part.set_columns(columns)

        return Plan(changed, convert, PURPOSE, convert_columns)


class CastKey(OnKey, Cast):
    """Cast on the record's key."""


class CastValue(OnValue, Cast):
    """Cast on the record's value."""
