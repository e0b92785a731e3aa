"""The form in which values of both sides are compared: equal values have equal forms, whatever stores them.

A form is a text, an integer, or None for null, so empty text, zero, and null differ. The type of the target's column and the
schema of the expected value decide together: an instant is compared as an instant if the column holds instants, and as the stored
number if the column holds numbers. A value that cannot be read in that form is never equal to one that can.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from connect.data import logical
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.verification import ColumnType

Form = str | int | None
Canonical = Callable[[Any], Form]
"""Takes a value that is not null."""

_DEBEZIUM_TIME = "io.debezium.time."
_VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"
_BITS = "io.debezium.data.Bits"
_JSON = "io.debezium.data.Json"
_UNIT_NS = {
    "Time": 1_000_000,
    "MicroTime": 1000,
    "NanoTime": 1,
    "Timestamp": 1_000_000,
    "MicroTimestamp": 1000,
    "NanoTimestamp": 1,
    "MicroDuration": 1000,
    "NanoDuration": 1,
}
_INTEGERS = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)
_DAY_NS = 86_400_000_000_000
_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
_DATE_TEXT = re.compile(r"([+-]?\d{4,})-(\d\d)-(\d\d)( BC)?")
_TIME_TEXT = re.compile(r"(\d{2,}):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?")
_ZONE_TEXT = re.compile(r"(?:Z|([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?)")
_INFINITE = ("infinity", "-infinity")
# The numbers that Debezium writes for infinite timestamps of PostgreSQL, in microseconds and milliseconds.
_INFINITE_NUMBERS = {
    (1 << 63) - 1: "infinity",
    -(1 << 63): "-infinity",
    9_223_372_036_825_200_000: "infinity",
    -9_223_372_036_832_400_000: "-infinity",
}


class ColumnForms:
    """How one column is compared. ``expected`` and ``actual`` take values of each side; ``is_comparable`` is False for types that
    have no common form."""

    __slots__ = ("actual", "expected", "is_comparable", "kind")

    def __init__(self, kind: str, expected: Canonical, actual: Canonical, *, is_comparable: bool = True) -> None:
        self.kind = kind
        self.expected = _or_other(expected)
        self.actual = _or_other(actual)
        self.is_comparable = is_comparable

    def of_expected(self, values: Sequence[Any]) -> list[Form]:
        """Returns the forms of a column of expected values."""
        form = self.expected
        return [None if value is None else form(value) for value in values]

    def of_actual(self, values: Sequence[Any]) -> list[Form]:
        """Returns the forms of a column of the target."""
        form = self.actual
        return [None if value is None else form(value) for value in values]


def _or_other(form: Canonical) -> Canonical:
    """A value that cannot be read in the form is compared by its type and text, which no readable value has."""

    def convert(value: Any) -> Form:
        try:
            return form(value)
        except (ValueError, TypeError, ArithmeticError, AttributeError, LookupError, struct.error):
            return f"\0{type(value).__name__}:{value!r}"

    return convert


def column_forms(schema: Schema | None, target: ColumnType, *, negative_zero: bool = True) -> ColumnForms:
    """Returns how values with this schema are compared with a column of this type."""
    expected, actual, kind = _forms(schema, target, negative_zero)
    if expected is None or actual is None:
        return ColumnForms(kind, _never, _never, is_comparable=False)
    return ColumnForms(kind, expected, actual)


def _never(value: Any) -> Form:
    raise TypeError


_Pair = tuple[Canonical | None, Canonical | None, str]


def _forms(schema: Schema | None, target: ColumnType, negative_zero: bool) -> _Pair:
    if schema is None:
        return _forms_without_schema(target, negative_zero)
    name = schema.name or ""
    if name == _BITS:
        return _bits, _bits, "bits"
    if name in (logical.DECIMAL, _VARIABLE_SCALE):
        return _decimal_forms(target)
    if (temporal := _temporal_forms(name, target)) is not None:
        return temporal
    kind = schema.type
    if kind in _INTEGERS:
        return _number_forms(target, negative_zero)
    if kind in (Type.FLOAT32, Type.FLOAT64):
        if target is ColumnType.TEXT:
            return _double(True), _double(True), "double"
        if target is ColumnType.DECIMAL:
            return _decimal_of_float, _decimal, "decimal"
        if kind is Type.FLOAT32:
            return _single(negative_zero), _single(negative_zero), "float"
        # A number that a column of 32 bits does not hold differs from what the column has.
        actual = _single(negative_zero) if target is ColumnType.FLOAT else _double(negative_zero)
        return _double(negative_zero), actual, "double"
    if kind is Type.BOOLEAN:
        return _boolean, _boolean, "boolean"
    if kind is Type.BYTES:
        return _bytes, _bytes, "bytes"
    if kind is Type.STRING:
        return _text_forms(name, target, negative_zero)
    if kind is Type.ARRAY and schema.value_schema is not None and target in (ColumnType.ARRAY, ColumnType.ANY):
        element = column_forms(schema.value_schema, _type_of(schema.value_schema), negative_zero=negative_zero)
        if not element.is_comparable:
            return None, None, "array"
        return _array(element.expected), _array(element.actual), f"array of {element.kind}"
    if target is ColumnType.NESTED:
        return _nested, _nested, "nested"
    if kind is Type.MAP and target in (ColumnType.JSON, ColumnType.TEXT):
        return _json_of_map, _json, "json"
    return None, None, kind.value


def _type_of(schema: Schema) -> ColumnType:
    """The type of an array's elements: drivers and Arrow return objects for them."""
    if schema.name in (logical.DECIMAL, _VARIABLE_SCALE):
        return ColumnType.DECIMAL
    return ColumnType.FLOAT if schema.type is Type.FLOAT32 else ColumnType.ANY


