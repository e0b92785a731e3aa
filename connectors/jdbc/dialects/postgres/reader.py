"""Readers of queries: by COPY, or, for what COPY does not take, by results that come in parts."""

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
"""How long a read that has some rows waits for the server to send more."""

_SAVEPOINT = "sluice_reading"
_COPYABLE = re.compile(r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(?:SELECT|WITH|VALUES|TABLE)\b", re.IGNORECASE | re.DOTALL)


def inline_values(session: DriverSession, query: Sql) -> str:
    """The query with its values as literals that libpq quoted: neither COPY nor PREPARE without types takes parameters."""
    text = "".join(
        part if isinstance(part, str) else psycopg_sql.Literal(part.value).as_string(session.driver) for part in query.parts
    )
    return text.strip().rstrip(";").rstrip()


def result_columns(
    session: DriverSession, pgconn: PGconn, text: str, types: PostgresTypeCache, doing: str
) -> list[PostgresResultColumn]:
    """The columns of a query's result. Whether they can be null is what the catalogue says of the columns they come from."""
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
    """By table oid and column number: NOT NULL, and how many dimensions an array was declared with."""
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
    """What both readers share: where they began, so that ending early leaves the transaction as it was."""

    def __init__(self, session: DriverSession, pgconn: PGconn, plan: PostgresReadPlan, doing: str, *, savepoint: bool) -> None:
        self._session = session
        self._pgconn = pgconn
        self._plan = plan
        self._doing = doing
        self._savepoint = savepoint
        self._running = True
        self.fields: Sequence[tuple[str, Schema]] = plan.fields

    def close(self) -> None:
        """Ends the query; what it still sends is thrown away. May be called twice."""
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
    """Rows of ``COPY (query) TO STDOUT``, which is already running."""

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
                    # The first row may take as long as it takes.
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
    """Rows of a statement that COPY does not take (SHOW, EXPLAIN, or a server without COPY)."""

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
    """Starts the query. ``nested``: the transaction had begun before, so that an early end must not undo it."""
    server = libpq.server_kind(session)
    savepoint = nested and server is not libpq.ServerKind.REDSHIFT
    copies = server is not libpq.ServerKind.REDSHIFT and _COPYABLE.match(text) is not None
    with session.guarded(doing):
        pgconn = libpq.begin(session)
        if savepoint:
            libpq.run(pgconn, f"SAVEPOINT {_SAVEPOINT}")
        if copies:
            # The line break ends a comment on the query's last line.
            libpq.start_copy(pgconn, f"COPY ({text}\n) TO STDOUT")
        else:
            libpq.stream(pgconn, text, rows)
    made = CopyReader if copies else StreamReader
    return made(session, pgconn, plan, doing, savepoint=savepoint)
