"""Converts Connect values to the Python values that drivers take, and to exact numbers of days and nanoseconds.

Each function takes a field's :class:`LogicalType` once and returns a converter for its values (never called with None), or
None if values need no conversion. A converter raises DataError, naming ``what`` ("Field price"), for a value that it cannot
convert exactly.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from connect.data.logical import (
    FarInstant,
    bytes_to_decimal,
    date_to_days,
    days_to_date,
)
from connect.data.struct import Struct
from connect.errors import DataError
from connectors.databases.calendar import NS_PER_DAY, NS_PER_SECOND, date_of_epoch_day, epoch_day_of_date
from connectors.jdbc.dialects.logical_types import FieldKind, LogicalType, TemporalForm
from connectors.jdbc.dialects.types import (
    Convert,
    datetime_to_instant_ns,
    instant_to_wall_ns,
    ns_to_time,
    shift_time,
    time_to_ns,
    to_proleptic_day,
    to_proleptic_ns,
    wall_ns_to_datetime,
    wall_to_instant_ns,
)
from connectors.jdbc.options import Calendar, WriteOptions

_UTC = dt.UTC
_GREGORIAN = dt.datetime(1582, 10, 16, tzinfo=_UTC)
_GREGORIAN_START = dt.date(1582, 10, 15)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A geometry as well-known binary, with its spatial reference system if it has one."""

    wkb: bytes
    srid: int | None = None


def to_python(logical: LogicalType, options: WriteOptions, what: str) -> Convert | None:
    """Returns a converter to the Python value that :class:`FieldKind` names."""
    match logical.kind:
        case FieldKind.DECIMAL:
            return _variable_decimal if logical.scale is None else None
        case FieldKind.DATE:
            return to_date(logical, options, what)
        case FieldKind.TIME:
            return to_time(logical, options, what)
        case FieldKind.ZONED_TIME:
            return _zoned_time(what)
        case FieldKind.TIMESTAMP:
            return to_wall(logical, options, what)
        case FieldKind.INSTANT:
            return to_instant(logical, options, what)
        case FieldKind.BITS:
            return _bits(logical.length)
        case FieldKind.GEOMETRY:
            return _geometry
        case FieldKind.ARRAY | FieldKind.MAP | FieldKind.STRUCT:
            return _nested(logical, options, what)
    return None


# --- dates


def to_day(logical: LogicalType, options: WriteOptions, what: str) -> Callable[[Any], int]:
    """Returns a converter of DATE to days since 1970, for any year, in the proleptic calendar."""
    if logical.form is TemporalForm.NUMBER:
        return int
    if logical.form is TemporalForm.TEXT:
        return lambda text: parse_iso_datetime(text, what).day
    legacy = options.calendar is Calendar.LEGACY
    zone = options.date_zone

    def day(value: dt.date | FarInstant) -> int:
        days = date_to_days(value)
        if zone is not _UTC:
            # Confluent's and Aiven's connectors format midnight UTC in date.timezone: a day earlier west of Greenwich.
            days = instant_to_wall_ns(days * NS_PER_DAY, zone) // NS_PER_DAY
        return to_proleptic_day(days) if legacy else days

    return day


def to_date(logical: LogicalType, options: WriteOptions, what: str) -> Callable[[Any], dt.date]:
    """Returns a converter of DATE to a Python date; it rejects years other than 1 to 9999."""
    day = to_day(logical, options, what)

    def date(value: Any) -> dt.date:
        try:
            return days_to_date(day(value))
        except DataError as e:
            raise DataError(f"{what}: {e.message}") from e

    if logical.form is TemporalForm.CONNECT and options.date_zone is _UTC:
        legacy = options.calendar is Calendar.LEGACY
        return lambda value: (
            value if type(value) is dt.date and (not legacy or value >= _GREGORIAN_START) else date(value)
        )  # fmt: skip
    return date


# --- times of day


def to_time_ns(logical: LogicalType, options: WriteOptions, what: str) -> Callable[[Any], int]:
    """Returns a converter of TIME to ns of the day; 24:00 is a whole day."""
    if logical.form is TemporalForm.NUMBER:
        unit = logical.unit_ns

        def checked(value: int) -> int:
            ns = value * unit
            if not 0 <= ns <= NS_PER_DAY:
                raise DataError(f"{what}: {value} is not a time of day")
            return ns

        return checked
    if logical.form is TemporalForm.TEXT:
        return lambda text: parse_iso_time(text, what)[0]
    zone = options.zone
    return lambda value: shift_time(time_to_ns(value), zone, to_utc=False)