def _forms_without_schema(target: ColumnType, negative_zero: bool) -> _Pair:
    match target:
        case ColumnType.INTEGER:
            return _integer, _integer, "integer"
        case ColumnType.FLOAT:
            return _single(negative_zero), _single(negative_zero), "float"
        case ColumnType.DOUBLE:
            return _double(negative_zero), _double(negative_zero), "double"
        case ColumnType.DECIMAL:
            return _decimal, _decimal, "decimal"
        case ColumnType.BOOLEAN:
            return _boolean, _boolean, "boolean"
        case ColumnType.BYTES:
            return _base64, _bytes, "bytes"
        case ColumnType.DATE:
            return _date, _date, "date"
        case ColumnType.TIME:
            return _time, _time, "time"
        case ColumnType.TIMESTAMP:
            return _instant, _instant, "timestamp"
        case ColumnType.TEXT:
            return _plain_text, _plain_text, "text"
        case ColumnType.JSON:
            return _json_of_map, _json, "json"
        case ColumnType.ARRAY | ColumnType.NESTED | ColumnType.ANY:
            return _nested, _nested, "nested"
    return None, None, target.value


def _temporal_forms(name: str, target: ColumnType) -> _Pair | None:
    if name == logical.DATE:
        return (_date, _date, "date") if target is not ColumnType.INTEGER else (logical.date_to_days, _integer, "integer")
    if name == logical.TIME:
        return (_time, _time, "time") if target is not ColumnType.INTEGER else (logical.time_to_millis, _integer, "integer")
    if name == logical.TIMESTAMP:
        if target is ColumnType.INTEGER:
            return logical.timestamp_to_millis, _integer, "integer"
        return _connect_timestamp, _instant, "timestamp"
    if not name.startswith(_DEBEZIUM_TIME):
        return None
    short = name.removeprefix(_DEBEZIUM_TIME)
    if target is ColumnType.INTEGER:
        return _integer, _integer, "integer"
    if target is ColumnType.DATE and short.endswith("Timestamp"):
        return None, None, "date"
    if short == "Date":
        return _date, _date, "date"
    if short in ("Time", "MicroTime", "NanoTime"):
        return _scaled(_UNIT_NS[short]), _time, "time"
    if short in ("Timestamp", "MicroTimestamp", "NanoTimestamp"):
        return _scaled_instant(_UNIT_NS[short]), _instant, "timestamp"
    if short in ("MicroDuration", "NanoDuration"):
        if target is ColumnType.DURATION:
            return _scaled(_UNIT_NS[short]), _duration, "duration"
        return (None, None, "duration") if target is not ColumnType.TEXT else (_plain_text, _plain_text, "text")
    if short == "ZonedTime":
        return _zoned_time, _zoned_time, "time"
    if short == "ZonedTimestamp":
        return _instant, _instant, "timestamp"
    return (_plain_text, _plain_text, "text") if short.startswith(("Iso", "Interval")) else None


