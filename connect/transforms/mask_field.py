"""MaskField: replaces field values by an empty value of their type or by a configured one."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import DistinctList, NonEmpty
from connect.data.logical import DATE, EPOCH, EPOCH_DAY, FarInstant
from connect.data.schema import Field, Schema, Type
from connect.errors import DataError
from connect.java.hash_order import hash_set_order
from connect.java.numbers import NumberFormatError, decimal_to_double, decimal_to_integer, parse_big_decimal
from connect.java.sized_numbers import Float32, Int8, Int16, Int32, round_to_float32
from connect.record import ConnectRecord
from connect.strict import STRICT, is_strict
from connect.transforms.columnar.columns import Column, NotColumnar, PartColumns, RecordColumns, column_filler, constant
from connect.transforms.config import FIELDS, define_replace_null, read_replace_null
from connect.transforms.key_or_value import KeyOrValueTransformation, OnKey, OnValue, Plan
from connect.transforms.lossless import is_lossless
from connect.transforms.structs import copier, java_class_name, raise_first_error, require_fields, require_map, require_struct

PURPOSE = "mask fields"
_CONFIG_DEF = define_replace_null(
    ConfigDef()
    .define(FIELDS, ConfigType.LIST, validator=DistinctList(), importance=Importance.HIGH, doc="Names of fields to mask.")
    .define(
        "replacement", ConfigType.STRING, None, validator=NonEmpty(), importance=Importance.LOW,
        doc="Custom value replacement, that will be applied to all 'fields' values (numeric or non-empty string values only).",
    )
)  # fmt: skip
_BITS: dict[str, int] = {"java.lang.Byte": 8, "java.lang.Short": 16, "java.lang.Integer": 32, "java.lang.Long": 64}
_UNIFORM_CLASSES = {str, int, float, bool, decimal.Decimal, dt.datetime, dt.date}
_NARROW_CLASSES: dict[str, type] = {
    "java.lang.Byte": Int8, "java.lang.Short": Int16, "java.lang.Integer": Int32, "java.lang.Float": Float32
}  # fmt: skip


class MaskField(KeyOrValueTransformation):
    """Masks each value by its class. Nulls without a default stay null. Raises DataError for a null key or value."""

    passes_null = False

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        self._fields = hash_set_order(values[FIELDS])
        self._replace_null = read_replace_null(values)
        self._mask = self._build_mask(values["replacement"], strict=is_strict(configs))

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None:
            require_struct(schema, datum, PURPOSE)

    def convert_null(self, schema: Schema | None) -> Any:
        return require_struct(schema, None, PURPOSE)

    def convert_part(self, part: PartColumns, batch: RecordColumns) -> None:
        if not part.has_uniform_nulls() or part.all_null:
            raise NotColumnar  # nulls are errors
        super().convert_part(part, batch)

    def plan(self, schema: Schema | None) -> Plan:
        return Plan(None, self._map_converter()) if schema is None else self._struct_plan(schema)

    def _build_mask(self, replacement: str | None, *, strict: bool) -> Callable[[str, Schema | None, Any], Any]:
        """Builds the function from field name, schema, and value (not null) to the masked value."""
        if replacement is None:
            return lambda _, schema, value: _empty_value(schema, value)
        if not strict:
            return lambda _, schema, value: _convert_replacement(schema, value, replacement)

        def replace_lossless(field: str, schema: Schema | None, value: Any) -> Any:
            masked = _convert_replacement(schema, value, replacement)
            _check_lossless(f'field "{field}" of the {self.part}', replacement, masked)
            return masked

        return replace_lossless

    def _mask_value(self, field: str, schema: Schema | None, value: Any) -> Any:
        if value is None:
            return None
        try:
            return self._mask(field, schema, value)
        except DataError as e:
            e.in_field(field)
            raise

    def _map_converter(self) -> Callable[[Any, ConnectRecord], Any]:
        fields, mask_value = self._fields, self._mask_value

        def convert(datum: Any, _: ConnectRecord) -> Any:
            value = require_map(datum, PURPOSE)
            changed = dict(value)
            for field in fields:
                changed[field] = mask_value(field, None, value.get(field))
            return changed

        return convert

    def _struct_plan(self, schema: Schema) -> Plan:
        fields = require_fields(schema)
        copy = copier(fields, self._replace_null)
        targets = [f for f in fields if f.name in self._fields]
        mask_value = self._mask_value

        replace_null = self._replace_null

        def convert(old: list[Any], _: ConnectRecord) -> list[Any]:
            try:
                values = copy(old)
                for field in targets:
                    values[field.index] = mask_value(field.name, field.schema, values[field.index])
            except DataError:
                raise_first_error(
                    old, fields, replace_null, schema, {f.index: partial(mask_value, f.name, f.schema) for f in targets}
                )
                raise
            return values

        fill_columns = column_filler(fields, self._replace_null)

        def convert_columns(part: PartColumns, _: RecordColumns) -> None:
            columns = fill_columns(part.columns())
            for field in targets:
                columns[field.index] = self._mask_column(field, columns[field.index])
            part.set_columns(columns)

        return Plan(schema, convert, PURPOSE, convert_columns)

    def _mask_column(self, field: Field, column: Column) -> Column:
        kinds = set(map(type, column))
        if len(kinds) == 1 and kinds <= _UNIFORM_CLASSES:
            # The masked value depends only on the class.
            return constant(self._mask_value(field.name, field.schema, column[0]), len(column))
        mask_value = self._mask_value
        return [mask_value(field.name, field.schema, value) for value in column]


def _empty_value(schema: Schema | None, value: Any) -> Any:
    """The zero, false, or empty value of the same class. As in Apache, a decimal becomes 0 with scale 0 whatever its schema."""
    match value:
        case bool():
            return False
        case Int8() | Int16() | Int32() | Float32():
            return type(value)(0)
        case int():
            return 0
        case float():
            return 0.0
        case str():
            return ""
        case decimal.Decimal():
            return decimal.Decimal(0)
        case FarInstant():
            return EPOCH_DAY if schema is not None and schema.name == DATE else EPOCH
        case dt.datetime():
            return EPOCH
        case dt.date():
            return EPOCH_DAY
        case dt.time():
            return dt.time(0)
        case list():
            return []
        case dict():
            return {}
    raise DataError(f"Cannot mask value of type: class {java_class_name(schema, value)}")


def _convert_replacement(schema: Schema | None, value: Any, text: str) -> Any:
    name = java_class_name(schema, value)
    if name == "java.lang.String":
        return text
    if name not in _BITS and name not in ("java.lang.Float", "java.lang.Double", "java.math.BigDecimal"):
        raise DataError(f"Cannot mask value of type class {name} with custom replacement.")
    try:
        number = parse_big_decimal(text)
    except NumberFormatError as e:
        what = "number" if name == "java.math.BigDecimal" else "a number"
        raise DataError(f"Unable to convert {text} (class java.lang.String) to {what}") from e
    if name == "java.math.BigDecimal":
        return number
    number_value: Any
    if name in _BITS:
        number_value = decimal_to_integer(number, _BITS[name])
    else:
        number_value = decimal_to_double(number)
        if name == "java.lang.Float":
            number_value = round_to_float32(number_value)
    return _NARROW_CLASSES[name](number_value) if schema is None and name in _NARROW_CLASSES else number_value


def _check_lossless(what: str, text: str, masked: Any) -> None:
    """Raises DataError if the replacement became another number."""
    if isinstance(masked, int | float):
        target = Type.FLOAT32 if isinstance(masked, Float32) else Type.FLOAT64 if isinstance(masked, float) else Type.INT64
        if not is_lossless(decimal.Decimal(text), masked, target):
            raise DataError(f"MaskField: the replacement {text} would become {masked!r} in {what} ({STRICT} is on)")


class MaskFieldKey(OnKey, MaskField):
    """MaskField on the record's key."""


class MaskFieldValue(OnValue, MaskField):
    """MaskField on the record's value."""
