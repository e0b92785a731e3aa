"""Maps result columns to Connect schemas and decoders of their text."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from pymysql.constants import FIELD_TYPE, FLAG

from connect.data.logical import date_of, date_schema, time_schema
from connect.data.schema import Schema, Type
from connect.errors import DataError
from connectors.databases.calendar import NS_PER_DAY, NS_PER_SECOND, date_of_epoch_day, epoch_day_of_date
from connectors.jdbc.dialects.types import (
    decimal_schema,
    exact_rescaler,
    integer_schema,
    primitive_schema,
    time_from_ns,
    timestamp_from_ns,
    timestamp_schema_for,
    to_legacy_day,
    wall_to_instant_ns,
)
from connectors.jdbc.options import Calendar, Granularity, ReadOptions
from connectors.jdbc.urls.target import ZeroDates

VECTOR: Final = 242
"""MySQL 9's type number of VECTOR, which PyMySQL does not define."""
_BINARY_CHARSET: Final = 63
_GREGORIAN: Final = "1582-10-16"

Read = Callable[[bytes], Any]
"""Decodes the bytes of a value (text, or the content of a binary column). Raises DataError that names the column."""


@dataclass(frozen=True, slots=True)
class MySqlResultColumn:
    """A result column, as the server describes it."""

    name: str
    type: int
    flags: int
    charset: int
    length: int
    """Digits of a number including sign and point, bits of a BIT, bytes of a text."""
    decimals: int
    exact_float: bool = False
    """Whether it is a FLOAT column selected as a DOUBLE, which preserves all digits."""
    nullable: bool = True

    @property
    def unsigned(self) -> bool:
        return bool(self.flags & FLAG.UNSIGNED)


@dataclass(frozen=True, slots=True)
class MySqlColumnDecoder:
    """How to decode a column. ``inline`` is code for a value: ``{x}`` is its text as Latin-1, ``{b}`` its bytes, and ``{c}`` is
    ``read``, which decodes any value. The code may raise ValueError for a value that needs ``read``."""

    schema: Schema
    read: Read
    inline: str = "{c}({b})"
    exact: Callable[[bytes], int] | None = None
    """The exact value: an integer, or ns since 1970 UTC."""
    exact_is_value: bool = False

    @property
    def type_name(self) -> str:
        return self.schema.type.value


_INTEGERS: Final = {
    FIELD_TYPE.TINY: 8,
    FIELD_TYPE.SHORT: 16,
    FIELD_TYPE.INT24: 32,
    FIELD_TYPE.LONG: 32,
    FIELD_TYPE.LONGLONG: 64,
}
_TEXTS: Final = frozenset(
    {
        FIELD_TYPE.VARCHAR,
        FIELD_TYPE.VAR_STRING,
        FIELD_TYPE.STRING,
        FIELD_TYPE.ENUM,
        FIELD_TYPE.SET,
        FIELD_TYPE.TINY_BLOB,
        FIELD_TYPE.BLOB,
        FIELD_TYPE.MEDIUM_BLOB,
        FIELD_TYPE.LONG_BLOB,
    }
)


