"""Converts values between types: the ``convertTo...`` methods of ``org.apache.kafka.connect.data.Values``.

For connectors and transformations that need a number, a date, or a list where a header or field may hold its text, or another
type of number. The rules are Apache's, pinned by values.jsonl, including the odd ones: numbers narrow like Java's casts, so 300
is the byte 44; a number is days as a Date and milliseconds as a Timestamp; a decimal goes through a double.

Each function takes the schema of the value, or None, and the value. The result has no schema: a number of less than 64 bits is an
``Int8``, ``Int16``, ``Int32``, or ``Float32``. They raise DataError for a value that cannot be converted.
"""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

from connect.data.java_class_names import java_class_name_under
from connect.data.java_text import java_text
from connect.data.logical import (
    DATE,
    DECIMAL,
    MILLIS_PER_DAY,
    TIME,
    TIMESTAMP,
    FarInstant,
    bytes_to_decimal,
    date_of,
    date_to_days,
    instant_of,
    millis_to_time,
    time_to_millis,
    timestamp_to_millis,
)  # fmt: skip
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.data.values import parse_string
from connect.errors import DataError
from connect.java.calendar import date_of_day, day_of_date
from connect.java.number_text import double_text
from connect.java.numbers import NumberFormatError, decimal_to_integer, float_to_integer, parse_big_decimal
from connect.java.sized_numbers import Float32, Int8, Int16, Int32, round_to_float32, wrap_integer

Instant = dt.date | dt.time | FarInstant
"""The counterparts of ``java.util.Date``: a date, a time of day, a timestamp (which is a date too), or a FarInstant."""

_NULL_REQUIRED = "Unable to convert a null value to a schema that requires a value"


