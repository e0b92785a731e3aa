"""Logical types: schemas whose name determines the Python type of the value.

| schema name (version 1)                      | stored type          | Python value                               |
| -------------------------------------------- | -------------------- | ------------------------------------------ |
| org.apache.kafka.connect.data.Decimal        | bytes, param scale   | decimal.Decimal with exactly that scale    |
| org.apache.kafka.connect.data.Date           | int32 days           | datetime.date                              |
| org.apache.kafka.connect.data.Time           | int32 ms of the day  | datetime.time, no zone, whole milliseconds |
| org.apache.kafka.connect.data.Timestamp      | int64 ms since 1970  | datetime.datetime in UTC, whole ms         |

Other names, such as Debezium's ``io.debezium.time.*``, are semantic only: the value has its stored type.
"""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any, Final

from connect.data.types import Schema, Type
from connect.errors import DataError
from connect.java.numbers import NumberFormatError, parse_integer
from connect.java.sized_numbers import wrap_integer

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
SCALE_PARAMETER = "scale"

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
EPOCH_DAY = dt.date(1970, 1, 1)
EPOCH_ORDINAL = EPOCH_DAY.toordinal()
MILLIS_PER_DAY = 86_400_000
_MILLISECOND = dt.timedelta(milliseconds=1)


class _EndOfDay(dt.time):
    """24:00, which Connect's Time and PostgreSQL's time can represent and Python's cannot."""

    def __str__(self) -> str:
        return "24:00:00"

    __repr__ = __str__


END_OF_DAY: Final = _EndOfDay(23, 59, 59, 999_999)
"""The time 24:00:00: 86,400,000 ms of the day. Sorts after every other time; compare with ``is``."""


class FarInstant:
    """An instant outside the years 1 to 9999, which Java's dates can represent and Python's cannot: ``millis`` since 1970 UTC.

    It is the value of a Timestamp, or of a Date (at midnight). Sources, converters, and transformations create it with
    :func:`instant_of` and :func:`date_of`. Code that writes instants as numbers accepts it (:func:`epoch_millis`,
    :func:`timestamp_to_millis`). It is not a ``datetime``, so that other code cannot mistake it for one.
    """

    __slots__ = ("millis",)

    def __init__(self, millis: int) -> None:
        self.millis = millis

    def __eq__(self, other: object) -> bool:
        return self.millis == other.millis if isinstance(other, FarInstant) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.millis)

    def __repr__(self) -> str:
        return f"FarInstant({self.millis})"


LOGICAL_CLASSES: dict[str, type] = {DECIMAL: decimal.Decimal, DATE: dt.date, TIME: dt.time, TIMESTAMP: dt.datetime}
"""The Python class of a logical type's values. Date and Timestamp admit :class:`FarInstant` too."""


