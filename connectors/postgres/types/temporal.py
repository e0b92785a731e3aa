"""Decoders of dates, times, timestamps and intervals.

The server prints ISO dates in UTC (see connection.py). Years below 1 (``BC``) and above 9999 are legal in PostgreSQL and go
through calendar arithmetic of their own, for Python's dates end there.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable

from connect.data.logical import EPOCH, EPOCH_ORDINAL, date_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, Type
from connect.text_records import TextKind
from connectors.cdc.schema.column_type import ColumnType, Inline, refuse
from connectors.databases.postgresql.dates import (
    INFINITY_MS,
    MINUS_INFINITY_MS,
    NEGATIVE_INFINITY,
    NEGATIVE_INFINITY_DAYS,
    POSITIVE_INFINITY,
    POSITIVE_INFINITY_DAYS,
    parse_distant_day,
    parse_time_micros,
    parse_timetz,
)
from connectors.postgres.config import TypeSettings

_DAY_US = 86_400_000_000
_NAIVE_EPOCH = EPOCH.replace(tzinfo=None)
_fromisoformat = dt.datetime.fromisoformat


def named(type: Type, name: str) -> Schema:
    """A semantic type of Debezium's."""
    return Schema(type, name=name, version=1)


_ISO_DATES = {"infinity": "+5877611-06-21Z", "-infinity": "-5877611-06-22Z"}
_ISO_TIMESTAMPS = {"infinity": "+292278994-08-16T23:00:00Z", "-infinity": "-292275055-05-16T23:00:00Z"}
_FULL_FRACTION = 6


def days(text: str) -> int:
    """date -> days since 1970."""
    if len(text) == 10 and text[4] == "-":
        return dt.date.fromisoformat(text).toordinal() - EPOCH_ORDINAL
    if text.endswith("infinity"):
        return NEGATIVE_INFINITY_DAYS if text[0] == "-" else POSITIVE_INFINITY_DAYS
    return parse_distant_day(text)


def timestamp_micros(text: str) -> int:
    """timestamp (without zone) -> microseconds since 1970."""
    if text[4] == "-" and text[-1] <= "9":
        since = _fromisoformat(text) - _NAIVE_EPOCH
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if text.endswith("infinity"):
        return NEGATIVE_INFINITY if text[0] == "-" else POSITIVE_INFINITY
    date, _, rest = text.partition(" ")
    time, _, era = rest.partition(" ")
    return days(date + (" BC" if era else "")) * _DAY_US + parse_time_micros(time)


def _java_year(date: str, era: bool) -> str:
    """ISO-8601 as Java prints it: years above 9999 with a plus, year 0 for 1 BC, minus before."""
    year, month, day = date.split("-")
    number = 1 - int(year) if era else int(year)
    if number > 9999:
        return f"+{number}-{month}-{day}"
    return f"{'-' if number < 0 else ''}{abs(number):04d}-{month}-{day}"


def zoned_timestamp(text: str, digits: int = _FULL_FRACTION) -> str:
    """timestamptz -> ISO-8601 in UTC, with ``digits`` digits of the fraction; ``infinity`` and ``-infinity`` stay."""
    if text.endswith("infinity"):
        return text
    date, _, rest = text.partition(" ")
    time, _, era = rest.partition(" ")
    clock, _, fraction = time.removesuffix("+00").partition(".")
    point = "." if digits else ""
    return f"{_java_year(date, bool(era))}T{clock}{point}{fraction.ljust(digits, '0')}Z"


def _iso_timestamp(text: str) -> str:
    """timestamp -> ISO-8601, as if in UTC, without superfluous zeros."""
    if (infinite := _ISO_TIMESTAMPS.get(text)) is not None:
        return infinite
    date, _, rest = text.partition(" ")
    time, _, era = rest.partition(" ")
    return f"{_java_year(date, bool(era))}T{time}Z"


def zoned_time(text: str) -> str:
    """timetz -> the time in UTC, with Z."""
    ns, offset_ns = parse_timetz(text)
    micros = (ns - offset_ns) // 1000 % _DAY_US
    return _clock(micros) + "Z"


def _clock(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text if not fraction else f"{text}.{fraction:06d}".rstrip("0")


_INTERVAL = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)W)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(?:\.(\d+))?S)?)?"
)
_MONTH_US = 2_629_800_000_000  # 365.25 / 12 days


def interval_parts(text: str) -> tuple[int, int, int, int, int, int, int]:
    """Years, months, days, hours, minutes, the sign of the seconds, and their microseconds without it."""
    match = _INTERVAL.fullmatch(text)
    if match is None:
        raise refuse(text, "finite interval")
    years, months, weeks, whole_days, hours, minutes, sign, seconds, fraction = match.groups()
    micros = int(seconds or 0) * 1_000_000 + int((fraction or "0").ljust(6, "0"))
    return (
        int(years or 0), int(months or 0), int(weeks or 0) * 7 + int(whole_days or 0), int(hours or 0), int(minutes or 0),
        *((-1, micros) if sign else (1, micros)),
    )  # fmt: skip


_INFINITIES = {"infinity": POSITIVE_INFINITY, "-infinity": NEGATIVE_INFINITY}
_INFINITE_MS = {"infinity": INFINITY_MS, "-infinity": MINUS_INFINITY_MS}
"""The Java driver's."""


def interval_micros(text: str) -> int:
    """interval -> microseconds, a month as 30.4375 days; infinities are the extremes of int64, as in the server's storage."""
    if (infinite := _INFINITIES.get(text)) is not None:
        return infinite
    years, months, whole_days, hours, minutes, sign, micros = interval_parts(text)
    return (years * 12 + months) * _MONTH_US + whole_days * _DAY_US + (hours * 60 + minutes) * 60_000_000 + sign * micros