def _number_forms(target: ColumnType, negative_zero: bool) -> _Pair:
    match target:
        case ColumnType.TEXT:
            return _plain_text, _plain_text, "text"
        case ColumnType.BOOLEAN:
            return _boolean, _boolean, "boolean"
        case ColumnType.DOUBLE:
            return _double(negative_zero), _double(negative_zero), "double"
        case ColumnType.DURATION:
            return _scaled(1000), _duration, "duration"
        case ColumnType.DECIMAL:
            return _decimal, _decimal, "decimal"
    return _integer, _integer, "integer"


def _decimal_forms(target: ColumnType) -> _Pair:
    match target:
        case ColumnType.TEXT:  # with all digits
            return _decimal_digits, _plain_text, "text"
        case ColumnType.DOUBLE | ColumnType.FLOAT:
            return _double_of_decimal, _double(False), "double"
    return _decimal, _decimal, "decimal"


def _text_forms(name: str, target: ColumnType, negative_zero: bool) -> _Pair:
    match target:
        case ColumnType.JSON:
            return _json, _json, "json"
        case ColumnType.DECIMAL | ColumnType.INTEGER:
            return _decimal, _decimal, "decimal"
        case ColumnType.DOUBLE:
            return _double(negative_zero), _double(negative_zero), "double"
        case ColumnType.TIMESTAMP:
            return _instant, _instant, "timestamp"
        case ColumnType.DATE:
            return _date, _date, "date"
        case ColumnType.TIME:
            return _time, _time, "time"
        case ColumnType.BYTES:
            return _base64, _bytes, "bytes"
        case ColumnType.BOOLEAN:
            return _boolean, _boolean, "boolean"
        case ColumnType.DURATION | ColumnType.ARRAY | ColumnType.NESTED:
            return None, None, target.value
        case ColumnType.ANY if name == _JSON:
            return _json, _json, "json"
    return _plain_text, _plain_text, "text"


# --- forms


def _integer(value: Any) -> int:
    if value.__class__ is int:
        found: int = value
        return found
    if isinstance(value, bool | str):
        return int(value)
    whole = int(value)
    if whole != value:
        raise ValueError
    return whole


def _boolean(value: Any) -> str:
    if isinstance(value, str):
        return {"t": "true", "true": "true", "1": "true", "f": "false", "false": "false", "0": "false"}[value.lower()]
    if isinstance(value, bytes):
        return {b"\0": "false", b"\1": "true"}[value]
    if value not in (0, 1):
        raise ValueError
    return "true" if value else "false"


def _double(negative_zero: bool) -> Canonical:
    pack, unpack = struct.Struct("<d").pack, struct.Struct("<q").unpack

    def form(value: Any) -> int | str:
        number = float(value)
        if isinstance(value, int) and int(number) != value:
            raise ValueError
        if number != number:
            return "nan"
        if number == 0 and not negative_zero:
            number = 0.0
        bits: int = unpack(pack(number))[0]
        return bits

    return form


def _single(negative_zero: bool) -> Canonical:
    single = struct.Struct("<f")
    double = _double(negative_zero)

    def form(value: Any) -> Form:
        number = float(value)
        # A float32 in a wider column has the shortest text's value on some databases, and its exact value on others.
        return double(number if not math.isfinite(number) else single.unpack(single.pack(number))[0])

    return form


def _digits(value: Decimal) -> str:
    """A finite number in plain digits, all of them."""
    return f"{value:f}"


def _as_decimal(value: Any) -> Decimal:
    if isinstance(value, Struct):
        return logical.bytes_to_decimal(value.get("value"), value.get("scale"))
    if isinstance(value, bool):
        raise TypeError
    if isinstance(value, float):
        return Decimal(repr(value))
    return value if isinstance(value, Decimal) else Decimal(value)


def _decimal(value: Any) -> str:
    number = _as_decimal(value)
    if not number.is_finite():
        return "nan" if number.is_nan() else "infinity" if number > 0 else "-infinity"
    text = f"{number:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _decimal_digits(value: Any) -> str:
    return _digits(_as_decimal(value))


