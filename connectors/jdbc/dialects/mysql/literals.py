"""Values as text in a statement.

Each field gets code for the common case, which takes no other type than it expects, and a function for everything else. So no
value becomes SQL, whatever a transformation made of it: texts are quoted and escaped for a session without
NO_BACKSLASH_ESCAPES, which the dialect sees to, and numbers are written by their own types.
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
from connectors.jdbc.catalog import Column
from connectors.jdbc.dialects.conversion import (
    Geometry,
    parse_time,
    to_day,
    to_instant_ns,
    to_python,
    to_time_ns,
    to_wall_ns,
)
from connectors.jdbc.dialects.field_kinds import FLOATS, INTEGERS, TEXTS, Form, Kind, Logical, logical_of
from connectors.jdbc.dialects.mysql.catalog import Native
from connectors.jdbc.dialects.text_values import to_text
from connectors.jdbc.dialects.types import NS_PER_DAY, NS_PER_SECOND, naive_of_wall, time_of_ns
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
class Literal:
    """``write`` gives the SQL of any value but null; ``inline`` is code for the common case, with ``{v}`` for the value and
    ``{c}`` for ``write``. It raises TypeError, ValueError or AttributeError for values that only ``write`` can judge."""

    write: Write
    inline: str = "{c}({v})"


class _Texts(dict[int, str]):
    """Texts that come again and again: of days, minutes and fractions of seconds."""

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
    "days": _Texts(lambda day: str(days_to_date(day))),
    "dates": _Texts(lambda ordinal: str(dt.date.fromordinal(ordinal))),
    "minutes": _Texts(lambda minute: f"{minute // 60:02d}:{minute % 60:02d}"),
    "seconds": tuple(f"{second:02d}" for second in range(60)),
    "fractions": _Texts(lambda micros: f".{micros:06d}" if micros else ""),
    "first_date": dt.date(1582, 10, 15),
    "first_stamp": dt.datetime(1582, 10, 16, tzinfo=dt.UTC),
}
"""What the inline code refers to."""

_QUOTED = "\"'\" + {v}.replace('\\\\', '\\\\\\\\').replace(\"'\", \"''\") + \"'\""


def quoted(text: str) -> str:
    """A text as SQL. NUL, line breaks and the like stand for themselves."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def literal_of(field: SinkField, column: Column | None, options: WriteOptions) -> Literal:
    """How a field's values are written into a column. Raises DataError for what the column cannot take in any form."""
    logical = logical_of(field.schema, options, field.name)
    native = column.native if column is not None and isinstance(column.native, Native) else None
    what = f"Field {field.name}"
    made = _literal(logical, native, options, what)
    return Literal(_checked(made.write, field.name), made.inline)


def _checked(write: Write, name: str) -> Write:
    def checked(value: Any) -> str:
        try:
            text = write(value)
            text.encode()
        except ConnectError:
            raise
        except UnicodeEncodeError as e:
            raise DataError(f"Field {name}: half of a surrogate pair is no text") from e
        except (TypeError, ValueError, AttributeError, ArithmeticError, struct.error) as e:
            raise DataError(f"Field {name}: a {type(value).__name__} is not what its schema says ({e})") from e
        return text

    return checked


def _literal(logical: Logical, native: Native | None, options: WriteOptions, what: str) -> Literal:
    kind, column = logical.kind, native.type if native is not None else ""
    if logical.is_temporal:
        return _temporal(logical, column, options, what)
    if kind in INTEGERS or kind is Kind.BOOLEAN:
        return _integer(kind, native, what)
    if kind in FLOATS:
        return _floating(what)
    if kind is Kind.DECIMAL:
        return _decimal(logical, options, what)
    if kind in TEXTS:
        return _text(column, what)
    if kind is Kind.BYTES:
        return _bytes(column)
    if kind is Kind.BITS:
        bits = to_python(logical, options, what)
        assert bits is not None
        return Literal(lambda value: f"b'{bits(value)}'" if column == "bit" else quoted(bits(value)))
    if kind is Kind.DURATION:
        return Literal(_duration if column == "time" else lambda value: int.__repr__(value))
    if kind is Kind.GEOMETRY:
        shape = to_python(logical, options, what)
        assert shape is not None
        return Literal(lambda value: _geometry(shape(value)))
    if kind is Kind.ARRAY and column == "vector":
        return Literal(_vector)
    text = to_text(logical, options, what)
    return Literal(lambda value: quoted(text(value)))


