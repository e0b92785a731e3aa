"""DATE, DATETIME, TIMESTAMP, and TIME.

A query returns texts such as ``2024-02-29 12:34:56.5``, TIMESTAMP in the time zone of its session, which must be UTC. The log has
packed integers. Dates with a year, month, or day of zero are null where the column may be null; otherwise they are the default of
the column, or 1970, as in Debezium. Other dates that do not exist (2024-02-30, with ALLOW_INVALID_DATES) are refused. Only
``time.precision.mode=structured`` keeps both.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from connect.data.logical import END_OF_DAY, EPOCH, EPOCH_ORDINAL, date_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connectors.cdc.schema.column_type import ColumnType, Decoder, Inline
from connectors.cdc.schema.structured_types import (
    STRUCTURED_DATE,
    STRUCTURED_DURATION,
    STRUCTURED_TIMESTAMP,
    STRUCTURED_ZONED_TIMESTAMP,
)
from connectors.mysql.binlog import ColumnReader
from connectors.mysql.binlog.temporal import date_fields, datetime_fields, datetime_text, time_text
from connectors.mysql.types.column_type import MySqlColumnType, named_decoder, refuse_value
from connectors.mysql.types.config import MySqlTypeSettings

_DAY_S: Final = 86_400
_DAY_US: Final = _DAY_S * 1_000_000
_MAX_INT32, _MAX_INT64 = (1 << 31) - 1, (1 << 63) - 1
_NAIVE_EPOCH = EPOCH.replace(tzinfo=None)
_KNOWN_VALUES: Final = 512
"""How many dates, or seconds, of a column are kept: rows that follow each other often have the same."""
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_DATETIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_TIME = re.compile(r"(-?)(\d+):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")

Fields = tuple[int, int, int, int, int, int, int]
"""Year, month, day, hour, minute, second, microseconds."""


@dataclass(frozen=True, slots=True)
class TemporalColumn:
    """What the conversion of a column's dates and times depends on. ``digits`` are those of the declaration, None without one."""

    name: str
    digits: int | None
    settings: MySqlTypeSettings

    @property
    def places(self) -> int:
        return self.digits or 0


class _Cache(dict[Any, Any]):
    """Values by what they are computed from, as long as there are few."""

    def __init__(self, compute: Callable[[Any], Any], missing: Any = None) -> None:
        super().__init__()
        self._compute = compute
        self.missing = missing

    def __missing__(self, key: Any) -> Any:
        value = self._compute(key)
        if len(self) >= _KNOWN_VALUES:
            self.clear()
        self[key] = value
        return value


def _named(type: Type, name: str) -> Schema:
    return Schema(type, name=f"io.debezium.time.{name}", version=1)


def _missing(schema: Schema, zero: Any) -> Any:
    """The value of a date that is none: 0000-00-00."""
    if schema.optional:
        return None
    return zero if schema.default is None else schema.default


def _day(column: TemporalColumn, year: int, month: int, day: int, shown: Callable[[], str]) -> dt.date | None:
    """Returns the date, in the century that MySQL gives to two digits; None for zeros. Raises DataError for other dates that do
    not exist."""
    if not (year and month and day):
        return None
    if column.settings.adjusts_years and year < 100:
        year += 2000 if year < 70 else 1900
    try:
        return dt.date(year, month, day)
    except ValueError as e:
        raise refuse_value(column.name, shown(), "date; time.precision.mode=structured keeps it as its parts") from e


def _text_fields(column: TemporalColumn, text: str) -> Fields:
    """Returns the parts of a date, or of a date with a time."""
    if (date := _DATE.fullmatch(text)) is not None:
        return int(date[1]), int(date[2]), int(date[3]), 0, 0, 0, 0
    if (found := _DATETIME.fullmatch(text)) is None:
        raise refuse_value(column.name, text, "date or time of MySQL")
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    return year, month, day, hour, minute, second, int((found[7] or "0").ljust(6, "0"))


