"""Reads chunks of tables: the next rows in key order, as of one point in time."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from connectors.cdc.incremental.context import DataCollection, TableScan
from connectors.cdc.incremental.java_keys import Position
from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection, quote_identifier
from connectors.postgres.errors import ServerError
from connectors.postgres.incremental.positions import after, order_by, up_to
from connectors.postgres.incremental.visibility import StreamedTransactions
from connectors.postgres.incremental.window import Window
from connectors.postgres.offsets import parse_lsn
from connectors.postgres.schema.catalog import CapturedTable, read_table
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.snapshot.text_batches import Traits, split_rows
from connectors.postgres.snapshot.transaction import BEGIN_SNAPSHOT
from connectors.postgres.streaming import publications
from connectors.postgres.streaming.captured_tables import CapturedTables

log = logging.getLogger(__name__)

_LOCK_TIMEOUT_MS = 200
_LOCK_NOT_AVAILABLE = "55P03"
_LSN = "select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end"
_PAGE_SIZE, _PAGE_HEADERS = 8192, (24, 40)


class ChunkDelayed(Exception):
    """The chunk cannot be read now; try again soon. Never leaves the package."""


class TableSkipped(Exception):
    """The table cannot be read. ``status`` is Debezium's name of the reason. Never leaves the package."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows that were read. ``lsn``: transactions that commit before it may be part of the snapshot, later ones are not.

    ``scan`` is the state before the chunk, ``end`` the key of its last row, None if there is none.
    """

    window: Window
    scan: TableScan
    end: Position | None
    row_count: int
    is_last: bool
    lsn: int


class ChunkReader:
    """Reads on a connection that the caller opens and closes. It is closed early if a chunk has too many bytes."""

    def __init__(
        self, settings: PostgresConfig, filters: Filters, tables: CapturedTables, streamed: StreamedTransactions
    ) -> None:
        self._settings = settings
        self._filters = filters
        self._tables = tables
        self._streamed = streamed
        self._table: CapturedTable | None = None
        self._seen: CapturedTable | None = None

    def find_tables(self, connection: Connection) -> list[CapturedTable]:
        """The tables that can be read: all captured tables except the signal table."""
        tables = publications.read_captured_tables(connection, self._settings, self._filters)
        return [table for table in tables if not self._filters.is_signal_table(table.schema, table.name)]

    def read(self, connection: Connection, collection: DataCollection, scan: TableScan) -> Chunk:
        """Reads the next chunk of a table. Raises ChunkDelayed, TableSkipped, and ConnectionLostError."""
        table = self._find(connection, collection)
        if waiting := self._streamed.unknown_writers(connection, table.oid):
            raise ChunkDelayed(f"{waiting} transactions that write to {table} must end first")
        try:
            with _transaction(connection, table):
                # The position is determined after the snapshot was taken, so it is behind everything in it.
                ((snapshot, lsn),) = connection.query(f"select txid_current_snapshot(), ({_LSN})")
                if not self._streamed.precedes(snapshot or ""):
                    raise ChunkDelayed("a streamed transaction is not visible yet")
                rows = self._tables.snapshot_rows(self._current(connection, table))
                return self._read(connection, collection, rows, scan, _record_end(parse_lsn(lsn or "0/0")))
        except ServerError as e:
            if e.sqlstate == _LOCK_NOT_AVAILABLE:
                raise ChunkDelayed(e.message) from e
            raise TableSkipped("SQL_EXCEPTION", e.message) from e

    def _find(self, connection: Connection, collection: DataCollection) -> CapturedTable:
        table = self._table
        if table is None or (table.schema, table.name) != (collection.schema, collection.name):
            named = (t for t in self.find_tables(connection) if (t.schema, t.name) == (collection.schema, collection.name))
            table = next(named, None)
            if table is None:
                raise TableSkipped("UNKNOWN_SCHEMA", f"table {collection} does not exist or is not captured")
            self._table, self._seen = table, None
        return table

    def _current(self, connection: Connection, table: CapturedTable) -> CapturedTable:
        """The table as of the connection's transaction."""
        seen = read_table(connection, table.oid)
        if seen is None or seen != self._seen:
            found = {t.oid: t for t in self.find_tables(connection)}
            if table.oid not in found:
                self._table = None
                raise ChunkDelayed(f"table {table} was dropped, recreated, or renamed")
            self._table, self._seen = found[table.oid], seen
        return self._table or table

    def _read(self, connection: Connection, collection: DataCollection, rows: TableRows, scan: TableScan, lsn: int) -> Chunk:
        order = _order_columns(collection, rows)
        if scan.columns not in ((), tuple(order)) or (scan.end is not None and len(scan.end) != len(order)):
            log.warning("incremental snapshot: the key of %s has changed; reading the table from its start", rows.table)
            scan = TableScan()
        source = _source(rows, collection)
        if scan.maximum is None:
            maximum = _maximum(connection, source, list(order))
            scan = TableScan(tuple(order), _type_names(rows, list(order)), None, maximum)
        elif not scan.columns:
            scan = TableScan(tuple(order), _type_names(rows, list(order)), scan.end, scan.maximum)
        lines: list[str] = []
        traits = Traits.of(b"")
        size = self._settings.incremental.chunk_size
        if scan.maximum is not None:
            bounds = [up_to(order, scan.maximum)]
            if scan.end is not None:
                bounds.insert(0, after(order, scan.end))
            limit = f"FETCH FIRST {size} ROWS WITH TIES" if collection.surrogate_key else f"LIMIT {size}"
            columns = ", ".join(quote_identifier(column.name) for column in rows.columns)
            where = " AND ".join([*source.conditions, *bounds])
            # A surrogate key need not be unique: rows with one value cannot be divided.
            max_bytes = math.inf if collection.surrogate_key else self._settings.max_batch_bytes
            select = f"SELECT {columns} FROM {source.table} WHERE {where} ORDER BY {order_by(list(order))} {limit}"
            lines, traits = _copy(connection, select, max_bytes)
        window, end = _window(rows, lines, traits, list(order))
        is_last = len(lines) < size and not connection.is_closed
        return Chunk(window, scan, end, len(lines), is_last, lsn)


