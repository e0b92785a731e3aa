"""``conversion.strict=true`` of the sinks: what a database would round or cut in silence is refused (promise 8).

A dialect tells by :class:`Keeps` what a column's type leaves of a value; checks are made for those columns alone whose type can
lose something of the field's kind. A value is kept when what the column holds, read back, is the same value.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from connect.data.logical import FarInstant
from connect.errors import DataError
from connectors.jdbc.catalog import Table
from connectors.jdbc.dialects.conversion import parse_time, to_python, to_time_ns, to_wall_ns
from connectors.jdbc.dialects.field_kinds import FLOATS, INTEGERS, TEXTS, Form, Kind, Logical, logical_of
from connectors.jdbc.dialects.types import NS_PER_DAY
from connectors.jdbc.options import SinkField, WriteOptions

if TYPE_CHECKING:
    from connectors.jdbc.connection.database import Session
    from connectors.jdbc.dialects.dialect import Dialect, RowWriter


@dataclass(frozen=True, slots=True)
class Keeps:
    """What a column's type leaves of a value. None and False: all of it, or the database refuses what it cannot hold."""

    scale: int | None = None
    """Of numbers, how many digits after the point; negative: so many before it are zeros."""
    float_bits: int | None = None
    """Numbers become floats of 32 or 64 bits."""
    digits: int | None = None
    """Of times and timestamps, how many digits after the second."""
    drops_time: bool = False
    """A timestamp loses its time of day."""
    drops_date: bool = False
    """A timestamp loses its date."""
    drops_zone: bool = False
    """A time of day loses its offset from UTC."""
    most_chars: int | None = None
    """Longer text loses its end."""
    most_bytes: int | None = None
    """The same, counted in UTF-8."""
    padded_to: int | None = None
    """Text of fewer characters is filled up with blanks, so that blanks at its end cannot be told from these."""
    drops_blanks: bool = False
    """Text loses the blanks at its end."""
    filled_to: int | None = None
    """Fewer bytes are filled up with zeros."""
    changed: Callable[[Any], bool] | None = None
    """Whether a value of a plain type, given as it is, would become another."""
    element: Keeps | None = None
    """Of the elements of a list, or the values of a map."""
    members: tuple[tuple[str, Keeps], ...] = ()
    """Of a struct."""


Loses = Callable[[Any], bool]
"""Whether a value (not null) would lose something."""

_ENOUGH: Final = Context(prec=2_000, rounding=ROUND_HALF_EVEN)
_FRACTION = re.compile(r":\d\d[.,](\d+)")
_CLOCK = re.compile(r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?")
_INFINITE = frozenset(("infinity", "-infinity"))


class StrictWriter:
    """Refuses rows of which the table would keep less than they hold; hands all others on."""

    def __init__(self, writer: RowWriter, checks: Sequence[tuple[int, Callable[[Any], None]]]) -> None:
        self._writer, self._checks = writer, checks

    def write(self, session: Session, rows: Sequence[Sequence[Any]]) -> None:
        for place, check in self._checks:
            for row in rows:
                check(row[place])
        self._writer.write(session, rows)


def strict_writer(
    writer: RowWriter, dialect: Dialect, table: Table, fields: Sequence[SinkField], options: WriteOptions
) -> RowWriter:  # fmt: skip
    """The writer, with checks before it where ``options.strict`` asks for them and there is something to lose."""
    if not options.strict:
        return writer
    checks = []
    for place, field in enumerate(fields):
        column = table.column(field.name)
        keeps = dialect.keeps(column) if column is not None else None
        if column is None or keeps is None:
            continue
        loses = loses_of(logical_of(field.schema, options, field.name), keeps, options, f"Field {field.name}")
        if loses is not None:
            checks.append((place, _check(loses, f"{table.name}.{column.name}", column.type_name, field, options)))
    return StrictWriter(writer, checks) if checks else writer


def _check(loses: Loses, where: str, type_name: str, field: SinkField, options: WriteOptions) -> Callable[[Any], None]:
    default = field.schema.default if options.null_as_default else None

    def check(value: Any) -> None:
        if value is None:
            value = default
        if value is None:
            return
        try:
            lost = loses(value)
        except (TypeError, ValueError, AttributeError, ArithmeticError) as e:
            raise DataError(f"Field {field.name}: {value!r} is no value of {field.schema!r}") from e
        if lost:
            raise DataError(
                f"{where} is {type_name or 'of no type'}, which would not keep all of {_shown(value)} (field {field.name}); "
                "conversion.strict=true forbids that"
            )

    return check


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str | bytes | list | dict) else str(value)
    return text if len(text) <= 200 else text[:200] + "..."