def _type(
    column: TemporalColumn,
    schema: Schema,
    decode: Decoder,
    zero: Any,
    reader: ColumnReader,
    rebuild: Callable[[Schema], MySqlColumnType],
    inline: Inline = Inline.CALL,
) -> MySqlColumnType:
    text = ColumnType(schema, decode, zero, inline=inline, rebuild=lambda other: rebuild(other).text)
    return MySqlColumnType(text, replace(reader, name=column.name), rebuild)


# --- DATE -----------------------------------------------------------------------------------------------------------------------


def date(column: TemporalColumn, schema: Schema | None = None) -> MySqlColumnType:
    """DATE as ``time.precision.mode`` says."""
    convert: Callable[[dt.date], Any]
    zero: Any
    match column.settings.time_mode:
        case "structured":
            return _structured_date(column, STRUCTURED_DATE if schema is None else schema)
        case "connect":
            plain, zero, convert = date_schema(), dt.date(1970, 1, 1), lambda day: day
        case "isostring":
            plain, zero, convert = _named(Type.STRING, "IsoDate"), "1970-01-01Z", lambda day: f"{day.isoformat()}Z"
        case _:
            plain, zero, convert = _named(Type.INT32, "Date"), 0, lambda day: day.toordinal() - EPOCH_ORDINAL
    schema = plain if schema is None else schema
    missing = _missing(schema, zero)

    def of_fields(year: int, month: int, day: int) -> Any:
        found = _day(column, year, month, day, lambda: f"{year:04d}-{month:02d}-{day:02d}")
        return missing if found is None else convert(found)

    of_text = _Cache(lambda text: of_fields(*_text_fields(column, text)[:3])).__getitem__
    of_packed = _Cache(lambda packed: of_fields(*date_fields(packed))).__getitem__
    return _type(column, schema, of_text, zero, ColumnReader(convert=of_packed), lambda other: date(column, other))


def _structured_date(column: TemporalColumn, schema: Schema) -> MySqlColumnType:
    def of_fields(year: int, month: int, day: int) -> Struct:
        return Struct(schema, [*_kept_date(column, year, month, day), None])

    return _type(
        column,
        schema,
        named_decoder(column.name, lambda text: of_fields(*_text_fields(column, text)[:3])),
        of_fields(1970, 1, 1),
        ColumnReader(convert=lambda packed: of_fields(*date_fields(packed))),
        lambda other: _structured_date(column, other),
    )


def _kept_date(column: TemporalColumn, year: int, month: int, day: int) -> tuple[int, int, int]:
    """The parts of any date; a real one in the century that MySQL gives to two digits."""
    if 0 < year < 100 and column.settings.adjusts_years:
        adjusted = year + (2000 if year < 70 else 1900)
        try:
            dt.date(adjusted, month, day)
        except ValueError:
            return year, month, day
        return adjusted, month, day
    return year, month, day


# --- DATETIME -------------------------------------------------------------------------------------------------------------------

_UNITS: Final = {"Timestamp": 1_000, "MicroTimestamp": 1_000_000, "NanoTimestamp": 1_000_000_000}


def datetime(column: TemporalColumn, schema: Schema | None = None) -> MySqlColumnType:
    """DATETIME as ``time.precision.mode`` says."""
    match column.settings.time_mode:
        case "structured":
            return _structured_timestamp(column, STRUCTURED_TIMESTAMP if schema is None else schema)
        case "connect":
            return _converted_datetime(column, timestamp_schema() if schema is None else schema, _connect_timestamp, EPOCH)
        case "isostring":
            plain = _named(Type.STRING, "IsoTimestamp") if schema is None else schema
            return _converted_datetime(column, plain, _iso_timestamp, "1970-01-01T00:00:00Z")
        case "microseconds":
            name = "MicroTimestamp"
        case "nanoseconds":
            name = "NanoTimestamp"
        case _:
            name = "Timestamp" if column.places <= 3 else "MicroTimestamp"
    schema = _named(Type.INT64, name) if schema is None else schema
    if name == "NanoTimestamp":
        return _converted_datetime(column, schema, lambda moment: _nanoseconds(column, moment), 0)
    return _epoch_datetime(column, schema, _UNITS[name])


