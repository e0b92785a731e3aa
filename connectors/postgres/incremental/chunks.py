"""Reads chunks of tables: the next rows in key order, as of one point in time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from connect.record import SourceRecord
from connectors.cdc.incremental.chunks import Chunk, ChunkDelayed, TableSkipped, continue_scan, order_names, unusable_order_column
from connectors.cdc.incremental.context import DataCollection, TableScan
from connectors.cdc.incremental.java_keys import Position
from connectors.cdc.schema.filters import Filters
from connectors.cdc.schema.row_keys import contains_key
from connectors.cdc.snapshot.key_ranges import fingerprint_of
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection, quote_identifier
from connectors.postgres.errors import ServerError
from connectors.postgres.incremental.events import IncrementalEvents
from connectors.postgres.incremental.positions import JAVA_KEYS, after, order_by, up_to
from connectors.postgres.incremental.visibility import StreamedTransactions
from connectors.postgres.incremental.window import CopyWindow
from connectors.postgres.offsets import parse_lsn
from connectors.postgres.schema.catalog import CapturedTable, read_table
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.sessions import DatabaseSessions
from connectors.postgres.snapshot.text_batches import Traits, split_rows
from connectors.postgres.snapshot.transaction import BEGIN_SNAPSHOT
from connectors.postgres.streaming import publications
from connectors.postgres.streaming.captured_tables import CapturedTables
from connectors.postgres.streaming.observers import StreamObservers

_LOCK_TIMEOUT_MS = 200
_LOCK_NOT_AVAILABLE = "55P03"
_LSN = "select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end"
_PAGE_SIZE, _PAGE_HEADERS = 8192, (24, 40)
# On what the order of columns depends besides their types: collations and the labels of enums.
_ORDERS = """
select a.attname, l.collname, (select json_agg(e.enumlabel order by e.enumsortorder)::text from pg_enum e
                               where e.enumtypid in (t.oid, t.typbasetype))
from pg_attribute a join pg_type t on t.oid = a.atttypid left join pg_collation l on l.oid = a.attcollation
where a.attrelid = $1::oid and a.attnum > 0 and not a.attisdropped
"""


class ChunkReader:
    """Reads chunks on a connection of its own (a ChunkSource). It is closed early if a chunk has too many bytes."""

    java_keys = JAVA_KEYS
    crash_point = "postgres.chunk"

    def __init__(
        self,
        settings: PostgresConfig,
        filters: Filters,
        tables: CapturedTables,
        sessions: DatabaseSessions,
        observers: StreamObservers,
        version: str,
    ) -> None:
        self._settings = settings
        self._filters = filters
        self._tables = tables
        self._sessions = sessions
        self._observers = observers
        self._streamed = StreamedTransactions()
        self._events = IncrementalEvents(settings, tables, version)
        self._connection: Connection | None = None
        self._table: CapturedTable | None = None
        self._seen: CapturedTable | None = None

    def find_tables(self) -> list[tuple[str, str]]:
        connection = self._session()
        found = [(table.schema, table.name) for table in self._find_tables(connection)]
        if self._streamed.is_started:
            # Changes from before a table joined the publication are not streamed, even if they are committed later.
            self._streamed.note_writers(connection)
        return found

    def _find_tables(self, connection: Connection) -> list[CapturedTable]:
        tables = publications.read_captured_tables(connection, self._settings, self._filters)
        return [table for table in tables if not self._filters.is_signal_table(table.schema, table.name)]

    def read(self, collection: DataCollection, scan: TableScan) -> Chunk[CopyWindow, int]:
        connection = self._session()
        if not self._streamed.is_started:
            self._observers.on_begin = self._streamed.add
            self._streamed.start(connection)
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

    def records(self, window: CopyWindow, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[SourceRecord]:
        return self._events.records(window.table, window.rows(), before, after)

    def finish(self) -> None:
        self._observers.stop_recording()
        self._streamed.stop()
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _session(self) -> Connection:
        if self._connection is None or self._connection.is_closed:
            self._connection = self._sessions.open()
        return self._connection

    def _find(self, connection: Connection, collection: DataCollection) -> CapturedTable:
        table = self._table
        if table is None or (table.schema, table.name) != (collection.schema, collection.name):
            named = (t for t in self._find_tables(connection) if (t.schema, t.name) == (collection.schema, collection.name))
            table = next(named, None)
            if table is None:
                raise TableSkipped("UNKNOWN_SCHEMA", f"table {collection} does not exist or is not captured")
            self._table, self._seen = table, None
        return table

    def _current(self, connection: Connection, table: CapturedTable) -> CapturedTable:
        """The table as of the connection's transaction."""
        seen = read_table(connection, table.oid)
        if seen is None or seen != self._seen:
            found = {t.oid: t for t in self._find_tables(connection)}
            if table.oid not in found:
                self._table = None
                raise ChunkDelayed(f"table {table} was dropped, recreated, or renamed")
            self._table, self._seen = found[table.oid], seen
        return self._table or table

    def _read(
        self, connection: Connection, collection: DataCollection, rows: TableRows, scan: TableScan, lsn: int
    ) -> Chunk[CopyWindow, int]:
        order = _order_columns(collection, rows)
        source, names = _source(rows, collection), tuple(order)
        types, orders = _type_names(rows, names), _read_orders(connection, rows.table, names)
        scan = continue_scan(rows.table, scan, names, types, orders, lambda: _maximum(connection, source, names))
        lines: list[str] = []
        traits = Traits.of(b"")
        size = self._settings.incremental.chunk_size
        if scan.maximum is not None:
            bounds = [up_to(order, scan.maximum)]
            if scan.end is not None:
                bounds.insert(0, after(order, scan.end))
            # Rows with equal values cannot be divided.
            is_unique = contains_key(rows.table.key, names)
            limit = f"LIMIT {size}" if is_unique else f"FETCH FIRST {size} ROWS WITH TIES"
            columns = ", ".join(quote_identifier(column.name) for column in rows.columns)
            where = " AND ".join([*source.conditions, *bounds])
            max_bytes = self._settings.max_batch_bytes if is_unique else math.inf
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
    names = order_names(rows.table, rows.key, collection)
    if missing := [name for name in names if name not in captured]:
        raise unusable_order_column(rows.table, missing[0])
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


def _read_orders(connection: Connection, table: CapturedTable, columns: Sequence[str]) -> tuple[str, ...]:
    """Reads on what the order of columns depends besides their types, as short texts; empty ones for nothing."""
    found = {name: order for name, *order in connection.query(_ORDERS, [table.oid])}
    return tuple(fingerprint_of(*found[name]) if any(found[name]) else "" for name in columns)


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


def _window(rows: TableRows, lines: Sequence[str], traits: Traits, order: Sequence[str]) -> tuple[CopyWindow, Position | None]:
    """The rows by key, and the position of the last."""
    indexes = {column.name: i for i, column in enumerate(rows.columns)}
    window = CopyWindow(rows)
    end: Position | None = None
    for line, cells in zip(lines, split_rows(lines, traits), strict=True):
        window.add_line(line, cells)
        end = tuple(cells[indexes[name]] for name in order)
    return window, end


def _record_end(lsn: int) -> int:
    """The end of the last record before an insert position: at the start of a page, that is behind the page's header."""
    return lsn - lsn % _PAGE_SIZE if lsn % _PAGE_SIZE in _PAGE_HEADERS else lsn
