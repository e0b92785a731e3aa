"""Writes rows into SQLite with one prepared statement per batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from connect.data.logical import MILLIS_PER_DAY, date_to_days, time_to_millis, timestamp_to_millis
from connect.errors import DataError
from connect.generated_code import define_functions
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.conversion import to_day, to_instant_ns, to_python, to_wall_ns
from connectors.jdbc.dialects.logical_types import FLOATS, FieldKind, LogicalType, TemporalForm, logical_type, struct_type
from connectors.jdbc.dialects.sqlite.statement_timeout import SqliteStatementTimer
from connectors.jdbc.dialects.sqlite.types import Affinity, SqliteColumnType
from connectors.jdbc.dialects.text_values import to_json
from connectors.jdbc.dialects.types import Convert, format_wall_ns
from connectors.jdbc.options import SinkField, WriteOptions

_NS_PER_MS = 1_000_000
_MOST_DIGITS = 15
"""Number of decimal digits that a double preserves."""

RowsConverter = Callable[[Sequence[Sequence[Any]]], Sequence[Sequence[Any]]]


class SqliteWriter:
    """Runs one statement for each row."""

    def __init__(self, text: str, convert: RowsConverter | None, doing: str, timer: SqliteStatementTimer) -> None:
        self._text, self._convert, self._doing, self._timer = text, convert, doing, timer

    def write(self, session: DriverSession, rows: Sequence[Sequence[Any]]) -> None:
        if not rows:
            return
        values = rows if self._convert is None else self._convert(rows)
        session.begin()
        with session.guarded(self._doing):
            cursor = session.driver.cursor()
            self._timer.start(session.driver)
            try:
                cursor.executemany(self._text, values)
            finally:
                cursor.close()


def value_converter(field: SinkField, column: SqliteColumnType, options: WriteOptions) -> Convert | None:
    """Returns the converter of a field's values to stored values; None if they need none. NaN is checked elsewhere."""
    logical = logical_type(field.schema, options, field.name)
    what = f"Field {field.name}"
    if logical.kind is FieldKind.DECIMAL:
        return _decimal(logical, column, options, what)
    if logical.is_temporal:
        return _temporal(logical, column, options, field, what)
    if logical.kind is FieldKind.GEOMETRY:
        return to_json(struct_type(field.schema, options), options, what)
    if logical.kind in (FieldKind.ARRAY, FieldKind.MAP, FieldKind.STRUCT):
        return to_json(logical, options, what)
    return None


def _temporal(
    logical: LogicalType, column: SqliteColumnType, options: WriteOptions, field: SinkField, what: str
) -> Convert | None:
    if logical.form is TemporalForm.CONNECT:
        return _millis(logical)
    asked = field.name in options.string_timestamps
    if not asked and not column.is_temporal:
        return None  # Confluent's connector stores Debezium's types as plain numbers and texts
    if logical.kind in (FieldKind.TIME, FieldKind.ZONED_TIME):
        return None
    if logical.kind is FieldKind.DATE:
        day = to_day(logical, options, what)
        return lambda value: day(value) * MILLIS_PER_DAY
    if (asked and column.affinity is Affinity.INTEGER) or logical.digits <= 3:
        return _exact_millis(to_instant_ns(logical, options, what), what)
    wall = to_wall_ns(logical, options, what)
    return lambda value: format_wall_ns(wall(value), logical.digits, " ")


def _millis(logical: LogicalType) -> Convert:
    """Returns a converter to ms since 1970, as the Java driver stores java.util.Date: without zone or calendar."""
    match logical.kind:
        case FieldKind.DATE:
            return lambda value: date_to_days(value) * MILLIS_PER_DAY
        case FieldKind.TIME:
            return time_to_millis
    return timestamp_to_millis


