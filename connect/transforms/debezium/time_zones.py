"""Converts instants and local times between time zones, in the representations of change events."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass

from connect.data.logical import EPOCH, FarInstant, instant_of, timestamp_to_millis
from connect.errors import ConfigError, DataError
from connect.suggestions import did_you_mean

_OFFSET = re.compile(r"([+-])(\d{2}):(\d{2})(?::(\d{2}))?", re.ASCII)
_MAX_OFFSET = 18 * 3600
_ZONED_TIME = re.compile(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{0,9}))?)?(Z|z|[+-]\d{2}(?::\d{2}(?::\d{2})?)?)", re.ASCII)
_ZONED_TIMESTAMP = re.compile(rf"([+-]?\d{{4,9}})-(\d{{2}})-(\d{{2}})[Tt]{_ZONED_TIME.pattern}", re.ASCII)
_SECONDS_PER_DAY = 86_400
_FAR_FUTURE = dt.datetime(9990, 1, 1)
_FAR_PAST = dt.datetime(1, 1, 2)
_LOCAL_EPOCH = EPOCH.replace(tzinfo=None)


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone: an offset in seconds, or the rules of a region. If ``strict``, local times that a clock change skips or
    repeats are errors; otherwise the offset before the change applies, as in Java."""

    name: str
    fixed: int | None
    rules: zoneinfo.ZoneInfo | None
    strict: bool = False

    def offset_of_local(self, local: dt.datetime) -> int:
        """Seconds east of UTC at a local time. Raises DataError."""
        if self.rules is None:
            return self.fixed or 0
        before = _seconds(local.replace(tzinfo=self.rules).utcoffset())
        if self.strict and before != _seconds(local.replace(tzinfo=self.rules, fold=1).utcoffset()):
            raise DataError(f"The local time {local.isoformat(' ')} occurs never or twice in {self.name}, so it is ambiguous")
        return before

    def offset_at(self, instant: dt.datetime) -> int:
        """Seconds east of UTC at an instant."""
        if self.rules is None:
            return self.fixed or 0
        return _seconds(instant.astimezone(self.rules).utcoffset())


def _seconds(offset: dt.timedelta | None) -> int:
    return 0 if offset is None else round(offset.total_seconds())


def parse_zone_name(key: str, text: str, *, strict: bool) -> Zone:
    """Parses ``America/New_York`` or ``+08:00``. Raises ConfigError."""
    found = _OFFSET.fullmatch(text)
    if found is not None:
        hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
        total = hours * 3600 + minutes * 60 + seconds
        if minutes > 59 or seconds > 59 or total > _MAX_OFFSET:
            raise ConfigError.invalid(key, text, "an offset is at most 18:00, with minutes and seconds up to 59")
        return Zone(text, -total if found[1] == "-" else total, None)
    known = zoneinfo.available_timezones()
    if text not in known:
        hint = did_you_mean(text, known, "; ")
        reason = f"expected a region such as America/Los_Angeles, or an offset from UTC such as +08:00{hint}"
        if not known:
            reason += "; this system has no time zone database, which the Python package tzdata provides"
        raise ConfigError.invalid(key, text, reason)
    return Zone(text, None, zoneinfo.ZoneInfo(text), strict)


def local_time(seconds: int) -> dt.datetime:
    """The local time so many seconds since 1970, limited to Python's years 1 to 9999; used to look up an offset."""
    try:
        return _LOCAL_EPOCH + dt.timedelta(seconds=seconds)
    except OverflowError:
        return _FAR_FUTURE if seconds > 0 else _FAR_PAST