def instant_of(millis: int) -> dt.datetime | FarInstant:
    """Returns the timestamp of that many ms since 1970, a FarInstant outside Python's range."""
    try:
        return EPOCH + dt.timedelta(0, millis // 1000, millis % 1000 * 1000)
    except OverflowError:
        return FarInstant(millis)


def date_of(days: int) -> dt.date | FarInstant:
    """Returns the date of that many days since 1970, a FarInstant outside Python's range. Its milliseconds wrap at 64 bits, as in
    Java."""
    try:
        return dt.date.fromordinal(days + EPOCH_ORDINAL)
    except (ValueError, OverflowError):
        return FarInstant(wrap_integer(days * MILLIS_PER_DAY, 64))


def decimal_schema(scale: int, *, optional: bool = False, **members: Any) -> Schema:
    """Returns the Decimal schema with that scale."""
    return Schema(Type.BYTES, optional=optional, name=DECIMAL, version=1, parameters={SCALE_PARAMETER: str(scale)}, **members)


def date_schema(*, optional: bool = False, **members: Any) -> Schema:
    return Schema(Type.INT32, optional=optional, name=DATE, version=1, **members)


def time_schema(*, optional: bool = False, **members: Any) -> Schema:
    return Schema(Type.INT32, optional=optional, name=TIME, version=1, **members)


def timestamp_schema(*, optional: bool = False, **members: Any) -> Schema:
    return Schema(Type.INT64, optional=optional, name=TIMESTAMP, version=1, **members)


def decimal_scale(schema: Schema) -> int:
    """Returns the scale of a Decimal schema. Raises DataError when the parameter is missing or not an integer."""
    text = (schema.parameters or {}).get(SCALE_PARAMETER)
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    try:
        return parse_integer(text, 32)
    except NumberFormatError:
        cause = DataError(f'For input string: "{text}"')
        raise DataError("Invalid scale parameter found in Decimal schema: ") from cause


def decimal_to_bytes(value: decimal.Decimal, scale: int) -> bytes:
    """Returns the unscaled value in the shortest big-endian two's complement. Raises DataError when the scale differs."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise DataError(f"Decimal {value} has no finite value")
    if -exponent != scale:
        raise DataError(
            "Decimal value has mismatching scale for given Decimal schema. "
            f"Schema has scale {scale}, value has scale {-exponent}."
        )
    unscaled = int("".join(map(str, digits))) if digits else 0
    return int_to_bytes(-unscaled if sign else unscaled)


def int_to_bytes(unscaled: int) -> bytes:
    """BigInteger.toByteArray: big-endian two's complement, at least one byte."""
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    return unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def bytes_to_decimal(data: bytes, scale: int) -> decimal.Decimal:
    """Returns the exact Decimal of an unscaled big-endian value."""
    return _EXACT.scaleb(decimal.Decimal(int.from_bytes(data, "big", signed=True)), -scale)


def date_to_days(value: dt.date | FarInstant) -> int:
    if isinstance(value, FarInstant):
        days, rest = divmod(value.millis, MILLIS_PER_DAY)
        if rest:
            raise DataError("Kafka Connect Date type should not have any time fields set to non-zero values.")
        return days
    return value.toordinal() - EPOCH_ORDINAL


def date_to_stored_days(value: dt.date | FarInstant) -> int:
    """Returns the days as a 32-bit integer. Dates more than five million years away wrap, as in Java."""
    return wrap_integer(date_to_days(value), 32)


def days_to_date(days: int) -> dt.date:
    """Returns the date, for callers that accept Python's dates only. Raises DataError."""
    try:
        return dt.date.fromordinal(days + EPOCH_ORDINAL)
    except (ValueError, OverflowError) as e:
        raise DataError(f"Date {days} days from 1970 is outside the years 1 to 9999") from e


def time_to_millis(value: dt.time) -> int:
    if value is END_OF_DAY:
        return MILLIS_PER_DAY
    if value.microsecond % 1000:
        raise DataError(f"Time {value} has more than milliseconds; schema {TIME} cannot hold it")
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def millis_to_time(millis: int) -> dt.time:
    """Returns the time of day; :data:`END_OF_DAY` for exactly 24 hours, which Apache accepts too."""
    if not 0 <= millis < MILLIS_PER_DAY:
        if millis == MILLIS_PER_DAY:
            return END_OF_DAY
        raise DataError("Time values must use number of milliseconds greater than 0 and less than 86400000")
    seconds, ms = divmod(millis, 1000)
    return dt.time(seconds // 3600, seconds // 60 % 60, seconds % 60, ms * 1000)


def timestamp_to_millis(value: dt.datetime | FarInstant) -> int:
    if isinstance(value, FarInstant):
        return value.millis
    if value.tzinfo is None:
        raise DataError(f"Timestamp {value} has no time zone; give it one (UTC)")
    millis, rest = divmod(value - EPOCH, _MILLISECOND)
    if rest:
        raise DataError(f"Timestamp {value} has more than milliseconds; schema {TIMESTAMP} cannot hold it")
    return millis


def epoch_millis(value: dt.date | dt.time | FarInstant) -> int:
    """Returns the milliseconds since 1970 of a date, a time of day (on 1 January 1970), or a timestamp: the java.util.Date that
    Apache uses. Truncates to milliseconds: for displaying values."""
    if isinstance(value, FarInstant):
        return value.millis
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        return (aware - EPOCH) // _MILLISECOND
    if isinstance(value, dt.time):
        return (
            MILLIS_PER_DAY if value is END_OF_DAY else time_to_millis(value.replace(microsecond=value.microsecond // 1000 * 1000))
        )
    return date_to_days(value) * MILLIS_PER_DAY
