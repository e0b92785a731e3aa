"""The text of partition values in Delta's log.

Format: "Partition Value Serialization" of Delta's protocol. There, null and empty text are the same.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from connect.errors import ConnectError
from connectors.spark.plan.evolution import quote, sql_type

PartitionValues = Mapping[str, str | None]
"""By partition column: the text of its value; None for null."""

_DAY_US = 86_400_000_000
_MOMENT = re.compile(
    r"([+-]?)(\d{4,7})-(\d\d?)-(\d\d?)(?:[ T]([01]?\d|2[0-3]):([0-5]?\d)(?::([0-5]?\d)(?:\.(\d{1,6}))?)?)?Z?", re.ASCII
)
# Python's numbers may have blanks, underscores, and digits of other scripts.
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NO_DIGITS = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE | re.ASCII)


def has_text(type_: pa.DataType) -> bool:
    """Whether every value of this type has a text: not so of bytes and nested values."""
    return not (pa.types.is_nested(type_) or pa.types.is_binary(type_))


def value_text(value: pa.Scalar) -> str | None:
    """The text of a value; None for null. Instants are in UTC."""
    if not value.is_valid:
        return None
    t, type_ = pa.types, value.type
    if t.is_date32(type_):
        return _day_text(int(value.value))
    if t.is_timestamp(type_):
        days, us = divmod(int(value.value), _DAY_US)
        seconds, us = divmod(us, 1_000_000)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{us:06d}"
        return f"{_day_text(days)}T{clock}Z" if type_.tz else f"{_day_text(days)} {clock}"
    plain = value.as_py()
    if isinstance(plain, bool):
        return str(plain).lower()
    if isinstance(plain, decimal.Decimal):
        return f"{plain:f}"
    if isinstance(plain, float):
        return _number_text(plain, type_)
    return str(plain) or None


def _number_text(number: float, type_: pa.DataType) -> str:
    if np.isnan(number):
        return "NaN"
    if np.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return str(np.float32(number)) if pa.types.is_float32(type_) else repr(number)


def _day_text(days: int) -> str:
    found = re.fullmatch(r"(-?)(\d+)(-\d\d-\d\d)", str(np.datetime64(days, "D")))
    assert found is not None
    sign, year, rest = found.groups()
    return ("+" if not sign and len(year) > 4 else sign) + year.zfill(4) + rest


def parse_value(text: str | None, type_: pa.DataType, column: str, *, assumes_utc: bool = False) -> pa.Scalar:
    """The value of a text in a column of this type. Raises ConnectError.

    An instant without a zone is in that of the system that wrote it, says Delta's protocol, which nobody else knows.
    ``assumes_utc`` takes it for UTC.
    """
    if not text:
        return pa.scalar(None, type_)
    try:
        value = parse_text(text, type_)
    except ValueError as e:
        raise ConnectError(f"the partition value {text!r} of column {column} is not of the type {sql_type(type_)}: {e}") from e
    if pa.types.is_timestamp(type_) and type_.tz and not text.endswith("Z") and not assumes_utc:
        raise ConnectError(
            f"the partition value {text!r} of column {column} is a time in the zone of the session that wrote it, which the "
            "table does not name. Write it again in UTC, as newer versions of Delta do, in a Spark session with that zone "
            f"(spark.sql.session.timeZone): UPDATE <table> SET {quote(column)} = {quote(column)}"
        )
    return value


def parse_text(text: str, type_: pa.DataType) -> pa.Scalar:
    """The value of a text of this type, an instant without a zone in UTC. Raises ValueError."""
    try:
        return _parse(text, type_)
    except (ArithmeticError, pa.ArrowException) as e:
        raise ValueError(str(e)) from e


def _parse(text: str, type_: pa.DataType) -> pa.Scalar:
    t = pa.types
    if t.is_date32(type_):
        return pa.scalar(_moment_us(text) // _DAY_US, pa.int32()).cast(type_)
    if t.is_timestamp(type_):
        return pa.scalar(_moment_us(text), pa.int64()).cast(type_)
    if t.is_boolean(type_):
        if text.lower() not in ("true", "false"):
            raise ValueError("expected true or false")
        return pa.scalar(text.lower() == "true")
    if t.is_integer(type_):
        return pa.scalar(int(_require(text, _INTEGER.fullmatch(text), "an integer")), type_)
    if t.is_floating(type_):
        return pa.scalar(float(_require(text, _DECIMAL.fullmatch(text) or _NO_DIGITS.fullmatch(text), "a number")), type_)
    if t.is_decimal(type_):
        return pa.scalar(decimal.Decimal(_require(text, _DECIMAL.fullmatch(text), "a number")), type_)
    return pa.scalar(text, type_)


def _require(text: str, found: re.Match[str] | None, expected: str) -> str:
    if found is None:
        raise ValueError(f"expected {expected}")
    return text


def _moment_us(text: str) -> int:
    """Microseconds since 1970, in UTC."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError("expected a date, or a date and a time")
    sign, year, month, day, hour, minute, second, fraction = found.groups()
    date = np.datetime64(f"{'-' if sign == '-' else ''}{year}-{month.zfill(2)}-{day.zfill(2)}", "D")
    seconds = (int(hour or 0) * 60 + int(minute or 0)) * 60 + int(second or 0)
    return (int(date.astype(np.int64)) * 86_400 + seconds) * 1_000_000 + int((fraction or "").ljust(6, "0"))
