"""Reads chunks of tables: the next rows in key order, as of one point in time."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from connect.record import SourceRecord
from connectors.cdc.errors import ConnectionLostError
from connectors.cdc.incremental.chunks import Chunk, ChunkDelayed, TableSkipped, continue_scan, order_names, unusable_order_column
from connectors.cdc.incremental.context import DataCollection, TableScan
from connectors.cdc.incremental.java_keys import Position
from connectors.cdc.incremental.keyset import order_by
from connectors.cdc.schema.row_keys import contains_key
from connectors.cdc.snapshot.key_ranges import fingerprint_of
from connectors.databases.mysql.row_decoder import Decode
from connectors.mysql.catalog import read_column_orders, read_tables
from connectors.mysql.config import MySqlConfig
from connectors.mysql.connection import MySqlConnection, quote_identifier, quote_name
from connectors.mysql.errors import MySqlServerError
from connectors.mysql.incremental.events import IncrementalRowEvents
from connectors.mysql.incremental.order_columns import OrderColumn, order_column, position_of, rows_after, rows_up_to
from connectors.mysql.incremental.signal_writer import MySqlSignalWriter
from connectors.mysql.incremental.visibility import FollowedPosition, SnapshotContents, check_visibility, start_transaction
from connectors.mysql.incremental.window import RowWindow
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.model import TableId
from connectors.mysql.schema.table_rows import MySqlTableRows
from connectors.mysql.schema.tables import TableStructures
from connectors.mysql.server import ServerInfo, read_end, read_server
from connectors.mysql.sessions import MySqlSessions
from connectors.mysql.snapshot.events import text_decoder
from connectors.mysql.streaming.observers import BinlogMark
from connectors.mysql.types import MYSQL_JAVA_KEYS

_SESSION: Final = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
_LOCK_TIMEOUT: Final = "SET SESSION lock_wait_timeout = {seconds}"
_LOCKED: Final = 1205
_TABLE_CHANGED: Final = 1412
_ALL: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class FollowedStream:
    """The stream that chunks are put into. It is asked only while it is open."""

    position: Callable[[], FollowedPosition]
    find_server: Callable[[], ServerInfo | None]
    """Returns the server that the stream comes from; not None while it is open."""

    def server(self) -> ServerInfo:
        server = self.find_server()
        assert server is not None
        return server


@dataclass(frozen=True, slots=True)
class _ChunkQuery:
    """The parts of the queries of a table. ``is_unique``: no two rows have the same values of ``order``."""

    table: MySqlTableRows
    order: Sequence[OrderColumn]
    conditions: Sequence[str]
    is_unique: bool

    def select(self, expressions: Sequence[str], bounds: Sequence[str], limit: str, *, descending: bool = False) -> str:
        where = " AND ".join([*self.conditions, *bounds])
        order = order_by([column.sql_name for column in self.order], descending=descending)
        name = quote_name(self.table.table.database, self.table.table.name)
        return f"SELECT {', '.join(expressions)} FROM {name}{f' WHERE {where}' if where else ''} ORDER BY {order}{limit}"

    def position(
        self, connection: MySqlConnection, bounds: Sequence[str], limit: str, *, descending: bool = False
    ) -> Position | None:
        """Reads the position of a row; None if there is none."""
        sql = self.select([column.key.select for column in self.order], bounds, limit, descending=descending)
        rows = connection.query(sql, timeout_s=math.inf)
        if not rows:
            return None
        pairs = zip(self.order, rows[0], strict=True)
        return position_of(
            self.order,
            [
                text.encode("utf-8", "surrogateescape") if column.key.is_bytes and text is not None else text
                for column, text in pairs
            ],
        )


class BinlogChunkReader:
    """Reads chunks on a connection of its own (a ChunkSource)."""

    java_keys = MYSQL_JAVA_KEYS
    crash_point = "mysql.chunk"

    def __init__(
        self,
        settings: MySqlConfig,
        tables: MySqlCapturedTables,
        structures: TableStructures,
        sessions: MySqlSessions,
        stream: FollowedStream,
        writer: MySqlSignalWriter,
        version: str,
    ) -> None:
        """``writer`` writes the watermarks."""
        self._settings = settings
        self._tables = tables
        self._structures = structures
        self._sessions = sessions
        self._stream = stream
        self._writer = writer
        self._events = IncrementalRowEvents(settings, version)
        self._decode: tuple[MySqlTableRows, Decode] | None = None
        self._connection: MySqlConnection | None = None
        self._rejected: tuple[str, BinlogMark] | None = None
        """Why the table could not be read, and the end of the log when that was found out."""

    def find_tables(self) -> list[tuple[str, str]]:
        # A table that has just been created may not have been streamed yet.
        created = (TableId(info.database, info.name) for info in read_tables(self._sessions.catalog()))
        found = sorted(id for id in {*self._structures.tables, *created} if self._tables.captures(id))
        is_signal_table = self._tables.filters.is_signal_table
        return [(id.database, id.name) for id in found if not is_signal_table(*id)]

    def read(self, collection: DataCollection, scan: TableScan) -> Chunk[RowWindow, BinlogMark]:
        connection = self._session()
        rows = self._current_version(TableId(collection.schema, collection.name))
        if rows is None:
            self._judge(connection, "UNKNOWN_SCHEMA", f"table {collection} does not exist or is not captured")
        query = self._query(self._tables.snapshot_rows(rows.table), collection)
        try:
            with _transaction(connection, self._stream.server()) as contents:
                check_visibility(contents, self._stream.position(), has_watermark=self._writer.has_written)
                chunk = self._read(connection, query, scan, contents)
        except MySqlServerError as e:
            if e.number in (_LOCKED, _TABLE_CHANGED):
                raise ChunkDelayed(e.message) from e
            self._judge(connection, "SQL_EXCEPTION", e.message)
        self._rejected = None
        return chunk

    def _judge(self, connection: MySqlConnection, status: str, reason: str) -> NoReturn:
        """Raises ChunkDelayed as long as the stream may tell what has happened to the table, else TableSkipped."""
        if self._rejected is None or self._rejected[0] != reason:
            self._rejected = reason, BinlogMark.at(read_end(connection, self._stream.server()))
        reached = self._stream.position().reached
        if reached is None or not self._rejected[1].is_at_or_before(reached):
            raise ChunkDelayed(reason)
        self._rejected = None
        raise TableSkipped(status, reason)

    def records(self, window: RowWindow, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[SourceRecord]:
        return self._events.records(window, before, after)

    def finish(self) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._rejected = None  # the next server has another log

    # --- before the rows --------------------------------------------------------------------------------------------------------

    def _session(self) -> MySqlConnection:
        if self._connection is not None and not self._connection.is_closed:
            return self._connection
        connection = self._sessions.open()
        try:
            connection.execute(_SESSION)
            # The stream waits for chunks, so they must not wait for locks. A second is the shortest time of MySQL.
            connection.execute(_LOCK_TIMEOUT.format(seconds=0 if connection.is_mariadb else 1))
            ours, streamed = read_server(connection), self._stream.server()
            if (ours.uuid, ours.server_id) != (streamed.uuid, streamed.server_id):
                raise ChunkDelayed(
                    f"{connection.address.where} leads to server {ours.server_id} now, and the binary log is read from server "
                    f"{streamed.server_id}"
                )
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _current_version(self, id: TableId) -> MySqlTableRows | None:
        """The version of a table at the position of the stream; None if it does not exist there, or is not captured."""
        table = self._structures.tables.get(id)
        return None if table is None or not self._tables.captures(id) else self._tables.rows_of(table)

    def _query(self, rows: MySqlTableRows, collection: DataCollection) -> _ChunkQuery:
        order: list[OrderColumn] = []
        for name in order_names(rows.table, rows.key, collection):
            column = order_column(rows, name)
            if column is None:
                raise unusable_order_column(rows.table, name)
            order.append(column)
        is_unique = contains_key(rows.table.key, [column.key.name for column in order])
        conditions = [f"({collection.condition})"] if collection.condition else []
        return _ChunkQuery(rows, order, conditions, is_unique)

    # --- rows -------------------------------------------------------------------------------------------------------------------

    def _read(
        self, connection: MySqlConnection, query: _ChunkQuery, scan: TableScan, contents: SnapshotContents
    ) -> Chunk[RowWindow, BinlogMark]:
        rows = query.table
        scan, bounds = self._continue(connection, query, scan)
        # Of equal rows, a change does not say which one it replaces, but the rows are exact.
        is_exact = contents.position is not None and not contains_key(rows.table.key, [column.name for column in rows.columns])
        window = RowWindow(rows, lambda: self._current_version(rows.id), is_exact=is_exact)
        end, count, is_last = None, 0, True
        if scan.maximum is not None:
            end, count, is_last = self._fill(connection, query, bounds, window)
        position = contents.position if is_exact else None
        mark = BinlogMark.at(position or read_end(connection, self._stream.server()))
        return Chunk(window, scan, end, count, is_last, mark)

    def _continue(self, connection: MySqlConnection, query: _ChunkQuery, scan: TableScan) -> tuple[TableScan, list[str]]:
        """Returns how far the table is read, and the conditions for the rows that are left."""
        table, order = query.table.table, query.order
        columns, types = tuple(column.key.name for column in order), tuple(column.type_name for column in order)
        found = read_column_orders(connection, [table.id]).get(table.id, {})
        orders = tuple(fingerprint_of(*found[name]) if name in found else "" for name in columns)

        def read_maximum() -> Position | None:
            return query.position(connection, [], " LIMIT 1", descending=True)

        if not scan.columns and not all(column.has_java_value for column in order):
            scan = TableScan()  # Debezium's texts are not ours
        scan = continue_scan(table, scan, columns, types, orders, read_maximum)
        try:
            return scan, _bounds(order, scan)
        except ValueError:  # Debezium's offset has a text that is none of this type
            scan = continue_scan(table, TableScan(), columns, types, orders, read_maximum)
            return scan, _bounds(order, scan)

    def _fill(
        self, connection: MySqlConnection, query: _ChunkQuery, bounds: Sequence[str], window: RowWindow
    ) -> tuple[Position | None, int, bool]:
        """Reads rows; returns the position of the last one, their number, and whether no others follow."""
        size, order = self._settings.incremental.chunk_size, query.order
        limit, max_bytes = f" LIMIT {size}", float(self._settings.max_batch_bytes)
        if not query.is_unique:
            # Rows with the same values cannot be divided.
            limit, max_bytes = "", math.inf
            last = query.position(connection, bounds, f" LIMIT 1 OFFSET {size - 1}")
            if last is not None:
                bounds = [*bounds, rows_up_to(order, last)]
        expressions = [column.select.format(name=quote_identifier(column.name)) for column in query.table.columns]
        sql = query.select(expressions, bounds, limit)
        rows, is_complete = _read_rows(connection, sql, self._decoder(query.table), max_bytes)
        for row in rows:
            window.add_row(row)
        end = position_of(order, [rows[-1][column.key.index] for column in order]) if rows else None
        return end, len(rows), len(rows) < size and is_complete

    def _decoder(self, table: MySqlTableRows) -> Decode:
        """The decoder of a table's rows, which is kept as long as the same table is read."""
        known = self._decode
        if known is None or known[0] is not table:
            known = self._decode = table, text_decoder(table)
        return known[1]


