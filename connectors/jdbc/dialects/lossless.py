"""``conversion.strict=true`` of the sinks: rejects values that the database would silently round or truncate (promise 8).

A dialect describes by :class:`ColumnLimits` what a column's type stores of a value. Only columns whose type can lose something of
the field's values are checked. A value is stored without loss if reading the column returns the same value.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Any, Final

from connect.data.logical import FarInstant
from connect.errors import DataError
from connectors.databases.calendar import NS_PER_DAY
from connectors.jdbc.catalog import JdbcTable
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.column_limits import ColumnLimits
from connectors.jdbc.dialects.conversion import parse_iso_time, to_python, to_time_ns, to_wall_ns
from connectors.jdbc.dialects.dialect import Dialect, RowWriter
from connectors.jdbc.dialects.logical_types import FLOATS, INTEGERS, TEXTS, FieldKind, LogicalType, TemporalForm, logical_type
from connectors.jdbc.options import SinkField, WriteOptions

LossTest = Callable[[Any], bool]
"""Whether a value (not null) would lose something in the column."""

_ENOUGH: Final = Context(prec=2_000, rounding=ROUND_HALF_EVEN)
_FRACTION = re.compile(r":\d\d[.,](\d+)")
_CLOCK = re.compile(r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?")
_INFINITE = frozenset(("infinity", "-infinity"))


class StrictWriter:
    """Rejects rows that the table would not store without loss; passes all others to the wrapped writer."""

    def __init__(self, writer: RowWriter, checks: Sequence[tuple[int, Callable[[Any], None]]]) -> None:
        self._writer, self._checks = writer, checks

    def write(self, session: DriverSession, rows: Sequence[Sequence[Any]]) -> None:
        for i, check in self._checks:
            for row in rows:
                check(row[i])
        self._writer.write(session, rows)


def strict_writer(
    writer: RowWriter, dialect: Dialect, table: JdbcTable, fields: Sequence[SinkField], options: WriteOptions
) -> RowWriter:  # fmt: skip
    """Wraps a writer with checks if ``options.strict`` is set and a column could lose something."""
    if not options.strict:
        return writer
    checks = []
    for i, field in enumerate(fields):
        column = table.column(field.name)
        limits = dialect.column_limits(column) if column is not None else None
        if column is None or limits is None:
            continue
        loses = loss_test(logical_type(field.schema, options, field.name), limits, options, f"Field {field.name}")
        if loses is not None:
            checks.append((i, _check(loses, f"{table.name}.{column.name}", column.type_name, field, options)))
    return StrictWriter(writer, checks) if checks else writer


def _check(loses: LossTest, where: str, type_name: str, field: SinkField, options: WriteOptions) -> Callable[[Any], None]:
    default = field.schema.default if options.null_as_default else None

    def check(value: Any) -> None:
        if value is None:
            value = default
        if value is None:
            return
        try:
            lost = loses(value)
        except (TypeError, ValueError, AttributeError, ArithmeticError) as e:
            raise DataError(f"Field {field.name}: {value!r} is not a value of {field.schema!r}") from e
        if lost:
            raise DataError(
                f"{where} is {type_name or 'of no type'}, which cannot store {_shown(value)} (field {field.name}) without loss; "
                "conversion.strict=true forbids that"
            )

    return check


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str | bytes | list | dict) else str(value)
    return text if len(text) <= 200 else text[:200] + "..."


def loss_test(logical: LogicalType, limits: ColumnLimits, options: WriteOptions, what: str) -> LossTest | None:
    """Returns the test whether a value of a logical type loses something in a column; None if no value can."""
    kind = logical.kind
    if limits.changed is not None and (kind in TEXTS or kind in INTEGERS or kind in FLOATS):
        return limits.changed
    if kind in TEXTS:
        return _text(limits)
    if logical.is_temporal:
        return _temporal(logical, limits, options, what)
    if kind is FieldKind.DECIMAL or kind in INTEGERS or kind in FLOATS:
        return _number(logical, limits, options, what)
    if kind is FieldKind.DURATION and limits.digits is not None and limits.digits < 6:
        step = 10 ** (6 - limits.digits)
        return lambda value: bool(value % step)
    if kind is FieldKind.BYTES and limits.filled_to is not None:
        filled = limits.filled_to
        return lambda value: len(value) < filled
    if kind in (FieldKind.ARRAY, FieldKind.MAP) and logical.element is not None:
        return _elements(logical.element, limits, options, what, of_map=kind is FieldKind.MAP)
    if kind is FieldKind.STRUCT:
        return _members(logical, limits, options, what)
    return None


# --- numbers


def _number(logical: LogicalType, limits: ColumnLimits, options: WriteOptions, what: str) -> LossTest | None:
    kind = logical.kind
    if limits.float_bits is not None and limits.scale is not None:
        parts = (replace(limits, scale=None), replace(limits, float_bits=None))
        both = [lost for part in parts if (lost := _number(logical, part, options, what)) is not None]
        return (lambda value: any(lost(value) for lost in both)) if both else None
    if limits.float_bits is not None and not (limits.float_bits == 64 and kind in FLOATS):
        if kind is FieldKind.DECIMAL:
            number, bits = to_python(logical, options, what), limits.float_bits
            return lambda value: decimal_is_rounded(value if number is None else number(value), bits)
        if limits.float_bits == 64:
            return _rounded_double if kind is FieldKind.INT64 else None
        return _rounded_single if kind in (FieldKind.FLOAT64, FieldKind.INT32, FieldKind.INT64) else None
    scale = limits.scale
    if scale is None:
        return None
    if kind in INTEGERS:
        unit = 10 ** max(-scale, 0)
        return (lambda value: bool(value % unit)) if unit > 1 else None
    if kind in FLOATS:
        back = _single if kind is FieldKind.FLOAT32 else float
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
    """Returns the nearest 32-bit float."""
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
    """Whether the nearest float, written in its shortest form, is another number."""
    if not number.is_finite():
        return False
    double = float(number)
    if bits == 64:
        return Decimal(repr(double)) != number
    single = _single(double)
    return all(_single(float(text)) != single or Decimal(text) != number for text in (f"{single:.{n}g}" for n in range(6, 10)))


# --- text


def _text(limits: ColumnLimits) -> LossTest | None:
    tests = [test for test in (_length(limits), _as_number(limits), _as_datetime(limits)) if test is not None]
    if len(tests) < 2:
        return tests[0] if tests else None
    return lambda value: any(test(value) for test in tests)


def _length(limits: ColumnLimits) -> LossTest | None:
    most, max_bytes, padded, drops = limits.max_chars, limits.max_bytes, limits.padded_to, limits.drops_blanks
    if most is None and max_bytes is None and padded is None and not drops:
        return None

    def lost(value: str) -> bool:
        if (most is not None and len(value) > most) or (max_bytes is not None and len(value.encode()) > max_bytes):
            return True
        return value.endswith(" ") and (drops or (padded is not None and len(value) != padded))

    return lost


def _as_number(limits: ColumnLimits) -> LossTest | None:
    """For text that the database parses as a number; it rejects other text itself."""
    scale, bits = limits.scale, limits.float_bits
    if scale is None and bits is None:
        return None

    def lost(value: str) -> bool:
        try:
            number = Decimal(value.strip())
        except InvalidOperation:
            return False
        return decimal_is_rounded(number, bits) if bits is not None else scale is not None and _finer(number, scale)

    return lost


def _as_datetime(limits: ColumnLimits) -> LossTest | None:
    """For text that the database parses as a date or time."""
    digits = limits.digits
    if digits is None and not limits.drops_time:
        return None

    def lost(value: str) -> bool:
        if limits.drops_time:
            clock = _CLOCK.search(value)
            return clock is not None and clock.group().strip("0:.,") != ""
        fraction = _FRACTION.search(value)
        return fraction is not None and digits is not None and len(fraction[1].rstrip("0")) > digits

    return lost


# --- dates and times


def _temporal(logical: LogicalType, limits: ColumnLimits, options: WriteOptions, what: str) -> LossTest | None:
    kind = logical.kind
    if kind in (FieldKind.TIME, FieldKind.ZONED_TIME):
        return _time(logical, limits, options, what)
    if limits.drops_date:
        return lambda value: True
    if kind is FieldKind.DATE:
        return None
    if limits.drops_time:
        unit = NS_PER_DAY
    elif limits.digits is not None and limits.digits < logical.digits:
        unit = 10 ** (9 - limits.digits)
    else:
        return None
    wall = to_wall_ns(logical, options, what)
    if logical.form is TemporalForm.TEXT:
        return lambda value: value not in _INFINITE and bool(wall(value) % unit)
    if limits.drops_time:
        return lambda value: not isinstance(value, FarInstant) and bool(wall(value) % unit)
    return lambda value: bool(wall(value) % unit)


def _time(logical: LogicalType, limits: ColumnLimits, options: WriteOptions, what: str) -> LossTest | None:
    unit = 10 ** (9 - limits.digits) if limits.digits is not None and limits.digits < logical.digits else 1
    if logical.kind is FieldKind.TIME:
        if unit == 1:
            return None
        ns = to_time_ns(logical, options, what)
        return lambda value: bool(ns(value) % unit)
    if unit == 1 and not limits.drops_zone:
        return None

    def lost(value: str) -> bool:
        at, offset = parse_iso_time(value, what)
        return bool(at % unit) or (limits.drops_zone and bool(offset))

    return lost


# --- elements and members


def _elements(element: LogicalType, limits: ColumnLimits, options: WriteOptions, what: str, *, of_map: bool) -> LossTest | None:
    # PostgreSQL's arrays have one element type, whatever their number of dimensions.
    inner = loss_test(element, limits.element or limits, options, what)
    if inner is None:
        return None
    if of_map:
        return lambda value: any(inner(part) for part in value.values() if part is not None)
    return lambda value: any(inner(part) for part in value if part is not None)


def _members(logical: LogicalType, limits: ColumnLimits, options: WriteOptions, what: str) -> LossTest | None:
    known = dict(limits.members)
    checks = [
        (i, lost)
        for i, (name, member) in enumerate(logical.members)
        if name in known and (lost := loss_test(member, known[name], options, f"{what}.{name}")) is not None
    ]
    if not checks:
        return None
    return lambda value: any(value.values[i] is not None and lost(value.values[i]) for i, lost in checks)