def _decimal_of_float(value: Any) -> str:
    return _decimal(Decimal(repr(float(value))))


def _double_of_decimal(value: Any) -> Form:
    return _double(False)(float(_as_decimal(value)))


def _plain_text(value: Any) -> str:
    if value.__class__ is str:
        found: str = value
        return found
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray | memoryview | float | Decimal):
        raise TypeError
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return str(value)


def _bytes(value: Any) -> str:
    if isinstance(value, str):
        return bytes.fromhex(value.removeprefix("\\x")).hex()
    return bytes(value).hex() if not isinstance(value, int) else _refuse()


def _refuse() -> str:
    raise TypeError


def _base64(value: Any) -> str:
    return base64.b64decode(value, validate=True).hex() if isinstance(value, str) else _bytes(value)


def _bits(value: Any) -> int:
    if isinstance(value, str):
        return int(value, 2) if value else 0
    if isinstance(value, bool | int):
        return int(value)
    return int.from_bytes(bytes(value), "little")


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970 in the proleptic Gregorian calendar, for any year."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + day_of_year - 719_468


def _date(value: Any) -> int | str:
    if value.__class__ is int:
        found: int = value
        return INFINITE_DAYS.get(found, found)
    if isinstance(value, dt.datetime):
        if value.time() != dt.time():
            raise ValueError
        return value.toordinal() - _EPOCH_ORDINAL
    if isinstance(value, dt.date):
        return value.toordinal() - _EPOCH_ORDINAL
    if isinstance(value, logical.FarInstant):
        return value.millis // logical.MILLIS_PER_DAY
    if value in _INFINITE:
        return str(value)
    days, rest = _parse_date(value)
    if rest not in ("", " 00:00:00", "T00:00:00"):
        raise ValueError
    return days


# Debezium's days for infinite dates of PostgreSQL.
INFINITE_DAYS = {_days(5_877_611, 6, 21): "infinity", _days(-5_877_611, 6, 22): "-infinity"}


def _text_of_days(days: int) -> str:
    """A date in ISO 8601, also outside the years 1 to 9999."""
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    year = year_of_era + era * 400 + (month <= 2)
    return f"{'-' if year < 0 else ''}{abs(year):04d}-{month:02d}-{of_year - (153 * shifted + 2) // 5 + 1:02d}"


def text_of_time(kind: str, form: int) -> str:
    """Returns a form of the kinds ``date``, ``time``, and ``timestamp`` in ISO 8601. Timestamps are in UTC."""
    if kind == "date":
        return _text_of_days(form)
    days, ns = divmod(form, _DAY_NS) if kind == "timestamp" else (0, abs(form))
    seconds, fraction = divmod(ns, 1_000_000_000)
    digits = f".{fraction:09d}".rstrip("0").rstrip(".")
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{digits}"
    if kind == "time":
        return f"-{text}" if form < 0 else text
    return f"{_text_of_days(days)} {text}Z"


def _parse_date(text: str) -> tuple[int, str]:
    match = _DATE_TEXT.match(text)
    if match is None:
        raise ValueError
    before_christ = match[4] or text.endswith(" BC")
    year = 1 - int(match[1]) if before_christ else int(match[1])
    return _days(year, int(match[2]), int(match[3])), text[match.end() :].removesuffix(" BC")


def _parse_time(text: str) -> tuple[int, str]:
    """Nanoseconds of the day, and the rest of the text."""
    match = _TIME_TEXT.match(text)
    if match is None:
        raise ValueError
    seconds = int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3] or 0)
    return seconds * 1_000_000_000 + int((match[4] or "").ljust(9, "0")), text[match.end() :]


def _parse_zone(text: str) -> int:
    """The offset from UTC in nanoseconds; that of no zone is 0."""
    if not text:
        return 0
    match = _ZONE_TEXT.fullmatch(text)
    if match is None:
        raise ValueError
    if match[1] is None:
        return 0
    seconds = int(match[2]) * 3600 + int(match[3] or 0) * 60 + int(match[4] or 0)
    return (-seconds if match[1] == "-" else seconds) * 1_000_000_000


