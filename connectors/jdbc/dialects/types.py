"""Schemas of JDBC types, and the conversion of dates and times to Connect values, shared by all sources.

Pure functions. A *wall time* is a local time (a timestamp without zone); with a zone it is an instant. Both are counted in whole
nanoseconds since 1970-01-01T00:00, wall times as if they were in UTC.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final

from connect.data.logical import (
    DECIMAL,
    END_OF_DAY,
    EPOCH,
    EPOCH_ORDINAL,
    FarInstant,
    date_of,
    instant_of,
    timestamp_schema,
)
from connect.data.schema import Schema, Type
from connect.errors import DataError
from connect.java.calendar import CUTOVER_DAY, date_of_day, day_of_date
from connectors.databases.calendar import NS_PER_DAY, NS_PER_SECOND, date_of_epoch_day, epoch_day_of_date, format_time_ns
from connectors.jdbc.options import Calendar, Granularity, NumericMapping, ReadOptions

PRECISION_PARAMETER: Final = "connect.decimal.precision"
UNSET_SCALE: Final = -127
"""The scale that Oracle reports for a NUMBER without one; such columns are read with scale 127."""

_LOWEST_INTEGER_SCALE: Final = -84
_NAIVE_EPOCH = EPOCH.replace(tzinfo=None)
_GREGORIAN_START = dt.date(1582, 10, 15)
_GREGORIAN_START_NS = CUTOVER_DAY * NS_PER_DAY

Convert = Callable[[Any], Any]


# --- numbers


def primitive_schema(type: Type, optional: bool) -> Schema:
    """Returns the schema of a primitive type: always the same object."""
    plain: Schema = getattr(Schema, f"OPTIONAL_{type.name}" if optional else type.name)
    return plain


_WIDER: Final = {8: Type.INT16, 16: Type.INT32, 32: Type.INT64, 64: Type.INT64}
_SAME: Final = {8: Type.INT8, 16: Type.INT16, 32: Type.INT32, 64: Type.INT64}


def integer_schema(bits: int, optional: bool, *, signed: bool = True) -> Schema:
    """Returns the schema of an integer column of 8, 16, 32, or 64 bits. Unsigned columns get the next wider type; 64 bits have
    none, so the caller must reject values that do not fit."""
    return primitive_schema((_SAME if signed else _WIDER)[bits], optional)


def integer_type_for_precision(precision: int) -> Type:
    """Returns the narrowest type that Confluent's and Aiven's connectors use for a precision."""
    if precision > 9:
        return Type.INT64
    if precision > 4:
        return Type.INT32
    return Type.INT16 if precision > 2 else Type.INT8


def decimal_schema(precision: int | None, scale: int, optional: bool, options: ReadOptions) -> Schema:
    """Returns a Decimal schema as Confluent's and Aiven's connectors do; Confluent's also has the column's precision."""
    scale = 127 if scale == UNSET_SCALE else scale
    parameters = {"scale": str(scale)}
    if precision is not None and options.decimal_precision:
        parameters[PRECISION_PARAMETER] = str(precision)
    return Schema(Type.BYTES, optional=optional, name=DECIMAL, version=1, parameters=parameters)


def numeric_schema(precision: int, scale: int, optional: bool, options: ReadOptions) -> Schema:
    """Returns the schema of a NUMERIC column (DECIMAL is always :func:`decimal_schema`)."""
    mapping = options.numeric
    if mapping is NumericMapping.PRECISION_ONLY:
        if scale == 0 and precision < 19:
            return primitive_schema(integer_type_for_precision(precision), optional)
    elif mapping is not NumericMapping.NONE:
        if precision < 19 and _LOWEST_INTEGER_SCALE <= scale <= 0:
            return primitive_schema(integer_type_for_precision(precision), optional)
        if scale > 0 and (precision < 19 or mapping is NumericMapping.BEST_FIT_EAGER_DOUBLE):
            return primitive_schema(Type.FLOAT64, optional)
    return decimal_schema(precision, scale, optional, options)


EXACT: Final = Context(prec=100_000, traps=[Inexact, InvalidOperation])
"""Arithmetic that raises, as ArithmeticError, instead of rounding."""


def exact_rescaler(scale: int, column: str) -> Callable[[Decimal], Decimal]:
    """Returns a function that rescales decimals to a schema's scale and rejects those that would change (promise 8)."""
    unit = Decimal((0, (1,), -scale))
    quantize = EXACT.quantize

    def scaled(value: Decimal) -> Decimal:
        try:
            if value.is_finite():
                return quantize(value, unit)
        except Inexact as e:
            raise DataError(f"Column {column}: {value} has more than the {scale} decimal places of its schema") from e
        raise DataError(f"Column {column}: {value} is not a number that Connect's Decimal can represent")

    return scaled