def loses_of(logical: Logical, keeps: Keeps, options: WriteOptions, what: str) -> Loses | None:
    """Whether a value of that meaning loses something; None when none can."""
    kind = logical.kind
    if keeps.changed is not None and (kind in TEXTS or kind in INTEGERS or kind in FLOATS):
        return keeps.changed
    if kind in TEXTS:
        return _text(keeps)
    if logical.is_temporal:
        return _temporal(logical, keeps, options, what)
    if kind is Kind.DECIMAL or kind in INTEGERS or kind in FLOATS:
        return _number(logical, keeps, options, what)
    if kind is Kind.DURATION and keeps.digits is not None and keeps.digits < 6:
        step = 10 ** (6 - keeps.digits)
        return lambda value: bool(value % step)
    if kind is Kind.BYTES and keeps.filled_to is not None:
        filled = keeps.filled_to
        return lambda value: len(value) < filled
    if kind in (Kind.ARRAY, Kind.MAP) and logical.element is not None:
        return _elements(logical.element, keeps, options, what, of_map=kind is Kind.MAP)
    if kind is Kind.STRUCT:
        return _members(logical, keeps, options, what)
    return None


# --- numbers


def _number(logical: Logical, keeps: Keeps, options: WriteOptions, what: str) -> Loses | None:
    kind = logical.kind
    if keeps.float_bits is not None and keeps.scale is not None:
        parts = (replace(keeps, scale=None), replace(keeps, float_bits=None))
        both = [lost for part in parts if (lost := _number(logical, part, options, what)) is not None]
        return (lambda value: any(lost(value) for lost in both)) if both else None
    if keeps.float_bits is not None and not (keeps.float_bits == 64 and kind in FLOATS):
        if kind is Kind.DECIMAL:
            number, bits = to_python(logical, options, what), keeps.float_bits
            return lambda value: decimal_is_rounded(value if number is None else number(value), bits)
        if keeps.float_bits == 64:
            return _rounded_double if kind is Kind.INT64 else None
        return _rounded_single if kind in (Kind.FLOAT64, Kind.INT32, Kind.INT64) else None
    scale = keeps.scale
    if scale is None:
        return None
    if kind in INTEGERS:
        unit = 10 ** max(-scale, 0)
        return (lambda value: bool(value % unit)) if unit > 1 else None
    if kind in FLOATS:
        back = _single if kind is Kind.FLOAT32 else float
        return lambda value: value - value == 0 and back(float(_at_scale(Decimal(repr(float(value))), scale))) != value
    if logical.scale is not None and logical.scale <= scale:
        return None
    convert = to_python(logical, options, what)
    return lambda value: _finer(value if convert is None else convert(value), scale)


def _at_scale(number: Decimal, scale: int) -> Decimal:
    return number.quantize(Decimal((0, (1,), -scale)), context=_ENOUGH)


def _finer(number: Decimal, scale: int) -> bool:
    return number.is_finite() and _at_scale(number, scale) != number


def _single(value: float) -> float:
    """The nearest float of 32 bits."""
    try:
        single: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return single


def _rounded_single(value: float) -> bool:
    return value == value and _single(value) != value


def _rounded_double(value: int) -> bool:
    return float(value) != value


def decimal_is_rounded(number: Decimal, bits: int) -> bool:
    """Whether a float, in as few digits as tell it from others, is another number."""
    if not number.is_finite():
        return False
    double = float(number)
    if bits == 64:
        return Decimal(repr(double)) != number
    single = _single(double)
    return all(_single(float(text)) != single or Decimal(text) != number for text in (f"{single:.{n}g}" for n in range(6, 10)))


# --- text