def column_decoder(
    column: MySqlResultColumn, options: ReadOptions, *, booleans: bool, zero_dates: ZeroDates = ZeroDates.REFUSED
) -> MySqlColumnDecoder | None:
    """Returns the decoder of a column, None for a type without mapping. ``booleans``: tinyint(1) and bit(1) are booleans, as with
    MariaDB's JDBC driver, instead of int8, as with MySQL's."""
    optional, name, type = column.nullable, column.name, column.type
    if type in _INTEGERS:
        if booleans and type == FIELD_TYPE.TINY and column.length == 1:
            return _boolean(optional, name, strict=options.strict)
        return _integer(column, _INTEGERS[type])
    match type:
        case FIELD_TYPE.DECIMAL | FIELD_TYPE.NEWDECIMAL:
            return _decimal(column, options)
        case FIELD_TYPE.FLOAT:
            return MySqlColumnDecoder(primitive_schema(Type.FLOAT32, optional), float, "float({x})")
        case FIELD_TYPE.DOUBLE:
            if column.exact_float:
                return MySqlColumnDecoder(
                    primitive_schema(Type.FLOAT32, optional), _float32, "(float(x) if len(x := {x}) < 8 else {c}({b}))"
                )
            return MySqlColumnDecoder(primitive_schema(Type.FLOAT64, optional), float, "float({x})")
        case FIELD_TYPE.BIT:
            return _bits(column, booleans=booleans)
        case FIELD_TYPE.DATE | FIELD_TYPE.NEWDATE:
            return _with_zero_dates(_date(optional, name, options), zero_dates)
        case FIELD_TYPE.TIME:
            return _time(optional, name, options)
        case FIELD_TYPE.DATETIME | FIELD_TYPE.TIMESTAMP:
            return _with_zero_dates(_timestamp(column, options), zero_dates)
        case FIELD_TYPE.YEAR:
            return _year(optional, name)
        case FIELD_TYPE.JSON | FIELD_TYPE.NULL:
            return MySqlColumnDecoder(primitive_schema(Type.STRING, optional), bytes.decode, "{b}.decode()")
        case FIELD_TYPE.GEOMETRY:
            return MySqlColumnDecoder(primitive_schema(Type.BYTES, optional), bytes, "{b}")
    if type == VECTOR or (type in _TEXTS and column.charset == _BINARY_CHARSET):
        return MySqlColumnDecoder(primitive_schema(Type.BYTES, optional), bytes, "{b}")
    if type in _TEXTS:
        return MySqlColumnDecoder(primitive_schema(Type.STRING, optional), bytes.decode, "{b}.decode()")
    return None


# --- numbers


def _boolean(optional: bool, name: str, *, strict: bool) -> MySqlColumnDecoder:
    schema = primitive_schema(Type.BOOLEAN, optional)

    def read(value: bytes) -> bool:
        number = int(value)
        if strict and number not in (0, 1):
            raise DataError(
                f"Column {name}: {number} is neither 0 nor 1, but MariaDB's driver reads a tinyint(1) as a boolean; "
                "conversion.strict=true forbids that"
            )
        return number != 0

    return MySqlColumnDecoder(schema, read, "({x} != '0')" if not strict else "{c}({b})", exact=int)


def _integer(column: MySqlResultColumn, bits: int) -> MySqlColumnDecoder:
    schema = integer_schema(bits, column.nullable, signed=not column.unsigned)
    if bits < 64 or not column.unsigned:
        return MySqlColumnDecoder(schema, int, "int({x})", exact=int, exact_is_value=True)
    most = 1 << 63

    def read(value: bytes) -> int:
        number = int(value)
        if number >= most:
            raise DataError(
                f"Column {column.name}: {number} does not fit int64, the type of a bigint unsigned in Connect; "
                "read it with a query that casts it to DECIMAL(20,0)"
            )
        return number

    inline = "(n if (n := int({x})) < 9223372036854775808 else {c}({b}))"
    return MySqlColumnDecoder(schema, read, inline, exact=int, exact_is_value=True)


_single = struct.Struct("<f")


def _float32(value: bytes) -> float:
    """Returns the number with the fewest digits that is the same float32, as Java and PostgreSQL print it."""
    number = float(value)
    for digits in (6, 7, 8):
        shorter = float(f"{number:.{digits}g}")
        with contextlib.suppress(OverflowError):  # rounded up beyond the largest
            if _single.pack(shorter) == _single.pack(number):
                return shorter
    return float(f"{number:.9g}")