def _epoch_datetime(column: TemporalColumn, schema: Schema, unit: int) -> MySqlColumnType:
    """Units per second since 1970, which hold the column's digits."""
    missing = _missing(schema, 0)
    adjusts, fraction_us = column.settings.adjusts_years, 1_000_000 // unit

    def of_seconds(seconds: int) -> Any:
        """Converts a packed datetime without its fraction."""
        moment = _moment(column, datetime_fields(seconds << 24), lambda: datetime_text(seconds << 24, 0))
        return moment if moment is None else _epoch_seconds(moment) * unit

    def decode(text: str) -> Any:
        if text[:2] != "00" or not adjusts:
            try:
                since = dt.datetime.fromisoformat(text) - _NAIVE_EPOCH
            except ValueError:
                pass  # a date that is none
            else:
                return (since.days * _DAY_S + since.seconds) * unit + since.microseconds // fraction_us
        moment = _moment(column, _text_fields(column, text), lambda: text)
        return missing if moment is None else _epoch_seconds(moment) * unit + moment.microsecond // fraction_us

    if not column.places:
        by_second = _Cache(lambda seconds: missing if (found := of_seconds(seconds)) is None else found)
        reader = ColumnReader(convert=by_second.__getitem__, inline="{c}({x} >> 24)", fraction_digits=0)
    else:
        cut = f" // {fraction_us}" if fraction_us > 1 else ""
        inline = f"{{c}}.missing if (t_ := {{c}}[{{x}} >> 24]) is None else t_ + ({{x}} & 0xFFFFFF){cut}"
        reader = ColumnReader(convert=_Cache(of_seconds, missing), inline=inline, fraction_digits=column.places)
    return _type(column, schema, decode, 0, reader, lambda other: _epoch_datetime(column, other, unit))


def _moment(column: TemporalColumn, fields: Fields, shown: Callable[[], str]) -> dt.datetime | None:
    """Returns date and time; None for a date with zeros. Raises DataError if there is no such day."""
    day = _day(column, *fields[:3], shown)
    return None if day is None else dt.datetime(day.year, day.month, day.day, *fields[3:])


def _epoch_seconds(moment: dt.datetime) -> int:
    since = moment - _NAIVE_EPOCH
    return since.days * _DAY_S + since.seconds


def _converted_datetime(
    column: TemporalColumn, schema: Schema, convert: Callable[[dt.datetime], Any], zero: Any
) -> MySqlColumnType:
    missing = _missing(schema, zero)

    def decode(text: str) -> Any:
        moment = _moment(column, _text_fields(column, text), lambda: text)
        return missing if moment is None else convert(moment)

    def of_packed(packed: int) -> Any:
        moment = _moment(column, datetime_fields(packed), lambda: datetime_text(packed, column.places))
        return missing if moment is None else convert(moment)

    reader = ColumnReader(convert=of_packed, fraction_digits=column.places)
    return _type(
        column,
        schema,
        named_decoder(column.name, decode),
        zero,
        reader,
        lambda other: _converted_datetime(column, other, convert, zero),
    )


def _connect_timestamp(moment: dt.datetime) -> dt.datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=dt.UTC)


def _iso_timestamp(moment: dt.datetime) -> str:
    return f"{_without_zeros(moment.isoformat())}Z"


def _without_zeros(text: str) -> str:
    return text.rstrip("0") if "." in text else text


