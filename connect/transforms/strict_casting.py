"""Whether a cast keeps the value: for ``conversion.strict=true``, under which a cast that does not is an error (promise 8)."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import TYPE_CHECKING, Any

from connect.data.logical import END_OF_DAY, MILLIS_PER_DAY, FarInstant, epoch_millis
from connect.data.schema import Type
from connect.errors import DataError
from connect.java.number_text import double_text, float_text
from connect.strict import STRICT

if TYPE_CHECKING:
    from connect.transforms.casting import Caster

_SHOWN_CHARACTERS = 60
_INTEGERS = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)


def strict_caster(cast: Caster, source: str, target: Type, what: str) -> Caster:
    """The cast that raises DataError instead of a value that is not the same any more. Errors name ``what`` it is, and of which
    type: ``source``."""

    def cast_kept(value: Any) -> Any:
        changed = cast(value)
        if value is not None and not is_kept(value, changed, target):
            raise DataError(f"{what}: {shown(value)} ({source}) would become {shown(changed)} as {target.name} ({STRICT} is on)")
        return changed

    return cast_kept


def shown(value: Any) -> str:
    """A value for an error, shortened."""
    text = str(value) if isinstance(value, dt.date | dt.time | decimal.Decimal) else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def is_kept(value: Any, changed: Any, target: Type) -> bool:
    """Whether ``changed`` says all that ``value`` says."""
    if target is Type.STRING:
        return not isinstance(value, dt.date | dt.time | FarInstant) or _is_kept_as_text(value)
    if isinstance(value, str):
        return _is_text_kept(value, changed, target)
    if target is Type.BOOLEAN or target in _INTEGERS:
        return bool(value == changed)
    if isinstance(value, decimal.Decimal):
        return _is_number_kept(value, changed, target)
    if isinstance(value, float):
        return value == changed or (value != value and changed != changed)
    return math.isfinite(changed) and int(changed) == value


def has_milliseconds_only(value: dt.date | dt.time | FarInstant) -> bool:
    """Whether nothing of an instant is finer than a millisecond."""
    return value is END_OF_DAY or not isinstance(value, dt.datetime | dt.time) or value.microsecond % 1000 == 0


def _is_kept_as_text(value: dt.date | dt.time | FarInstant) -> bool:
    # The text of an instant before 2 January 1970 is a time of day alone.
    return has_milliseconds_only(value) and (isinstance(value, dt.time) or epoch_millis(value) >= MILLIS_PER_DAY)


def _is_text_kept(text: str, changed: Any, target: Type) -> bool:
    if target is Type.BOOLEAN:
        return text.lower() in ("true", "false")
    if target in _INTEGERS or changed != changed:
        return True
    number = text.strip("".join(map(chr, range(33)))).rstrip("fFdD")
    if math.isinf(changed) or "nfinit" in number:
        return math.isinf(changed) and "nfinit" in number
    if "x" in number.lower():
        return True  # written in powers of two, as floats are
    return _is_number_kept(decimal.Decimal(number), changed, target)


def _is_number_kept(exact: decimal.Decimal, changed: float, target: Type) -> bool:
    """A decimal number is kept by a float that prints as the same number: 0.1 is, and 0.1 with twenty zeros and a 1 is not."""
    if not math.isfinite(changed):
        return False
    return exact == decimal.Decimal(float_text(changed) if target is Type.FLOAT32 else double_text(changed))
