"""Formats values as SQL literals.

Each field gets generated code for the common case, which accepts only the expected type, and a function for all other values. So
no value can inject SQL, whatever a transformation returned: text is quoted and escaped for a session without
NO_BACKSLASH_ESCAPES, which the dialect ensures, and numbers are formatted by their own types.
"""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from connect.data.logical import EPOCH, days_to_date
from connect.errors import ConnectError, DataError
from connect.generated_code import define_functions
from connectors.databases.calendar import NS_PER_DAY, NS_PER_SECOND
from connectors.jdbc.catalog import JdbcColumn
from connectors.jdbc.dialects.conversion import (
    Geometry,
    parse_iso_time,
    to_day,
    to_instant_ns,
    to_python,
    to_time_ns,
    to_wall_ns,
)
from connectors.jdbc.dialects.logical_types import FLOATS, INTEGERS, TEXTS, FieldKind, LogicalType, TemporalForm, logical_type
from connectors.jdbc.dialects.mysql.catalog import MySqlColumnDetails
from connectors.jdbc.dialects.text_values import to_text
from connectors.jdbc.dialects.types import ns_to_time, wall_ns_to_datetime
from connectors.jdbc.options import Calendar, SinkField, WriteOptions

Write = Callable[[Any], str]

_SHAPES: Final = frozenset(
    [
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    ]
)
_TEXT_COLUMNS: Final = frozenset(["char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json", "enum", "set"])
_EWKB_SRID: Final = 0x20000000
_KEPT_TEXTS: Final = 5_000


@dataclass(frozen=True, slots=True)
class MySqlLiteral:
    """How to format the values of a field. ``write`` formats any value but null. ``inline`` is code for the common case, with
    ``{v}`` for the value and ``{c}`` for ``write``; it raises TypeError, ValueError, or AttributeError for values that need
    ``write``."""

    write: Write
    inline: str = "{c}({v})"


class _TextCache(dict[int, str]):
    """A bounded cache of frequent texts: days, minutes, fractions of seconds."""

    def __init__(self, make: Callable[[int], str]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: int) -> str:
        if len(self) >= _KEPT_TEXTS:
            self.clear()
        text = self[key] = self._make(key)
        return text


NAMES: Final[dict[str, Any]] = {
    "integer": int.__repr__,
    "floating": float.__repr__,
    "plain": Decimal.__str__,
    "hexed": bytes.hex,
    "date": dt.date,
    "time": dt.time,
    "datetime": dt.datetime,
    "utc": dt.UTC,
    "epoch": EPOCH,
    "days": _TextCache(lambda day: str(days_to_date(day))),
    "dates": _TextCache(lambda ordinal: str(dt.date.fromordinal(ordinal))),
    "minutes": _TextCache(lambda minute: f"{minute // 60:02d}:{minute % 60:02d}"),
    "seconds": tuple(f"{second:02d}" for second in range(60)),
    "fractions": _TextCache(lambda micros: f".{micros:06d}" if micros else ""),
    "first_date": dt.date(1582, 10, 15),
    "first_stamp": dt.datetime(1582, 10, 16, tzinfo=dt.UTC),
}
"""The names that the inline code uses."""

_QUOTED = "\"'\" + {v}.replace('\\\\', '\\\\\\\\').replace(\"'\", \"''\") + \"'\""


def quoted(text: str) -> str:
    """Quotes a text. NUL, line breaks, and the like need no escape."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def literal_for(field: SinkField, column: JdbcColumn | None, options: WriteOptions) -> MySqlLiteral:
    """Returns how to format a field's values for a column. Raises DataError if the column cannot store them."""
    logical = logical_type(field.schema, options, field.name)
    native = column.native if column is not None and isinstance(column.native, MySqlColumnDetails) else None
    what = f"Field {field.name}"
    literal = _literal(logical, native, options, what)
    return MySqlLiteral(_checked(literal.write, field.name), literal.inline)


