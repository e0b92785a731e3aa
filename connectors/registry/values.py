"""Type checks of single values that all formats share, with their error messages."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, NoReturn

from connect.data.logical import FarInstant, date_to_days, time_to_millis, timestamp_to_millis
from connect.errors import DataError


def shorten(value: Any) -> str:
    """Shortens a value for a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def mismatch_error(wanted: str, value: Any) -> DataError:
    """The error for a value of the wrong type."""
    return DataError(f"{wanted} is needed, not {type(value).__name__} {shorten(value)}")


def raise_mismatch(wanted: str, value: Any) -> NoReturn:
    """Raises that error within an expression."""
    raise mismatch_error(wanted, value)


def within_field(name: str, error: DataError) -> DataError:
    """Adds the name of an enclosing field to the error's field path."""
    prefix = "field "
    if error.message.startswith(prefix):
        return type(error)(f"{prefix}{name}.{error.message[len(prefix) :]}")
    return type(error)(f"{prefix}{name}: {error.message}")


def require_integer(value: Any, low: int, high: int) -> int:
    """The value as an int. Raises DataError if it is out of range."""
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return int(value)
    raise mismatch_error(f"a whole number from {low} to {high}", value)


def require_bytes(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise mismatch_error("bytes", value)


def require_decimal(value: Any) -> Decimal:
    """The value as a finite Decimal."""
    if isinstance(value, Decimal) and value.is_finite():
        return value
    raise mismatch_error("a finite Decimal", value)


def require_date_days(value: Any) -> int:
    """Days since 1970 of a date. A datetime is rejected because its time would be lost."""
    if isinstance(value, FarInstant) or (isinstance(value, dt.date) and not isinstance(value, dt.datetime)):
        return date_to_days(value)
    raise mismatch_error("a date", value)


def require_time_millis(value: Any) -> int:
    """Milliseconds of the day of a time."""
    if isinstance(value, dt.time):
        return time_to_millis(value)
    raise mismatch_error("a time", value)


def require_timestamp_millis(value: Any) -> int:
    """Milliseconds since 1970 of a datetime."""
    if isinstance(value, dt.datetime | FarInstant):
        return timestamp_to_millis(value)
    raise mismatch_error("a datetime", value)
