"""Dates and times: texts in ISO-8601, which is what SQLite's own functions and Python write.

Numbers in such columns are refused: nothing says whether they are seconds, milliseconds, or Julian days.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Final

from connect.data.logical import EPOCH, EPOCH_ORDINAL, date_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, Type
from connect.errors import DataError
from connectors.cdc.schema.column_type import ColumnType, refuse

_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_TIME: Final = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?")
_DAY_US: Final = 86_400_000_000
_ADVICE: Final = "; time.precision.mode=text captures such columns as they are"


def _named(type: Type, name: str) -> Schema:
    return Schema(type, name=f"io.debezium.time.{name}", version=1)


def _refuse(value: Any, what: str) -> DataError:
    return DataError(refuse(value if isinstance(value, str) else repr(value), what).message + _ADVICE)


def _days(text: Any) -> int:
    if isinstance(text, str) and (match := _DATE.fullmatch(text)):
        try:
            return dt.date(*map(int, match.groups())).toordinal() - EPOCH_ORDINAL
        except ValueError as e:
            raise _refuse(text, "date") from e
    raise _refuse(text, "date YYYY-MM-DD")


def _micros(text: Any) -> int:
    """Microseconds of a day."""
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise _refuse(text, "time HH:MM:SS.ffffff")
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[:3])
    fraction = (match[4] or "").ljust(9, "0")
    if hours > 23 or minutes > 59 or seconds > 59 or fraction[6:] != "000":
        raise _refuse(text, "time of a day in microseconds")
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int(fraction[:6])


def _timestamp_micros(text: Any) -> int:
    """Microseconds since 1970. A date alone is its midnight, as in SQLite's functions."""
    if not isinstance(text, str):
        raise _refuse(text, "timestamp YYYY-MM-DD HH:MM:SS.ffffff")
    day, clock = text[:10], text[10:]
    if not clock:
        return _days(day) * _DAY_US
    if clock[0] not in " T":
        raise _refuse(text, "timestamp YYYY-MM-DD HH:MM:SS.ffffff without a time zone")
    return _days(day) * _DAY_US + _micros(clock[1:])


def _whole_millis(micros: int, text: Any) -> int:
    millis, rest = divmod(micros, 1000)
    if rest:
        raise _refuse(text, "time in milliseconds, which time.precision.mode=connect holds")
    return millis


def date(mode: str) -> ColumnType:
    if mode == "connect":
        return ColumnType(date_schema(), lambda text: dt.date.fromordinal(_days(text) + EPOCH_ORDINAL), dt.date(1970, 1, 1))
    return ColumnType(_named(Type.INT32, "Date"), _days, 0)


def time(mode: str) -> ColumnType:
    if mode == "connect":

        def decode(text: Any) -> dt.time:
            millis = _whole_millis(_micros(text), text)
            return (EPOCH + dt.timedelta(milliseconds=millis)).time()

        return ColumnType(time_schema(), decode, dt.time(0))
    return ColumnType(_named(Type.INT64, "MicroTime"), _micros, 0)


def timestamp(mode: str) -> ColumnType:
    if mode == "connect":

        def decode(text: Any) -> dt.datetime:
            return EPOCH + dt.timedelta(milliseconds=_whole_millis(_timestamp_micros(text), text))

        return ColumnType(timestamp_schema(), decode, EPOCH)
    return ColumnType(_named(Type.INT64, "MicroTimestamp"), _timestamp_micros, 0)
