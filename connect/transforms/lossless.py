"""Checks that conversions keep values: with ``conversion.strict=true``, losing data is an error (promise 8)."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable
from typing import Any

from connect.data.logical import END_OF_DAY, MILLIS_PER_DAY, FarInstant, epoch_millis
from connect.data.schema import Type
from connect.errors import DataError
from connect.java.number_text import double_text, float_text
from connect.strict import STRICT

Caster = Callable[[Any], Any]
_MAX_SHOWN_LENGTH = 60
_INTEGERS = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)


def lossless_caster(cast: Caster, source: str, target: Type, what: str) -> Caster:
    """Wraps a cast so that it raises DataError instead of losing data. Errors name the value (``what``) and its type
    (``source``)."""

    def cast_or_reject(value: Any) -> Any:
        changed = cast(value)
        if value is not None and not is_lossless(value, changed, target):
            raise DataError(
                f"{what}: {format_value(value)} ({source}) would become {format_value(changed)} as {target.name} ({STRICT} is on)"
            )
        return changed

    return cast_or_reject


def format_value(value: Any) -> str:
    """Formats a value for an error message, shortened."""
    text = str(value) if isinstance(value, dt.date | dt.time | decimal.Decimal) else repr(value)
    return text if len(text) <= _MAX_SHOWN_LENGTH else text[: _MAX_SHOWN_LENGTH - 3] + "..."


def is_lossless(value: Any, changed: Any, target: Type) -> bool:
    """Whether ``changed`` has all the information of ``value``."""
    if target is Type.STRING:
        return not isinstance(value, dt.date | dt.time | FarInstant) or _is_lossless_as_text(value)
    if isinstance(value, str):
        return _is_text_lossless(value, changed, target)
    if target is Type.BOOLEAN or target in _INTEGERS:
        return bool(value == changed)
    if isinstance(value, decimal.Decimal):
        return _is_number_lossless(value, changed, target)
    if isinstance(value, float):
        return value == changed or (value != value and changed != changed)
    return math.isfinite(changed) and int(changed) == value


def is_whole_milliseconds(value: dt.date | dt.time | FarInstant) -> bool:
    """Whether an instant has no microseconds."""
    return value is END_OF_DAY or not isinstance(value, dt.datetime | dt.time) or value.microsecond % 1000 == 0


def _is_lossless_as_text(value: dt.date | dt.time | FarInstant) -> bool:
    # The text of an instant before 2 January 1970 has only the time of day.
    return is_whole_milliseconds(value) and (isinstance(value, dt.time) or epoch_millis(value) >= MILLIS_PER_DAY)


def _is_text_lossless(text: str, changed: Any, target: Type) -> bool:
    if target is Type.BOOLEAN:
        return text.lower() in ("true", "false")
    if target in _INTEGERS or changed != changed:
        return True
    number = text.strip("".join(map(chr, range(33)))).rstrip("fFdD")
    if math.isinf(changed) or "nfinit" in number:
        return math.isinf(changed) and "nfinit" in number
    if "x" in number.lower():
        return True  # hexadecimal, as exact as floats are
    return _is_number_lossless(decimal.Decimal(number), changed, target)


def _is_number_lossless(exact: decimal.Decimal, changed: float, target: Type) -> bool:
    """Whether a float prints as the same decimal number: it does for 0.1, but not for 0.1000000000000000000001."""
    if not math.isfinite(changed):
        return False
    return exact == decimal.Decimal(float_text(changed) if target is Type.FLOAT32 else double_text(changed))