def _exact_millis(instant: Callable[[Any], int], what: str) -> Convert:
    def convert(value: Any) -> int:
        ns = instant(value)
        if ns % _NS_PER_MS:
            raise DataError(f"{what}: {format_wall_ns(ns, 9)} is finer than a millisecond, which an integer cannot store; "
                            "declare the column TIMESTAMP")  # fmt: skip
        return ns // _NS_PER_MS

    return convert


def _decimal(logical: LogicalType, column: SqliteColumnType, options: WriteOptions, what: str) -> Convert:
    number = to_python(logical, options, what)

    def exact(value: Decimal) -> Any:
        if not value.is_finite():
            raise DataError(f"{what}: {value} is not a number that SQLite can store")
        text = format(value, "f")
        if column.affinity is Affinity.TEXT:
            return text
        if value == value.to_integral_value() and -(1 << 63) <= value < 1 << 63:
            return int(value)
        double = float(value)
        if Decimal(repr(double)) != value:
            raise DataError(f"{what}: SQLite stores {text} as a double, which preserves only {_MOST_DIGITS} digits; "
                            "declare the column TEXT to preserve all")  # fmt: skip
        return double

    if number is not None:
        return lambda value: exact(number(value))
    if column.affinity is Affinity.TEXT or logical.scale is None or not 0 < logical.scale < _MOST_DIGITS:
        return exact
    # So many digits are the same after the way through a double.
    most = Decimal(10) ** (_MOST_DIGITS - logical.scale)
    least = -most
    return lambda value: float(value) if least < value < most else exact(value)


def default_value(field: SinkField, convert: Convert | None, options: WriteOptions) -> Any:
    """Returns the value to store for a null, by ``replace.null.with.default``."""
    default = field.schema.default
    if default is None or not options.null_as_default:
        return None
    return default if convert is None else convert(default)


def rows_converter(
    fields: Sequence[SinkField], order: Sequence[int], columns: Sequence[SqliteColumnType], options: WriteOptions
) -> RowsConverter | None:
    """Returns a converter of rows to the parameters of a statement whose marks are the fields ``order``; None if rows need
    none."""
    space: dict[str, Any] = {}
    parts: list[str] = []
    plain = list(order) == list(range(len(fields)))
    for i in order:
        field, v = fields[i], f"v{i}"
        convert = value_converter(field, columns[i], options)
        logical = logical_type(field.schema, options, field.name)
        default = default_value(field, convert, options)
        value = v
        if convert is not None:
            space[f"c{i}"] = convert
            value = f"c{i}({v})"
        elif logical.kind in FLOATS:
            space["nan"] = _reject_nan
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
    # The code contains only field numbers; names and values come from the namespace.
    code = f"def convert(rows):\n    return [({', '.join(parts)},) for {names}, in rows]\n"
    convert_rows: RowsConverter = define_functions(code, space, title="SQLite row converter")["convert"]

    def checked(rows: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        try:
            return convert_rows(rows)
        except (TypeError, AttributeError, ValueError, ArithmeticError) as e:
            raise _value_error(rows, fields, columns, options, e) from e

    return checked


def _reject_nan(name: str) -> Any:
    raise DataError(f"Field {name}: SQLite has no NaN and would store null")


def _value_error(
    rows: Sequence[Sequence[Any]],
    fields: Sequence[SinkField],
    columns: Sequence[SqliteColumnType],
    options: WriteOptions,
    error: Exception,
) -> DataError:
    """Builds the error that names the field whose value does not match its schema."""
    for i, field in enumerate(fields):
        convert = value_converter(field, columns[i], options)
        for row in rows:
            if len(row) != len(fields):
                return DataError(f"A row has {len(row)} values for {len(fields)} fields")
            if convert is None or row[i] is None:
                continue
            try:
                convert(row[i])
            except (TypeError, AttributeError, ValueError, ArithmeticError):
                return DataError(f"Field {field.name}: {row[i]!r} is not a value of {field.schema!r}")
    return DataError(f"A row cannot be converted: {error}")