def _time(value: Any) -> int:
    if value is logical.END_OF_DAY:
        return _DAY_NS
    if value.__class__ is int:
        return int(value) * 1000
    if isinstance(value, dt.time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return (seconds * 1_000_000 + value.microsecond) * 1000
    if isinstance(value, dt.timedelta):
        return _micros(value) * 1000
    sign, text = (-1, value[1:]) if value.startswith("-") else (1, value)
    found, rest = _parse_time(text)
    if rest:
        raise ValueError
    return sign * found


def _zoned_time(value: Any) -> int:
    if isinstance(value, dt.time):
        offset = value.utcoffset() or dt.timedelta()
        return (_time(value.replace(tzinfo=None)) - _micros(offset) * 1000) % _DAY_NS
    found, zone = _parse_time(value)
    return (found - _parse_zone(zone)) % _DAY_NS


def _micros(value: dt.timedelta) -> int:
    return (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds


def _duration(value: Any) -> int:
    if isinstance(value, dt.timedelta):
        return _micros(value) * 1000
    return _integer(value) * 1000


def _scaled(unit_ns: int) -> Canonical:
    return lambda value: _integer(value) * unit_ns


def _scaled_instant(unit_ns: int) -> Canonical:
    def form(value: Any) -> int | str:
        number = _integer(value)
        return _INFINITE_NUMBERS.get(number) or number * unit_ns

    return form


def _connect_timestamp(value: Any) -> int | str:
    return logical.timestamp_to_millis(value) * 1_000_000 if not isinstance(value, str) else _instant(value)


def _instant(value: Any) -> int | str:
    """Nanoseconds since 1970 UTC; a time without a zone counts as UTC."""
    if value.__class__ is int:
        found: int = value
        return _INFINITE_NUMBERS.get(found) or found * 1000
    if isinstance(value, dt.datetime):
        days = value.toordinal() - _EPOCH_ORDINAL
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        of_day = (days * 86_400 + seconds) * 1_000_000 + value.microsecond
        return (of_day - _micros(value.utcoffset() or dt.timedelta())) * 1000
    if isinstance(value, dt.date):
        return (value.toordinal() - _EPOCH_ORDINAL) * _DAY_NS
    if isinstance(value, logical.FarInstant):
        return value.millis * 1_000_000
    if value in _INFINITE:
        return str(value)
    days, rest = _parse_date(value)
    if not rest:
        return days * _DAY_NS
    if rest[0] not in " T":
        raise ValueError
    of_day_ns, zone = _parse_time(rest[1:])
    return days * _DAY_NS + of_day_ns - _parse_zone(zone)


def _json(value: Any) -> str:
    parsed = json.loads(value, parse_float=_JsonNumber, parse_int=_JsonNumber) if isinstance(value, str) else value
    return _nested(parsed)


class _JsonNumber(Decimal):
    """A number of a JSON document, exactly."""


def _json_of_map(value: Any) -> str:
    return _json(value) if isinstance(value, str) else _nested(value)


def _array(element: Canonical) -> Canonical:
    def form(value: Any) -> str:
        return repr([None if one is None else element(one) for one in value])

    return form


def _nested(value: Any) -> str:
    return repr(_plain(value))


def _plain(value: Any) -> Any:
    """Nested values without the classes of one side, each with its kind: structs and maps as sorted pairs, numbers by value,
    times as instants."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return "text", value
    if isinstance(value, Struct):
        return _object(zip(value.schema.field_names, value.values, strict=True))
    if isinstance(value, Mapping):
        return _object(value.items())
    if isinstance(value, list | tuple):
        if value and all(isinstance(one, tuple) and len(one) == 2 for one in value):  # a map of Arrow
            return _object(value)
        return "array", [_plain(one) for one in value]
    if isinstance(value, int | float | Decimal):
        return "number", _decimal(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return "bytes", bytes(value).hex()
    if isinstance(value, dt.datetime):
        return "instant", _instant(value)
    if isinstance(value, dt.date):
        return "date", _date(value)
    if isinstance(value, dt.time | dt.timedelta):
        return "time", _time(value)
    return type(value).__name__, repr(value)


def _object(members: Iterable[tuple[Any, Any]]) -> Any:
    return "object", sorted(((_plain(name), _plain(one)) for name, one in members), key=repr)
