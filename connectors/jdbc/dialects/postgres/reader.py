"""Reads queries with COPY, or as a stream of results if COPY does not accept the statement."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import psycopg
from psycopg import sql as psycopg_sql
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from connect.data.schema import Schema
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.dialect import Rows
from connectors.jdbc.dialects.postgres import libpq
from connectors.jdbc.dialects.postgres.catalog import PostgresTypeCache
from connectors.jdbc.dialects.postgres.row_decoder import PostgresReadPlan
from connectors.jdbc.dialects.postgres.types import PostgresResultColumn
from connectors.jdbc.sql import Sql

_COPY_BYTES = 8 << 20
_FILL_S = 0.05
"""How long a read that already has rows waits for more."""

_SAVEPOINT = "sluice_reading"
_COPYABLE = re.compile(r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(?:SELECT|WITH|VALUES|TABLE)\b", re.IGNORECASE | re.DOTALL)


def inline_values(session: DriverSession, query: Sql) -> str:
    """Returns the query with its values as literals quoted by libpq: COPY and untyped PREPARE accept no parameters."""
    text = "".join(
        part if isinstance(part, str) else psycopg_sql.Literal(part.value).as_string(session.driver) for part in query.parts
    )
    return text.strip().rstrip(";").rstrip()


def result_columns(
    session: DriverSession, pgconn: PGconn, text: str, types: PostgresTypeCache, doing: str
) -> list[PostgresResultColumn]:
    """Returns the columns of a query's result. Their nullability is that of the table columns that they come from."""
    with session.guarded(doing):
        described = libpq.describe(pgconn, text)
    numbers = range(described.nfields)
    names = [(described.fname(i) or b"").decode() for i in numbers]
    known = types.find(session, (described.ftype(i) for i in numbers), doing)
    origins = _origins(session, described, doing)
    columns: list[PostgresResultColumn] = []
    for i, name in enumerate(names):
        type, typmod = known[described.ftype(i)]
        not_null, dimensions = origins.get((described.ftable(i), described.ftablecol(i)), (False, 0))
        columns.append(
            PostgresResultColumn(name, type, described.fmod(i) if described.fmod(i) >= 0 else typmod, not not_null, dimensions)
        )
    return columns


_ORIGINS = """
SELECT a.attrelid, a.attnum, a.attnotnull OR (t.typtype = 'd' AND t.typnotnull), a.attndims
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid WHERE """


def _origins(session: DriverSession, described: PGresult, doing: str) -> dict[tuple[int, int], tuple[bool, int]]:
    """Returns, by table OID and column number, whether the column is NOT NULL and its declared number of array dimensions."""
    wanted: dict[int, set[int]] = {}
    for i in range(described.nfields):
        if described.ftable(i) and described.ftablecol(i) > 0:
            wanted.setdefault(described.ftable(i), set()).add(described.ftablecol(i))
    if not wanted:
        return {}
    each = (f"(a.attrelid = {table} AND a.attnum IN ({','.join(map(str, sorted(them)))}))" for table, them in wanted.items())
    rows = session.query(Sql(_ORIGINS + " OR ".join(each)), doing)
    return {(table, number): (not_null, dimensions) for table, number, not_null, dimensions in rows}


class _PostgresReader:
    """The common part of both readers. It can end a query early without ending the transaction."""

    def __init__(self, session: DriverSession, pgconn: PGconn, plan: PostgresReadPlan, doing: str, *, savepoint: bool) -> None:
        self._session = session
        self._pgconn = pgconn
        self._plan = plan
        self._doing = doing
        self._savepoint = savepoint
        self._running = True
        self.fields: Sequence[tuple[str, Schema]] = plan.fields

    def close(self) -> None:
        """Cancels the query if it is running and discards its output. May be called twice."""
        if not self._running:
            return
        self._running = False
        pgconn = self._pgconn
        libpq.cancel(pgconn)
        try:
            libpq.discard(pgconn)
        except psycopg.Error:
            self._session.drop()
            return
        if pgconn.transaction_status == TransactionStatus.INERROR:
            if not self._savepoint:
                self._session.rollback()
                return
            try:
                libpq.run(pgconn, f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}; RELEASE SAVEPOINT {_SAVEPOINT}")
            except psycopg.Error:
                self._session.rollback()

    def _ended(self) -> None:
        self._running = False
        if self._savepoint:
            libpq.run(self._pgconn, f"RELEASE SAVEPOINT {_SAVEPOINT}")