def to_time(logical: LogicalType, options: WriteOptions, what: str) -> Convert | None:
    """Returns a converter of TIME to a Python time, END_OF_DAY for 24:00; it rejects values finer than a microsecond."""
    if logical.form is TemporalForm.CONNECT and options.zone is _UTC:
        return None
    ns = to_time_ns(logical, options, what)
    return lambda value: ns_to_time(ns(value), what)


def _zoned_time(what: str) -> Convert:
    def zoned(text: str) -> dt.time:
        ns, offset = parse_iso_time(text, what)
        return ns_to_time(ns, what).replace(tzinfo=dt.timezone(dt.timedelta(seconds=offset or 0)))

    return zoned


# --- timestamps


def to_wall_ns(logical: LogicalType, options: WriteOptions, what: str) -> Callable[[Any], int]:
    """Returns a converter of TIMESTAMP, INSTANT, or DATE for a column without zone: ns since 1970-01-01T00:00 in
    ``db.timezone``."""
    if logical.kind is FieldKind.DATE:
        day = to_day(logical, options, what)
        return lambda value: day(value) * NS_PER_DAY
    if logical.kind is FieldKind.TIMESTAMP:
        return _value_to_ns(logical, options, what)
    zone = options.zone
    instant = _value_to_ns(logical, options, what)
    if logical.form is not TemporalForm.CONNECT or options.calendar is not Calendar.LEGACY:
        return lambda value: instant_to_wall_ns(instant(value), zone)
    return lambda value: to_proleptic_ns(instant_to_wall_ns(instant(value), zone))


def to_instant_ns(logical: LogicalType, options: WriteOptions, what: str) -> Callable[[Any], int]:
    """The same for a column with a zone: ns since 1970 UTC. Values without a zone are in ``db.timezone``."""
    zone = options.zone
    if logical.kind is not FieldKind.INSTANT:
        wall = to_wall_ns(logical, options, what)
        return lambda value: wall_to_instant_ns(wall(value), zone)
    instant = _value_to_ns(logical, options, what)
    if logical.form is not TemporalForm.CONNECT or options.calendar is not Calendar.LEGACY:
        return instant
    return lambda value: to_proleptic_ns(instant(value))


def to_wall(logical: LogicalType, options: WriteOptions, what: str) -> Callable[[Any], dt.datetime]:
    """Like :func:`to_wall_ns`, as a naive datetime; rejects values finer than a microsecond and years other than 1 to 9999."""
    ns = to_wall_ns(logical, options, what)
    if logical.form is not TemporalForm.CONNECT or logical.kind is not FieldKind.INSTANT or options.zone is not _UTC:
        return lambda value: wall_ns_to_datetime(ns(value), what)

    def plain(value: Any) -> dt.datetime:
        if value.__class__ is dt.datetime and value.tzinfo is _UTC and value >= _GREGORIAN:
            return value.replace(tzinfo=None)
        return wall_ns_to_datetime(ns(value), what)

    return plain


def to_instant(logical: LogicalType, options: WriteOptions, what: str) -> Callable[[Any], dt.datetime]:
    """Like :func:`to_instant_ns`, as a datetime in UTC."""
    ns = to_instant_ns(logical, options, what)

    def aware(value: Any) -> dt.datetime:
        return wall_ns_to_datetime(ns(value), what).replace(tzinfo=_UTC)

    if logical.form is not TemporalForm.CONNECT or logical.kind is not FieldKind.INSTANT:
        return aware
    return lambda value: (
        value if value.__class__ is dt.datetime and value.tzinfo is _UTC and value >= _GREGORIAN else aware(value)
    )  # fmt: skip


def _value_to_ns(logical: LogicalType, options: WriteOptions, what: str) -> Callable[[Any], int]:
    """Returns a converter to ns without applying a zone: of a wall time for TIMESTAMP, of an instant for INSTANT."""
    if logical.form is TemporalForm.NUMBER:
        unit = logical.unit_ns
        return lambda value: value * unit
    if logical.form is TemporalForm.TEXT:
        return _from_text(logical, options, what)

    def connect(value: dt.datetime | FarInstant) -> int:
        if isinstance(value, FarInstant):
            return value.millis * 1_000_000
        if value.tzinfo is None:
            raise DataError(f"{what}: timestamp {value} has no time zone; give it one (UTC)")
        return datetime_to_instant_ns(value)

    return connect


def _from_text(logical: LogicalType, options: WriteOptions, what: str) -> Callable[[str], int]:
    unit, zone = logical.unit_ns, options.zone

    def parsed(text: str) -> int:
        if unit and text.lstrip("-").isdecimal():
            return int(text) * unit  # timestamp.fields.list: the format of timestamp.granularity=micros_string
        moment = parse_iso_datetime(text, what)
        wall = moment.wall
        if logical.kind is FieldKind.TIMESTAMP:
            return wall
        return wall_to_instant_ns(wall, zone) if moment.offset is None else wall - moment.offset * NS_PER_SECOND

    return parsed


