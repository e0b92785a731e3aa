"""Encodes Connect values, a column at a time, as the text that PostgreSQL expects for the column's type."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, cast

from connect.data.logical import FarInstant
from connect.data.struct import Struct
from connect.errors import DataError
from connectors.databases.calendar import NS_PER_DAY
from connectors.databases.postgresql.arrays import format_array, quote_element
from connectors.databases.postgresql.dates import (
    INFINITY_MS,
    MINUS_INFINITY_MS,
    NEGATIVE_INFINITY,
    NEGATIVE_INFINITY_DAYS,
    POSITIVE_INFINITY,
    POSITIVE_INFINITY_DAYS,
    format_day,
    format_time,
    format_timestamp,
)
from connectors.jdbc.dialects.conversion import (
    Geometry,
    to_day,
    to_instant_ns,
    to_python,
    to_time_ns,
    to_wall_ns,
)
from connectors.jdbc.dialects.logical_types import FLOATS, INTEGERS, TEXTS, FieldKind, LogicalType, TemporalForm
from connectors.jdbc.dialects.postgres.catalog import PostgresType
from connectors.jdbc.dialects.text_values import to_json, to_text
from connectors.jdbc.options import Calendar, WriteOptions

One = Callable[[Any], str]
_INFINITE_DAYS = {POSITIVE_INFINITY_DAYS: "infinity", NEGATIVE_INFINITY_DAYS: "-infinity"}
_UTC = dt.UTC
_GREGORIAN = "1582-10-16"
_USUAL_INSTANT = re.compile(
    "(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,6})?"
    "(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])"
).fullmatch


class TextStyle(Enum):
    """What the texts of a column may contain, and so what COPY or an array must escape."""

    CLEAN = "clean"
    """Nothing that needs an escape or quotes."""
    HEX = "hex"
    """``\\x6869``: one backslash, at the start."""
    TEXT = "text"
    """Anything."""


@dataclass(frozen=True, slots=True)
class ColumnEncoder:
    """Encodes the values of a field. ``one`` encodes any value but null. If all values of a column are exactly of class ``of``,
    ``fast`` does the same without checks (None: values are their own text). All results of ``fast`` must be at least ``least``
    and contain ``zone``; otherwise ``one`` is used.
    """

    one: One
    style: TextStyle = TextStyle.TEXT
    of: type | None = None
    fast: One | None = None
    least: str = ""
    zone: str = ""

    def column(self, values: Sequence[Any], null: str | None) -> list[str | None]:
        """Encodes a column; nulls become ``null``."""
        if self.of is not None and set(map(type, values)) == {self.of}:
            texts: list[str] = list(values) if self.fast is None else list(map(self.fast, values))
            if not (self.least or self.zone) or self._plain(texts):
                return cast("list[str | None]", texts)
        one = self.one
        return [null if value is None else one(value) for value in values]

    def _plain(self, texts: list[str]) -> bool:
        return min(texts) >= self.least and (not self.zone or "".join(texts).count(self.zone) == len(texts))


_INTEGER_TYPES = ("int2", "int4", "int8", "oid")
_JSON_TYPES = ("json", "jsonb")
_BOOLEANS = {True: "t", False: "f"}.__getitem__
_BITS = {True: "1", False: "0"}.__getitem__
_OWN_TEXT = ColumnEncoder(str, of=str)


def build_encoder(logical: LogicalType, type: PostgresType, typmod: int, options: WriteOptions, what: str) -> ColumnEncoder:
    """Returns the encoder of a field for a column type. Raises DataError, naming ``what`` ("Field price"), if the field does not
    fit."""
    kind, target = logical.kind, type.builtin
    if type.element is not None:
        return _array(logical, type, type.element, typmod, options, what)
    if kind in TEXTS:
        return _OWN_TEXT
    if target in _JSON_TYPES:
        return ColumnEncoder(to_json(logical, options, what))
    if type.name == "hstore" and kind is FieldKind.MAP:
        return ColumnEncoder(_hstore)
    if target in _INTEGER_TYPES:
        return _integer(logical, options, what)
    if target in ("bit", "varbit"):
        return _bit(logical, target, typmod, what)
    if logical.is_temporal:
        temporal = _temporal(logical, target, options, what)
        if temporal is not None:
            return temporal
    if kind is FieldKind.DURATION and target == "interval":
        return ColumnEncoder(lambda value: f"{value} microseconds", TextStyle.CLEAN)
    if kind in (FieldKind.BYTES, FieldKind.BITS) and target == "bytea":
        return ColumnEncoder(lambda value: "\\x" + bytes(value).hex(), TextStyle.HEX)
    if kind is FieldKind.GEOMETRY:
        return _geometry(logical, type, options, what)
    return _plain(logical, options, what)


def _plain(logical: LogicalType, options: WriteOptions, what: str) -> ColumnEncoder:
    kind = logical.kind
    if kind in INTEGERS or kind is FieldKind.DURATION:
        return ColumnEncoder(str, TextStyle.CLEAN, int, str)
    if kind in FLOATS:
        return ColumnEncoder(repr, TextStyle.CLEAN, float, repr)
    if kind is FieldKind.BOOLEAN:
        return ColumnEncoder(_BOOLEANS, TextStyle.CLEAN, bool, _BOOLEANS)
    if kind is FieldKind.DECIMAL and logical.scale is not None:
        return ColumnEncoder(str, TextStyle.CLEAN, Decimal, str)
    return ColumnEncoder(to_text(logical, options, what))


def _integer(logical: LogicalType, options: WriteOptions, what: str) -> ColumnEncoder:
    kind = logical.kind
    if kind in INTEGERS or kind is FieldKind.DURATION or logical.form is TemporalForm.NUMBER:
        return ColumnEncoder(str, TextStyle.CLEAN, int, str)
    if kind is FieldKind.DECIMAL or kind in FLOATS:
        convert = to_python(logical, options, what)

        def whole(value: Any) -> str:
            number = value if convert is None else convert(value)
            if number != number or number in (float("inf"), float("-inf")) or number != int(number):
                raise DataError(f"{what}: {number} is not a whole number, but its column is an integer")
            return str(int(number))

        return ColumnEncoder(whole, TextStyle.CLEAN)
    return _plain(logical, options, what)


def _bit(logical: LogicalType, target: str, typmod: int, what: str) -> ColumnEncoder:
    kind = logical.kind
    if kind is FieldKind.BOOLEAN:
        return ColumnEncoder(_BITS, TextStyle.CLEAN, bool, _BITS)
    if kind in INTEGERS:
        width = max(typmod, 1) if target == "bit" else {FieldKind.INT8: 8, FieldKind.INT16: 16, FieldKind.INT32: 32}.get(kind, 64)

        def digits(value: int) -> str:
            # A negative value is the two's complement of the column's length.
            if not -(1 << (width - 1)) <= value < 1 << width:
                raise DataError(f"{what}: {value} has more bits than the {width} of its column")
            return format(value & ((1 << width) - 1), f"0{width}b")

        return ColumnEncoder(digits, TextStyle.CLEAN)
    if kind is FieldKind.BITS:
        fixed = typmod if target == "bit" else logical.length

        def debezium(value: bytes) -> str:
            # Little-endian. An unlimited length says nothing about the value.
            length = fixed if fixed is not None and 0 < fixed <= 8 * len(value) else 8 * len(value)
            return format(int.from_bytes(value, "little"), "b").zfill(length) if length else ""

        return ColumnEncoder(debezium, TextStyle.CLEAN)
    if kind is FieldKind.BYTES:

        def ascii_digits(value: bytes) -> str:
            if bytes(value).strip(b"01"):
                raise DataError(f"{what}: a bit string is given as the ASCII digits 0 and 1, but the bytes hold others")
            return bytes(value).decode("ascii")

        return ColumnEncoder(ascii_digits, TextStyle.CLEAN)
    raise DataError(f"{what} is {kind.value}, which cannot be written to a bit column")


def _temporal(logical: LogicalType, target: str, options: WriteOptions, what: str) -> ColumnEncoder | None:
    kind, connect = logical.kind, logical.form is TemporalForm.CONNECT
    least = _GREGORIAN if options.calendar is Calendar.LEGACY else ""
    clock = kind in (FieldKind.TIME, FieldKind.ZONED_TIME)
    if target == "date" and kind is FieldKind.DATE:
        day = to_day(logical, options, what)

        def written_day(value: Any) -> str:
            number = day(value)
            return _INFINITE_DAYS.get(number) or format_day(number)

        if connect and options.date_zone is _UTC:
            return ColumnEncoder(written_day, TextStyle.CLEAN, dt.date, str, least)
        return ColumnEncoder(written_day, TextStyle.CLEAN)
    if target == "timestamp" and not clock:
        wall = to_wall_ns(logical, options, what)
        one = _or_infinity(logical, lambda value: format_timestamp(wall(value), what))
        if connect and kind is FieldKind.INSTANT and options.zone is _UTC:
            # PostgreSQL parses the time and ignores the zone.
            return ColumnEncoder(one, TextStyle.CLEAN, dt.datetime, str, least, "+00:00")
        return ColumnEncoder(one, TextStyle.CLEAN)
    if target == "date" and not clock:
        wall = to_wall_ns(logical, options, what)
        return ColumnEncoder(lambda value: format_day(wall(value) // NS_PER_DAY), TextStyle.CLEAN)
    if target == "timestamptz" and not clock:
        return _zoned_timestamp(logical, options, what, least)
    if target in ("time", "timetz") and clock:
        if kind is FieldKind.ZONED_TIME:
            return _OWN_TEXT
        # A time with zone is in UTC; one without is in db.timezone.
        own = options if target == "time" else dataclasses.replace(options, zone=_UTC)
        ns = to_time_ns(logical, own, what)
        zone = "" if target == "time" else "+00"

        def written_time(value: Any) -> str:
            return format_time(ns(value), what) + zone

        return (
            ColumnEncoder(written_time, TextStyle.CLEAN, dt.time, str)
            if connect and own.zone is _UTC
            else ColumnEncoder(written_time, TextStyle.CLEAN)
        )
    return None


def _zoned_timestamp(logical: LogicalType, options: WriteOptions, what: str, least: str) -> ColumnEncoder:
    instant = to_instant_ns(logical, options, what)

    one = _or_infinity(logical, lambda value: format_timestamp(instant(value), what, "+00"))
    if logical.form is TemporalForm.CONNECT and logical.kind is FieldKind.INSTANT:
        return ColumnEncoder(one, TextStyle.CLEAN, dt.datetime, str, least, "+00:00")
    if logical.form is TemporalForm.TEXT and logical.kind is FieldKind.INSTANT:
        # PostgreSQL accepts Debezium's format.
        return ColumnEncoder(lambda text: text if _USUAL_INSTANT(text) else one(text), TextStyle.CLEAN)
    return ColumnEncoder(one, TextStyle.CLEAN)


def _or_infinity(logical: LogicalType, one: One) -> One:
    """Also encodes infinity: as text in PostgreSQL's form, otherwise as Debezium's numbers."""
    plus: tuple[Any, ...] = (FarInstant(INFINITY_MS),)
    minus: tuple[Any, ...] = (FarInstant(MINUS_INFINITY_MS),)
    if logical.form is TemporalForm.TEXT:
        plus, minus = ("infinity",), ("-infinity",)
    elif logical.form is TemporalForm.NUMBER:
        plus, minus = (INFINITY_MS, POSITIVE_INFINITY), (MINUS_INFINITY_MS, NEGATIVE_INFINITY)
    return lambda value: "infinity" if value in plus else "-infinity" if value in minus else one(value)


def _geometry(logical: LogicalType, type: PostgresType, options: WriteOptions, what: str) -> ColumnEncoder:
    if type.builtin == "point" and logical.schema.field("x") is not None:
        return ColumnEncoder(lambda value: f"({value.get('x')!r},{value.get('y')!r})")
    if type.name in ("geometry", "geography"):
        convert = to_python(logical, options, what)
        assert convert is not None

        def well_known(value: Struct) -> str:
            shape: Geometry = convert(value)
            return (f"SRID={shape.srid};" if shape.srid is not None else "") + shape.wkb.hex()

        return ColumnEncoder(well_known)
    raise DataError(f"{what} is a geometry, which cannot be written to a column of type {type.sql}")


def _array(
    logical: LogicalType, type: PostgresType, element: PostgresType, typmod: int, options: WriteOptions, what: str
) -> ColumnEncoder:
    if logical.kind in TEXTS:
        return _OWN_TEXT
    inner = logical
    while inner.kind is FieldKind.ARRAY and inner.element is not None:
        inner = inner.element
    if inner is logical:
        raise DataError(f"{what} is {logical.kind.value}, but its column is of type {type.sql}")
    one = build_encoder(inner, element, typmod, options, what).one
    return ColumnEncoder(lambda values: format_array(values, one, type.delimiter))


def _hstore(value: dict[Any, Any]) -> str:
    return ",".join(
        f"{quote_element(str(key))}=>{'NULL' if part is None else quote_element(str(part))}" for key, part in value.items()
    )
