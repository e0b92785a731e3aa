"""From the fields that a date text gave to an instant: the lenient resolution of ``java.util.GregorianCalendar``.

A text may give too little (``h:mm``), too much (weekday and date that disagree) or what no calendar has (month 13). Which
fields count is decided by the order in which they were set; what is out of range rolls over; the week begins on Sunday and the
first week of a year is the one with 1 January, as in the locale en_US.
"""

from __future__ import annotations

from enum import Enum, auto

from connect.data.java_calendar import date_of_day, day_of_date
from connect.data.narrow import wrap_integer

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


class CalendarFields:
    """Fields with their values and the order in which they were set. ``set`` again moves a field to the end."""

    def __init__(self) -> None:
        self._values: dict[CalendarField, int] = {}

    def set(self, field: CalendarField, value: int) -> None:
        self._values.pop(field, None)
        self._values[field] = value

    def add_years(self, years: int) -> None:
        """Moves the year and the week year, where set, without changing their place in the order."""
        for field in (F.YEAR, F.WEEK_YEAR):
            if field in self._values:
                self._values[field] += years

    def to_millis(self) -> int:
        """The instant in UTC, in ms since 1970."""
        values, stamps = self._values, {field: i for i, field in enumerate(self._values, 1)}
        day = self._day(stamps)
        hour = self._hour(stamps)
        of_day = ((hour * 60 + values.get(F.MINUTE, 0)) * 60 + values.get(F.SECOND, 0)) * 1000 + values.get(F.MILLISECOND, 0)
        return wrap_integer(day * MILLIS_PER_DAY + of_day - values.get(F.ZONE_OFFSET, 0), 64)

    def _hour(self, stamps: dict[CalendarField, int]) -> int:
        values = self._values
        of_day, of_half = stamps.get(F.HOUR_OF_DAY, 0), _both(stamps, F.HOUR, F.AM_PM)
        if max(of_day, of_half) == 0:
            of_half = max(stamps.get(F.HOUR, 0), stamps.get(F.AM_PM, 0))
        if of_day >= of_half:
            return values.get(F.HOUR_OF_DAY, 0)
        return values.get(F.HOUR, 0) + 12 * values.get(F.AM_PM, 0)

    def _day(self, stamps: dict[CalendarField, int]) -> int:
        if stamps.get(F.WEEK_YEAR, 0) > stamps.get(F.YEAR, 0):
            return self._day_of_week_date()
        values = self._values
        year = values.get(F.YEAR, 1970)
        if values.get(F.ERA) == 0:
            year = 1 - year
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
            return day_of_date(year, values.get(F.MONTH, 0) + 1, 1) + values.get(F.DAY_OF_MONTH, 1) - 1
        by_week = best == wom and stamps.get(F.WEEK_OF_MONTH, 0) >= week_of_year
        by_weekday = best == dowim and stamps.get(F.DAY_OF_WEEK_IN_MONTH, 0) >= week_of_year
        if by_week or by_weekday:
            if wom == dowim:
                use_week = stamps.get(F.WEEK_OF_MONTH, 0) >= stamps.get(F.DAY_OF_WEEK_IN_MONTH, 0)
            else:
                use_week = best == wom
            return self._day_in_month(year, use_week)
        first_of_year = day_of_date(year, 1, 1)
        if best == doy:
            return first_of_year + values[F.DAY_OF_YEAR] - 1
        return _week_start(first_of_year) + self._weekday() - SUNDAY + 7 * (values.get(F.WEEK_OF_YEAR, 1) - 1)

    def _weekday(self) -> int:
        return self._values.get(F.DAY_OF_WEEK, SUNDAY)

    def _day_in_month(self, year: int, by_week: bool) -> int:
        values, month = self._values, self._values.get(F.MONTH, 0) + 1
        first = day_of_date(year, month, 1)
        if by_week:
            in_first_week = _on_or_before(_week_start(first) + 6, self._weekday())
            return in_first_week + 7 * (values[F.WEEK_OF_MONTH] - 1)
        nth = values.get(F.DAY_OF_WEEK_IN_MONTH, 1)
        if nth >= 0:
            return _on_or_before(first + 7 * nth - 1, self._weekday())
        length = day_of_date(year, month + 1, 1) - first
        return _on_or_before(first + length + 7 * (nth + 1) - 1, self._weekday())

    def _day_of_week_date(self) -> int:
        values = self._values
        week, weekday = values.get(F.WEEK_OF_YEAR, 1), self._weekday()
        if weekday >= 8:
            weekday -= 1
            week, weekday = week + weekday // 7, weekday % 7 + 1
            weekday = 1 if weekday == 7 else weekday + 1
        elif weekday <= 0:
            while weekday <= 0:
                weekday, week = weekday + 7, week - 1
            weekday = 1 if weekday == 7 else weekday + 1
        return _week_start(day_of_date(values[F.WEEK_YEAR], 1, 1)) + 7 * (week - 1) + weekday - SUNDAY


def _both(stamps: dict[CalendarField, int], one: CalendarField, other: CalendarField) -> int:
    """The later of two stamps; 0 unless both are set."""
    return max(stamps[one], stamps[other]) if one in stamps and other in stamps else 0


def weekday_of(day: int) -> int:
    """1 for Sunday to 7 for Saturday, of a day since 1970."""
    return (day + 4) % 7 + 1


def _on_or_before(day: int, weekday: int) -> int:
    """The last day of that weekday up to the given day."""
    return day - (weekday_of(day) - weekday) % 7


def _week_start(day: int) -> int:
    """The Sunday that begins the week of the day."""
    return day - (weekday_of(day) - SUNDAY)


def week_of_year(day: int) -> tuple[int, int]:
    """Week year and week of a day since 1970: the week of 1 January is week 1 of its year."""
    year = date_of_day(day)[0]
    if day >= _week_start(day_of_date(year + 1, 1, 1)):
        return year + 1, 1
    return year, (day - _week_start(day_of_date(year, 1, 1))) // 7 + 1


def week_of_month(day: int) -> int:
    year, month, _ = date_of_day(day)
    return (day - _week_start(day_of_date(year, month, 1))) // 7 + 1
