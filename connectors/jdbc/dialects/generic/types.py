"""Maps SQLAlchemy's types to Connect schemas and converters of a driver's values.

Drivers return different Python types for one SQL type, so converters accept every unambiguous value and reject the rest.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlalchemy import types as sa

from connect.data.logical import date_schema, time_schema
from connect.data.schema import Schema, Type
from connect.errors import DataError
from connectors.databases.calendar import NS_PER_DAY, NS_PER_SECOND
from connectors.jdbc.catalog import JdbcColumn
from connectors.jdbc.dialects.conversion import parse_iso_datetime, parse_iso_time
from connectors.jdbc.dialects.types import (
    UNSET_SCALE,
    datetime_to_instant_ns,
    datetime_to_wall_ns,
    decimal_schema,
    exact_rescaler,
    integer_converter,
    integer_schema,
    numeric_schema,
    primitive_schema,
    time_from_ns,
    time_to_ns,
    timestamp_from_ns,
    timestamp_schema_for,
    to_connect_date,
    wall_to_instant_ns,
)
from connectors.jdbc.options import ReadOptions

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class GenericColumnDecoder:
    """How to decode a column. Values of type ``plain`` need no conversion."""

    schema: Schema
    plain: type | None
    convert: Convert


def column_decoder(column: JdbcColumn, options: ReadOptions) -> GenericColumnDecoder | None:
    """Returns the decoder for SQLAlchemy's type in ``column.native``, None for a type without mapping."""
    type_, name, optional = column.native, column.name, column.nullable
    written = type(type_).__name__.upper()
    if isinstance(type_, sa.Boolean):
        if written == "BIT":  # JDBC's BIT is a number
            return _whole(Type.INT8, column)
        return GenericColumnDecoder(primitive_schema(Type.BOOLEAN, optional), bool, lambda value: _boolean(value, name))
    if written in ("MONEY", "SMALLMONEY"):
        return _decimal(decimal_schema(19 if written == "MONEY" else 10, 4, optional, options), 4, name)
    if isinstance(type_, sa.Float) or written in ("REAL", "BINARY_FLOAT", "BINARY_DOUBLE"):
        narrow = written in ("REAL", "BINARY_FLOAT")
        return GenericColumnDecoder(
            primitive_schema(Type.FLOAT32 if narrow else Type.FLOAT64, optional), float, lambda value: _float(value, name)
        )
    if isinstance(type_, sa.Numeric):
        return _numeric(type_, written, column, options)
    # Comes last because Oracle's NUMBER is an Integer, too.
    if written == "TINYINT" or isinstance(type_, (sa.SmallInteger, sa.BigInteger, sa.Integer)):
        return _integer(type_, written, column)
    if isinstance(type_, (sa.String, sa.Uuid, sa.JSON)) or written in ("XML", "LONG", "ROWID"):
        return GenericColumnDecoder(primitive_schema(Type.STRING, optional), str, _text)
    if isinstance(type_, sa._Binary) or written in ("RAW", "ROWVERSION"):
        return GenericColumnDecoder(primitive_schema(Type.BYTES, optional), bytes, _bytes)
    if isinstance(type_, sa.Date):
        return GenericColumnDecoder(date_schema(optional=optional), None, lambda value: _date(value, name, options))
    if isinstance(type_, sa.Time):
        return _time(column, options)
    if isinstance(type_, sa.DateTime):
        return GenericColumnDecoder(timestamp_schema_for(options, optional), None, _timestamp(name, options))
    return None


def exact_converter(column: JdbcColumn, options: ReadOptions) -> Callable[[Any], int | None]:
    """Returns a converter of an incrementing or timestamp column to its exact value: int, or ns since 1970 UTC."""
    instants = isinstance(column.native, (sa.DateTime, sa.Date))

    def exact(value: Any) -> int | None:
        if value is None:
            return None
        if instants or isinstance(value, (dt.date, dt.datetime)):
            ns, zoned = _instant(value, column.name)
            return ns if zoned else wall_to_instant_ns(ns, options.zone)
        return _integral(value, column.name)

    return exact


def infer_type(name: str, values: list[Any]) -> Any:
    """Infers SQLAlchemy's type of a result column from its first value that is not null."""
    sample = next((value for value in values if value is not None), None)
    match sample:
        case bool():
            return sa.Boolean()
        case int():
            return sa.BigInteger()
        case float():
            return sa.Double()
        case Decimal():
            scales = [-int(v.as_tuple().exponent) for v in values if isinstance(v, Decimal) and v.is_finite()]
            return sa.DECIMAL(38, max(0, *scales, 0))
        case dt.datetime():
            return sa.DateTime(timezone=sample.tzinfo is not None)
        case dt.date():
            return sa.Date()
        case dt.time() | dt.timedelta():
            return sa.Time()
        case bytes() | bytearray() | memoryview():
            return sa.LargeBinary()
    return sa.Text()


# --- numbers


