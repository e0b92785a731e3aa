"""Integers, floats, decimals, bits, booleans, and years."""

from __future__ import annotations

import decimal
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

from connect.data.logical import DECIMAL
from connect.data.schema import Schema, Type
from connectors.cdc.schema.column_type import ColumnType, Decoder, Inline
from connectors.mysql.binlog import ColumnReader, decimal_text
from connectors.mysql.types.column_type import MySqlColumnType, named_decoder, refuse_value
from connectors.mysql.types.config import MySqlTypeSettings

_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_MAX_INT64 = (1 << 63) - 1
_DOUBLE = "{name} * 1e0"
"""The server prints a FLOAT with six digits, and a column with decimal places with these; it prints a product exactly."""


def mapping(
    column: str,
    schema: Schema,
    decode: Decoder,
    zero: Any,
    *,
    reader: ColumnReader | None = None,
    inline: Inline = Inline.CALL,
    placeholder: Any = None,
    select: str = "{name}",
    is_bytes: bool = False,
) -> MySqlColumnType:
    """A mapping whose decoders do not depend on the schema. ``reader`` is None if raw values stay as they are."""
    text = ColumnType(schema, named_decoder(column, decode), zero, placeholder, inline)
    rebuild = partial(
        mapping, column, decode=decode, zero=zero, reader=reader, inline=inline, placeholder=placeholder, select=select,
        is_bytes=is_bytes,
    )  # fmt: skip
    named = ColumnReader(name=column) if reader is None else replace(reader, name=column)
    return MySqlColumnType(text, named, rebuild, select, is_bytes)


def integer(column: str, schema: Schema, *, unsigned: bool, zerofill: bool) -> MySqlColumnType:
    # With leading zeros, the text is no JSON.
    return mapping(
        column, schema, int, 0, reader=ColumnReader(unsigned=unsigned), inline=Inline.CALL if zerofill else Inline.INT
    )  # fmt: skip


def unsigned_bigint(column: str, settings: MySqlTypeSettings) -> MySqlColumnType:
    """BIGINT UNSIGNED as a decimal, or as a long, which refuses what it cannot hold."""
    if settings.unsigned_bigint_mode == "precise":
        reader = ColumnReader(unsigned=True, convert=Decimal)
        return mapping(column, decimal_schema(20, 0), Decimal, Decimal(0), reader=reader)

    def exact(value: Any) -> int:
        number = int(value)
        if number > _MAX_INT64:
            # Promise 8: Debezium's long is negative then.
            what = "64-bit integer with a sign, which bigint.unsigned.handling.mode=long holds; set it to precise"
            raise refuse_value(column, str(number), what)
        return number

    reader = ColumnReader(unsigned=True, convert=exact, inline=f"{{x}} if {{x}} <= {_MAX_INT64} else {{c}}({{x}})")
    return mapping(column, Schema.INT64, exact, 0, reader=reader)


def year(column: str) -> MySqlColumnType:
    """YEAR; 0000 is 0."""
    schema = Schema(Type.INT32, name="io.debezium.time.Year", version=1)
    return mapping(column, schema, int, 0, reader=ColumnReader(unsigned=True))


def floating(column: str, schema: Schema) -> MySqlColumnType:
    """FLOAT or DOUBLE. A FLOAT with decimal places is a float64, as in Debezium."""
    # The text of a float32 is that of a double, which has more digits than the number needs.
    inline = Inline.FLOAT if schema.type is Type.FLOAT64 else Inline.CALL
    return mapping(column, schema, float, 0.0, inline=inline, select=_DOUBLE)


def decimal_schema(precision: int, scale: int) -> Schema:
    return Schema(
        Type.BYTES, name=DECIMAL, version=1, parameters={"scale": str(scale), "connect.decimal.precision": str(precision)}
    )


def exact_decimal(column: str, precision: int, scale: int, settings: MySqlTypeSettings, *, zerofill: bool) -> MySqlColumnType:
    """DECIMAL as ``decimal.handling.mode`` says."""
    reader: ColumnReader
    match settings.decimal_mode:
        case "string":
            plain: Decoder = (lambda text: f"{Decimal(text):f}") if zerofill else str
            reader = ColumnReader(convert=lambda unscaled: decimal_text(unscaled, scale))
            inline = Inline.CALL if zerofill else Inline.TEXT
            return mapping(column, Schema.STRING, plain, decimal_text(0, scale), reader=reader, inline=inline)
        case "double":
            # The quotient of integers is rounded once, like the text.
            reader = ColumnReader(inline=f"{{x}} / {10**scale}")
            return mapping(column, Schema.FLOAT64, float, 0.0, reader=reader, inline=Inline.CALL if zerofill else Inline.FLOAT)
    if scale:
        reader = ColumnReader(convert=_EXACT.scaleb, inline=f"{{c}}({{x}}, {-scale})")
    else:
        reader = ColumnReader(convert=Decimal)
    zero = Decimal((0, (0,), -scale))
    inline = Inline.CALL if zerofill else Inline.DECIMAL
    return mapping(column, decimal_schema(precision, scale), Decimal, zero, reader=reader, inline=inline)


def boolean(column: str) -> MySqlColumnType:
    """BOOLEAN of a declaration that the stream has; a snapshot sees TINYINT(1)."""
    return mapping(column, Schema.BOOLEAN, lambda text: int(text) != 0, False, reader=ColumnReader(inline="{x} != 0"))


def bits(column: str, length: int) -> MySqlColumnType:
    """BIT(1) as a boolean, longer ones as little-endian bytes."""
    if length <= 1:
        reader = ColumnReader(inline="{x} != 0")
        return mapping(column, Schema.BOOLEAN, lambda data: int.from_bytes(data) != 0, False, reader=reader, is_bytes=True)
    size = (length + 7) // 8
    schema = Schema(Type.BYTES, name="io.debezium.data.Bits", version=1, parameters={"length": str(length)})
    reader = ColumnReader(inline=f"{{x}}.to_bytes({size}, 'little')")

    def reverse(data: bytes) -> bytes:
        return int.from_bytes(data).to_bytes(size, "little")

    return mapping(column, schema, reverse, b"", reader=reader, is_bytes=True)