def _decimal(column: MySqlResultColumn, options: ReadOptions) -> MySqlColumnDecoder:
    scale = column.decimals
    precision = column.length - (scale > 0) - (not column.unsigned)
    scaled = exact_rescaler(scale, column.name)

    def read(value: bytes) -> Decimal:
        return scaled(Decimal(value.decode()))

    whole = (lambda value: int(value)) if scale == 0 else None
    # The server sends all decimal places. If the point is elsewhere, the description is not that of a table column.
    inline = "Decimal({x})" if scale == 0 else f"(Decimal({{x}}) if s[j - {scale + 1}] == '.' else {{c}}({{b}}))"
    return MySqlColumnDecoder(decimal_schema(max(precision, 1), scale, column.nullable, options), read, inline, exact=whole)


def _bits(column: MySqlResultColumn, *, booleans: bool) -> MySqlColumnDecoder:
    """Up to eight bits are an int8, as in Confluent's and Aiven's connectors; more are an int64. The highest bit of 8 or 64 is
    the sign, as in those connectors."""
    bits, optional = column.length, column.nullable
    if bits <= 1:
        if booleans:
            return MySqlColumnDecoder(
                primitive_schema(Type.BOOLEAN, optional), lambda value: value != b"\0", "({b} != b'\\0')", exact=_unsigned
            )
        return MySqlColumnDecoder(primitive_schema(Type.INT8, optional), _unsigned, "d[j - 1]", exact=_unsigned)
    type = Type.INT8 if bits <= 8 else Type.INT64
    signed = bits in (8, 64)
    return MySqlColumnDecoder(
        primitive_schema(type, optional),
        lambda value: int.from_bytes(value, "big", signed=signed),
        f"from_bytes({{b}}, 'big', signed={signed})",
        exact=lambda value: int.from_bytes(value, "big", signed=signed),
    )


def _unsigned(value: bytes) -> int:
    return int.from_bytes(value, "big")


# --- dates and times

_DATE_TEXT = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_TIME_TEXT = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")


def _day(text: str, name: str) -> int:
    """Parses a date into days since 1970 in the proleptic calendar."""
    match = _DATE_TEXT.fullmatch(text)
    if match is not None:
        year, month, day = map(int, match.groups())
        if (month == 0 or day == 0) and text != "0000-00-00":
            raise DataError(
                f"Column {name}: {text} has no month or day, which Connect cannot represent; store a complete date or "
                f"null instead, or read the column with a query as text: CAST({name} AS CHAR)"
            )
        if month == 0:
            raise DataError(
                f"Column {name}: {text} is a zero date, which Connect cannot represent; store null instead, "
                f"read the column with a query: NULLIF({name}, 0), or add zeroDateTimeBehavior=CONVERT_TO_NULL to the JDBC URL"
            )
        number = epoch_day_of_date(year, month, day)
        if date_of_epoch_day(number) == (year, month, day):
            return number
    raise DataError(f"Column {name}: {text!r} is not a date")


def _time_ns(text: str, name: str) -> int:
    """Parses a TIME, which may be negative or longer than a day, into ns."""
    match = _TIME_TEXT.fullmatch(text)
    if match is None:
        raise DataError(f"Column {name}: {text!r} is not a time")
    sign, hours, minutes, seconds, fraction = match.groups()
    ns = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * NS_PER_SECOND + int((fraction or "0").ljust(9, "0"))
    return -ns if sign else ns


def _wall(text: str, name: str) -> int:
    """Parses a date or a date and time into ns since 1970, without applying a zone."""
    return _day(text[:10], name) * NS_PER_DAY + (_time_ns(text[11:], name) if len(text) > 10 else 0)


def _date(optional: bool, name: str, options: ReadOptions) -> MySqlColumnDecoder:
    legacy, zone = options.calendar is Calendar.LEGACY, options.zone

    def read(value: bytes) -> Any:
        day = _day(value.decode(), name)
        return date_of(to_legacy_day(day) if legacy else day)

    def exact(value: bytes) -> int:
        return wall_to_instant_ns(_wall(value.decode(), name), zone)

    return MySqlColumnDecoder(
        date_schema(optional=optional), read, f"(date(x) if (x := {{x}}) > '{_GREGORIAN}' else {{c}}({{b}}))", exact
    )


