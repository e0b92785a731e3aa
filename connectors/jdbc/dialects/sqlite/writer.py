"""Writes rows into SQLite: one prepared statement for all rows of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from connect.data.logical import MILLIS_PER_DAY, date_to_days, time_to_millis, timestamp_to_millis
from connect.errors import DataError
from connect.generated_code import define_functions
from connectors.jdbc.dialects.conversion import to_day, to_instant_ns, to_python, to_wall_ns
from connectors.jdbc.dialects.field_kinds import FLOATS, Form, Kind, Logical, logical_of, struct_of
from connectors.jdbc.dialects.sqlite.statement_timeout import Clock
from connectors.jdbc.dialects.sqlite.types import Affinity, Declared
from connectors.jdbc.dialects.text_values import to_json
from connectors.jdbc.dialects.transactions import begin
from connectors.jdbc.dialects.types import Convert, text_of_wall
from connectors.jdbc.options import SinkField, WriteOptions

if TYPE_CHECKING:
    from connectors.jdbc.connection.database import Session

_NS_PER_MS = 1_000_000
_MOST_DIGITS = 15
"""Of a decimal number that SQLite keeps when it makes a double of it."""

RowsConverter = Callable[[Sequence[Sequence[Any]]], Sequence[Sequence[Any]]]


class SqliteWriter:
    """One statement, run for each row."""

    def __init__(self, text: str, convert: RowsConverter | None, doing: str, clock: Clock) -> None:
        self._text, self._convert, self._doing, self._clock = text, convert, doing, clock

    def write(self, session: Session, rows: Sequence[Sequence[Any]]) -> None:
        if not rows:
            return
        values = rows if self._convert is None else self._convert(rows)
        begin(session)
        with session.guarded(self._doing):
            cursor = session.driver.cursor()
            self._clock.start(session.driver)
            try:
                cursor.executemany(self._text, values)
            finally:
                cursor.close()


def converter(field: SinkField, column: Declared, options: WriteOptions) -> Convert | None:
    """What makes a field's value the one that is stored; None where it is already. NaN is looked for elsewhere."""
    logical = logical_of(field.schema, options, field.name)
    what = f"Field {field.name}"
    if logical.kind is Kind.DECIMAL:
        return _decimal(logical, column, options, what)
    if logical.is_temporal:
        return _temporal(logical, column, options, field, what)
    if logical.kind is Kind.GEOMETRY:
        return to_json(struct_of(field.schema, options), options, what)
    if logical.kind in (Kind.ARRAY, Kind.MAP, Kind.STRUCT):
        return to_json(logical, options, what)
    return None


def _temporal(logical: Logical, column: Declared, options: WriteOptions, field: SinkField, what: str) -> Convert | None:
    if logical.form is Form.CONNECT:
        return _millis(logical)
    asked = field.name in options.string_timestamps
    if not asked and not column.is_temporal:
        return None  # the original knows Debezium's types as the numbers and texts that they are
    if logical.kind in (Kind.TIME, Kind.ZONED_TIME):
        return None
    if logical.kind is Kind.DATE:
        day = to_day(logical, options, what)
        return lambda value: day(value) * MILLIS_PER_DAY
    if (asked and column.affinity is Affinity.INTEGER) or logical.digits <= 3:
        return _exact_millis(to_instant_ns(logical, options, what), what)
    wall = to_wall_ns(logical, options, what)
    return lambda value: text_of_wall(wall(value), logical.digits, " ")


def _millis(logical: Logical) -> Convert:
    """ms since 1970, as the Java driver stores java.util.Date, with no zone and no calendar between."""
    match logical.kind:
        case Kind.DATE:
            return lambda value: date_to_days(value) * MILLIS_PER_DAY
        case Kind.TIME:
            return time_to_millis
    return timestamp_to_millis


def _exact_millis(instant: Callable[[Any], int], what: str) -> Convert:
    def convert(value: Any) -> int:
        ns = instant(value)
        if ns % _NS_PER_MS:
            raise DataError(f"{what}: {text_of_wall(ns, 9)} is finer than the milliseconds that SQLite keeps as a whole number; "
                            "declare the column TIMESTAMP")  # fmt: skip
        return ns // _NS_PER_MS

    return convert


