"""PostgreSQL's text form of dates and times (DateStyle ISO, TimeZone UTC), counted exactly for any year."""

from __future__ import annotations

import datetime as dt
import re

from connect.data.logical import EPOCH_ORDINAL
from connect.errors import DataError
from connectors.databases.calendar import NS_PER_DAY, NS_PER_SECOND, date_of_epoch_day, epoch_day_of_date, format_time_ns

INFINITY_MS = 9_223_372_036_825_200_000
MINUS_INFINITY_MS = -9_223_372_036_832_400_000
"""The values of PostgreSQL's Java driver for the timestamps ``infinity`` and ``-infinity``. Debezium writes them as
milliseconds."""
POSITIVE_INFINITY, NEGATIVE_INFINITY = (1 << 63) - 1, -(1 << 63)
"""What Debezium writes as microseconds and nanoseconds."""
POSITIVE_INFINITY_DAYS, NEGATIVE_INFINITY_DAYS = epoch_day_of_date(5_877_611, 6, 21), epoch_day_of_date(-5_877_611, 6, 22)
"""What Debezium writes in the stream for infinite dates. Its snapshots have others, because they take another way through the
driver."""

_TIMETZ = re.compile(r"(\d\d:\d\d:\d\d(?:\.\d+)?)([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?")


# --- parsing


def parse_day(text: str, column: str) -> int:
    """Parses ``2024-01-31``, ``12024-01-31``, or ``0044-03-15 BC`` into days since 1970. Raises DataError for infinity."""
    if len(text) == 10 and text[4] == "-":
        return dt.date.fromisoformat(text).toordinal() - EPOCH_ORDINAL
    if text.endswith("infinity"):
        raise DataError(
            f"Column {column}: {text} is not a date that Connect can hold; exclude such rows, or read the column with a query "
            "that casts it to text"
        )
    return parse_distant_day(text)


def parse_distant_day(text: str) -> int:
    """Parses a date of any year, but not infinity, into days since 1970. Slower than Python's parser for ordinary years."""
    is_bc = text.endswith(" BC")
    year, month, day = (text[:-3] if is_bc else text).split("-")
    return epoch_day_of_date(1 - int(year) if is_bc else int(year), int(month), int(day))


def parse_time_ns(text: str) -> int:
    """Parses ``12:34:56.789`` into ns of the day; 24:00:00 is a whole day."""
    seconds = int(text[:2]) * 3600 + int(text[3:5]) * 60 + int(text[6:8])
    return seconds * NS_PER_SECOND + (int(text[9:].ljust(9, "0")) if len(text) > 8 else 0)


def parse_time_micros(text: str) -> int:
    """Parses ``12:34:56.789`` into microseconds of the day; 24:00:00 is a whole day."""
    micros = (int(text[:2]) * 3600 + int(text[3:5]) * 60 + int(text[6:8])) * 1_000_000
    return micros if len(text) == 8 else micros + int(text[9:].ljust(6, "0"))


def parse_timestamp_ns(text: str, column: str) -> int:
    """Parses a timestamp, a timestamptz in UTC, or a date into ns since 1970. Raises DataError for infinity."""
    is_bc = text.endswith(" BC")
    date, _, time = (text[:-3] if is_bc else text).partition(" ")
    ns = parse_day(date + " BC" if is_bc else date, column) * NS_PER_DAY
    return ns + parse_time_ns(time.removesuffix("+00")) if time else ns


def parse_timetz(text: str) -> tuple[int, int]:
    """Parses ``12:34:56.789+02`` into ns of the local day and the UTC offset in ns."""
    match = _TIMETZ.fullmatch(text)
    if match is None:
        raise DataError(f"{text} is no time with time zone")
    time, sign, hours, minutes, seconds = match.groups()
    offset = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    return parse_time_ns(time), (offset if sign == "+" else -offset) * NS_PER_SECOND


# --- formatting


def format_day(day: int) -> str:
    """The reverse of :func:`parse_day`."""
    year, month, day_of_month = date_of_epoch_day(day)
    if year > 0:
        return f"{year:04d}-{month:02d}-{day_of_month:02d}"
    return f"{1 - year:04d}-{month:02d}-{day_of_month:02d} BC"


def format_timestamp(ns: int, what: str, offset: str = "") -> str:
    """Formats ns since 1970 as ``2024-01-31 12:34:56.000789``, followed by ``offset`` (``+02``). Raises DataError, naming
    ``what``, for a value finer than a microsecond."""
    day, rest = divmod(ns, NS_PER_DAY)
    _require_micros(rest, what)
    date, _, era = format_day(day).partition(" ")
    return f"{date} {format_time_ns(rest, 6 if rest % NS_PER_SECOND else 0)}{offset}{' ' + era if era else ''}"


def format_time(ns: int, what: str) -> str:
    """Formats ns of the day; a whole day is 24:00:00. Raises DataError for a value finer than a microsecond."""
    _require_micros(ns, what)
    return format_time_ns(ns, 6 if ns % NS_PER_SECOND else 0)


def format_offset(seconds: int) -> str:
    """Formats a UTC offset: ``+02``, ``-03:30``."""
    sign, rest = ("-" if seconds < 0 else "+"), abs(seconds)
    text = f"{sign}{rest // 3600:02d}"
    if rest % 3600:
        text += f":{rest // 60 % 60:02d}"
    return text + (f":{rest % 60:02d}" if rest % 60 else "")


def _require_micros(ns: int, what: str) -> None:
    if ns % 1000:
        raise DataError(f"{what}: {format_time_ns(ns, 9)} is finer than the microseconds that PostgreSQL stores")
