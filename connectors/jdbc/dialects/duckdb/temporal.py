"""Converts Arrow columns of dates and timestamps, which are integers of a unit, to Connect values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from connect.data.logical import EPOCH, EPOCH_ORDINAL, FarInstant, date_of
from connect.java.calendar import CUTOVER_DAY
from connectors.jdbc.dialects.types import timestamp_from_ns, to_legacy_day, wall_to_instant_ns
from connectors.jdbc.options import Calendar, Granularity, ReadOptions

ToList = Callable[[Any], list[Any]]

_UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_FIRST_DAY = 1 - EPOCH_ORDINAL
_LAST_DAY = dt.date.max.toordinal() - EPOCH_ORDINAL
INFINITY = (1 << 63) - 1
"""DuckDB's infinite timestamps as numbers, positive or negative. Calendars do not change them."""
_NS_PER_DAY = 86_400_000_000_000


def dates(options: ReadOptions) -> ToList:
    """Returns a converter of days since 1970 to Connect's Date. Infinity remains DuckDB's number for it: the day furthest from
    1970."""
    fromordinal = dt.date.fromordinal
    legacy = options.calendar is Calendar.LEGACY
    first = CUTOVER_DAY if legacy else _FIRST_DAY

    def far(day: int) -> Any:
        return date_of(to_legacy_day(day) if legacy and abs(day) != 2_147_483_647 else day)

    def convert(column: Any) -> list[Any]:
        days = column.view(pa.int32()).to_pylist()
        if _all_within(days, first, _LAST_DAY):
            return [None if day is None else fromordinal(day + EPOCH_ORDINAL) for day in days]
        return [None if day is None else far(day) for day in days]

    return convert


def timestamps(options: ReadOptions, name: str) -> ToList:
    """Returns a converter of integers of any unit, with or without zone, for ``timestamp.granularity``."""
    of_wall, of_instant = timestamp_from_ns(options, name), timestamp_from_ns(options, name, zoned=True)
    span = dt.timedelta
    logical = options.granularity is Granularity.CONNECT_LOGICAL

    def infinite(value: int, unit: int) -> Any:
        return FarInstant(value * unit // 1_000_000) if logical and abs(value) == INFINITY else None

    def convert(column: Any) -> list[Any]:
        zoned, unit = column.type.tz is not None, _UNIT_NS[column.type.unit]
        values = column.view(pa.int64()).to_pylist()
        if _is_simple(options, zoned) and unit == 1000 and _all_within(values, _FIRST_US, _LAST_US):
            return [None if v is None else EPOCH + span(0, 0, v - v % 1000) for v in values]
        one = of_instant if zoned else of_wall
        return [None if v is None else infinite(v, unit) or one(v * unit) for v in values]

    return convert


_FIRST_US = CUTOVER_DAY * 86_400_000_000
_LAST_US = _LAST_DAY * 86_400_000_000


def _is_simple(options: ReadOptions, zoned: bool) -> bool:
    plain = options.granularity is Granularity.CONNECT_LOGICAL and not options.strict
    return plain and (zoned or options.zone is dt.UTC)


def _all_within(values: list[Any], least: int, most: int) -> bool:
    present = [value for value in values if value is not None] if None in values else values
    return not present or (min(present) >= least and max(present) <= most)


def exact_instants(options: ReadOptions) -> ToList:
    """Returns a converter of timestamps and dates to exact ns since 1970 UTC."""
    zone = options.zone

    def convert(column: Any) -> list[Any]:
        if pa.types.is_date(column.type):
            days = column.view(pa.int32()).to_pylist()
            return [None if day is None else wall_to_instant_ns(day * _NS_PER_DAY, zone) for day in days]
        unit = _UNIT_NS[column.type.unit]
        values = column.view(pa.int64()).to_pylist()
        if column.type.tz is not None or zone is dt.UTC:
            return [None if v is None else v * unit for v in values]
        return [None if v is None else wall_to_instant_ns(v * unit, zone) for v in values]

    return convert
