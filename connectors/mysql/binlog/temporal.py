"""Dates and times as exact integers, and what to make of them.

A *packed date* is ``year << 9 | month << 5 | day``. A *packed datetime* is MySQL's own integer:
``((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second``, all shifted left by 24, plus microseconds. Both
keep what is no date: 0000-00-00, 2024-00-15, 2024-02-30. A time is a number of microseconds, negative times included. A timestamp
is a number of microseconds since 1970; 0 is 0000-00-00 00:00:00, since the first TIMESTAMP is one second after 1970.
"""

from __future__ import annotations

_SECOND_US = 1_000_000
_SCALES = (1_000_000, 100_000, 10_000, 1_000, 100, 10, 1)
TIME_ZERO = (838 * 3600 + 59 * 60 + 60) * _SECOND_US
"""What MariaDB adds to a TIME with a fraction if mysql56_temporal_format=OFF."""


def pack_datetime(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0, microsecond: int = 0) -> int:
    """Returns the packed datetime."""
    return (((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second) << 24 | microsecond


def date_fields(packed: int) -> tuple[int, int, int]:
    """Returns year, month, and day of a packed date."""
    return packed >> 9, packed >> 5 & 15, packed & 31


def datetime_fields(packed: int) -> tuple[int, int, int, int, int, int, int]:
    """Returns year, month, day, hour, minute, second, and microseconds of a packed datetime."""
    seconds = packed >> 24
    year, month = divmod(seconds >> 22, 13)
    return (
        year, month, seconds >> 17 & 31, seconds >> 12 & 31, seconds >> 6 & 63, seconds & 63, packed & 0xFF_FFFF,
    )  # fmt: skip


def date_text(packed: int) -> str:
    """Returns MySQL's text of a packed date."""
    year, month, day = date_fields(packed)
    return f"{year:04d}-{month:02d}-{day:02d}"


def datetime_text(packed: int, digits: int) -> str:
    """Returns MySQL's text of a packed datetime with this number of fractional digits."""
    year, month, day, hour, minute, second, fraction = datetime_fields(packed)
    return f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}{_fraction_text(fraction, digits)}"


def time_text(microseconds: int, digits: int) -> str:
    """Returns MySQL's text of a time with this number of fractional digits."""
    seconds, fraction = divmod(abs(microseconds), _SECOND_US)
    sign = "-" if microseconds < 0 else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{_fraction_text(fraction, digits)}"


def _fraction_text(microseconds: int, digits: int) -> str:
    return f".{microseconds:06d}"[: digits + 1] if digits else ""


def time_from_packed(packed: int, fraction_bits: int, fraction_scale: int) -> int:
    """Returns the microseconds of a TIME2: hours in 10 bits, minutes and seconds in 6, then the fraction."""
    if packed < 0:
        return -time_from_packed(-packed, fraction_bits, fraction_scale)
    whole = packed >> fraction_bits
    fraction = packed & ((1 << fraction_bits) - 1)
    return ((whole >> 12) * 3600 + (whole >> 6 & 63) * 60 + (whole & 63)) * _SECOND_US + fraction * fraction_scale


def time_from_digits(digits: int) -> int:
    """Returns the microseconds of a TIME as the number HHMMSS."""
    sign, digits = (-1, -digits) if digits < 0 else (1, digits)
    return sign * (digits // 10000 * 3600 + digits // 100 % 100 * 60 + digits % 100) * _SECOND_US


def datetime_from_digits(digits: int) -> int:
    """Returns the packed datetime of the number YYYYMMDDHHMMSS."""
    date, time = divmod(digits, 1_000_000)
    return pack_datetime(
        date // 10000, date // 100 % 100, date % 100, time // 10000, time // 100 % 100, time % 100
    )  # fmt: skip


def time_from_hires(number: int, digits: int) -> int:
    """Returns the microseconds of MariaDB's older TIME with a fraction."""
    return number * _SCALES[digits] - TIME_ZERO


def datetime_from_hires(number: int, digits: int) -> int:
    """Returns the packed datetime of MariaDB's older DATETIME with a fraction: a mixed-radix number."""
    rest, microsecond = divmod(number * _SCALES[digits], _SECOND_US)
    rest, second = divmod(rest, 60)
    rest, minute = divmod(rest, 60)
    rest, hour = divmod(rest, 24)
    rest, day = divmod(rest, 32)
    year, month = divmod(rest, 13)
    return pack_datetime(year, month, day, hour, minute, second, microsecond)