def _nanoseconds(column: TemporalColumn, moment: dt.datetime) -> int:
    value = (_epoch_seconds(moment) * 1_000_000 + moment.microsecond) * 1000
    if not -_MAX_INT64 - 1 <= value <= _MAX_INT64:
        raise refuse_value(column.name, moment.isoformat(" "), "time that fits 64 bits of nanoseconds (1677 to 2262)")
    return value


def _structured_timestamp(column: TemporalColumn, schema: Schema) -> MySqlColumnType:
    def of_fields(year: int, month: int, day: int, hour: int, minute: int, second: int, microsecond: int) -> Struct:
        parts = (*_kept_date(column, year, month, day), hour, minute, second, microsecond * 1000)
        return Struct(schema, [*parts, None, column.digits])

    return _type(
        column,
        schema,
        named_decoder(column.name, lambda text: of_fields(*_text_fields(column, text))),
        of_fields(1970, 1, 1, 0, 0, 0, 0),
        ColumnReader(convert=lambda packed: of_fields(*datetime_fields(packed)), fraction_digits=column.places),
        lambda other: _structured_timestamp(column, other),
    )


# --- TIMESTAMP ------------------------------------------------------------------------------------------------------------------

_EPOCH_TEXT = "1970-01-01T00:00:00Z"


def timestamp(column: TemporalColumn, schema: Schema | None = None) -> MySqlColumnType:
    """TIMESTAMP as ISO-8601 text in UTC with the digits of the column, or as its parts."""
    if column.settings.time_mode == "structured":
        return _structured_zoned_timestamp(column, STRUCTURED_ZONED_TIMESTAMP if schema is None else schema)
    schema = _named(Type.STRING, "ZonedTimestamp") if schema is None else schema
    missing = _missing(schema, _EPOCH_TEXT)
    digits = column.places

    def decode(text: str) -> Any:
        if text.startswith("0000-00-00"):
            return missing
        if _DATETIME.fullmatch(text) is None:
            raise refuse_value(column.name, text, "timestamp of MySQL")
        return f"{text[:10]}T{text[11:]}Z"

    suffix = "." if digits else "Z"

    def of_second(second: int) -> Any:
        # The first TIMESTAMP is one second after 1970: 0 is 0000-00-00.
        return f"{(_NAIVE_EPOCH + dt.timedelta(seconds=second)).isoformat()}{suffix}" if second else missing

    by_second = _Cache(of_second, missing)
    if digits:
        stop = f":{digits - 6}" if digits < 6 else ":"
        # One text is built, not three.
        inline = 'f"{{{c}[{x} // 1000000]}}{{str({x})[-6' + stop + ']}}Z" if {x} else {c}.missing'
        reader = ColumnReader(convert=by_second, inline=inline, fraction_digits=digits)
    else:
        reader = ColumnReader(convert=by_second.__getitem__, inline="{c}({x} // 1000000)", fraction_digits=0)
    return _type(column, schema, decode, _EPOCH_TEXT, reader, lambda other: timestamp(column, other), Inline.UTC_CLOCK)


def _structured_zoned_timestamp(column: TemporalColumn, schema: Schema) -> MySqlColumnType:
    def of_fields(year: int, month: int, day: int, hour: int, minute: int, second: int, microsecond: int) -> Struct:
        return Struct(schema, [year, month, day, hour, minute, second, microsecond * 1000, 0, "Z", None, column.digits])

    def of_microseconds(us: int) -> Struct:
        if not us:
            return of_fields(0, 0, 0, 0, 0, 0, 0)
        moment = _NAIVE_EPOCH + dt.timedelta(microseconds=us)
        return of_fields(*moment.timetuple()[:6], moment.microsecond)

    return _type(
        column,
        schema,
        named_decoder(column.name, lambda text: of_fields(*_text_fields(column, text))),
        of_fields(1970, 1, 1, 0, 0, 0, 0),
        ColumnReader(convert=of_microseconds, fraction_digits=column.places),
        lambda other: _structured_zoned_timestamp(column, other),
    )


