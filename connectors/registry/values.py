"""What the formats need to know of single values, and the words for those that do not fit."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, NoReturn

from connect.data.logical import FarInstant, date_to_days, time_to_millis, timestamp_to_millis
from connect.errors import DataError


def short(value: Any) -> str:
    """The value for a message, cut to what a line can hold."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def unfit(wanted: str, value: Any) -> DataError:
    """The error for a value that is not what is wanted."""
    return DataError(f"{wanted} is needed, not {type(value).__name__} {short(value)}")


def refuse(wanted: str, value: Any) -> NoReturn:
    """Raises that error, where only an expression can stand."""
    raise unfit(wanted, value)


def within_field(name: str, error: DataError) -> DataError:
    """The error with the name of the field around it before its path."""
    prefix = "field "
    if error.message.startswith(prefix):
        return type(error)(f"{prefix}{name}.{error.message[len(prefix) :]}")
    return type(error)(f"{prefix}{name}: {error.message}")


def integer_of(value: Any, low: int, high: int) -> int:
    """The whole number, which may be of a subclass of int. Raises DataError beyond its range."""
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return int(value)
    raise unfit(f"a whole number from {low} to {high}", value)


def bytes_of(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise unfit("bytes", value)


def decimal_of(value: Any) -> Decimal:
    """The decimal, which is finite."""
    if isinstance(value, Decimal) and value.is_finite():
        return value
    raise unfit("a finite Decimal", value)


def days_of(value: Any) -> int:
    """Days since 1970 of a date. A datetime is none: its time would be lost."""
    if isinstance(value, FarInstant) or (isinstance(value, dt.date) and not isinstance(value, dt.datetime)):
        return date_to_days(value)
    raise unfit("a date", value)


def day_millis_of(value: Any) -> int:
    """Milliseconds of the day of a time."""
    if isinstance(value, dt.time):
        return time_to_millis(value)
    raise unfit("a time", value)


def millis_of(value: Any) -> int:
    """Milliseconds since 1970 of a datetime."""
    if isinstance(value, dt.datetime | FarInstant):
        return timestamp_to_millis(value)
    raise unfit("a datetime", value)
