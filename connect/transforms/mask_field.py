"""MaskField: replaces field values by an empty value of their type, or by a given one."""

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
from connect.transforms.columnar.columns import Column, RecordColumns, SideColumns, Unfit, column_settler, constant
from connect.transforms.config import FIELDS, replaces_nulls, with_replace_null
from connect.transforms.key_or_value import KeySide, Plan, SideTransformation, ValueSide
from connect.transforms.strict_casting import is_kept
from connect.transforms.structs import class_name_under, copier, fields_of, raise_first, require_map, require_struct

PURPOSE = "mask fields"
_TABLE = with_replace_null(
    ConfigDef()
    .define(FIELDS, ConfigType.LIST, validator=DistinctList(), importance=Importance.HIGH, doc="Names of fields to mask.")
    .define(
        "replacement", ConfigType.STRING, None, validator=NonEmpty(), importance=Importance.LOW,
        doc="Custom value replacement, that will be applied to all 'fields' values (numeric or non-empty string values only).",
    )
)  # fmt: skip
_BITS: dict[str, int] = {"java.lang.Byte": 8, "java.lang.Short": 16, "java.lang.Integer": 32, "java.lang.Long": 64}
_ALIKE = {str, int, float, bool, decimal.Decimal, dt.datetime, dt.date}
_NARROW: dict[str, type] = {
    "java.lang.Byte": Int8, "java.lang.Short": Int16, "java.lang.Integer": Int32, "java.lang.Float": Float32
}  # fmt: skip


class MaskField(SideTransformation):
    """Masks by the class of each value; nulls stay null, after defaults took their place. Needs a datum."""

    passes_null = False

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _TABLE

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _TABLE.parse(configs)
        self._fields = hash_set_order(values[FIELDS])
        self._replace_null = replaces_nulls(values)
        self._mask = self._mask_for(values["replacement"], strict=is_strict(configs))

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None:
            require_struct(schema, datum, PURPOSE)

    def convert_null(self, schema: Schema | None) -> Any:
        return require_struct(schema, None, PURPOSE)

    def change_side(self, side: SideColumns, batch: RecordColumns) -> None:
        if not side.is_settled() or side.all_null:
            raise Unfit  # nulls are refused
        super().change_side(side, batch)

    def plan(self, schema: Schema | None) -> Plan:
        return Plan(None, self._of_map()) if schema is None else self._of_struct(schema)

    def _mask_for(self, replacement: str | None, *, strict: bool) -> Callable[[str, Schema | None, Any], Any]:
        """What takes the place of a value that is not null, by the name of its field, its schema and itself."""
        if replacement is None:
            return lambda _, schema, value: _empty(schema, value)
        if not strict:
            return lambda _, schema, value: _replaced(schema, value, replacement)

        def replaced_kept(field: str, schema: Schema | None, value: Any) -> Any:
            masked = _replaced(schema, value, replacement)
            _check_kept(f'field "{field}" of the {self.side}', replacement, masked)
            return masked

        return replaced_kept

    def _masked(self, field: str, schema: Schema | None, value: Any) -> Any:
        if value is None:
            return None
        try:
            return self._mask(field, schema, value)
        except DataError as e:
            e.in_field(field)
            raise

    def _of_map(self) -> Callable[[Any, ConnectRecord], Any]:
        fields, masked = self._fields, self._masked

        def convert(datum: Any, _: ConnectRecord) -> Any:
            value = require_map(datum, PURPOSE)
            changed = dict(value)
            for field in fields:
                changed[field] = masked(field, None, value.get(field))
            return changed

        return convert

    def _of_struct(self, schema: Schema) -> Plan:
        fields = fields_of(schema)
        copy = copier(fields, self._replace_null)
        targets = [f for f in fields if f.name in self._fields]
        masked = self._masked

        replace_null = self._replace_null

        def convert(old: list[Any], _: ConnectRecord) -> list[Any]:
            try:
                values = copy(old)
                for field in targets:
                    values[field.index] = masked(field.name, field.schema, values[field.index])
            except DataError:
                raise_first(old, fields, replace_null, schema, {f.index: partial(masked, f.name, f.schema) for f in targets})
                raise
            return values

        settle = column_settler(fields, self._replace_null)

        def in_columns(side: SideColumns, _: RecordColumns) -> None:
            columns = settle(side.columns())
            for field in targets:
                columns[field.index] = self._masked_column(field, columns[field.index])
            side.hold_columns(columns)

        return Plan(schema, convert, PURPOSE, in_columns)

    def _masked_column(self, field: Field, column: Column) -> Column:
        kinds = set(map(type, column))
        if len(kinds) == 1 and kinds <= _ALIKE:
            # What takes the place of a value depends on its class alone.
            return constant(self._masked(field.name, field.schema, column[0]), len(column))
        masked = self._masked
        return [masked(field.name, field.schema, value) for value in column]


def _empty(schema: Schema | None, value: Any) -> Any:
    """The zero, false or empty value of the same class. A decimal becomes 0 with scale 0 whatever its schema says, as in the
    original."""
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
    raise DataError(f"Cannot mask value of type: class {class_name_under(schema, value)}")


def _replaced(schema: Schema | None, value: Any, text: str) -> Any:
    name = class_name_under(schema, value)
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
    plain: Any
    if name in _BITS:
        plain = decimal_to_integer(number, _BITS[name])
    else:
        plain = decimal_to_double(number)
        if name == "java.lang.Float":
            plain = round_to_float32(plain)
    return _NARROW[name](plain) if schema is None and name in _NARROW else plain


def _check_kept(what: str, text: str, masked: Any) -> None:
    """Raises DataError when a replacement became another number."""
    if isinstance(masked, int | float):
        kept = Type.FLOAT32 if isinstance(masked, Float32) else Type.FLOAT64 if isinstance(masked, float) else Type.INT64
        if not is_kept(decimal.Decimal(text), masked, kept):
            raise DataError(f"MaskField: the replacement {text} would become {masked!r} in {what} ({STRICT} is on)")


class MaskFieldKey(KeySide, MaskField):
    """MaskField on the record's key."""


class MaskFieldValue(ValueSide, MaskField):
    """MaskField on the record's value."""