def _text(keeps: Keeps) -> Loses | None:
    tests = [test for test in (_length(keeps), _as_number(keeps), _as_moment(keeps)) if test is not None]
    if len(tests) < 2:
        return tests[0] if tests else None
    return lambda value: any(test(value) for test in tests)


def _length(keeps: Keeps) -> Loses | None:
    most, most_bytes, padded, drops = keeps.most_chars, keeps.most_bytes, keeps.padded_to, keeps.drops_blanks
    if most is None and most_bytes is None and padded is None and not drops:
        return None

    def lost(value: str) -> bool:
        if (most is not None and len(value) > most) or (most_bytes is not None and len(value.encode()) > most_bytes):
            return True
        return value.endswith(" ") and (drops or (padded is not None and len(value) != padded))

    return lost


def _as_number(keeps: Keeps) -> Loses | None:
    """Text that the database reads as a number; what is none it refuses itself."""
    scale, bits = keeps.scale, keeps.float_bits
    if scale is None and bits is None:
        return None

    def lost(value: str) -> bool:
        try:
            number = Decimal(value.strip())
        except InvalidOperation:
            return False
        return decimal_is_rounded(number, bits) if bits is not None else scale is not None and _finer(number, scale)

    return lost


def _as_moment(keeps: Keeps) -> Loses | None:
    """Text that the database reads as a date or time."""
    digits = keeps.digits
    if digits is None and not keeps.drops_time:
        return None

    def lost(value: str) -> bool:
        if keeps.drops_time:
            clock = _CLOCK.search(value)
            return clock is not None and clock.group().strip("0:.,") != ""
        fraction = _FRACTION.search(value)
        return fraction is not None and digits is not None and len(fraction[1].rstrip("0")) > digits

    return lost


# --- dates and times


def _temporal(logical: Logical, keeps: Keeps, options: WriteOptions, what: str) -> Loses | None:
    kind = logical.kind
    if kind in (Kind.TIME, Kind.ZONED_TIME):
        return _time(logical, keeps, options, what)
    if keeps.drops_date:
        return lambda value: True
    if kind is Kind.DATE:
        return None
    if keeps.drops_time:
        unit = NS_PER_DAY
    elif keeps.digits is not None and keeps.digits < logical.digits:
        unit = 10 ** (9 - keeps.digits)
    else:
        return None
    wall = to_wall_ns(logical, options, what)
    if logical.form is Form.TEXT:
        return lambda value: value not in _INFINITE and bool(wall(value) % unit)
    if keeps.drops_time:
        return lambda value: not isinstance(value, FarInstant) and bool(wall(value) % unit)
    return lambda value: bool(wall(value) % unit)


def _time(logical: Logical, keeps: Keeps, options: WriteOptions, what: str) -> Loses | None:
    unit = 10 ** (9 - keeps.digits) if keeps.digits is not None and keeps.digits < logical.digits else 1
    if logical.kind is Kind.TIME:
        if unit == 1:
            return None
        ns = to_time_ns(logical, options, what)
        return lambda value: bool(ns(value) % unit)
    if unit == 1 and not keeps.drops_zone:
        return None

    def lost(value: str) -> bool:
        at, offset = parse_time(value, what)
        return bool(at % unit) or (keeps.drops_zone and bool(offset))

    return lost


# --- parts


def _elements(element: Logical, keeps: Keeps, options: WriteOptions, what: str, *, of_map: bool) -> Loses | None:
    # Arrays of PostgreSQL have elements of one type in whatever number of dimensions.
    inner = loses_of(element, keeps.element or keeps, options, what)
    if inner is None:
        return None
    if of_map:
        return lambda value: any(inner(part) for part in value.values() if part is not None)
    return lambda value: any(inner(part) for part in value if part is not None)


def _members(logical: Logical, keeps: Keeps, options: WriteOptions, what: str) -> Loses | None:
    known = dict(keeps.members)
    checks = [
        (place, lost)
        for place, (name, member) in enumerate(logical.members)
        if name in known and (lost := loses_of(member, known[name], options, f"{what}.{name}")) is not None
    ]
    if not checks:
        return None
    return lambda value: any(value.values[i] is not None and lost(value.values[i]) for i, lost in checks)