def interval_text(text: str) -> str:
    """interval -> ISO-8601 with every part, as Debezium writes it; ``infinity`` and ``-infinity`` stay."""
    if text in _INFINITIES:
        return text
    years, months, whole_days, hours, minutes, sign, micros = interval_parts(text)
    seconds, fraction = divmod(micros, 1_000_000)
    shown = f"{'-' if sign < 0 and micros else ''}{seconds}" + (f".{fraction:06d}".rstrip("0") if fraction else "")
    return f"P{years}Y{months}M{whole_days}DT{hours}H{minutes}M{shown}S"


def _int64(scale: int, micros: Callable[[str], int], what: str) -> Callable[[str], int]:
    def nanos(text: str) -> int:
        if (infinite := _INFINITIES.get(text)) is not None:
            return infinite
        value = micros(text) * scale
        if not -(1 << 63) <= value < 1 << 63:
            raise refuse(text, f"{what} that fits 64 bits of nanoseconds (1677 to 2262)")
        return value

    return nanos


def _millis(micros: Callable[[str], int]) -> Callable[[str], int]:
    # Only for columns whose precision is milliseconds, or in time.precision.mode=connect, which cuts as Debezium does.
    return lambda text: micros(text) // 1000 if text not in _INFINITE_MS else _INFINITE_MS[text]


def date(settings: TypeSettings) -> ColumnType:
    match settings.time_mode:
        case "connect":
            return ColumnType(date_schema(), _date, dt.date(1970, 1, 1))
        case "isostring":
            return ColumnType(named(Type.STRING, "io.debezium.time.IsoDate"), _iso_date, "1970-01-01Z")
    return ColumnType(named(Type.INT32, "io.debezium.time.Date"), days, 0, call_kind=TextKind.DATE)


def time(typmod: int, settings: TypeSettings) -> ColumnType:
    short = 0 <= typmod <= 3
    match settings.time_mode:
        case "connect":
            return ColumnType(time_schema(), _time, dt.time(0))
        case "isostring":
            schema = named(Type.STRING, "io.debezium.time.IsoTime")
            return ColumnType(schema, lambda text: _clock(parse_time_micros(text) % _DAY_US) + "Z", "00:00:00Z")
        case "nanoseconds":
            return ColumnType(named(Type.INT64, "io.debezium.time.NanoTime"), lambda text: parse_time_micros(text) * 1000, 0)
        case "adaptive" if short:
            return ColumnType(named(Type.INT32, "io.debezium.time.Time"), _millis(parse_time_micros), 0)
    return ColumnType(named(Type.INT64, "io.debezium.time.MicroTime"), parse_time_micros, 0)


def timestamp(typmod: int, settings: TypeSettings) -> ColumnType:
    short = 0 <= typmod <= 3
    match settings.time_mode:
        case "connect":
            return ColumnType(timestamp_schema(), _datetime, EPOCH)
        case "isostring":
            schema = named(Type.STRING, "io.debezium.time.IsoTimestamp")
            return ColumnType(schema, _iso_timestamp, "1970-01-01T00:00:00Z")
        case "nanoseconds":
            schema = named(Type.INT64, "io.debezium.time.NanoTimestamp")
            return ColumnType(schema, _int64(1000, timestamp_micros, "timestamp"), 0)
        case "adaptive" | "adaptive_time_microseconds" if short:
            return ColumnType(named(Type.INT64, "io.debezium.time.Timestamp"), _millis(timestamp_micros), 0)
    schema = named(Type.INT64, "io.debezium.time.MicroTimestamp")
    return ColumnType(schema, timestamp_micros, 0, call_kind=TextKind.WALL_CLOCK)


def timestamptz(typmod: int) -> ColumnType:
    schema = named(Type.STRING, "io.debezium.time.ZonedTimestamp")
    if typmod in (-1, _FULL_FRACTION):
        return ColumnType(schema, zoned_timestamp, "1970-01-01T00:00:00Z", inline=Inline.ZONED)
    return ColumnType(schema, lambda text: zoned_timestamp(text, typmod), "1970-01-01T00:00:00Z")


def timetz() -> ColumnType:
    return ColumnType(named(Type.STRING, "io.debezium.time.ZonedTime"), zoned_time, "00:00:00Z")


def interval(settings: TypeSettings) -> ColumnType:
    if settings.interval_mode == "string":
        return ColumnType(named(Type.STRING, "io.debezium.time.Interval"), interval_text, "P0Y0M0DT0H0M0S")
    return ColumnType(named(Type.INT64, "io.debezium.time.MicroDuration"), interval_micros, 0)


def _iso_date(text: str) -> str:
    if len(text) == 10 and text[4] == "-":
        return text + "Z"
    if (infinite := _ISO_DATES.get(text)) is not None:
        return infinite
    era = text.endswith(" BC")
    return _java_year(text[:-3] if era else text, era) + "Z"


def _date(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError as e:
        raise refuse(text, "date of the years 1 to 9999, which time.precision.mode=connect holds") from e


def _time(text: str) -> dt.time:
    micros = parse_time_micros(text)
    if micros >= _DAY_US:
        raise refuse(text, "time of a day, which time.precision.mode=connect holds")
    seconds, fraction = divmod(micros, 1_000_000)
    return dt.time(seconds // 3600, seconds // 60 % 60, seconds % 60, fraction // 1000 * 1000)


def _datetime(text: str) -> dt.datetime:
    try:
        value = _fromisoformat(text)
    except ValueError as e:
        raise refuse(text, "timestamp of the years 1 to 9999, which time.precision.mode=connect holds") from e
    return value.replace(microsecond=value.microsecond // 1000 * 1000, tzinfo=dt.UTC)
