"""Reads rows of SQLite. A column can have values of any storage class, so each batch is checked by column; a value that does
not fit is rejected with the column's name, never truncated."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from connect.data.logical import date_schema
from connect.data.schema import Schema, Type
from connect.errors import DataError
from connectors.jdbc.catalog import JdbcColumn, JdbcTable
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.dialect import Rows
from connectors.jdbc.dialects.sqlite.catalog import query_columns
from connectors.jdbc.dialects.sqlite.statement_timeout import SqliteStatementTimer
from connectors.jdbc.dialects.sqlite.temporal import date_reader, dates, stored_instant_ns, timestamp_reader, timestamps
from connectors.jdbc.dialects.sqlite.types import Affinity, SqliteColumnType, SqliteValueKind, parse_declared_type
from connectors.jdbc.dialects.types import (
    EXACT,
    decimal_schema,
    exact_rescaler,
    integer_converter,
    integer_schema,
    numeric_schema,
    primitive_schema,
    timestamp_schema_for,
)
from connectors.jdbc.options import ReadOptions
from connectors.jdbc.sql import Sql, joined

_NULL = type(None)

Whole = Callable[[Sequence[Any]], list[Any]]
_Fast = Mapping[type, Whole]

# The widest storage of a column's values, in order: an integer of the narrowest type, a wider one, a real, text, a blob.
_NARROW, _WIDE, _REAL, _TEXT, _BLOB = range(5)
_LIMITS: Mapping[int, tuple[int, int]] = {bits: (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (16, 32, 64)}

WidestStorage = dict[tuple[str, str], int]
"""The widest storage seen so far, by table and column. It never shrinks, so a schema cannot alternate."""


@dataclass(frozen=True, slots=True)
class _SqliteColumnDecoder:
    """How to decode one column: values of types ``plain`` need no conversion; all others go through ``convert``."""

    name: str
    schema: Schema
    plain: frozenset[type]
    convert: Callable[[Any], Any]
    fast: Mapping[type, Callable[[Sequence[Any]], list[Any]]] = field(default_factory=dict)
    """Converters of whole batches by the type of their values, ignoring nulls. If one raises, ``convert`` reports the cause."""

    def column(self, values: Sequence[Any]) -> Sequence[Any]:
        kinds = set(map(type, values))
        if kinds <= self.plain:
            return values
        kinds.discard(_NULL)
        fast = self.fast.get(kinds.pop()) if len(kinds) == 1 else None
        if fast is not None:
            with contextlib.suppress(ValueError, ArithmeticError):
                return fast(values)
        convert = self.convert
        return [None if value is None else convert(value) for value in values]


class SqliteReader:
    """A running query on a cursor of the driver."""

    def __init__(
        self,
        session: DriverSession,
        query: Sql,
        options: ReadOptions,
        table: JdbcTable | None,
        needs: WidestStorage,
        timer: SqliteStatementTimer,
    ) -> None:
        self._session, self._timer = session, timer
        self._doing = f"reading {table.name}" if table is not None else "running the query"
        columns = self._columns(query, table)
        names = [column.name for column in columns]
        seen = _widest_storage(session, query, columns, str(table.name) if table is not None else query.text, needs)
        self._decoders = [
            _column_decoder(column, parse_declared_type(column.type_name), seen.get(column.name), options) for column in columns
        ]
        self.fields: Sequence[tuple[str, Schema]] = tuple((plan.name, plan.schema) for plan in self._decoders)
        self._exact = [
            (names.index(name), _exact(columns[names.index(name)], options)) for name in options.exact if name in names
        ]
        if len(self._exact) != len(options.exact):
            missing = next(name for name in options.exact if name not in names)
            raise DataError(f"The result has no column {missing}; it has {', '.join(names)}")
        text, values = query.render("qmark")
        session.begin()
        with session.guarded(self._doing):
            self._cursor = session.driver.cursor()
            timer.start(session.driver)
            self._cursor.execute(text, () if values is None else values)
        # The earlier lookup of columns renamed duplicates.
        _reject_duplicate_names([entry[0] for entry in self._cursor.description])

    def _columns(self, query: Sql, table: JdbcTable | None) -> list[JdbcColumn]:
        if table is None:
            return query_columns(self._session, query)
        text, values = query.render("qmark")
        self._session.begin()
        with self._session.guarded(self._doing):
            self._timer.start(self._session.driver)
            cursor = self._session.driver.execute(f"SELECT * FROM ({text}) LIMIT 0", () if values is None else values)
            names = [entry[0] for entry in cursor.description]
        return [table.by_name.get(name) or JdbcColumn(name, "") for name in names]

    def read(self, most: int) -> Rows:
        with self._session.guarded(self._doing):
            self._timer.start(self._session.driver)
            rows = self._cursor.fetchmany(most)
        if not rows:
            return Rows([], [] if self._exact else None)
        columns = list(zip(*rows, strict=True))
        exact = None
        if self._exact:
            exact = list(zip(*([convert(v) for v in columns[i]] for i, convert in self._exact), strict=True))
        read = [plan.column(values) for plan, values in zip(self._decoders, columns, strict=True)]
        return Rows(list(map(list, zip(*read, strict=True))), exact)

    def close(self) -> None:
        self._cursor.close()


def _reject_duplicate_names(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"The query has {names.count(name)} columns named {name}; rename them with AS")


def _widest_storage(
    session: DriverSession, query: Sql, columns: Sequence[JdbcColumn], key: str, known: WidestStorage
) -> dict[str, int]:
    """Returns the widest storage of columns whose declared type is ambiguous. The rows cannot change before they are read because
    both happen in one transaction."""
    asked = [column.name for column in columns if _is_open(parse_declared_type(column.type_name), known.get((key, column.name)))]
    if asked:
        by_name = {column.name: parse_declared_type(column.type_name) for column in columns}
        parts = [_widest_storage_sql(session.dialect.quote(name), by_name[name]) for name in asked]
        found = session.query(Sql("SELECT ", joined(", ", parts), " FROM (", query, ")"), "looking at the values")[0]
        for name, need in zip(asked, found, strict=True):
            if need is not None:
                known[key, name] = max(need, known.get((key, name), _NARROW))
    return {column.name: known[key, column.name] for column in columns if (key, column.name) in known}


def _is_open(type: SqliteColumnType, known: int | None) -> bool:
    if type.expected is SqliteValueKind.ANY:
        return known != _BLOB
    return type.expected is SqliteValueKind.INTEGER and type.bits < 64 and known != _WIDE


def _widest_storage_sql(column: str, type: SqliteColumnType) -> Sql:
    low, high = _LIMITS[type.bits]
    fits = f"{column} NOT BETWEEN {low} AND {high}" if type.bits < 64 else "0"
    if type.expected is SqliteValueKind.INTEGER:
        return Sql(f"max(CASE typeof({column}) WHEN 'integer' THEN {fits} END)")
    others = f"WHEN 'real' THEN {_REAL} WHEN 'text' THEN {_TEXT} WHEN 'blob' THEN {_BLOB}"
    return Sql(f"max(CASE typeof({column}) WHEN 'integer' THEN {fits} {others} END)")


def _column_decoder(column: JdbcColumn, type: SqliteColumnType, need: int | None, options: ReadOptions) -> _SqliteColumnDecoder:
    name, optional = column.name, column.nullable
    match type.expected:
        case SqliteValueKind.INTEGER:
            return _whole(column, 64 if need == _WIDE else type.bits)
        case SqliteValueKind.BOOLEAN:
            fast: _Fast = {} if options.strict else {int: _nonzero}
            return _SqliteColumnDecoder(
                name, primitive_schema(Type.BOOLEAN, optional), frozenset((_NULL,)), _boolean(column, options.strict), fast
            )
        case SqliteValueKind.FLOAT:
            return _SqliteColumnDecoder(name, primitive_schema(Type.FLOAT64, optional), frozenset((float, _NULL)), _float(column))
        case SqliteValueKind.DECIMAL | SqliteValueKind.NUMERIC:
            assert type.precision is not None
            assert type.scale is not None
            if type.expected is SqliteValueKind.NUMERIC:
                schema = numeric_schema(type.precision, type.scale, optional, options)
            else:
                schema = decimal_schema(type.precision, type.scale, optional, options)
            return _number(column, schema, type.scale)
        case SqliteValueKind.TEXT:
            return _SqliteColumnDecoder(name, primitive_schema(Type.STRING, optional), frozenset((str, _NULL)), _text(column))
        case SqliteValueKind.BYTES:
            return _SqliteColumnDecoder(
                name, primitive_schema(Type.BYTES, optional), frozenset((bytes, _NULL)), _require_type(bytes, column, "a blob")
            )
        case SqliteValueKind.DATE:
            return _SqliteColumnDecoder(
                name, date_schema(optional=optional), frozenset((_NULL,)), date_reader(options, name), dates(options)
            )
        case SqliteValueKind.TIMESTAMP:
            schema = timestamp_schema_for(options, optional)
            return _SqliteColumnDecoder(name, schema, frozenset((_NULL,)), timestamp_reader(options, name), timestamps(options))
    match need:
        case 2:
            return _SqliteColumnDecoder(name, primitive_schema(Type.FLOAT64, optional), frozenset((float, _NULL)), _float(column))
        case 3:
            # A column without a type distinguishes 5 from '5'; one with numeric affinity stores both as a number.
            others = _require_type(str, column, "text, as in other rows") if type.affinity is Affinity.BLOB else _text(column)
            return _SqliteColumnDecoder(name, primitive_schema(Type.STRING, optional), frozenset((str, _NULL)), others)
        case 4:
            return _SqliteColumnDecoder(
                name, primitive_schema(Type.BYTES, optional), frozenset((bytes, _NULL)), _require_type(bytes, column, "a blob")
            )
    return _whole(column, 64 if need == _WIDE else type.bits)


def _nonzero(values: Sequence[Any]) -> list[Any]:
    return [None if v is None else v != 0 for v in values]


def _whole(column: JdbcColumn, bits: int) -> _SqliteColumnDecoder:
    # The range of the values was checked before.
    return _SqliteColumnDecoder(
        column.name, integer_schema(bits, column.nullable), frozenset((int, _NULL)), _require_type(int, column, "a whole number")
    )


def _mismatch_error(column: JdbcColumn, value: Any, expected: str) -> DataError:
    shown = f"a blob of {len(value)} bytes" if isinstance(value, bytes) else repr(value)
    return DataError(f"Column {column.name} is declared {column.type_name or 'without a type'}, which requires {expected}, "
                     f"but contains {shown}; read it with a query that casts it")  # fmt: skip


def _require_type(kind: type, column: JdbcColumn, expected: str) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if type(value) is kind:
            return value
        raise _mismatch_error(column, value, expected)

    return convert


def _boolean(column: JdbcColumn, strict: bool) -> Callable[[Any], bool]:
    def convert(value: Any) -> bool:
        if type(value) is not int or (strict and value not in (0, 1)):
            raise _mismatch_error(column, value, "0 or 1")
        return value != 0

    return convert


def _float(column: JdbcColumn) -> Callable[[Any], float]:
    def convert(value: Any) -> float:
        if type(value) is float:
            return value
        if type(value) is int and (number := float(value)) == value:
            return number
        raise _mismatch_error(column, value, "a number that a double can hold")

    return convert


def _text(column: JdbcColumn) -> Callable[[Any], str]:
    def convert(value: Any) -> str:
        if isinstance(value, bytes):
            raise _mismatch_error(column, value, "text")
        return value if type(value) is str else repr(value)

    return convert


def _number(column: JdbcColumn, schema: Schema, scale: int) -> _SqliteColumnDecoder:
    if schema.type is Type.FLOAT64:
        return _SqliteColumnDecoder(column.name, schema, frozenset((float, _NULL)), _float(column))
    finish = exact_rescaler(scale, column.name) if schema.type is Type.BYTES else integer_converter(schema.type, column.name)

    def convert(value: Any) -> Any:
        try:
            number = Decimal(repr(value) if type(value) is float else value)
        except (InvalidOperation, TypeError, ValueError) as e:
            raise _mismatch_error(column, value, "a number") from e
        if not number.is_finite():
            raise _mismatch_error(column, value, "a number")
        return finish(number)

    return _SqliteColumnDecoder(
        column.name, schema, frozenset((_NULL,)), convert, {float: _doubles(scale)} if schema.type is Type.BYTES else {}
    )


def _doubles(scale: int) -> Callable[[Sequence[Any]], list[Any]]:
    quantize, unit = EXACT.quantize, Decimal((0, (1,), -scale))
    return lambda values: [None if v is None else quantize(Decimal(repr(v)), unit) for v in values]


def _exact(column: JdbcColumn, options: ReadOptions) -> Callable[[Any], int | None]:
    """Returns a converter of an incrementing or timestamp column to its exact value: int, or ns since 1970 UTC."""
    temporal = parse_declared_type(column.type_name).is_temporal
    what = f"Column {column.name}"

    def convert(value: Any) -> int | None:
        if value is None:
            return None
        if temporal:
            if type(value) is str and value[-6:-5] in ("+", "-") and value[-3:-2] == ":":
                raise DataError(
                    f"{what}: {value!r} has an offset, so SQLite cannot compare it; store such timestamps in UTC with Z"
                )
            return stored_instant_ns(value, options.zone, what)
        if type(value) is float and value.is_integer():
            return int(value)
        if type(value) is not int:
            raise _mismatch_error(column, value, "a whole number")
        return value

    return convert