class CopyReader(_PostgresReader):
    """Reads the rows of a running ``COPY (query) TO STDOUT``."""

    def read(self, most: int) -> Rows:
        with self._session.guarded(self._doing):
            lines = self._lines(most) if self._running else []
        return self._plan.decode_lines(lines)

    def _lines(self, most: int) -> list[str]:
        pgconn = self._pgconn
        get = pgconn.get_copy_data
        parts: list[memoryview] = []
        add = parts.append
        count = size = 0
        deadline: float | None = None
        try:
            while count < most and size < _COPY_BYTES:
                length, view = get(1)
                if length > 0:
                    add(view)
                    size += length
                    count += 1
                elif length == 0:
                    # No limit on the wait for the first row.
                    if deadline is None and count:
                        deadline = time.monotonic() + _FILL_S
                    if not libpq.wait_readable(pgconn, None if deadline is None else deadline - time.monotonic()):
                        break
                    pgconn.consume_input()
                else:
                    libpq.end_copy_out(pgconn)
                    self._ended()
                    break
        except psycopg.Error:
            self._running = False
            raise
        lines = b"".join(parts).decode().split("\n")
        lines.pop()
        return lines


class StreamReader(_PostgresReader):
    """Reads the rows of a statement that COPY does not accept (SHOW, EXPLAIN), or of a server without COPY."""

    def __init__(
        self, session: DriverSession, pgconn: PGconn, plan: PostgresReadPlan, doing: str, *, savepoint: bool, codec: str = "utf-8"
    ) -> None:  # fmt: skip
        super().__init__(session, pgconn, plan, doing, savepoint=savepoint)
        self._codec = codec
        self._waiting: list[list[str | None]] = []

    def read(self, most: int) -> Rows:
        with self._session.guarded(self._doing):
            while self._running and len(self._waiting) < most:
                self._take()
        rows, self._waiting = self._waiting[:most], self._waiting[most:]
        return self._plan.decode_cells(rows)

    def _take(self) -> None:
        try:
            result = libpq.next_result(self._pgconn)
        except psycopg.Error:
            self._running = False
            raise
        if result is None:
            self._ended()
            return
        if result.status == ExecStatus.COMMAND_OK:
            return
        columns, get, codec = range(result.nfields), result.get_value, self._codec
        for row in range(result.ntuples):
            self._waiting.append([None if (v := get(row, column)) is None else v.decode(codec) for column in columns])


def open_reader(
    session: DriverSession, text: str, plan: PostgresReadPlan, rows: int, doing: str, *, nested: bool
) -> CopyReader | StreamReader:
    """Starts the query. ``nested``: a transaction was already running, so ending early must not roll it back."""
    server = libpq.server_kind(session)
    savepoint = nested and server is not libpq.ServerKind.REDSHIFT
    copies = server is not libpq.ServerKind.REDSHIFT and _COPYABLE.match(text) is not None
    with session.guarded(doing):
        pgconn = libpq.begin(session)
        if savepoint:
            libpq.run(pgconn, f"SAVEPOINT {_SAVEPOINT}")
        if copies:
            # The line break ends a comment on the last line of the query.
            libpq.start_copy(pgconn, f"COPY ({text}\n) TO STDOUT")
        else:
            libpq.stream(pgconn, text, rows)
    reader = CopyReader if copies else StreamReader
    return reader(session, pgconn, plan, doing, savepoint=savepoint)
