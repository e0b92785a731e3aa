"""Dates and times as PostgreSQL prints them (DateStyle ISO, TimeZone UTC), counted exactly, whatever the year."""

from __future__ import annotations

import datetime as dt
import re

from connect.data.logical import EPOCH_ORDINAL
from connect.errors import DataError
from connectors.databases.calendar import NS_PER_DAY, NS_PER_SECOND, date_of_epoch_day, epoch_day_of_date, format_time_ns

INFINITY_MS = 9_223_372_036_825_200_000
MINUS_INFINITY_MS = -9_223_372_036_832_400_000
"""What PostgreSQL's Java driver makes of timestamps that are ``infinity`` and ``-infinity``. Debezium writes the same numbers as
microseconds."""

_TIMETZ = re.compile(r"(\d\d:\d\d:\d\d(?:\.\d+)?)([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?")


def day_of(text: str, column: str) -> int:
    """``2024-01-31``, ``12024-01-31``, ``0044-03-15 BC`` -> days since 1970. Raises DataError for infinity."""
    if len(text) == 10 and text[4] == "-":
        return dt.date.fromisoformat(text).toordinal() - EPOCH_ORDINAL
    if text.endswith("infinity"):
        raise DataError(
            f"Column {column}: {text} is no date that Connect can hold; leave such rows out, or read the column with a query "
            "that casts it to text"
        )
    era = text.endswith(" BC")
    year, month, day = (text[:-3] if era else text).split("-")
    return epoch_day_of_date(1 - int(year) if era else int(year), int(month), int(day))


def time_ns(text: str) -> int:
    """``12:34:56.789`` -> ns of the day; 24:00:00 is a whole day."""
    seconds = int(text[:2]) * 3600 + int(text[3:5]) * 60 + int(text[6:8])
    return seconds * NS_PER_SECOND + (int(text[9:].ljust(9, "0")) if len(text) > 8 else 0)


def moment_ns(text: str, column: str) -> int:
    """A timestamp, a timestamptz printed in UTC, or a date -> ns since 1970 on that clock. Raises DataError for infinity."""
    era = text.endswith(" BC")
    date, _, time = (text[:-3] if era else text).partition(" ")
    ns = day_of(date + " BC" if era else date, column) * NS_PER_DAY
    return ns + time_ns(time.removesuffix("+00")) if time else ns


def zoned_time_ns(text: str) -> tuple[int, int]:
    """``12:34:56.789+02`` -> ns of the day there, and what the zone is ahead of UTC in ns."""
    match = _TIMETZ.fullmatch(text)
    if match is None:
        raise DataError(f"{text} is no time with time zone")
    time, sign, hours, minutes, seconds = match.groups()
    offset = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return time_ns(time), (offset if sign == "+" else -offset) * NS_PER_SECOND


def date_text(day: int) -> str:
    """The reverse of :func:`day_of`."""
    year, month, day_of_month = date_of_epoch_day(day)
    if year > 0:
        return f"{year:04d}-{month:02d}-{day_of_month:02d}"
    return f"{1 - year:04d}-{month:02d}-{day_of_month:02d} BC"


def moment_text(ns: int, what: str, zone: str = "") -> str:
    """``2024-01-31 12:34:56.000789``, with ``zone`` (``+02``) behind it. Raises DataError for what is finer than a
    microsecond."""
    day, rest = divmod(ns, NS_PER_DAY)
    if rest % 1000:
        raise DataError(f"{what}: {format_time_ns(rest, 9)} is finer than the microseconds that PostgreSQL keeps")
    date, _, era = date_text(day).partition(" ")
    return f"{date} {format_time_ns(rest, 6 if rest % NS_PER_SECOND else 0)}{zone}{' ' + era if era else ''}"


def time_text(ns: int, what: str) -> str:
    """ns of the day as PostgreSQL reads them; a whole day is 24:00:00."""
    if ns % 1000:
        raise DataError(f"{what}: {format_time_ns(ns, 9)} is finer than the microseconds that PostgreSQL keeps")
    return format_time_ns(ns, 6 if ns % NS_PER_SECOND else 0)


def offset_text(seconds: int) -> str:
    """What a zone is ahead of UTC: ``+02``, ``-03:30``."""
    sign, rest = ("-" if seconds < 0 else "+"), abs(seconds)
    text = f"{sign}{rest // 3600:02d}"
    if rest % 3600:
        text += f":{rest // 60 % 60:02d}"
    return text + (f":{rest % 60:02d}" if rest % 60 else "")
