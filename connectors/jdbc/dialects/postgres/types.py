"""Maps a result column to a Connect schema and a decoder of the server's text.

Schemas are those of Confluent's and Aiven's connectors with PostgreSQL's JDBC driver. Types that those connectors omit (ranges,
intervals, composite types, ...) are text in PostgreSQL's own format, which the server parses back to the same value; arrays are
Connect arrays.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from connect.data.logical import EPOCH_ORDINAL, FarInstant, date_of, date_schema, time_schema
from connect.data.schema import Schema, Type
from connect.errors import DataError
from connectors.databases.calendar import NS_PER_DAY
from connectors.databases.postgresql.arrays import array_decoder
from connectors.databases.postgresql.dates import (
    INFINITY_MS,
    MINUS_INFINITY_MS,
    parse_day,
    parse_time_ns,
    parse_timestamp_ns,
    parse_timetz,
)
from connectors.jdbc.catalog import JdbcColumn
from connectors.jdbc.dialects import types as shared
from connectors.jdbc.dialects.dialect import unsupported_type
from connectors.jdbc.dialects.postgres.catalog import PostgresType
from connectors.jdbc.options import Calendar, Granularity, NumericMapping, ReadOptions
from connectors.jdbc.table_name import TableName

Decode = Callable[[str], Any]

_GREGORIAN = "1582-10-16"
_SIMPLE_YEAR = "{x}[4] == '-' and {x}[-1] <= '9'"
"""True for ``2024-01-31``; false for ``12024-01-31``, ``0044-03-15 BC``, and ``infinity``."""
_SIMPLE_ZONED = "{x}[4] == '-' and {x}[-3:] == '+00'"


@dataclass(frozen=True, slots=True)
class PostgresResultColumn:
    """A result column, as the server describes it."""

    name: str
    type: PostgresType
    typmod: int
    optional: bool
    dimensions: int = 0


@dataclass(frozen=True, slots=True)
class PostgresColumnDecoder:
    """How to decode a column. ``code`` is an expression over the server's text ``{x}``; it calls ``decode``, as ``{c}``, for
    uncommon values.

    ``escaped``: COPY may escape the text. ``hex``: it is bytea, which has exactly one escape.
    """

    schema: Schema
    code: str
    decode: Decode
    escaped: bool = False
    hex: bool = False


_CALL: Final = "{c}({x})"
_TEXT_INPUT_REFUSED: Final = frozenset(
    {"pg_node_tree", "pg_ndistinct", "pg_dependencies", "pg_mcv_list", "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary",
     "pg_ddl_command", "gtsvector"}
)  # fmt: skip
"""Types that the server prints but does not parse."""

_PLAIN: Final[dict[str, tuple[Type, str, Decode]]] = {
    "int2": (Type.INT16, "int({x})", int),
    "int4": (Type.INT32, "int({x})", int),
    "int8": (Type.INT64, "int({x})", int),
    "oid": (Type.INT64, "int({x})", int),
    "float4": (Type.FLOAT32, "float({x})", float),
    "float8": (Type.FLOAT64, "float({x})", float),
    "bool": (Type.BOOLEAN, "{x} == 't'", "t".__eq__),
}


def column_decoder(column: PostgresResultColumn, options: ReadOptions, table: TableName | None) -> PostgresColumnDecoder:
    """Returns the decoder of a column. Raises DataError for a type without mapping."""
    type, optional = column.type, column.optional
    if type.kind == "p" or type.builtin in _TEXT_INPUT_REFUSED:
        raise unsupported_type(table, JdbcColumn(column.name, type.sql))
    if type.element is not None:
        return _array(column, type.element, options, table)
    plain = _PLAIN.get(type.builtin)
    if plain is not None:
        return PostgresColumnDecoder(shared.primitive_schema(plain[0], optional), plain[1], plain[2])
    match type.builtin:
        case "numeric":
            return _numeric(column, options)
        case "money":
            return PostgresColumnDecoder(shared.primitive_schema(Type.FLOAT64, optional), _CALL, _money(column.name, options))
        case "bit":
            return _bit(column)
        case "bytea":
            return PostgresColumnDecoder(shared.primitive_schema(Type.BYTES, optional), "fromhex({x})", _bytea, hex=True)
        case "date":
            return _date(column, options)
        case "time":
            return _time(column, options)
        case "timetz":
            return PostgresColumnDecoder(time_schema(optional=optional), _CALL, _zoned_time(column.name, options))
        case "timestamp" | "timestamptz":
            return _timestamp(column, options, zoned=type.builtin == "timestamptz")
    return PostgresColumnDecoder(shared.primitive_schema(Type.STRING, optional), "{x}", str, escaped=True)


def exact_code(column: PostgresResultColumn, zone: dt.tzinfo) -> tuple[str, Decode]:
    """Returns the expression and function for a column of ``ReadOptions.exact``. Raises DataError unless it is a number or
    time."""
    match column.type.builtin:
        case "int2" | "int4" | "int8" | "oid":
            return "int({x})", int
        case "numeric":
            return _CALL, _exact_number(column.name)
        case "timestamptz":
            code = f"instant_ns(moment({{x}})) if {_SIMPLE_ZONED} else {_CALL}"
            return code, lambda text: parse_timestamp_ns(text, column.name)
        case "timestamp" | "date":
            code = f"wall_ns(moment({{x}})) if {_SIMPLE_YEAR} else {_CALL}" if zone is dt.UTC else _CALL
            return code, lambda text: shared.wall_to_instant_ns(parse_timestamp_ns(text, column.name), zone)
    raise DataError(
        f"Column {column.name} has type {column.type.sql}; an incrementing or timestamp column must be an integer, a number of "
        "scale 0, a date or a timestamp"
    )


def _exact_number(column: str) -> Callable[[str], int]:
    whole = shared.integer_converter(Type.INT64, column)
    return lambda text: int(whole(_finite(text, column)))


# --- numbers


def _finite(text: str, column: str) -> Decimal:
    if text[-1] > "9":
        raise DataError(
            f"Column {column}: {text} is not a number that Connect's Decimal can represent; read it with a query that casts the "
            "column to double precision or text"
        )
    return Decimal(text)


def _numeric(column: PostgresResultColumn, options: ReadOptions) -> PostgresColumnDecoder:
    name, typmod = column.name, column.typmod
    # Without a precision, the JDBC driver reports 0 for both.
    precision, scale = 0, 0
    if typmod < 4 and options.unset_scale != 0:
        return _unlimited(column, options)
    if typmod >= 4:
        precision, scale = ((typmod - 4) >> 16) & 0xFFFF, (((typmod - 4) & 0x7FF) ^ 1024) - 1024
    schema = shared.numeric_schema(precision, scale, column.optional, options)
    if scale < 0 and schema.type is not Type.BYTES:
        # A negative scale adds that many digits to the printed number.
        schema = shared.numeric_schema(precision - scale, 0, column.optional, options)
        if schema.type is Type.BYTES:
            schema = shared.decimal_schema(precision, scale, column.optional, options)
    if schema.type is Type.FLOAT64:
        return PostgresColumnDecoder(schema, "float({x})", float)
    if schema.type is not Type.BYTES:
        whole = shared.integer_converter(schema.type, name)
        code = "int({x}) if {x}[-1] <= '9' else {c}({x})" if precision and scale == 0 else _CALL
        return PostgresColumnDecoder(schema, code, _with_scale_hint(lambda text: whole(_finite(text, name)), typmod < 4))
    scaled = shared.exact_rescaler(scale, name)

    decode = _with_scale_hint(lambda text: scaled(_finite(text, name)), typmod < 4)
    # The server prints exactly as many decimal places as the column has.
    return PostgresColumnDecoder(
        schema, "Decimal({x}) if {x}[-1] <= '9' else {c}({x})" if precision and scale >= 0 else _CALL, decode
    )


def _unlimited(column: PostgresResultColumn, options: ReadOptions) -> PostgresColumnDecoder:
    """Returns the decoder of a numeric without precision, as configured by ``numeric.unset.scale``."""
    name, wanted = column.name, options.unset_scale
    if wanted is Type.STRING:
        return PostgresColumnDecoder(shared.primitive_schema(Type.STRING, column.optional), "{x}", str)
    if isinstance(wanted, Type) or options.numeric is NumericMapping.BEST_FIT_EAGER_DOUBLE:
        return PostgresColumnDecoder(shared.primitive_schema(Type.FLOAT64, column.optional), "float({x})", float)
    scaled = shared.exact_rescaler(wanted, name)
    schema = shared.decimal_schema(0, wanted, column.optional, options)
    return PostgresColumnDecoder(schema, _CALL, _with_scale_hint(lambda text: scaled(_finite(text, name)), unlimited=True))


def _with_scale_hint(read: Decode, unlimited: bool) -> Decode:
    """Adds a hint to the errors of ``read`` if the column is a numeric without precision."""
    if not unlimited:
        return read

    def decode(text: str) -> Any:
        try:
            return read(text)
        except DataError as e:
            raise DataError(
                f"{e.message}; the column is numeric without a precision, which has no scale: set how to read such "
                "columns (numeric.unset.scale, a number of places, double or string), give it one (ALTER TABLE ... TYPE "
                "numeric(p,s)), or read it with a query that casts it"
            ) from e

    return decode


def _money(column: str, options: ReadOptions) -> Callable[[str], float]:
    def decode(text: str) -> float:
        digits = "".join(c for c in text if c.isdigit() or c == ".")
        exact = Decimal(f"-{digits}" if text.startswith(("-", "(")) else digits)
        value = float(exact)
        if options.strict and Decimal(repr(value)) != exact:
            raise DataError(
                f"Column {column}: money {text} has more digits than a double, the type of the column in Connect; "
                "conversion.strict=true forbids rounding it"
            )
        return value

    return decode


def _bit(column: PostgresResultColumn) -> PostgresColumnDecoder:
    """bit(1) is a boolean; up to bit(8), a number; longer ones are their ASCII digits as bytes."""
    length = column.typmod
    if length <= 1:
        return PostgresColumnDecoder(shared.primitive_schema(Type.BOOLEAN, column.optional), "{x} == '1'", "1".__eq__)
    if length < 8:
        return PostgresColumnDecoder(
            shared.primitive_schema(Type.INT8, column.optional), "int({x}, 2)", lambda text: int(text, 2)
        )
    if length == 8:
        return PostgresColumnDecoder(
            shared.primitive_schema(Type.INT8, column.optional), _CALL, lambda text: (int(text, 2) ^ 128) - 128
        )
    return PostgresColumnDecoder(shared.primitive_schema(Type.BYTES, column.optional), "{x}.encode()", str.encode)


def _bytea(text: str) -> bytes:
    return bytes.fromhex(text[2:])


# --- dates and times


def _date(column: PostgresResultColumn, options: ReadOptions) -> PostgresColumnDecoder:
    name = column.name
    legacy = options.calendar is Calendar.LEGACY

    def decode(text: str) -> Any:
        day = parse_day(text, name)
        try:
            return shared.to_connect_date(dt.date.fromordinal(day + EPOCH_ORDINAL), options.calendar)
        except (ValueError, OverflowError):
            return date_of(shared.to_legacy_day(day) if legacy else day)

    guard = _SIMPLE_YEAR + (f" and {{x}} >= '{_GREGORIAN}'" if legacy else "")
    return PostgresColumnDecoder(date_schema(optional=column.optional), f"date({{x}}) if {guard} else {{c}}({{x}})", decode)


def _time(column: PostgresResultColumn, options: ReadOptions) -> PostgresColumnDecoder:
    convert = shared.time_from_ns(options, column.name)
    guard = "{x} < '24'" + (" and len({x}) <= 12" if options.strict else "")
    code = f"time({{x}}[:12]) if {guard} else {{c}}({{x}})" if options.zone is dt.UTC else _CALL
    return PostgresColumnDecoder(time_schema(optional=column.optional), code, lambda text: convert(parse_time_ns(text)))


def _zoned_time(column: str, options: ReadOptions) -> Decode:
    convert = shared.time_from_ns(ReadOptions(strict=options.strict), column)

    def decode(text: str) -> Any:
        ns, offset = parse_timetz(text)
        if offset and options.strict:
            raise DataError(
                f"Column {column}: {text} has a time zone, which Connect's Time cannot hold (it is read in UTC); "
                "conversion.strict=true forbids that; cast the column to time or text"
            )
        return convert(ns if ns == NS_PER_DAY and not offset else (ns - offset) % NS_PER_DAY)

    return decode


def _timestamp(column: PostgresResultColumn, options: ReadOptions, *, zoned: bool) -> PostgresColumnDecoder:
    name = column.name
    convert = shared.timestamp_from_ns(options, name, zoned=zoned)
    schema = shared.timestamp_schema_for(options, column.optional)
    code = _CALL
    logical = options.granularity is Granularity.CONNECT_LOGICAL

    def decode(text: str) -> Any:
        if logical and text.endswith("infinity"):
            return FarInstant(MINUS_INFINITY_MS if text[0] == "-" else INFINITY_MS)
        return convert(parse_timestamp_ns(text, name))

    if logical and (zoned or options.zone is dt.UTC):
        guard = _SIMPLE_ZONED if zoned else _SIMPLE_YEAR
        if options.calendar is Calendar.LEGACY:
            guard += f" and {{x}} >= '{_GREGORIAN}'"
        if options.strict:
            guard += f" and len({{x}}) <= {26 if zoned else 23}"
        # Truncated to milliseconds, as Confluent's and Aiven's connectors do.
        plain = "moment({x}) if len({x}) < 27 else moment({x}[:23] + 'Z')" if zoned else "moment({x}[:23] + 'Z')"
        code = f"({plain}) if {guard} else {{c}}({{x}})"
    return PostgresColumnDecoder(schema, code, decode)


# --- arrays


def _array(
    column: PostgresResultColumn, element: PostgresType, options: ReadOptions, table: TableName | None
) -> PostgresColumnDecoder:
    of_element = PostgresResultColumn(column.name, element, column.typmod, True)
    inner = column_decoder(of_element, options, table)
    depth = max(column.dimensions, 1)
    schema = inner.schema
    for level in range(depth):
        schema = Schema(Type.ARRAY, optional=column.optional if level == depth - 1 else True, value_schema=schema)
    decode = array_decoder(column.name, inner.decode, depth, column.type.delimiter)
    return PostgresColumnDecoder(schema, _CALL, decode, escaped=True)
