"""Dates and timestamps as stored in SQLite: integers are ms since 1970 UTC (as the Java driver writes them), reals are Julian
days, and texts are ISO-8601, in ``db.timezone`` unless they have an offset."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from connect.data.logical import EPOCH, EPOCH_ORDINAL, MILLIS_PER_DAY, FarInstant, date_of
from connect.errors import DataError
from connectors.databases.calendar import NS_PER_DAY, NS_PER_SECOND
from connectors.jdbc.dialects.conversion import parse_iso_datetime
from connectors.jdbc.dialects.types import (
    format_wall_ns,
    instant_to_wall_ns,
    timestamp_from_datetime,
    timestamp_from_ns,
    to_connect_date,
    to_legacy_day,
    wall_to_instant_ns,
)
from connectors.jdbc.options import Calendar, Granularity, ReadOptions
from connectors.jdbc.sql import Bind, Sql

_JULIAN_DAY_OF_1970 = 2_440_587.5
_JULIAN_MS = f"CAST(({{0}} - {_JULIAN_DAY_OF_1970})*86400000.0 + 0.5 AS INTEGER)"
_NS_PER_MS = 1_000_000


def julian_ms(day: float) -> int:
    """Converts a Julian day to ms since 1970, about the precision of a double."""
    # The same steps as in _JULIAN_MS, so that both have the same result.
    return int((day - _JULIAN_DAY_OF_1970) * 86_400_000.0 + 0.5)


def stored_instant_ns(value: Any, zone: dt.tzinfo, what: str) -> int:
    """Converts a stored timestamp to ns since 1970 UTC. Raises DataError for other values."""
    if type(value) is int:
        return value * _NS_PER_MS
    if type(value) is float:
        return julian_ms(value) * _NS_PER_MS
    if type(value) is not str:
        raise DataError(f"{what}: a blob is not a timestamp")
    moment = parse_iso_datetime(value, what)
    return wall_to_instant_ns(moment.wall, zone) if moment.offset is None else moment.wall - moment.offset * NS_PER_SECOND


def timestamp_reader(options: ReadOptions, column: str) -> Callable[[Any], Any]:
    """Returns a converter of stored timestamps for ``timestamp.granularity``."""
    # Numbers were computed with Java's calendar.
    from_instant = timestamp_from_ns(replace(options, calendar=Calendar.PROLEPTIC_GREGORIAN), column, zoned=True)
    from_zoned = timestamp_from_ns(options, column, zoned=True)
    from_wall = timestamp_from_ns(options, column)
    from_naive = timestamp_from_datetime(options, column)
    what = f"Column {column}"
    fromisoformat = dt.datetime.fromisoformat

    def read(value: Any) -> Any:
        if type(value) is not str:
            return from_instant(stored_instant_ns(value, options.zone, what))
        if len(value) in (19, 23, 26) and value[10] in " T" and value[4] == value[7] == "-":
            try:
                plain = fromisoformat(value)
            except ValueError:
                pass
            else:
                if plain.tzinfo is None:
                    return from_naive(plain)
        moment = parse_iso_datetime(value, what)
        if moment.offset is None:
            return from_wall(moment.wall)
        return from_zoned(moment.wall - moment.offset * NS_PER_SECOND)

    return read


def date_reader(options: ReadOptions, column: str) -> Callable[[Any], dt.date | FarInstant]:
    """Returns a converter of stored dates to Connect's Date. It rejects times other than midnight, as Confluent's connector
    does."""
    what = f"Column {column}"
    legacy = options.calendar is Calendar.LEGACY

    def read(value: Any) -> dt.date | FarInstant:
        if type(value) is str:
            if len(value) == 10 and value[4] == value[7] == "-":
                try:
                    return to_connect_date(dt.date.fromisoformat(value), options.calendar)
                except ValueError:
                    pass
            moment = parse_iso_datetime(value, what)
            day, rest = moment.day, moment.ns
            day = to_legacy_day(day) if legacy else day
        else:
            day, rest = divmod(stored_instant_ns(value, dt.UTC, what), NS_PER_DAY)
        if rest:
            raise DataError(f"{what}: {value!r} is not midnight, so it is not a date; declare the column TIMESTAMP")
        return date_of(day)

    return read


Column = Callable[[Sequence[Any]], list[Any]]


def timestamps(options: ReadOptions) -> Mapping[type, Column]:
    """Returns fast converters for columns of stored timestamps of one type; only for Connect's Timestamp."""
    if options.granularity is not Granularity.CONNECT_LOGICAL:
        return {}
    span = dt.timedelta
    return {int: lambda values: [None if v is None else EPOCH + span(0, 0, 0, v) for v in values]}


def dates(options: ReadOptions) -> Mapping[type, Column]:
    """Returns fast converters for columns of stored dates of one type."""
    fromordinal, fromisoformat, calendar = dt.date.fromordinal, dt.date.fromisoformat, options.calendar

    def of_millis(values: Sequence[Any]) -> list[Any]:
        if any(v is not None and v % MILLIS_PER_DAY for v in values):
            raise ValueError(values)
        return [None if v is None else fromordinal(v // MILLIS_PER_DAY + EPOCH_ORDINAL) for v in values]

    def of_text(values: Sequence[Any]) -> list[Any]:
        if any(v is not None and (len(v) != 10 or v[4] != "-" or v[7] != "-") for v in values):
            raise ValueError(values)
        return [None if v is None else to_connect_date(fromisoformat(v), calendar) for v in values]

    return {int: of_millis, str: of_text}


def comparable_sql(column: str, ns: int, zone: dt.tzinfo) -> Sql:
    """Returns an instant to compare a quoted column with, in the storage form of each row's value.

    The same instant can be written as several texts, so texts are not compared with each other: a text for this instant is
    compared with itself, an earlier one with a blob (which sorts after all texts), a later one with the empty text. Julian
    days are compared in the same way. Texts that end in an offset other than Z cannot be compared.
    """
    wall = format_wall_ns(instant_to_wall_ns(ns, zone), 9, " ")
    utc = format_wall_ns(ns, 9, " ")
    text = f"replace({column},'T',' ')"
    bare = f"rtrim({text},'Z')"
    seconds = f"CASE length({bare}) WHEN 10 THEN {bare}||' 00:00:00' WHEN 16 THEN {bare}||':00' ELSE {bare} END"
    whole = f"substr({seconds}||CASE WHEN instr({bare},'.') THEN '' ELSE '.' END||'000000000',1,29)"
    bound = Sql(f"CASE substr({column},-1) WHEN 'Z' THEN ", Bind(utc), " ELSE ", Bind(wall), " END")
    same = Sql(f"CASE WHEN {whole} = ", bound, f" THEN {column} WHEN {whole} < ", bound, " THEN x'' ELSE '' END")
    millis = Bind(ns // _NS_PER_MS if ns % _NS_PER_MS == 0 else ns / _NS_PER_MS)
    of_real = _JULIAN_MS.format(column)
    real = Sql(f"CASE WHEN {of_real} = ", millis, f" THEN {column} WHEN {of_real} < ", millis, " THEN '' ELSE -9e999 END")
    return Sql(f"(CASE typeof({column}) WHEN 'text' THEN ", same, " WHEN 'real' THEN ", real, " ELSE ", millis, " END)")