def shift_local(zone: Zone, units_per_second: int) -> Callable[[int], int]:
    """Builds a function from a local time in the zone to its instant, both as numbers since 1970."""
    if zone.rules is None:
        shift = (zone.fixed or 0) * units_per_second
        return lambda value: value - shift
    return lambda value: value - zone.offset_of_local(local_time(value // units_per_second)) * units_per_second


def shift_instant(zone: Zone, units_per_second: int) -> Callable[[int], int]:
    """Builds a function from an instant to the local time in the zone, both as numbers since 1970."""
    return lambda value: value + zone.offset_at(local_time(value // units_per_second).replace(tzinfo=dt.UTC)) * units_per_second


def shift_timestamp(zone: Zone) -> Callable[[dt.datetime | FarInstant], dt.datetime | FarInstant]:
    """As :func:`shift_local`, for Connect's Timestamp."""
    shift = shift_local(zone, 1000)
    return lambda value: instant_of(shift(timestamp_to_millis(value)))


def zoned_timestamp(zone: Zone) -> Callable[[str], str]:
    """Builds a function that converts text such as ``2018-01-02T11:15:30.123Z`` to the same instant with the offset of the zone.
    As in Debezium, the offset is looked up for the time in the text. The function raises DataError."""

    def convert(text: str) -> str:
        found = _ZONED_TIMESTAMP.fullmatch(text)
        if found is None:
            raise DataError(f"{text[:60]!r} is not a timestamp with an offset, such as 2018-01-02T11:15:30.123Z")
        year, month, day = int(found[1]), int(found[2]), int(found[3])
        seconds, fraction, offset = _parse_time(found.groups()[3:], text)
        # The calendar repeats every 400 years, so years outside of Python's range are mapped into it.
        cycle = 0 if 2 <= year <= 9998 else year - (2000 + year % 400)
        try:
            local = dt.datetime(year - cycle, month, day) + dt.timedelta(seconds=seconds)
        except ValueError as e:
            raise DataError(f"{text[:60]!r} is not a timestamp: {e}") from e
        near = local if not cycle else _FAR_FUTURE if cycle > 0 else _FAR_PAST
        target = zone.offset_of_local(near)
        moved = local + dt.timedelta(seconds=target - offset)
        moved_year = moved.year + cycle
        year_text = f"{moved_year:+05d}" if moved_year > 9999 or moved_year < 0 else f"{moved_year:04d}"
        time = _format_time(moved.hour, moved.minute, moved.second, fraction, target)
        return f"{year_text}-{moved.month:02}-{moved.day:02}T{time}"

    return convert


def zoned_time(zone: Zone, now: Callable[[], dt.datetime]) -> Callable[[str], str]:
    """Builds a function that converts text such as ``11:15:30Z`` to the same time in the zone, by its current offset. It raises
    DataError."""

    def convert(text: str) -> str:
        found = _ZONED_TIME.fullmatch(text)
        if found is None:
            raise DataError(f"{text[:60]!r} is not a time with an offset, such as 11:15:30Z")
        seconds, fraction, offset = _parse_time(found.groups(), text)
        target = zone.offset_at(now())
        minutes, second = divmod((seconds + target - offset) % _SECONDS_PER_DAY, 60)
        return _format_time(minutes // 60, minutes % 60, second, fraction, target)

    return convert


def _parse_time(parts: tuple[str | None, ...], text: str) -> tuple[int, str, int]:
    """Seconds of the day, the fraction's digits, and the offset in seconds."""
    hours, minutes, seconds = (int(part or 0) for part in parts[:3])
    if hours > 23 or minutes > 59 or seconds > 59:
        raise DataError(f"{text[:60]!r} has no valid time of day")
    return hours * 3600 + minutes * 60 + seconds, (parts[3] or "").rstrip("0"), _offset_seconds(parts[4] or "Z")


def _offset_seconds(text: str) -> int:
    if text in ("Z", "z"):
        return 0
    hours, minutes, seconds = (*map(int, text[1:].split(":")), 0, 0)[:3]
    total = hours * 3600 + minutes * 60 + seconds
    return -total if text[0] == "-" else total


def _format_time(hour: int, minute: int, second: int, fraction: str, offset: int) -> str:
    clock = f"{hour:02}:{minute:02}:{second:02}{f'.{fraction}' if fraction else ''}"
    if not offset:
        return f"{clock}Z"
    minutes, seconds = divmod(abs(offset), 60)
    rest = f":{seconds:02}" if seconds else ""
    return f"{clock}{'-' if offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}{rest}"