# --- numbers, texts, bytes


def _integer(kind: Kind, native: Native | None, what: str) -> Literal:
    if kind is Kind.BOOLEAN:
        return Literal(lambda value: "1" if value else "0", "('1' if {v} else '0')")
    if native is not None and native.type == "bit":
        bits = native.length or 1

        def write(value: int) -> str:
            # The reader gives the highest bit of 8 or 64 as the sign; nothing else is negative.
            number = value + (1 << bits) if value < 0 and bits in (8, 64) else value
            if not 0 <= number < 1 << bits:
                raise DataError(f"{what}: {value} does not fit a BIT({bits})")
            return int.__repr__(number)

        return Literal(write)
    return Literal(int.__repr__, "integer({v})")


def _floating(what: str) -> Literal:
    def write(value: float) -> str:
        number = float.__float__(value) if isinstance(value, float) else float(int.__index__(value))
        if number - number != 0:
            raise DataError(f"{what}: MySQL has no number for {value}")
        return float.__repr__(number)

    return Literal(write, "(floating({v}) if {v} - {v} == 0 else {c}({v}))")


def _decimal(logical: Logical, options: WriteOptions, what: str) -> Literal:
    convert = to_python(logical, options, what)

    def write(value: Any) -> str:
        number = value if convert is None else convert(value)
        if not number.is_finite():
            raise DataError(f"{what}: MySQL has no number for {number}")
        return Decimal.__format__(number, "f")

    return Literal(write, "(x if 'E' not in (x := plain({v})) and x[-1] < ':' else {c}({v}))" if convert is None else "{c}({v})")


def _vector(value: Sequence[float]) -> str:
    return "X'" + struct.pack(f"<{len(value)}f", *value).hex() + "'"


def _vector_of_text(text: str, what: str) -> str:
    try:
        return _vector(json.loads(text))
    except (ValueError, TypeError, struct.error) as e:
        raise DataError(f"{what}: {text[:80]!r} is no vector; expected numbers in brackets, as [1, 2.5]") from e


def _text(column: str, what: str) -> Literal:
    if column == "vector":
        return Literal(lambda value: _vector_of_text(value, what))
    if column in _SHAPES:
        return Literal(lambda value: f"ST_GeomFromText({quoted(str.__str__(value))})")
    return Literal(lambda value: quoted(str.__str__(value)), _QUOTED)


def _bytes(column: str) -> Literal:
    if column == "json":
        return Literal(lambda value: f"CONVERT(X'{bytes(memoryview(value)).hex()}' USING utf8mb4)")
    return Literal(lambda value: f"X'{bytes(memoryview(value)).hex()}'", '"X\'" + hexed({v}) + "\'"')


def _geometry(shape: Geometry) -> str:
    """MySQL's own form: the number of the reference system, then well-known binary in little-endian."""
    wkb, srid = shape.wkb, shape.srid
    order = "little" if wkb[:1] == b"\1" else "big"
    type = int.from_bytes(wkb[1:5], "little" if order == "little" else "big")
    if type & _EWKB_SRID:  # PostGIS puts its number inside
        srid = int.from_bytes(wkb[5:9], "little" if order == "little" else "big")
        wkb = wkb[:1] + (type & ~_EWKB_SRID).to_bytes(4, "little" if order == "little" else "big") + wkb[9:]
    if order == "little":
        return f"X'{(srid or 0).to_bytes(4, 'little').hex()}{wkb.hex()}'"
    # X is the longitude, as in its own form; else MySQL 8 would take the latitude first. MariaDB leaves such comments out.
    return f"ST_GeomFromWKB(X'{wkb.hex()}', {srid or 0:d} /*!80013 , 'axis-order=long-lat' */)"


def _duration(micros: int) -> str:
    seconds, fraction = divmod(abs(micros), 1_000_000)
    sign = "-" if micros < 0 else ""
    return f"'{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}'"


# --- dates and times