def _checked(write: Write, name: str) -> Write:
    def checked(value: Any) -> str:
        try:
            text = write(value)
            text.encode()
        except ConnectError:
            raise
        except UnicodeEncodeError as e:
            raise DataError(f"Field {name}: half of a surrogate pair is not valid text") from e
        except (TypeError, ValueError, AttributeError, ArithmeticError, struct.error) as e:
            raise DataError(f"Field {name}: a {type(value).__name__} does not match its schema ({e})") from e
        return text

    return checked


def _literal(logical: LogicalType, native: MySqlColumnDetails | None, options: WriteOptions, what: str) -> MySqlLiteral:
    kind, column = logical.kind, native.type if native is not None else ""
    if logical.is_temporal:
        return _temporal(logical, column, options, what)
    if kind in INTEGERS or kind is FieldKind.BOOLEAN:
        return _integer(kind, native, what)
    if kind in FLOATS:
        return _floating(what)
    if kind is FieldKind.DECIMAL:
        return _decimal(logical, options, what)
    if kind in TEXTS:
        return _text(column, what)
    if kind is FieldKind.BYTES:
        return _bytes(column)
    if kind is FieldKind.BITS:
        bits = to_python(logical, options, what)
        assert bits is not None
        return MySqlLiteral(lambda value: f"b'{bits(value)}'" if column == "bit" else quoted(bits(value)))
    if kind is FieldKind.DURATION:
        return MySqlLiteral(_duration if column == "time" else lambda value: int.__repr__(value))
    if kind is FieldKind.GEOMETRY:
        shape = to_python(logical, options, what)
        assert shape is not None
        return MySqlLiteral(lambda value: _geometry(shape(value)))
    if kind is FieldKind.ARRAY and column == "vector":
        return MySqlLiteral(_vector)
    text = to_text(logical, options, what)
    return MySqlLiteral(lambda value: quoted(text(value)))


# --- numbers, texts, bytes


def _integer(kind: FieldKind, native: MySqlColumnDetails | None, what: str) -> MySqlLiteral:
    if kind is FieldKind.BOOLEAN:
        return MySqlLiteral(lambda value: "1" if value else "0", "('1' if {v} else '0')")
    if native is not None and native.type == "bit":
        bits = native.length or 1

        def write(value: int) -> str:
            # The reader returns the highest bit of 8 or 64 as the sign; no other values are negative.
            number = value + (1 << bits) if value < 0 and bits in (8, 64) else value
            if not 0 <= number < 1 << bits:
                raise DataError(f"{what}: {value} does not fit a BIT({bits})")
            return int.__repr__(number)

        return MySqlLiteral(write)
    return MySqlLiteral(int.__repr__, "integer({v})")


def _floating(what: str) -> MySqlLiteral:
    def write(value: float) -> str:
        number = float.__float__(value) if isinstance(value, float) else float(int.__index__(value))
        if number - number != 0:
            raise DataError(f"{what}: MySQL has no number for {value}")
        return float.__repr__(number)

    return MySqlLiteral(write, "(floating({v}) if {v} - {v} == 0 else {c}({v}))")


def _decimal(logical: LogicalType, options: WriteOptions, what: str) -> MySqlLiteral:
    convert = to_python(logical, options, what)

    def write(value: Any) -> str:
        number = value if convert is None else convert(value)
        if not number.is_finite():
            raise DataError(f"{what}: MySQL has no number for {number}")
        return Decimal.__format__(number, "f")

    return MySqlLiteral(
        write, "(x if 'E' not in (x := plain({v})) and x[-1] < ':' else {c}({v}))" if convert is None else "{c}({v})"
    )


def _vector(value: Sequence[float]) -> str:
    return "X'" + struct.pack(f"<{len(value)}f", *value).hex() + "'"