def _whole(kind: Type, column: JdbcColumn) -> GenericColumnDecoder:
    check = integer_converter(kind, column.name)
    return GenericColumnDecoder(primitive_schema(kind, column.nullable), None, lambda value: check(_integral(value, column.name)))


def _integer(type_: Any, written: str, column: JdbcColumn) -> GenericColumnDecoder:
    if written == "TINYINT":
        bits, signed = 8, not getattr(type_, "unsigned", False) and not type_.__module__.startswith("sqlalchemy.dialects.mssql")
    else:
        bits = 16 if isinstance(type_, sa.SmallInteger) else 64 if isinstance(type_, sa.BigInteger) else 32
        signed = not getattr(type_, "unsigned", False)
    schema = integer_schema(bits, column.nullable, signed=signed)
    check = integer_converter(schema.type, column.name)
    return GenericColumnDecoder(schema, None, lambda value: check(_integral(value, column.name)))


def _numeric(type_: Any, written: str, column: JdbcColumn, options: ReadOptions) -> GenericColumnDecoder:
    scale = type_.scale if type_.scale is not None else UNSET_SCALE if type_.precision is None else 0
    precision = type_.precision or 0
    if written == "DECIMAL":
        schema = decimal_schema(precision, scale, column.nullable, options)
    else:
        schema = numeric_schema(precision, scale, column.nullable, options)
    if schema.type is Type.BYTES:
        return _decimal(schema, 127 if scale == UNSET_SCALE else scale, column.name)
    if schema.type is Type.FLOAT64:
        return GenericColumnDecoder(schema, float, lambda value: _float(value, column.name))
    return _whole(schema.type, column)


def _decimal(schema: Schema, scale: int, name: str) -> GenericColumnDecoder:
    scaled = exact_rescaler(scale, name)
    return GenericColumnDecoder(schema, None, lambda value: scaled(_number(value, name)))


def _number(value: Any, name: str) -> Decimal:
    if isinstance(value, Decimal):
        return value
    try:
        return Decimal(repr(value) if isinstance(value, float) else value)
    except (InvalidOperation, TypeError, ValueError) as e:
        raise DataError(f"Column {name}: {value!r} is not a number") from e


def _integral(value: Any, name: str) -> int:
    if isinstance(value, int):
        return int(value)
    number = _number(value, name)
    if not number.is_finite() or number != number.to_integral_value():
        raise DataError(f"Column {name}: {value!r} is not a whole number")
    return int(number)


def _float(value: Any, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as e:
        raise DataError(f"Column {name}: {value!r} is not a number") from e


def _boolean(value: Any, name: str) -> bool:
    if value in (0, 1):
        return bool(value)
    raise DataError(f"Column {name}: {value!r} is neither true nor false")


# --- text and bytes


def _text(value: Any) -> str:
    return str(value.read() if hasattr(value, "read") else value)


def _bytes(value: Any) -> bytes:
    return bytes(value.read() if hasattr(value, "read") else value)


# --- dates and times


def _instant(value: Any, name: str) -> tuple[int, bool]:
    """Returns ns of a date or timestamp, and whether it is an instant instead of a wall time."""
    if isinstance(value, dt.datetime):
        return (datetime_to_wall_ns(value), False) if value.tzinfo is None else (datetime_to_instant_ns(value), True)
    if isinstance(value, dt.date):
        return datetime_to_wall_ns(dt.datetime(value.year, value.month, value.day)), False
    if isinstance(value, str):
        moment = parse_iso_datetime(value, f"Column {name}")
        return (moment.wall, False) if moment.offset is None else (moment.wall - moment.offset * NS_PER_SECOND, True)
    raise DataError(f"Column {name}: {value!r} is not a timestamp")


def _timestamp(name: str, options: ReadOptions) -> Convert:
    of_wall, of_instant = timestamp_from_ns(options, name), timestamp_from_ns(options, name, zoned=True)

    def convert(value: Any) -> Any:
        ns, zoned = _instant(value, name)
        return of_instant(ns) if zoned else of_wall(ns)

    return convert


def _date(value: Any, name: str, options: ReadOptions) -> Any:
    if type(value) is not dt.date:
        ns, _ = _instant(value, name)
        if ns % NS_PER_DAY:
            raise DataError(f"Column {name}: {value!r} is not midnight, so it is not a date")
        value = dt.date(1970, 1, 1) + dt.timedelta(days=ns // NS_PER_DAY)
    return to_connect_date(value, options.calendar)


def _time(column: JdbcColumn, options: ReadOptions) -> GenericColumnDecoder:
    from_ns = time_from_ns(options, column.name)

    def convert(value: Any) -> dt.time:
        if isinstance(value, dt.time):
            return from_ns(time_to_ns(value))
        if isinstance(value, dt.timedelta):
            return from_ns((value // dt.timedelta(microseconds=1)) * 1000)
        if isinstance(value, str):
            return from_ns(parse_iso_time(value, f"Column {column.name}")[0])
        raise DataError(f"Column {column.name}: {value!r} is not a time of day")

    return GenericColumnDecoder(time_schema(optional=column.nullable), None, convert)
