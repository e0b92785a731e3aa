"""Day numbers and times of day in whole days and nanoseconds, for any year: Python's dates end at the years 1 and 9999."""

from __future__ import annotations

from typing import Final

NS_PER_SECOND: Final = 1_000_000_000
NS_PER_DAY: Final = 86_400 * NS_PER_SECOND


def date_of_epoch_day(day: int) -> tuple[int, int, int]:
    """Year (0 is 1 BC), month and day in the proleptic Gregorian calendar of a day since 1970, however far."""
    era, day_of_era = divmod(day + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def epoch_day_of_date(year: int, month: int, day: int) -> int:
    """The reverse of :func:`date_of_epoch_day`."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def format_time_ns(ns: int, digits: int) -> str:
    """``23:59:59.123`` of the ns of a day."""
    seconds, fraction = divmod(ns, NS_PER_SECOND)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text if not digits else f"{text}.{fraction // 10 ** (9 - digits):0{digits}d}"