def integer_converter(type: Type, column: str) -> Convert:
    """Returns a converter for a NUMERIC column that ``numeric.mapping`` reads as integers; it rejects other values."""
    bits = {Type.INT8: 7, Type.INT16: 15, Type.INT32: 31, Type.INT64: 63}[type]
    most = 1 << bits

    def whole(value: Any) -> int:
        number = int(value)
        if number != value:
            raise DataError(f"Column {column}: {value} is not a whole number, but numeric.mapping reads this column as integers")
        if not -most <= number < most:
            raise DataError(f"Column {column}: {number} does not fit {type.value}")
        return number

    return whole


# --- calendars


def to_legacy_day(day: int) -> int:
    """Converts a day of the proleptic calendar to the day of the same date in ``java.util.GregorianCalendar``, which is later for
    dates before 15 October 1582."""
    return day if day >= CUTOVER_DAY else day_of_date(*date_of_epoch_day(day))


def to_proleptic_day(day: int) -> int:
    """The reverse of :func:`to_legacy_day`."""
    return day if day >= CUTOVER_DAY else epoch_day_of_date(*date_of_day(day))


def to_connect_date(value: dt.date, calendar: Calendar) -> dt.date | FarInstant:
    """Converts a DATE to Connect's Date."""
    if calendar is Calendar.PROLEPTIC_GREGORIAN or value >= _GREGORIAN_START:
        return value
    return date_of(to_legacy_day(value.toordinal() - EPOCH_ORDINAL))


def date_converter(options: ReadOptions) -> Convert:
    """Returns a converter of DATE to Connect's Date. ``db.timezone`` does not apply: a DATE has no zone."""
    return lambda value: to_connect_date(value, options.calendar)


def _to_legacy_ns(ns: int) -> int:
    if ns >= _GREGORIAN_START_NS:
        return ns
    day, rest = divmod(ns, NS_PER_DAY)
    return to_legacy_day(day) * NS_PER_DAY + rest


def to_proleptic_ns(ns: int) -> int:
    """Converts an instant of Java's hybrid calendar to the instant of the same date and time in the proleptic calendar."""
    if ns >= _GREGORIAN_START_NS:
        return ns
    day, rest = divmod(ns, NS_PER_DAY)
    return to_proleptic_day(day) * NS_PER_DAY + rest


# --- instants and wall times


def datetime_to_wall_ns(value: dt.datetime) -> int:
    """Converts a naive datetime to ns since 1970-01-01T00:00 of the same clock."""
    since = value - _NAIVE_EPOCH
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000


def datetime_to_instant_ns(value: dt.datetime) -> int:
    """Converts an aware datetime to ns since 1970 UTC."""
    since = value - EPOCH
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000


def wall_to_utc(value: dt.datetime, zone: dt.tzinfo) -> dt.datetime:
    """Converts a wall time in a zone to UTC. As in Java, an hour that occurs twice means the second one, and a skipped hour
    continues the hour before it."""
    if zone is dt.UTC:
        return value.replace(tzinfo=dt.UTC)
    try:
        return (value - _offset(value, zone)).replace(tzinfo=dt.UTC)
    except OverflowError as e:
        raise DataError(f"Timestamp {value} in {zone} is outside of the years 1 to 9999 in UTC") from e


