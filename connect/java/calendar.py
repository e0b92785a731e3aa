"""Converts between days and dates like ``java.util.GregorianCalendar``: Julian before 15 October 1582, Gregorian from then on.

Python's dates are always Gregorian. The two differ for old dates only; texts follow Java.
"""

from __future__ import annotations

CUTOVER_DAY = -141427
"""15 October 1582 as days since 1970."""

_JULIAN_EPOCH_SHIFT = 719470  # days from 1 March of Julian year 0 to 1970-01-01
_GREGORIAN_EPOCH_SHIFT = 719468


def date_of_day(day: int) -> tuple[int, int, int]:
    """Returns year (0 is 1 BC), month, and day of month of a day since 1970."""
    if day >= CUTOVER_DAY:
        shifted = day + _GREGORIAN_EPOCH_SHIFT
        era, day_of_era = divmod(shifted, 146097)
        year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
        year = year_of_era + era * 400
        day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    else:
        cycle, rest = divmod(day + _JULIAN_EPOCH_SHIFT, 1461)
        year_of_cycle = min(rest // 365, 3)
        year = cycle * 4 + year_of_cycle
        day_of_year = rest - 365 * year_of_cycle
    shifted_month = (5 * day_of_year + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return year + (month <= 2), month, day_of_year - (153 * shifted_month + 2) // 5 + 1


def day_of_date(year: int, month: int, day: int) -> int:
    """Returns the days since 1970 of a date. Lenient: month 13 is January of the next year, day 0 the last day of the month
    before."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    shifted_year = year - (month <= 2)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5
    era, year_of_era = divmod(shifted_year, 400)
    gregorian = era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - _GREGORIAN_EPOCH_SHIFT
    if gregorian + day - 1 >= CUTOVER_DAY:
        return gregorian + day - 1
    return shifted_year * 365 + shifted_year // 4 + day_of_year - _JULIAN_EPOCH_SHIFT + day - 1