@contextmanager
def _transaction(connection: Connection, table: CapturedTable) -> Iterator[None]:
    """A transaction whose snapshot is taken after the table is locked: so nobody rewrites or truncates it in between."""
    connection.execute(BEGIN_SNAPSHOT)
    try:
        try:
            connection.execute(
                f"SET LOCAL row_security = off; SET LOCAL lock_timeout = {_LOCK_TIMEOUT_MS}; "
                f"LOCK TABLE {table.sql_name} IN ACCESS SHARE MODE"
            )
        except ServerError as e:
            if e.sqlstate == "42P01":
                raise TableSkipped("UNKNOWN_SCHEMA", f"table {table} does not exist any more") from e
            raise
        yield
    finally:
        if not connection.is_closed:
            connection.execute("ROLLBACK")


@dataclass(frozen=True, slots=True)
class _Source:
    """The FROM item of a table, and the conditions for its rows."""

    table: str
    conditions: list[str]


def _source(rows: TableRows, collection: DataCollection) -> _Source:
    conditions = [f"({condition})" for condition in (rows.table.row_filter, collection.condition) if condition]
    return _Source(rows.table.own_rows, conditions)


def _order_columns(collection: DataCollection, rows: TableRows) -> dict[str, bool]:
    """The columns that order the rows, and whether they may be null. Raises TableSkipped."""
    captured = {column.name for column in rows.columns}
    names: Sequence[str] = rows.key
    if collection.surrogate_key:
        names = [collection.surrogate_key]
        if collection.surrogate_key not in captured:
            raise TableSkipped(
                "UNKNOWN_SCHEMA", f"table {rows.table} has no captured column {collection.surrogate_key} (surrogate-key)"
            )
    if not names:
        raise TableSkipped(
            "NO_PRIMARY_KEY", f"table {rows.table} has no key; name a column that orders its rows in surrogate-key of the signal"
        )
    nullable = {column.name: not column.not_null for column in rows.table.columns}
    return {name: nullable[name] for name in names}


def _type_names(rows: TableRows, columns: Sequence[str]) -> tuple[str, ...]:
    """The names of the columns' types; of a domain, that of its base type."""
    oids = {column.name: column.type_oid for column in rows.table.columns}
    names: list[str] = []
    for column in columns:
        type_ = rows.types[oids[column]]
        while type_.base_oid and type_.base_oid in rows.types:
            type_ = rows.types[type_.base_oid]
        names.append(type_.name)
    return tuple(names)


def _maximum(connection: Connection, source: _Source, columns: Sequence[str]) -> Position | None:
    """The highest key; None if there are no rows."""
    names = ", ".join(map(quote_identifier, columns))
    where = f" WHERE {' AND '.join(source.conditions)}" if source.conditions else ""
    found = connection.query(
        f"SELECT {names} FROM {source.table}{where} ORDER BY {order_by(columns, descending=True)} LIMIT 1", timeout_s=math.inf
    )
    return found[0] if found else None


def _copy(connection: Connection, select: str, max_bytes: float) -> tuple[list[str], Traits]:
    """The first rows, and not many more bytes than ``max_bytes``. Closes the connection if there are more."""
    connection.query(f"COPY ({select}) TO STDOUT", timeout_s=math.inf)
    data = connection.read_copy(max_bytes)
    lines = data.decode().split("\n")
    lines.pop()
    return lines, Traits.of(data)


def _window(rows: TableRows, lines: Sequence[str], traits: Traits, order: Sequence[str]) -> tuple[Window, Position | None]:
    """The rows by key, and the position of the last."""
    indexes = {column.name: i for i, column in enumerate(rows.columns)}
    window = Window(rows, rows.key or tuple(order))
    end: Position | None = None
    for line, cells in zip(lines, split_rows(lines, traits), strict=True):
        window.add(line, cells)
        end = tuple(cells[indexes[name]] for name in order)
    return window, end


def _record_end(lsn: int) -> int:
    """The end of the last record before an insert position: at the start of a page, that is behind the page's header."""
    return lsn - lsn % _PAGE_SIZE if lsn % _PAGE_SIZE in _PAGE_HEADERS else lsn