@dataclass(frozen=True, slots=True)
class IsoDateTime:
    """A parsed ISO-8601 text: days since 1970, ns of that day, and the UTC offset in seconds, if any."""

    day: int
    ns: int = 0
    offset: int | None = None

    @property
    def wall(self) -> int:
        return self.day * NS_PER_DAY + self.ns


_DATE = r"([+-]?\d{4,9})-(\d\d)-(\d\d)"
_CLOCK = r"(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
_OFFSET = r"(Z|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?"
_TIME_TEXT = re.compile(_CLOCK + _OFFSET)
_MOMENT_TEXT = re.compile(f"{_DATE}(?:[T ]{_CLOCK})?{_OFFSET}")


def parse_iso_datetime(text: str, what: str) -> IsoDateTime:
    """Parses a date or timestamp, with T or a space as separator, with or without an offset. Raises DataError for other text."""
    match = _MOMENT_TEXT.fullmatch(text)
    if match is None:
        raise DataError(f"{what}: {text!r} is not an ISO-8601 date or timestamp")
    year, month, day, *clock, offset = match.groups()
    number = epoch_day_of_date(int(year), int(month), int(day))
    if date_of_epoch_day(number) != (int(year), int(month), int(day)):
        raise DataError(f"{what}: {text!r} is not a date")
    return IsoDateTime(number, _time_of_day_ns(clock, text, what) if clock[0] is not None else 0, _offset_seconds(offset))


def parse_iso_time(text: str, what: str) -> tuple[int, int | None]:
    """Parses a time of day into ns of the day and the UTC offset in seconds, if any. Raises DataError for other text."""
    match = _TIME_TEXT.fullmatch(text)
    if match is None:
        raise DataError(f"{what}: {text!r} is not an ISO-8601 time")
    *clock, offset = match.groups()
    return _time_of_day_ns(clock, text, what), _offset_seconds(offset)


def _time_of_day_ns(clock: list[Any], text: str, what: str) -> int:
    hours, minutes, seconds = int(clock[0]), int(clock[1]), int(clock[2] or 0)
    ns = ((hours * 60 + minutes) * 60 + seconds) * NS_PER_SECOND + int((clock[3] or "0").ljust(9, "0"))
    if minutes > 59 or seconds > 59 or ns > NS_PER_DAY:
        raise DataError(f"{what}: {text!r} is not a time of day")
    return ns


def _offset_seconds(text: str | None) -> int | None:
    if text is None or text == "Z":
        return None if text is None else 0
    digits = text[1:].replace(":", "").ljust(6, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:])
    return -seconds if text[0] == "-" else seconds


# --- numbers, bits, geometries, nested values


def _variable_decimal(value: Struct) -> Decimal:
    return bytes_to_decimal(value.get("value"), value.get("scale"))


def _bits(length: int | None) -> Convert:
    def bits(value: bytes) -> str:
        # Debezium's Bits are little-endian.
        text = format(int.from_bytes(value, "little"), "b")
        return text.zfill(length if length is not None else 8 * len(value))

    return bits


def _geometry(value: Struct) -> Geometry:
    wkb = value.get("wkb")
    srid = value.get("srid") if value.schema.field("srid") is not None else None
    return Geometry(bytes(wkb), srid)


def _nested(logical: LogicalType, options: WriteOptions, what: str) -> Convert | None:
    if logical.kind is FieldKind.STRUCT:
        return _struct(logical, options, what)
    assert logical.element is not None
    element = to_python(logical.element, options, what)
    if logical.kind is FieldKind.ARRAY:
        if element is None:
            return None
        each: Convert = element
        return lambda values: [None if value is None else each(value) for value in values]
    assert logical.key is not None
    key = to_python(logical.key, options, what)
    if key is None and element is None:
        return None
    name, member = key or _identity, element or _identity
    return lambda values: {name(k): None if value is None else member(value) for k, value in values.items()}


def _identity(value: Any) -> Any:
    return value


def _struct(logical: LogicalType, options: WriteOptions, what: str) -> Convert:
    members = [
        (name, to_python(member, options, f"{what}.{name}") or _identity) for name, member in logical.members
    ]  # fmt: skip

    def struct(value: Struct) -> dict[str, Any]:
        return {
            name: None if part is None else convert(part)
            for (name, convert), part in zip(members, value.values, strict=True)
        }  # fmt: skip

    return struct