def utc_offset_ns(wall: int, zone: dt.tzinfo) -> int:
    """Returns the UTC offset of a zone at a wall time. Years beyond Python's range have the offset of the nearest year within
    it."""
    if zone is dt.UTC:
        return 0
    seconds = min(max(wall // NS_PER_SECOND, -62_135_510_400), 253_402_214_400)
    return round(_offset(_NAIVE_EPOCH + dt.timedelta(seconds=seconds), zone).total_seconds()) * NS_PER_SECOND


def _offset(value: dt.datetime, zone: dt.tzinfo) -> dt.timedelta:
    # If they differ, the smaller offset is the later instant: the second of two equal hours or, in a gap, the time before it.
    both = [value.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1)]
    return min(offset for offset in both if offset is not None)


def wall_to_instant_ns(wall: int, zone: dt.tzinfo) -> int:
    """Converts a wall time in a zone to ns since 1970 UTC."""
    return wall - utc_offset_ns(wall, zone)


def instant_to_wall_ns(ns: int, zone: dt.tzinfo) -> int:
    """Converts an instant to the wall time in a zone."""
    if zone is dt.UTC:
        return ns
    seconds = min(max(ns // NS_PER_SECOND, -62_135_510_400), 253_402_214_400)
    offset = (EPOCH + dt.timedelta(seconds=seconds)).astimezone(zone).utcoffset()
    assert offset is not None
    return ns + round(offset.total_seconds()) * NS_PER_SECOND


def wall_ns_to_datetime(wall: int, what: str) -> dt.datetime:
    """Converts a wall time to a naive datetime. Raises DataError if it is finer than a microsecond or outside the years 1 to
    9999; ``what`` names the value in the message ("Field created")."""
    micros, finer = divmod(wall, 1000)
    if finer:
        raise DataError(f"{what}: {format_wall_ns(wall, 9)} is finer than the microseconds that the column can hold")
    try:
        return _NAIVE_EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError as e:
        raise DataError(f"{what}: {format_wall_ns(wall, 6)} is outside of the years 1 to 9999") from e


def format_wall_ns(wall: int, digits: int, separator: str = "T") -> str:
    """Formats a wall time as ``1999-12-31T23:59:59.123``, truncated to that many fractional digits (0: no point)."""
    day, rest = divmod(wall, NS_PER_DAY)
    year, month, day_of_month = date_of_epoch_day(day)
    date = f"{'-' if year < 0 else ''}{abs(year):04d}-{month:02d}-{day_of_month:02d}"
    return f"{date}{separator}{format_time_ns(rest, digits)}"


# --- timestamps and times for Connect


def timestamp_schema_for(options: ReadOptions, optional: bool) -> Schema:
    """Returns the schema of a timestamp column under ``timestamp.granularity``."""
    match options.granularity:
        case Granularity.CONNECT_LOGICAL:
            return timestamp_schema(optional=optional)
        case Granularity.MICROS_LONG | Granularity.NANOS_LONG:
            return primitive_schema(Type.INT64, optional)
    return primitive_schema(Type.STRING, optional)


def submillisecond_error(shown: object, column: str) -> DataError:
    return DataError(
        f"Column {column}: {shown} is finer than a millisecond, which Connect's types truncate; conversion.strict=true forbids "
        "that (timestamp.granularity=micros_long preserves more of timestamps)"
    )


def timestamp_from_ns(options: ReadOptions, column: str, *, zoned: bool = False) -> Callable[[int], Any]:
    """Returns a converter from ns (of a wall time, or of an instant if ``zoned``) to a value of :func:`timestamp_schema_for`."""
    zone = options.zone
    legacy = options.calendar is Calendar.LEGACY
    strict = options.strict
    granularity = options.granularity
    plain = zoned or zone is dt.UTC

    def instant(ns: int) -> int:
        if legacy and ns < _GREGORIAN_START_NS:
            ns = _to_legacy_ns(ns)
        return ns if plain else wall_to_instant_ns(ns, zone)

    def logical(ns: int) -> Any:
        at = instant(ns)
        if strict and at % 1_000_000:
            raise submillisecond_error(format_wall_ns(ns, 9), column)
        return instant_of(at // 1_000_000)

    def nanos(ns: int) -> int:
        at = instant(ns)
        if not -(1 << 63) <= at < 1 << 63:
            raise DataError(
                f"Column {column}: {format_wall_ns(ns, 9)} in ns since 1970 does not fit 64 bits (years 1677 to 2262)"
            )
        return at

    def iso(digits: int) -> Callable[[int], str]:
        return lambda ns: format_wall_ns(instant_to_wall_ns(ns, zone) if zoned else ns, digits)

    match granularity:
        case Granularity.CONNECT_LOGICAL:
            return logical
        case Granularity.MICROS_LONG:
            return lambda ns: instant(ns) // 1000
        case Granularity.MICROS_STRING:
            return lambda ns: str(instant(ns) // 1000)
        case Granularity.NANOS_LONG:
            return nanos
        case Granularity.NANOS_STRING:
            return lambda ns: str(instant(ns))
        case Granularity.MICROS_ISO:
            return iso(6)
    return iso(9)


def timestamp_from_datetime(options: ReadOptions, column: str, *, zoned: bool = False) -> Callable[[dt.datetime], Any]:
    """Like :func:`timestamp_from_ns`, for a driver's datetimes: naive, or aware if ``zoned``."""
    from_ns = timestamp_from_ns(options, column, zoned=zoned)
    to_ns = datetime_to_instant_ns if zoned else datetime_to_wall_ns
    if options.granularity is not Granularity.CONNECT_LOGICAL:
        return lambda value: from_ns(to_ns(value))
    zone = options.zone
    utc = dt.UTC
    first = dt.datetime(1582, 10, 16, tzinfo=utc) if zoned else dt.datetime(1582, 10, 16)

    def logical(value: dt.datetime) -> Any:
        if value < first:
            return from_ns(to_ns(value))
        finer = value.microsecond % 1000
        if finer:
            if options.strict:
                raise submillisecond_error(value, column)
            value = value.replace(microsecond=value.microsecond - finer)
        if zoned:
            return value if value.tzinfo is utc else value.astimezone(utc)
        return value.replace(tzinfo=utc) if zone is utc else wall_to_utc(value, zone)

    return logical


def time_to_ns(value: dt.time) -> int:
    """Converts a time without zone to ns of the day."""
    if value is END_OF_DAY:
        return NS_PER_DAY
    return ((value.hour * 3600 + value.minute * 60 + value.second) * 1_000_000 + value.microsecond) * 1000


def ns_to_time(ns: int, what: str) -> dt.time:
    """Converts ns of the day to a time, END_OF_DAY for a whole day. Raises DataError if it is finer than a microsecond or
    longer."""
    if ns == NS_PER_DAY:
        return END_OF_DAY
    if not 0 <= ns < NS_PER_DAY:
        raise DataError(f"{what}: {ns} ns is not a time of day")
    if ns % 1000:
        raise DataError(f"{what}: {format_time_ns(ns, 9)} is finer than the microseconds that the column can hold")
    seconds, fraction = divmod(ns, NS_PER_SECOND)
    return dt.time(seconds // 3600, seconds // 60 % 60, seconds % 60, fraction // 1000)


def shift_time(ns: int, zone: dt.tzinfo, *, to_utc: bool) -> int:
    """Converts a time of day between ``db.timezone`` and UTC as on 1 January 1970, as Confluent's and Aiven's connectors do. It
    wraps at midnight, where those connectors fail."""
    if zone is dt.UTC or ns == NS_PER_DAY:
        return ns
    offset = utc_offset_ns(0, zone)
    return (ns - offset if to_utc else ns + offset) % NS_PER_DAY


def time_from_ns(options: ReadOptions, column: str) -> Callable[[int], dt.time]:
    """Returns a converter from ns of the day to Connect's Time."""

    def logical(ns: int) -> dt.time:
        if ns % 1_000_000 and options.strict:
            raise submillisecond_error(format_time_ns(ns, 9), column)
        return ns_to_time(shift_time(ns - ns % 1_000_000, options.zone, to_utc=True), f"Column {column}")

    return logical


def time_from_time(options: ReadOptions, column: str) -> Callable[[dt.time], dt.time]:
    """Returns a converter from a driver's time without zone to Connect's Time."""
    from_ns = time_from_ns(options, column)
    plain = options.zone is dt.UTC
    return lambda value: value if plain and not value.microsecond else from_ns(time_to_ns(value))
