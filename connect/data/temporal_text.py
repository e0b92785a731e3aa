"""Parses dates, times, and timestamps like ``org.apache.kafka.connect.data.Values``, which uses Java's SimpleDateFormat."""

from __future__ import annotations

import decimal
import re
from typing import Any

from connect.data.logical import (
    DATE,
    MILLIS_PER_DAY,
    TIME,
    date_of,
    date_schema,
    epoch_millis,
    instant_of,
    millis_to_time,
    time_schema,
    timestamp_schema,
)  # fmt: skip
from connect.data.schema import Schema
from connect.data.schema_and_value import SchemaAndValue
from connect.java.calendar import date_of_day, day_of_date
from connect.java.numbers import float_to_integer
from connect.java.sized_numbers import wrap_integer

_FIELD = r"[ \t]*(NaN|-?(?:∞|\d{1,9}(?:E-?\d{1,9})?))"
_DATE_TEXT = re.compile(rf"{_FIELD}-{_FIELD}-{_FIELD}")
_TIME_TEXT = re.compile(rf"{_FIELD}:{_FIELD}:{_FIELD}\.{_FIELD}Z")
_TIMESTAMP_TEXT = re.compile(rf"{_FIELD}-{_FIELD}-{_FIELD}T{_FIELD}:{_FIELD}:{_FIELD}\.{_FIELD}Z")
_DATE_SCHEMA, _TIME_SCHEMA, _TIMESTAMP_SCHEMA = date_schema(), time_schema(), timestamp_schema()
_FARTHEST = 1 << 63
_NO_DIGITS = {"NaN": 0, "∞": (1 << 31) - 1, "-∞": -1 << 31}


def parse_temporal(token: str) -> SchemaAndValue | None:
    """Parses a date, time, or timestamp, distinguished by the length of the text. Lenient: 2024-02-30 is 1 March.

    Returns None for other text, and for instants beyond 64 bits of milliseconds.
    """
    text = token.replace("\\:", ":")
    if len(text) == 13:
        found = _TIME_TEXT.match(text)
        millis = _millis(1970, 1, 1, *_fields(found)) if found else _FARTHEST
        return SchemaAndValue(_TIME_SCHEMA, _time(millis)) if abs(millis) < _FARTHEST else None
    if len(text) == 24:
        found = _TIMESTAMP_TEXT.match(text)
        millis = _millis(*_fields(found)) if found else _FARTHEST
        return SchemaAndValue(_TIMESTAMP_SCHEMA, instant_of(millis)) if abs(millis) < _FARTHEST else None
    if len(text) == 10:
        found = _DATE_TEXT.match(text)
        days = day_of_date(*_fields(found)) if found else _FARTHEST
        return SchemaAndValue(_DATE_SCHEMA, date_of(days)) if abs(days) * MILLIS_PER_DAY < _FARTHEST else None
    return None


def iso_text(schema: Schema, value: Any) -> str:
    """Returns the text that :func:`parse_temporal` reads as exactly this date, time, or timestamp."""
    day, of_day = divmod(epoch_millis(value), MILLIS_PER_DAY)
    seconds, millis = divmod(of_day, 1000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{millis:03}Z"
    if schema.name == TIME:
        return clock if day == 0 else f"{clock} of another day"
    year, month, day_of_month = date_of_day(day)
    date = f"{year:04}-{month:02}-{day_of_month:02}"
    return date if schema.name == DATE else f"{date}T{clock}"


def _fields(found: re.Match[str]) -> list[int]:
    return [_field(group) for group in found.groups()]


def _field(text: str) -> int:
    """Parses a field like Java's DecimalFormat, which accepts exponents (``2E3`` is 2000), NaN (0), and infinity."""
    if text in _NO_DIGITS:
        return _NO_DIGITS[text]
    if "E" not in text:
        return int(text)
    digits, _, exponent = text.partition("E")
    shift = int(exponent)
    if shift <= 0:
        return int(decimal.Decimal(int(digits)).scaleb(max(shift, -20)))
    number = int(digits) * 10 ** min(shift, 20)
    return wrap_integer(number, 32) if -_FARTHEST <= number < _FARTHEST else float_to_integer(float(number), 32)


def _millis(year: int, month: int, day: int, hour: int, minute: int, second: int, millis: int) -> int:
    return (((day_of_date(year, month, day) * 24 + hour) * 60 + minute) * 60 + second) * 1000 + millis


def _time(millis: int) -> Any:
    # Apache reads a time of 25 o'clock as an instant of the next day, which a time of day cannot represent.
    return millis_to_time(millis) if 0 <= millis <= MILLIS_PER_DAY else instant_of(millis)