def _vector_of_text(text: str, what: str) -> str:
    try:
        return _vector(json.loads(text))
    except (ValueError, TypeError, struct.error) as e:
        raise DataError(f"{what}: {text[:80]!r} is not a vector; expected numbers in brackets, such as [1, 2.5]") from e


def _text(column: str, what: str) -> MySqlLiteral:
    if column == "vector":
        return MySqlLiteral(lambda value: _vector_of_text(value, what))
    if column in _SHAPES:
        return MySqlLiteral(lambda value: f"ST_GeomFromText({quoted(str.__str__(value))})")
    return MySqlLiteral(lambda value: quoted(str.__str__(value)), _QUOTED)


def _bytes(column: str) -> MySqlLiteral:
    if column == "json":
        return MySqlLiteral(lambda value: f"CONVERT(X'{bytes(memoryview(value)).hex()}' USING utf8mb4)")
    return MySqlLiteral(lambda value: f"X'{bytes(memoryview(value)).hex()}'", '"X\'" + hexed({v}) + "\'"')


def _geometry(shape: Geometry) -> str:
    """Formats a geometry in MySQL's own format: the SRID, then little-endian well-known binary."""
    wkb, srid = shape.wkb, shape.srid
    order = "little" if wkb[:1] == b"\1" else "big"
    type = int.from_bytes(wkb[1:5], "little" if order == "little" else "big")
    if type & _EWKB_SRID:  # PostGIS includes its SRID
        srid = int.from_bytes(wkb[5:9], "little" if order == "little" else "big")
        wkb = wkb[:1] + (type & ~_EWKB_SRID).to_bytes(4, "little" if order == "little" else "big") + wkb[9:]
    if order == "little":
        return f"X'{(srid or 0).to_bytes(4, 'little').hex()}{wkb.hex()}'"
    # X is the longitude; by default, MySQL 8 expects the latitude first. MariaDB ignores the comment.
    return f"ST_GeomFromWKB(X'{wkb.hex()}', {srid or 0:d} /*!80013 , 'axis-order=long-lat' */)"


def _duration(micros: int) -> str:
    seconds, fraction = divmod(abs(micros), 1_000_000)
    sign = "-" if micros < 0 else ""
    return f"'{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}'"


# --- dates and times


def _temporal(logical: LogicalType, column: str, options: WriteOptions, what: str) -> MySqlLiteral:
    if column in _TEXT_COLUMNS:
        text = to_text(logical, options, what)
        return MySqlLiteral(lambda value: quoted(text(value)))
    match logical.kind:
        case FieldKind.DATE:
            return _date(logical, column, options, what)
        case FieldKind.TIME:
            return _time(logical, options, what)
        case FieldKind.ZONED_TIME:
            return MySqlLiteral(lambda value: f"'{ns_to_time(_in_utc(value, what), what)}'")
    ns = (to_instant_ns if column == "timestamp" else to_wall_ns)(logical, options, what)

    def write(value: Any) -> str:
        return f"'{wall_ns_to_datetime(ns(value), what)}'"

    if (
        logical.form is TemporalForm.CONNECT
        and logical.kind is FieldKind.INSTANT
        and (column == "timestamp" or options.zone is dt.UTC)
    ):
        return MySqlLiteral(
            write,
            "(\"'%s %s:%s%s'\" % (days[(x := {v} - epoch).days], minutes[x.seconds // 60], seconds[x.seconds % 60],"
            " fractions[x.microseconds])"
            " if {v}.__class__ is datetime and {v}.tzinfo is utc and {v} >= first_stamp "
            "else {c}({v}))",
        )
    return MySqlLiteral(write)


def _in_utc(text: str, what: str) -> int:
    ns, offset = parse_iso_time(text, what)
    return (ns - (offset or 0) * NS_PER_SECOND) % NS_PER_DAY