def _bounds(order: Sequence[OrderColumn], scan: TableScan) -> list[str]:
    """The conditions for the rows that are left. Raises ValueError for texts that the columns cannot have."""
    bounds: list[str] = []
    if scan.end is not None:
        bounds.append(rows_after(order, scan.end))
    if scan.maximum is not None:
        bounds.append(rows_up_to(order, scan.maximum))
    return bounds


@contextlib.contextmanager
def _transaction(connection: MySqlConnection, server: ServerInfo) -> Iterator[SnapshotContents]:
    """A transaction whose snapshot is that of its start."""
    try:
        yield start_transaction(connection, server)
    finally:
        if not connection.is_closed:
            with contextlib.suppress(ConnectionLostError):  # the next statement reports it
                connection.execute("ROLLBACK")


def _read_rows(connection: MySqlConnection, sql: str, decode: Decode, max_bytes: float) -> tuple[list[list[Any]], bool]:
    """Reads the first rows of a query, and not many more bytes than ``max_bytes``. Returns whether these are all."""
    rows: list[list[Any]] = []
    size_bytes = 0
    stream = connection.stream(sql)
    try:
        with connection.guarded(sql):
            while not stream.ended and size_bytes < max_bytes:
                begin = stream.at
                stream.at = decode(stream.data, stream.text, begin, _ALL, rows, [])
                size_bytes += stream.at - begin
                if stream.at == begin:
                    stream.advance()
        return rows, stream.ended
    finally:
        connection.stop(stream)
