"""Decodes numbers: integers, floats, numeric, money."""

from __future__ import annotations

import decimal
from typing import Any

from connect.data.logical import DECIMAL
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.text_records import TextKind
from connectors.cdc.schema.column_type import ColumnType, Inline, refuse
from connectors.cdc.schema.variable_scale import VARIABLE_SCALE, variable_scale_struct
from connectors.postgres.config import TypeSettings

INT16 = ColumnType(Schema.INT16, int, 0, inline=Inline.INT)
INT32 = ColumnType(Schema.INT32, int, 0, inline=Inline.INT)
INT64 = ColumnType(Schema.INT64, int, 0, inline=Inline.INT)
FLOAT32 = ColumnType(Schema.FLOAT32, float, 0.0, inline=Inline.FLOAT)
FLOAT64 = ColumnType(Schema.FLOAT64, float, 0.0, inline=Inline.FLOAT)
BOOLEAN = ColumnType(Schema.BOOLEAN, lambda text: text == "t", False, inline=Inline.BOOL)

_NOT_FINITE = "decimal with decimal.handling.mode=precise: set it to string (or double) for columns that hold NaN or Infinity"


def finite_decimal(text: str) -> decimal.Decimal:
    """The exact value; its scale is the digits that were printed. Raises DataError for NaN and infinities."""
    if text[-1] > "9":
        raise refuse(text, _NOT_FINITE)
    return decimal.Decimal(text)


def variable_scale(schema: Schema = VARIABLE_SCALE, *, strips_zeros: bool = False) -> ColumnType:
    """A number of any scale as (scale, unscaled bytes), perhaps without trailing zeros after the point."""

    def decode(text: str) -> Struct:
        value = finite_decimal(text)
        if strips_zeros and "." in text:
            value = finite_decimal(text.rstrip("0").rstrip("."))
        return variable_scale_struct(schema, value)

    return ColumnType(
        schema,
        decode,
        Struct(schema, [0, b"\0"]),
        call_kind=TextKind.OTHER if strips_zeros else TextKind.DECIMAL,
        rebuild=lambda other: variable_scale(other, strips_zeros=strips_zeros),
    )


def _scale(typmod: int) -> int:
    return 0 if typmod < 0 else (((typmod - 4) & 0x7FF) ^ 1024) - 1024


def numeric(typmod: int, settings: TypeSettings) -> ColumnType:
    """numeric(p, s) by its typmod; -1 is a numeric without a scale."""
    if settings.decimal_mode == "string":
        return ColumnType(Schema.STRING, str, "0", inline=Inline.TEXT, default_scale=_scale(typmod))
    if settings.decimal_mode == "double":
        return ColumnType(Schema.FLOAT64, float, 0.0, inline=Inline.FLOAT)
    if typmod < 0:
        return variable_scale(strips_zeros="numeric_zeros" in settings.restored)
    precision, scale = ((typmod - 4) >> 16) & 0xFFFF, _scale(typmod)
    schema = _decimal(scale, precision)
    zero = decimal.Decimal((0, (0,), -scale))
    if scale >= 0:
        return ColumnType(schema, finite_decimal, zero, inline=Inline.DECIMAL)
    unit = decimal.Decimal((0, (1,), -scale))
    return ColumnType(schema, lambda text: finite_decimal(text).quantize(unit, context=_WIDE), zero)


_WIDE = decimal.Context(prec=2000, traps=[decimal.InvalidOperation, decimal.Inexact])


def _decimal(scale: int, precision: int | None = None) -> Schema:
    parameters = {"scale": str(scale)}
    if precision is not None:
        parameters["connect.decimal.precision"] = str(precision)
    return Schema(Type.BYTES, name=DECIMAL, version=1, parameters=parameters)


def money(settings: TypeSettings) -> ColumnType:
    """money, printed under lc_monetary=C as ``-$1,234.56``."""

    def plain(text: str) -> str:
        negative = text.startswith(("-", "("))
        return ("-" if negative else "") + "".join(c for c in text if c.isdigit() or c == ".")

    scale = settings.money_scale
    unit = decimal.Decimal((0, (1,), -scale))

    def exact(text: str) -> decimal.Decimal:
        try:
            return decimal.Decimal(plain(text)).quantize(unit, context=_WIDE)
        except decimal.Inexact as e:
            raise DataError(f"money {text} has more than money.fraction.digits={scale} digits after the point") from e

    if settings.decimal_mode == "string":
        return ColumnType(Schema.STRING, lambda text: str(exact(text)), "0")
    if settings.decimal_mode == "double":
        return ColumnType(Schema.FLOAT64, lambda text: float(exact(text)), 0.0)
    zero: Any = decimal.Decimal((0, (0,), -scale))
    return ColumnType(_decimal(scale), exact, zero)