def convert_to_boolean(schema: Schema | None, value: Any) -> bool | None:
    """Converts to a boolean: text by parsing it, a number by whether its integer part is not 0."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        parsed = parse_string(value).value
        if isinstance(parsed, bool):
            return parsed
    return _as_long(schema, value) != 0


def convert_to_byte(schema: Schema | None, value: Any) -> Int8 | None:
    return None if value is None else Int8(wrap_integer(_as_long(schema, value), 8))


def convert_to_short(schema: Schema | None, value: Any) -> Int16 | None:
    return None if value is None else Int16(wrap_integer(_as_long(schema, value), 16))


def convert_to_integer(schema: Schema | None, value: Any) -> Int32 | None:
    return None if value is None else Int32(wrap_integer(_as_long(schema, value), 32))


def convert_to_long(schema: Schema | None, value: Any) -> int | None:
    return None if value is None else _as_long(schema, value)


def convert_to_float(schema: Schema | None, value: Any) -> Float32 | None:
    return None if value is None else Float32(round_to_float32(_as_double(schema, value)))


def convert_to_double(schema: Schema | None, value: Any) -> float | None:
    return None if value is None else _as_double(schema, value)


def convert_to_decimal(schema: Schema | None, value: Any, scale: int) -> decimal.Decimal:
    """Converts to a decimal. A decimal keeps its scale; ``scale`` applies to bytes only. Other numbers go through a double's
    text."""
    if value is None:
        raise DataError(_NULL_REQUIRED)
    if isinstance(value, decimal.Decimal):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        if len(value) == 0:
            raise DataError("Zero length BigInteger")
        return bytes_to_decimal(bytes(value), scale)
    if _is_number(value):
        text = double_text(_as_double(schema, value))
    elif isinstance(value, str):
        text = value
    else:
        raise _unable(schema, value, f"Schema{{{DECIMAL}:BYTES}}")
    try:
        return parse_big_decimal(text)
    except NumberFormatError as e:
        raise DataError(str(e)) from e


def convert_to_list(schema: Schema | None, value: Any) -> list[Any]:
    """Converts to a list: a list itself, or text by parsing it."""
    found_schema, found = _parsed(schema, value)
    if isinstance(found, list):
        return found
    raise _unable(found_schema, found, "Schema{ARRAY}")


def convert_to_map(schema: Schema | None, value: Any) -> dict[Any, Any]:
    """Converts to a map: a map itself, or text by parsing it."""
    found_schema, found = _parsed(schema, value)
    if isinstance(found, dict):
        return found
    raise _unable(found_schema, found, "Schema{MAP}")


def convert_to_struct(schema: Schema | None, value: Any) -> Struct:
    """Returns a struct unchanged; nothing else converts to one."""
    if value is None:
        raise DataError(_NULL_REQUIRED)
    if isinstance(value, Struct):
        return value
    raise _unable(schema, value, "Schema{STRUCT}")


def convert_to_date(schema: Schema | None, value: Any) -> Instant:
    """Converts to a date: a date, the day of a Timestamp (truncated towards 1970), text of either, or a number of days. An
    instant without a schema is returned unchanged, because its type is unknown."""
    _, found = _parsed(schema, value)
    if isinstance(found, Instant):
        if schema is None or schema.name == DATE:
            return found
        if schema.name == TIMESTAMP:
            millis = _millis(found)
            days = millis // MILLIS_PER_DAY if millis >= 0 else -(-millis // MILLIS_PER_DAY)
            return date_of(wrap_integer(days, 32))
    return date_of(wrap_integer(_as_long(schema, found), 32))


def convert_to_time(schema: Schema | None, value: Any) -> Instant:
    """Converts to a time: a time of day, that of a Timestamp, text of either, or a number of milliseconds. For instants without a
    schema, see :func:`convert_to_date`."""
    _, found = _parsed(schema, value)
    if isinstance(found, Instant):
        if schema is None or schema.name == TIME:
            return found
        if schema.name == TIMESTAMP:
            return millis_to_time(_millis_in_1970(_millis(found)))
    return millis_to_time(wrap_integer(_as_long(schema, found), 32))


def convert_to_timestamp(schema: Schema | None, value: Any) -> Instant:
    """Converts to a timestamp: a timestamp, midnight of a Date, a Time on 1 January 1970, text of these, or a number of
    milliseconds. For instants without a schema, see :func:`convert_to_date`."""
    _, found = _parsed(schema, value)
    if isinstance(found, Instant):
        if schema is None or schema.name == TIMESTAMP:
            return found
        if schema.name == DATE:
            return instant_of(_logical_number(schema, found) * MILLIS_PER_DAY)
    return instant_of(_as_long(schema, found))


def _parsed(schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
    """Parses a text to a value with its own schema; returns other values unchanged."""
    if value is None:
        raise DataError(_NULL_REQUIRED)
    if not isinstance(value, str):
        return schema, value
    parsed = parse_string(value)
    if parsed.value is None:
        raise DataError(f"Unable to convert the text {value!r}: it stands for a null, and a value is required")
    return parsed


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool)


def _as_long(schema: Schema | None, value: Any) -> int:
    cause = None
    if isinstance(value, bool):
        pass
    elif isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise DataError(f"Unable to convert {_shorten(str(value))}: an integer of Connect has 64 bits at most")
        return int(value)
    elif isinstance(value, float):
        return float_to_integer(value, 64)
    elif isinstance(value, decimal.Decimal):
        return decimal_to_integer(_finite(value), 64)
    elif isinstance(value, str):
        try:
            return decimal_to_integer(parse_big_decimal(value), 64)
        except NumberFormatError as e:
            cause = e
    elif isinstance(value, Instant) and schema is not None and schema.name in (DATE, TIME, TIMESTAMP):
        return _logical_number(schema, value)
    raise _unable(schema, value, "a number" if schema is None else repr(schema)) from cause


def _as_double(schema: Schema | None, value: Any) -> float:
    if isinstance(value, float):
        return float(value)
    if isinstance(value, decimal.Decimal):
        return _double_of(_finite(value))
    if isinstance(value, str):
        try:
            return _double_of(parse_big_decimal(value))
        except NumberFormatError:
            pass  # the error is that of a whole number
    return float(_as_long(schema, value))


def _double_of(value: decimal.Decimal) -> float:
    return float(value) if value else 0.0  # Java's decimals have no negative zero


def _finite(value: decimal.Decimal) -> decimal.Decimal:
    if not value.is_finite():
        raise DataError(f"Unable to convert {value}: a decimal of Connect is a number")
    return value


def _millis(value: Instant) -> int:
    """Returns the exact milliseconds since 1970. Raises DataError for finer instants."""
    if isinstance(value, dt.datetime | FarInstant):
        return timestamp_to_millis(value)
    return time_to_millis(value) if isinstance(value, dt.time) else date_to_days(value) * MILLIS_PER_DAY


def _logical_number(schema: Schema, value: Instant) -> int:
    """Returns the number that Date, Time, or Timestamp stores for an instant."""
    millis = _millis(value)
    if schema.name == DATE:
        if millis % MILLIS_PER_DAY:
            raise DataError("Kafka Connect Date type should not have any time fields set to non-zero values.")
        return wrap_integer(millis // MILLIS_PER_DAY, 32)
    if schema.name == TIME and not 0 <= millis <= MILLIS_PER_DAY:
        raise DataError("Kafka Connect Time type should not have any date fields set to non-zero values.")
    return millis


def _millis_in_1970(millis: int) -> int:
    """Sets the date of an instant to 1 January 1970; in 1970 BC if it was BC."""
    day, of_day = divmod(millis, MILLIS_PER_DAY)
    if date_of_day(day)[0] > 0:
        return of_day
    return wrap_integer(day_of_date(1 - 1970, 1, 1) * MILLIS_PER_DAY + of_day, 32)


def _unable(schema: Schema | None, value: Any, target: str) -> DataError:
    try:
        shown = java_text(schema, value)
    except RecursionError:
        shown = "a deeply nested value"
    return DataError(f"Unable to convert {shown} (class {java_class_name_under(schema, value)}) to {target}")


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