def _temporal(logical: Logical, column: str, options: WriteOptions, what: str) -> Literal:
    if column in _TEXT_COLUMNS:
        text = to_text(logical, options, what)
        return Literal(lambda value: quoted(text(value)))
    match logical.kind:
        case Kind.DATE:
            return _date(logical, column, options, what)
        case Kind.TIME:
            return _time(logical, options, what)
        case Kind.ZONED_TIME:
            return Literal(lambda value: f"'{time_of_ns(_in_utc(value, what), what)}'")
    ns = (to_instant_ns if column == "timestamp" else to_wall_ns)(logical, options, what)

    def write(value: Any) -> str:
        return f"'{naive_of_wall(ns(value), what)}'"

    if logical.form is Form.CONNECT and logical.kind is Kind.INSTANT and (column == "timestamp" or options.zone is dt.UTC):
        return Literal(
            write,
            "(\"'%s %s:%s%s'\" % (days[(x := {v} - epoch).days], minutes[x.seconds // 60], seconds[x.seconds % 60],"
            " fractions[x.microseconds])"
            " if {v}.__class__ is datetime and {v}.tzinfo is utc and {v} >= first_stamp "
            "else {c}({v}))",
        )
    return Literal(write)


def _in_utc(text: str, what: str) -> int:
    ns, offset = parse_time(text, what)
    return (ns - (offset or 0) * NS_PER_SECOND) % NS_PER_DAY


def _date(logical: Logical, column: str, options: WriteOptions, what: str) -> Literal:
    if column == "timestamp":
        ns = to_instant_ns(logical, options, what)
        return Literal(lambda value: f"'{naive_of_wall(ns(value), what)}'")
    day = to_day(logical, options, what)

    def write(value: Any) -> str:
        moment = naive_of_wall(day(value) * NS_PER_DAY, what)
        if column != "year":
            return f"'{moment.date()}'"
        if (moment.month, moment.day) != (1, 1):
            raise DataError(f"{what}: {moment.date()} is no year, which is all that the column holds")
        return int.__repr__(moment.year)

    if column == "year" or logical.form is not Form.CONNECT or options.date_zone is not dt.UTC:
        return Literal(write)
    later = "" if options.calendar is not Calendar.LEGACY else " and {v} >= first_date"
    return Literal(write, '("\'" + dates[{v}.toordinal()] + "\'" if {v}.__class__ is date' + later + " else {c}({v}))")


def _time(logical: Logical, options: WriteOptions, what: str) -> Literal:
    ns = to_time_ns(logical, options, what)

    def write(value: Any) -> str:
        return f"'{time_of_ns(ns(value), what)}'"

    if logical.form is Form.CONNECT and options.zone is dt.UTC:
        return Literal(write, '("\'" + str({v}) + "\'" if {v}.__class__ is time and {v}.tzinfo is None else {c}({v}))')
    return Literal(write)


# --- rows


Build = Callable[[Sequence[Sequence[Any]]], list[str]]
"""Makes each row a text."""


class RowBuilder:
    """Makes each row a text. Raises DataError that names the field for a value that cannot be written."""

    def __init__(
        self, fields: Sequence[SinkField], columns: Sequence[Column | None], options: WriteOptions, form: Sequence[str]
    ) -> None:
        """``form`` is what stands before, between and after the values, one more than there are fields."""
        self._form = form
        self._literals = [literal_of(field, column, options) for field, column in zip(fields, columns, strict=True)]
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
            "".join(found).encode()  # half of a surrogate pair shows here, before anything was sent
            return found
        except (TypeError, ValueError, AttributeError, ArithmeticError):
            return self.careful(rows)

    def careful(self, rows: Sequence[Sequence[Any]]) -> list[str]:
        """The same, value by value: takes what only looks wrong, and says which field is."""
        found = []
        for row in rows:
            parts = [self._form[0]]
            for value, literal, null, after in zip(row, self._literals, self._nulls, self._form[1:], strict=True):
                parts += [null if value is None else literal.write(value), after]
            found.append("".join(parts))
        return found


def _null(field: SinkField, literal: Literal, options: WriteOptions) -> str:
    default = field.schema.default
    return "NULL" if default is None or not options.null_as_default else literal.write(default)