def _with_zero_dates(decoder: MySqlColumnDecoder, zero_dates: ZeroDates) -> MySqlColumnDecoder:
    """Adds zero dates to a decoder. The schema does not change, so the null of a NOT NULL column is rejected later."""
    if zero_dates is ZeroDates.REFUSED:
        return decoder
    read, exact = decoder.read, decoder.exact
    assert exact is not None
    first = zero_dates is ZeroDates.FIRST

    def of_zeros(given: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        def either(value: bytes) -> Any:
            if value[:10] != b"0000-00-00":
                return given(value)
            return given(b"0001-01-01" + value[10:]) if first else None

        return either

    return replace(decoder, read=of_zeros(read), exact=of_zeros(exact))


def _time(optional: bool, name: str, options: ReadOptions) -> MySqlColumnDecoder:
    logical = time_from_ns(options, name)

    def read(value: bytes) -> dt.time:
        text = value.decode()
        ns = _time_ns(text, name)
        if not 0 <= ns <= NS_PER_DAY:
            raise DataError(
                f"Column {name}: {text} is not a time of day, as Connect's Time requires; read it with a query "
                f"as text or seconds: CAST({name} AS CHAR), TIME_TO_SEC({name})"
            )
        return logical(ns)

    plain = options.zone is dt.UTC and not options.strict
    # Two-digit hours below 24, truncated to milliseconds, as in Confluent's and Aiven's connectors.
    inline = "(time(s[i:i + 12] if j > i + 12 else {x}) if s[i + 2] == ':' and s[i:i + 2] < '24' else {c}({b}))"
    return MySqlColumnDecoder(time_schema(optional=optional), read, inline if plain else "{c}({b})")


def _timestamp(column: MySqlResultColumn, options: ReadOptions) -> MySqlColumnDecoder:
    """A TIMESTAMP is an instant in UTC, the session's zone; a DATETIME is a wall time in ``db.timezone``."""
    name, zoned, zone = column.name, column.type == FIELD_TYPE.TIMESTAMP, options.zone
    from_ns = timestamp_from_ns(options, name, zoned=zoned)
    schema = timestamp_schema_for(options, column.nullable)

    def exact(value: bytes) -> int:
        wall = _wall(value.decode(), name)
        return wall if zoned else wall_to_instant_ns(wall, zone)

    def read(value: bytes) -> Any:
        return from_ns(_wall(value.decode(), name))

    plain = options.granularity is Granularity.CONNECT_LOGICAL and (zoned or zone is dt.UTC)
    if not plain:
        return MySqlColumnDecoder(schema, read, exact=exact)
    if column.decimals <= 3:
        inline = "(stamp(x + 'Z') if (x := {x}) > '%s' else {c}({b}))"
    elif options.strict:
        inline = "(stamp(x[:23] + 'Z') if (x := {x}) > '%s' and x[23:].strip('0') == '' else {c}({b}))"
    else:
        inline = "(stamp(x + 'Z') if (x := s[i:i + 23 if j > i + 23 else j]) > '%s' else {c}({b}))"
    return MySqlColumnDecoder(schema, read, inline % _GREGORIAN, exact)


def _year(optional: bool, name: str) -> MySqlColumnDecoder:
    """A YEAR is 1 January of that year, as in the JDBC drivers."""

    def read(value: bytes) -> dt.date:
        year = int(value)
        if year == 0:
            raise DataError(
                f"Column {name}: the year 0000 is not a date, the type of a YEAR in Connect; store null instead, or read the "
                f"column with a query as a number: {name} + 0"
            )
        return dt.date(year, 1, 1)

    return MySqlColumnDecoder(date_schema(optional=optional), read, "day(int({x}), 1, 1)")
