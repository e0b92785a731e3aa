"""Dates, times, and intervals as structs of their parts (``time.precision.mode=structured``), which hold all values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from connectors.cdc.schema.column_type import ColumnType
from connectors.cdc.schema.structured_types import (
    STRUCTURED_DATE,
    STRUCTURED_DURATION,
    STRUCTURED_TIME,
    STRUCTURED_TIMESTAMP,
    STRUCTURED_ZONED_TIME,
    STRUCTURED_ZONED_TIMESTAMP,
    structured_type,
)
from connectors.databases.postgresql.dates import parse_timetz
from connectors.postgres.config import TypeSettings
from connectors.postgres.types.temporal import interval_parts

_NS = 1_000_000_000
_MOST_DIGITS = 6
_INFINITIES = {"infinity": "POSITIVE_INFINITY", "-infinity": "NEGATIVE_INFINITY"}


def _precision(typmod: int) -> int:
    return typmod if 0 <= typmod <= _MOST_DIGITS else _MOST_DIGITS


def _date_parts(text: str, *, is_bc: bool) -> list[int]:
    year, month, day = text.split("-")
    return [1 - int(year) if is_bc else int(year), int(month), int(day)]


def _time_parts(text: str) -> list[int]:
    """The parts of a time of a day, whose end is 24:00."""
    clock, _, fraction = text.partition(".")
    hour, minute, second = clock.split(":")
    return [int(hour), int(minute), int(second), int(fraction.ljust(9, "0")) if fraction else 0]


def _moment_parts(text: str) -> list[int]:
    """The parts of a timestamp, without its zone."""
    date, _, rest = text.partition(" ")
    time, _, era = rest.partition(" ")
    return [*_date_parts(date, is_bc=bool(era)), *_time_parts(time.removesuffix("+00"))]


def date() -> ColumnType:
    def parts(text: str) -> list[Any]:
        if (infinite := _INFINITIES.get(text)) is not None:
            return [None, None, None, infinite]
        return [*_date_parts(text.removesuffix(" BC"), is_bc=text.endswith(" BC")), None]

    return structured_type(STRUCTURED_DATE, parts, "1970-01-01")


def time(typmod: int, settings: TypeSettings) -> ColumnType:
    mapped = structured_type(STRUCTURED_TIME, lambda text: [*_time_parts(text), _precision(typmod)], "00:00:00")
    return _without_24_00(mapped) if "time_24_00" in settings.restored else mapped


def _without_24_00(mapped: ColumnType) -> ColumnType:
    """The mapping whose end of a day is null where the column may be null, as in Debezium's events."""
    decode, is_optional = mapped.decode, mapped.schema.optional
    return replace(
        mapped,
        decode=lambda text: None if is_optional and text.startswith("24:") else decode(text),
        rebuild=lambda schema: _without_24_00(mapped.under(schema)),
    )


def timestamp(typmod: int) -> ColumnType:
    def parts(text: str) -> list[Any]:
        if (infinite := _INFINITIES.get(text)) is not None:
            return [*[None] * 7, infinite, _precision(typmod)]
        return [*_moment_parts(text), None, _precision(typmod)]

    return structured_type(STRUCTURED_TIMESTAMP, parts, "1970-01-01 00:00:00")


def timestamptz(typmod: int) -> ColumnType:
    """timestamptz in UTC."""

    def parts(text: str) -> list[Any]:
        if (infinite := _INFINITIES.get(text)) is not None:
            return [*[None] * 9, infinite, _precision(typmod)]
        return [*_moment_parts(text), 0, "Z", None, _precision(typmod)]

    return structured_type(STRUCTURED_ZONED_TIMESTAMP, parts, "1970-01-01 00:00:00+00")


def timetz(typmod: int) -> ColumnType:
    """timetz with its offset."""

    def parts(text: str) -> list[Any]:
        ns, offset_ns = parse_timetz(text)
        seconds, nanos = divmod(ns, _NS)
        return [seconds // 3600, seconds // 60 % 60, seconds % 60, nanos, offset_ns // _NS, _precision(typmod)]

    return structured_type(STRUCTURED_ZONED_TIME, parts, "00:00:00+00")


def interval(typmod: int) -> ColumnType:
    precision = _precision(-1 if typmod == -1 else typmod & 0xFFFF)

    def parts(text: str) -> list[Any]:
        years, months, days, hours, minutes, sign, micros = interval_parts(text)
        seconds, fraction = divmod(micros, 1_000_000)
        return [years, months, days, hours, minutes, sign * seconds, sign * fraction * 1000, precision]

    return structured_type(STRUCTURED_DURATION, parts, "PT0S")
