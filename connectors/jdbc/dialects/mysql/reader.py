"""Streams query results with constant memory."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pymysql.constants import FIELD_TYPE, FLAG
from pymysql.cursors import Cursor

from connect.data.schema import Schema
from connect.errors import ConnectError, DataError
from connectors.databases.mysql.protocol import ResultStream
from connectors.databases.mysql.row_decoder import Decode, compile_row_decoder
from connectors.jdbc.catalog import JdbcColumn, JdbcTable
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.dialect import Rows, unsupported_type
from connectors.jdbc.dialects.mysql.catalog import MySqlColumnDetails
from connectors.jdbc.dialects.mysql.statements import begin, kill_query
from connectors.jdbc.dialects.mysql.types import MySqlColumnDecoder, MySqlResultColumn, column_decoder
from connectors.jdbc.options import ReadOptions
from connectors.jdbc.sql import Sql
from connectors.jdbc.urls.connection_url import ConnectionTarget
from connectors.jdbc.urls.target import ZeroDates

if TYPE_CHECKING:
    from connectors.jdbc.dialects.dialect import Dialect

log = logging.getLogger(__name__)

_ALL = "SELECT * FROM "
_KEPT_PLANS = 200


@dataclass(frozen=True, slots=True)
class MySqlReadPlan:
    """How to decode rows with certain columns."""

    fields: tuple[tuple[str, Schema], ...]
    decode: Decode


class MySqlReadPlanCache:
    """Caches plans, so that schemas remain the same objects as long as the columns do not change."""

    def __init__(self) -> None:
        self._plans: dict[Any, MySqlReadPlan] = {}

    def plan(
        self,
        columns: tuple[MySqlResultColumn, ...],
        options: ReadOptions,
        table: JdbcTable | None,
        *,
        booleans: bool,
        zero_dates: ZeroDates = ZeroDates.REFUSED,
    ) -> MySqlReadPlan:
        key = (columns, replace(options, batch_rows=0), booleans, zero_dates)
        found = self._plans.get(key)
        if found is None:
            found = _build_plan(columns, options, table, booleans=booleans, zero_dates=zero_dates)
            if len(self._plans) >= _KEPT_PLANS:
                self._plans.clear()
            self._plans[key] = found
        return found


def _build_plan(
    columns: tuple[MySqlResultColumn, ...],
    options: ReadOptions,
    table: JdbcTable | None,
    *,
    booleans: bool,
    zero_dates: ZeroDates,
) -> MySqlReadPlan:
    decoders: list[MySqlColumnDecoder | None] = []
    for column in columns:
        decoder = column_decoder(column, options, booleans=booleans, zero_dates=zero_dates)
        if decoder is None:
            error = unsupported_type(table.name if table else None, _as_column(column, table))
            if not options.skip_unsupported:
                raise error
            log.warning("%s; omitting it", error.message)
        decoders.append(decoder)
    exact = [_exact_number(name, columns, decoders) for name in options.exact]
    fields = tuple(
        (column.name, decoder.schema) for column, decoder in zip(columns, decoders, strict=True) if decoder is not None
    )
    return MySqlReadPlan(fields, compile_row_decoder([column.name for column in columns], decoders, exact))


def _as_column(column: MySqlResultColumn, table: JdbcTable | None) -> JdbcColumn:
    known = table.by_name.get(column.name) if table is not None else None
    return known or JdbcColumn(column.name, f"number {column.type}")


def _exact_number(name: str, columns: Sequence[MySqlResultColumn], decoders: Sequence[MySqlColumnDecoder | None]) -> int:
    for number, (column, decoder) in enumerate(zip(columns, decoders, strict=True)):
        if column.name == name:
            if decoder is None or decoder.exact is None:
                kind = "left out" if decoder is None else f"read as {decoder.schema.name or decoder.schema.type.value}"
                raise DataError(f"Column {name} is {kind}: expected integers or timestamps")
            return number
    raise DataError(f"The result has no column {name}; it has {', '.join(column.name for column in columns)}")


class MySqlReader:
    """See :class:`connectors.jdbc.dialects.dialect.RowReader`."""

    def __init__(
        self, session: DriverSession, target: ConnectionTarget, stream: ResultStream, plan: MySqlReadPlan, *, exact: bool
    ) -> None:
        self.fields: Sequence[tuple[str, Schema]] = plan.fields
        self._session = session
        self._target = target
        self._stream = stream
        self._decode = plan.decode
        self._exact = exact

    def read(self, most: int) -> Rows:
        stream, decode = self._stream, self._decode
        values: list[list[Any]] = []
        exact: list[tuple[int | None, ...]] = []
        with self._session.guarded("reading"):
            while not stream.ended:
                stream.at = decode(stream.data, stream.text, stream.at, most - len(values), values, exact)
                if len(values) >= most:
                    break
                stream.advance()
        return Rows(values, exact if self._exact else None)

    def close(self) -> None:
        self._stream.stop(lambda: kill_query(self._target, self._stream.driver))


def open_reader(
    dialect: Dialect,
    session: DriverSession,
    query: Sql,
    options: ReadOptions,
    table: JdbcTable | None,
    plans: MySqlReadPlanCache,
    *,
    booleans: bool,
) -> MySqlReader:
    """Runs a query and builds the decoder of its columns."""
    if table is not None:
        query = with_exact_floats(dialect, query, table)
    text, values = query.render("format")
    doing = f"reading {table.name}" if table is not None else "running the query"
    with session.guarded(doing):
        driver = begin(session)
        if values is not None:
            text = Cursor(driver).mogrify(text, tuple(values))
        stream = ResultStream(driver, text)
    if not stream.fields:
        raise ConnectError("The query returns no rows: it is no SELECT")
    try:
        columns = tuple(_result_column(field, table, options) for field in stream.fields)
        plan = plans.plan(columns, options, table, booleans=booleans, zero_dates=dialect.target.zero_dates)
    except BaseException:
        stream.stop(lambda: kill_query(dialect.target, driver))
        raise
    return MySqlReader(session, dialect.target, stream, plan, exact=bool(options.exact))


def _result_column(field: Any, table: JdbcTable | None, options: ReadOptions) -> MySqlResultColumn:
    known = table.by_name.get(field.name) if table is not None else None
    was_float = known is not None and _is_float(known) and field.type_code == FIELD_TYPE.DOUBLE
    if options.strict and field.type_code == FIELD_TYPE.FLOAT:
        raise DataError(
            f"Column {field.name}: the server sends only six digits of a FLOAT, which conversion.strict=true forbids; "
            f"select {field.name} + 0e0 in the query"
        )
    nullable = not field.flags & FLAG.NOT_NULL
    return MySqlResultColumn(
        field.name, field.type_code, field.flags, field.charsetnr, field.length, field.scale, was_float,
        known.nullable if was_float and known is not None else nullable,
    )  # fmt: skip


def _is_float(column: JdbcColumn) -> bool:
    return isinstance(column.native, MySqlColumnDetails) and column.native.type == "float"


def with_exact_floats(dialect: Dialect, query: Sql, table: JdbcTable) -> Sql:
    """Rewrites ``SELECT *`` to read FLOAT columns as DOUBLE: the server sends only six digits of a FLOAT, but all digits of a
    DOUBLE."""
    first = query.parts[0] if query.parts else None
    if not isinstance(first, str) or not first.startswith(_ALL) or not any(map(_is_float, table.columns)):
        return query
    names = []
    for column in table.columns:
        if isinstance(column.native, MySqlColumnDetails) and column.native.invisible:
            continue
        name = dialect.quote(column.name)
        names.append(f"{name} + 0e0 AS {name}" if _is_float(column) else name)
    return Sql(f"SELECT {', '.join(names)} FROM {first[len(_ALL) :]}", *query.parts[1:])
