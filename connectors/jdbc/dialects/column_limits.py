"""What a column's type silently rounds, truncates, or pads. Each dialect describes its types; ``lossless`` checks values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ColumnLimits:
    """What a column's type stores of a value. None and False: everything, or the database rejects what it cannot store."""

    scale: int | None = None
    """Number of decimal places of numbers; if negative, that many digits before the point become zeros."""
    float_bits: int | None = None
    """Numbers become floats of 32 or 64 bits."""
    digits: int | None = None
    """Number of fractional second digits of times and timestamps."""
    drops_time: bool = False
    """A timestamp loses its time of day."""
    drops_date: bool = False
    """A timestamp loses its date."""
    drops_zone: bool = False
    """A time of day loses its UTC offset."""
    max_chars: int | None = None
    """Longer text is truncated."""
    max_bytes: int | None = None
    """The same, counted in UTF-8 bytes."""
    padded_to: int | None = None
    """Shorter text is padded with blanks, so its own trailing blanks cannot be distinguished from the padding."""
    drops_blanks: bool = False
    """Text loses its trailing blanks."""
    filled_to: int | None = None
    """Shorter byte strings are padded with zeros."""
    changed: Callable[[Any], bool] | None = None
    """Whether a value of a primitive type would be stored as another value."""
    element: ColumnLimits | None = None
    """Limits of the elements of a list, or the values of a map."""
    members: tuple[tuple[str, ColumnLimits], ...] = ()
    """Limits of the members of a struct."""