def _date(logical: LogicalType, column: str, options: WriteOptions, what: str) -> MySqlLiteral:
    if column == "timestamp":
        ns = to_instant_ns(logical, options, what)
        return MySqlLiteral(lambda value: f"'{wall_ns_to_datetime(ns(value), what)}'")
    day = to_day(logical, options, what)

    def write(value: Any) -> str:
        moment = wall_ns_to_datetime(day(value) * NS_PER_DAY, what)
        if column != "year":
            return f"'{moment.date()}'"
        if (moment.month, moment.day) != (1, 1):
            raise DataError(f"{what}: {moment.date()} is not the first day of a year, but the column is a YEAR")
        return int.__repr__(moment.year)

    if column == "year" or logical.form is not TemporalForm.CONNECT or options.date_zone is not dt.UTC:
        return MySqlLiteral(write)
    later = "" if options.calendar is not Calendar.LEGACY else " and {v} >= first_date"
    return MySqlLiteral(write, '("\'" + dates[{v}.toordinal()] + "\'" if {v}.__class__ is date' + later + " else {c}({v}))")


def _time(logical: LogicalType, options: WriteOptions, what: str) -> MySqlLiteral:
    ns = to_time_ns(logical, options, what)

    def write(value: Any) -> str:
        return f"'{ns_to_time(ns(value), what)}'"

    if logical.form is TemporalForm.CONNECT and options.zone is dt.UTC:
        return MySqlLiteral(write, '("\'" + str({v}) + "\'" if {v}.__class__ is time and {v}.tzinfo is None else {c}({v}))')
    return MySqlLiteral(write)


# --- rows


Build = Callable[[Sequence[Sequence[Any]]], list[str]]
"""Formats each row as SQL text."""


class RowBuilder:
    """Formats rows as SQL text. Raises DataError, naming the field, for a value that cannot be formatted."""

    def __init__(
        self, fields: Sequence[SinkField], columns: Sequence[JdbcColumn | None], options: WriteOptions, form: Sequence[str]
    ) -> None:
        """``form`` has the texts before, between, and after the values: one more than there are fields."""
        self._form = form
        self._literals = [literal_for(field, column, options) for field, column in zip(fields, columns, strict=True)]
        self._nulls = [_null(field, literal, options) for field, literal in zip(fields, self._literals, strict=True)]
        self._fast = self._generated()

    def _generated(self) -> Build:
        space: dict[str, Any] = dict(NAMES)
        names = "".join(f"v{number}, " for number in range(len(self._literals)))
        code = ["def build(rows):", "    out = []", "    add = out.append", f"    for {names}in rows:"]
        text = [repr(self._form[0])]
        for number, literal in enumerate(self._literals):
            space[f"c{number}"] = literal.write
            space[f"n{number}"] = self._nulls[number]
            written = literal.inline.format(v=f"v{number}", c=f"c{number}")
            code.append(f"        v{number} = n{number} if v{number} is None else {written}")
            text += [f"v{number}", repr(self._form[number + 1])]
        code += [f"        add(''.join(({', '.join(text)})))", "    return out"]
        build: Build = define_functions(code, space, title="MySQL literals")["build"]
        return build

    def __call__(self, rows: Sequence[Sequence[Any]]) -> list[str]:
        try:
            found = self._fast(rows)
            "".join(found).encode()  # detects half of a surrogate pair before anything is sent
            return found
        except (TypeError, ValueError, AttributeError, ArithmeticError):
            return self.careful(rows)

    def careful(self, rows: Sequence[Sequence[Any]]) -> list[str]:
        """Does the same value by value: accepts unusual but valid values, and names the field of an invalid one."""
        found = []
        for row in rows:
            parts = [self._form[0]]
            for value, literal, null, after in zip(row, self._literals, self._nulls, self._form[1:], strict=True):
                parts += [null if value is None else literal.write(value), after]
            found.append("".join(parts))
        return found


def _null(field: SinkField, literal: MySqlLiteral, options: WriteOptions) -> str:
    default = field.schema.default
    return "NULL" if default is None or not options.null_as_default else literal.write(default)
