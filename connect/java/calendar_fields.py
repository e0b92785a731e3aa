"""Resolves the fields of a parsed date to an instant, leniently, like ``java.util.GregorianCalendar``.

A text may have too few fields (``h:mm``), too many (weekday and date that disagree), or impossible ones (month 13). The order in
which fields were set decides which ones count; fields out of range roll over. Weeks start on Sunday, and the first week of a year
contains 1 January, as in the locale en_US.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from connect.java.calendar import CUTOVER_DAY, date_of_day, day_of_date
from connect.java.sized_numbers import wrap_integer

MILLIS_PER_DAY = 86_400_000
SUNDAY = 1


class CalendarField(Enum):
    """The fields that a pattern can set."""

    ERA = auto()
    YEAR = auto()
    MONTH = auto()
    WEEK_OF_YEAR = auto()
    WEEK_OF_MONTH = auto()
    DAY_OF_MONTH = auto()
    DAY_OF_YEAR = auto()
    DAY_OF_WEEK = auto()
    DAY_OF_WEEK_IN_MONTH = auto()
    AM_PM = auto()
    HOUR = auto()
    HOUR_OF_DAY = auto()
    MINUTE = auto()
    SECOND = auto()
    MILLISECOND = auto()
    ZONE_OFFSET = auto()
    WEEK_YEAR = auto()


F = CalendarField


_DayOfDate = Callable[[int, int, int], int]
_CUTOVER_YEAR = 1582


def _gregorian_day(year: int, month: int, day: int) -> int:
    """Returns the day of a date in the proleptic Gregorian calendar, which repeats every 400 years."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    cycles = max(0, (2000 - year) // 400)
    return day_of_date(year + 400 * cycles, month, day) - 146_097 * cycles