# --- TIME -----------------------------------------------------------------------------------------------------------------------


def parse_duration(column: str, text: str) -> int:
    """Returns the microseconds of a TIME, -838:59:59.999999 to 838:59:59.999999."""
    if (found := _TIME.fullmatch(text)) is None:
        raise refuse_value(column, text, "TIME of MySQL")
    sign, hours, minutes, seconds, fraction = found.groups()
    us = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds or 0)) * 1_000_000 + int((fraction or "0").ljust(6, "0"))
    return -us if sign else us


def time(column: TemporalColumn, schema: Schema | None = None) -> MySqlColumnType:
    """TIME as ``time.precision.mode`` says: a duration, positive or negative, which connect and isostring hold up to a day."""
    convert: Callable[[int], Any] | None = None
    inline = ""
    zero: Any = 0
    match column.settings.time_mode:
        case "structured":
            return _structured_time(column, STRUCTURED_DURATION if schema is None else schema)
        case "connect":
            plain, zero, convert = time_schema(), dt.time(0), lambda us: _time_of_day(_of_day(column, us))
        case "isostring":
            plain, zero, convert = _named(Type.STRING, "IsoTime"), "00:00:00Z", lambda us: _iso_time(_of_day(column, us))
        case "nanoseconds":
            plain, convert, inline = _named(Type.INT64, "NanoTime"), lambda us: us * 1000, "{x} * 1000"
        case "adaptive" if column.places <= 3:
            plain, convert = _named(Type.INT32, "Time"), lambda us: _milliseconds(column, us)
        case _:
            plain = _named(Type.INT64, "MicroTime")
    return _time(column, plain if schema is None else schema, convert, inline, zero)


def _structured_time(column: TemporalColumn, schema: Schema) -> MySqlColumnType:
    return _time(column, schema, lambda us: _duration(column, schema, us), "", _duration(column, schema, 0))


def _time(
    column: TemporalColumn, schema: Schema, convert: Callable[[int], Any] | None, inline: str, zero: Any
) -> MySqlColumnType:
    def decode(text: str) -> Any:
        us = parse_duration(column.name, text)
        return us if convert is None else convert(us)

    reader = ColumnReader(convert=None if inline else convert, inline=inline, fraction_digits=column.places)
    return _type(column, schema, decode, zero, reader, lambda other: time(column, other))


def _duration(column: TemporalColumn, schema: Schema, us: int) -> Struct:
    sign, rest = (-1, -us) if us < 0 else (1, us)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = (sign * (seconds // 3600), sign * (seconds // 60 % 60), sign * (seconds % 60), sign * fraction * 1000)
    return Struct(schema, [0, 0, 0, *clock, column.digits])


def _milliseconds(column: TemporalColumn, us: int) -> int:
    value = us // 1000
    if not -_MAX_INT32 - 1 <= value <= _MAX_INT32:
        # Promise 8: Debezium's number is another time.
        what = "time that fits 32 bits of milliseconds (596 hours); set time.precision.mode=adaptive_time_microseconds"
        raise refuse_value(column.name, time_text(us, column.places), what)
    return value


def _of_day(column: TemporalColumn, us: int) -> int:
    if not 0 <= us <= _DAY_US:
        what = f"time of a day, which time.precision.mode={column.settings.time_mode} holds"
        raise refuse_value(column.name, time_text(us, column.places), what)
    return us


def _time_of_day(us: int) -> dt.time:
    if us == _DAY_US:
        return END_OF_DAY
    seconds, fraction = divmod(us, 1_000_000)
    return dt.time(seconds // 3600, seconds // 60 % 60, seconds % 60, fraction // 1000 * 1000)


def _iso_time(us: int) -> str:
    """24:00 is 00:00, as in Debezium."""
    return f"{_without_zeros(time_text(us % _DAY_US, 6 if us % 1_000_000 else 0))}Z"