def _decimal(logical: Logical, column: Declared, options: WriteOptions, what: str) -> Convert:
    number = to_python(logical, options, what)

    def exact(value: Decimal) -> Any:
        if not value.is_finite():
            raise DataError(f"{what}: {value} is no number that SQLite can hold")
        text = format(value, "f")
        if column.affinity is Affinity.TEXT:
            return text
        if value == value.to_integral_value() and -(1 << 63) <= value < 1 << 63:
            return int(value)
        double = float(value)
        if Decimal(repr(double)) != value:
            raise DataError(f"{what}: SQLite keeps a number such as {text} as a double, which holds {_MOST_DIGITS} digits of it; "
                            "declare the column TEXT to keep all")  # fmt: skip
        return double

    if number is not None:
        return lambda value: exact(number(value))
    if column.affinity is Affinity.TEXT or logical.scale is None or not 0 < logical.scale < _MOST_DIGITS:
        return exact
    # So many digits are the same after the way through a double.
    most = Decimal(10) ** (_MOST_DIGITS - logical.scale)
    least = -most
    return lambda value: float(value) if least < value < most else exact(value)


def default_of(field: SinkField, convert: Convert | None, options: WriteOptions) -> Any:
    """What is stored for a null, by ``replace.null.with.default``."""
    default = field.schema.default
    if default is None or not options.null_as_default:
        return None
    return default if convert is None else convert(default)


def rows_converter(
    fields: Sequence[SinkField], order: Sequence[int], columns: Sequence[Declared], options: WriteOptions
) -> RowsConverter | None:
    """Makes rows those of the statement, whose marks are the fields ``order``. None where they are already."""
    space: dict[str, Any] = {}
    parts: list[str] = []
    plain = list(order) == list(range(len(fields)))
    for i in order:
        field, v = fields[i], f"v{i}"
        convert = converter(field, columns[i], options)
        logical = logical_of(field.schema, options, field.name)
        default = default_of(field, convert, options)
        value = v
        if convert is not None:
            space[f"c{i}"] = convert
            value = f"c{i}({v})"
        elif logical.kind in FLOATS:
            space["nan"] = _refuse_nan
            space[f"n{i}"] = field.name
            value = f"({v} if {v} == {v} else nan(n{i}))"
        if default is not None:
            space[f"d{i}"] = default
        if convert is not None or default is not None:
            value = f"({f'd{i}' if default is not None else None} if {v} is None else {value})"
        plain = plain and value == v
        parts.append(value)
    if plain:
        return None
    names = ", ".join(f"v{i}" for i in range(len(fields)))
    # Only numbers of fields are in this text; names and values come in through the namespace.
    code = f"def convert(rows):\n    return [({', '.join(parts)},) for {names}, in rows]\n"
    made: RowsConverter = define_functions(code, space, title="SQLite row converter")["convert"]

    def checked(rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        try:
            return made(rows)
        except (TypeError, AttributeError, ValueError, ArithmeticError) as e:
            raise _wrong_value(rows, fields, columns, options, e) from e

    return checked


def _refuse_nan(name: str) -> Any:
    raise DataError(f"Field {name}: SQLite has no NaN, it would store a null")


def _wrong_value(
    rows: Sequence[Sequence[Any]],
    fields: Sequence[SinkField],
    columns: Sequence[Declared],
    options: WriteOptions,
    error: Exception,
) -> DataError:
    """The error that names the field whose value is of the wrong kind."""
    for i, field in enumerate(fields):
        convert = converter(field, columns[i], options)
        for row in rows:
            if len(row) != len(fields):
                return DataError(f"A row has {len(row)} values for {len(fields)} fields")
            if convert is None or row[i] is None:
                continue
            try:
                convert(row[i])
            except (TypeError, AttributeError, ValueError, ArithmeticError):
                return DataError(f"Field {field.name}: {row[i]!r} is no value of {field.schema!r}")
    return DataError(f"A row cannot be converted: {error}")