def _julian_day(year: int, month: int, day: int) -> int:
    """Returns the day of a date in the Julian calendar, which repeats every 4 years."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    cycles = max(0, (year - 1000) // 4)
    return day_of_date(year - 4 * cycles, month, day) + 1461 * cycles


class CalendarFields:
    """Values of fields in the order in which they were set. Setting a field again moves it to the end."""

    def __init__(self) -> None:
        self._values: dict[CalendarField, int] = {}

    def set(self, field: CalendarField, value: int) -> None:
        self._values.pop(field, None)
        self._values[field] = value

    def add_years(self, years: int) -> None:
        """Adds to the year and the week year, if set, without changing their order."""
        for field in (F.YEAR, F.WEEK_YEAR):
            if field in self._values:
                self._values[field] = wrap_integer(self._values[field] + years, 32)

    def to_millis(self) -> int:
        """Returns the instant in ms since 1970 UTC."""
        values, stamps = self._values, {field: i for i, field in enumerate(self._values, 1)}
        hour = self._hour(stamps)
        of_day = ((hour * 60 + values.get(F.MINUTE, 0)) * 60 + values.get(F.SECOND, 0)) * 1000 + values.get(F.MILLISECOND, 0)
        day = self._day(stamps, of_day // MILLIS_PER_DAY)
        of_day -= values.get(F.ZONE_OFFSET, 0)
        millis = wrap_integer(day * MILLIS_PER_DAY + of_day, 64)
        if stamps.get(F.WEEK_YEAR, 0) > stamps.get(F.YEAR, 0):
            # A week year counts within the era that the other fields give.
            before_christ = date_of_day(millis // MILLIS_PER_DAY)[0] <= 0
            millis = wrap_integer(self._day_of_week_date(before_christ) * MILLIS_PER_DAY + of_day, 64)
        return millis

    def _hour(self, stamps: dict[CalendarField, int]) -> int:
        values = self._values
        of_day, of_half = stamps.get(F.HOUR_OF_DAY, 0), _both(stamps, F.HOUR, F.AM_PM)
        if max(of_day, of_half) == 0:
            of_half = max(stamps.get(F.HOUR, 0), stamps.get(F.AM_PM, 0))
        if of_day >= of_half:
            return values.get(F.HOUR_OF_DAY, 0)
        return values.get(F.HOUR, 0) + 12 * values.get(F.AM_PM, 0)

    def _day(self, stamps: dict[CalendarField, int], further: int) -> int:
        """Returns the day, which the time of day moves by ``further`` days."""
        year = self._values.get(F.YEAR, 1970)
        if self._values.get(F.ERA) == 0:
            year = wrap_integer(1 - year, 32)
        cutover = CUTOVER_DAY - further
        if year > _CUTOVER_YEAR:
            day, _ = self._day_in_year(stamps, year, day_of_date)
            if day >= cutover:
                return day
        # The year as written decides the calendar, even if months or days roll over the cutover.
        julian, of_year = self._day_in_year(stamps, year, _julian_day)
        if of_year or year < _CUTOVER_YEAR:
            return julian
        gregorian, _ = self._day_in_year(stamps, year, _gregorian_day)
        return gregorian if gregorian >= cutover else julian

    def _day_in_year(self, stamps: dict[CalendarField, int], year: int, day_of_date: _DayOfDate) -> tuple[int, bool]:
        """Returns the day, and whether it is counted from the start of the year."""
        values = self._values
        dow = stamps.get(F.DAY_OF_WEEK, 0)
        dom = stamps.get(F.DAY_OF_MONTH, 0)
        wom = _both(stamps, F.WEEK_OF_MONTH, F.DAY_OF_WEEK)
        dowim = _both(stamps, F.DAY_OF_WEEK_IN_MONTH, F.DAY_OF_WEEK)
        doy = stamps.get(F.DAY_OF_YEAR, 0)
        woy = _both(stamps, F.WEEK_OF_YEAR, F.DAY_OF_WEEK)
        best = max(dom, wom, dowim, doy, woy)
        if best == 0:
            wom, woy = stamps.get(F.WEEK_OF_MONTH, 0), stamps.get(F.WEEK_OF_YEAR, 0)
            dowim = max(stamps.get(F.DAY_OF_WEEK_IN_MONTH, 0), dow)
            best = max(wom, dowim, woy)
            if best == 0:
                best = dom = stamps.get(F.MONTH, 0)
        week_of_year = stamps.get(F.WEEK_OF_YEAR, 0)
        if best == dom:
            return self._first_of_month(year, day_of_date) + values.get(F.DAY_OF_MONTH, 1) - 1, False
        by_week = best == wom and stamps.get(F.WEEK_OF_MONTH, 0) >= week_of_year
        by_weekday = best == dowim and stamps.get(F.DAY_OF_WEEK_IN_MONTH, 0) >= week_of_year
        if by_week or by_weekday:
            if wom == dowim:
                use_week = stamps.get(F.WEEK_OF_MONTH, 0) >= stamps.get(F.DAY_OF_WEEK_IN_MONTH, 0)
            else:
                use_week = best == wom
            return self._day_in_month(year, use_week, day_of_date), False
        first_of_year = day_of_date(year, 1, 1)
        if best == doy:
            return first_of_year + values[F.DAY_OF_YEAR] - 1, True
        in_first_week = _on_or_before(_week_start(first_of_year) + 6, self._weekday())
        return in_first_week + 7 * (values.get(F.WEEK_OF_YEAR, 1) - 1), True

    def _weekday(self) -> int:
        return self._values.get(F.DAY_OF_WEEK, SUNDAY)

    def _first_of_month(self, year: int, day_of_date: _DayOfDate, further: int = 0) -> int:
        """Returns the first day of the month, or of a later one. Years have 32 bits and may wrap when months add to them."""
        month = self._values.get(F.MONTH, 0)
        return day_of_date(wrap_integer(year + month // 12, 32), month % 12 + 1 + further, 1)

    def _day_in_month(self, year: int, by_week: bool, day_of_date: _DayOfDate) -> int:
        values = self._values
        first = self._first_of_month(year, day_of_date)
        if by_week:
            in_first_week = _on_or_before(_week_start(first) + 6, self._weekday())
            return in_first_week + wrap_integer(7 * (values[F.WEEK_OF_MONTH] - 1), 32)
        nth = values.get(F.DAY_OF_WEEK_IN_MONTH, 1)
        if nth >= 0:
            return _on_or_before(first + wrap_integer(7 * nth, 32) - 1, self._weekday())
        length = self._first_of_month(year, day_of_date, 1) - first
        return _on_or_before(first + wrap_integer(length + 7 * (nth + 1), 32) - 1, self._weekday())

    def _day_of_week_date(self, before_christ: bool) -> int:
        values = self._values
        week, weekday = values.get(F.WEEK_OF_YEAR, 1), self._weekday()
        if weekday >= 8:
            weekday -= 1
            week, weekday = week + weekday // 7, weekday % 7 + 1
            weekday = 1 if weekday == 7 else weekday + 1
        elif weekday <= 0:
            weeks = -weekday // 7 + 1
            week, weekday = week - weeks, weekday + 7 * weeks
            weekday = 1 if weekday == 7 else weekday + 1
        year = values[F.WEEK_YEAR]
        first_of_year = day_of_date(wrap_integer(1 - year, 32) if before_christ else year, 1, 1)
        # Java calculates with instants of 64 bits and a number of days of 32 bits.
        first_of_week = wrap_integer(_week_start(first_of_year) * MILLIS_PER_DAY, 64)
        days = wrap_integer(7 * (week - 1) + weekday - SUNDAY, 32)
        return wrap_integer(first_of_week + days * MILLIS_PER_DAY, 64) // MILLIS_PER_DAY


def _both(stamps: dict[CalendarField, int], one: CalendarField, other: CalendarField) -> int:
    """Returns the later of two stamps; 0 unless both are set."""
    return max(stamps[one], stamps[other]) if one in stamps and other in stamps else 0


def weekday_of(day: int) -> int:
    """Returns the weekday of a day since 1970: 1 for Sunday to 7 for Saturday."""
    return (day + 4) % 7 + 1


def _on_or_before(day: int, weekday: int) -> int:
    """Returns the last day with that weekday up to the given day."""
    return day - (weekday_of(day) - weekday) % 7


def _week_start(day: int) -> int:
    """Returns the Sunday that starts the week of the day."""
    return day - (weekday_of(day) - SUNDAY)


def week_of_year(day: int) -> tuple[int, int]:
    """Returns week year and week of a day since 1970. The week of 1 January is week 1 of its year."""
    year = date_of_day(day)[0]
    first_of_next = day_of_date(year + 1, 1, 1)
    week = 1 if day >= _week_start(first_of_next) else (day - _week_start(day_of_date(year, 1, 1))) // 7 + 1
    # For BC years, Java takes the weekday of the next 1 January from an AD year.
    weekday_of_next = weekday_of(first_of_next if year > 0 else day_of_date(-year, 1, 1))
    return year + (day >= first_of_next - (weekday_of_next - SUNDAY)), week


def week_of_month(day: int) -> int:
    year, month, _ = date_of_day(day)
    return (day - _week_start(day_of_date(year, month, 1))) // 7 + 1
