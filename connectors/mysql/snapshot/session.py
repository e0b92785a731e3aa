"""A snapshot in progress: its connections, its point in time, its tables, and their rows."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from connect.record import SourceRecord
from connectors.cdc.errors import TablesChangedError
from connectors.cdc.schema.filters import name_matches
from connectors.cdc.snapshot.connections import SnapshotConnections
from connectors.cdc.snapshot.key_ranges import SnapshotState
from connectors.cdc.snapshot.offsets import InitialOffsets, SnapshotOffsets
from connectors.cdc.snapshot.progress import SnapshotProgress, SnapshotStep
from connectors.cdc.snapshot.reader import SnapshotReader
from connectors.cdc.snapshot.table_read import TableRead
from connectors.mysql.catalog import read_tables
from connectors.mysql.config import MySqlConfig
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.errors import MySqlServerError
from connectors.mysql.offsets import BinlogPosition, snapshot_offset
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.model import MySqlTable, TableId
from connectors.mysql.schema.tables import TableStructures
from connectors.mysql.server import ServerInfo
from connectors.mysql.sessions import MySqlSessions
from connectors.mysql.snapshot.events import MySqlTableEvents
from connectors.mysql.snapshot.locks import SnapshotLock
from connectors.mysql.snapshot.point import start_behind, start_transactions
from connectors.mysql.snapshot.row_stream import MySqlRowStream, explain_changed_table
from connectors.mysql.snapshot.structure import CatalogTables, StructureReader, StructureRecorder
from connectors.mysql.snapshot.table import MySqlSnapshotTable
from connectors.mysql.snapshot.table_plan import MySqlTablePlan, plan_table, select_statement

log = logging.getLogger(__name__)

_ATTEMPTS: Final = 5
"""Attempts to read the structure without a lock while nobody changes it."""
_MDL_TIMEOUT_S: Final = 1
"""How long connections other than the first one wait for tables that another session is about to change."""


class MySqlSnapshotSession:
    """Reads the captured tables as of one position of the binary log. Not thread-safe.

    Every method may raise ConnectionLostError and WaitInterrupted. After an error other than these, the snapshot is over.
    """

    def __init__(
        self,
        settings: MySqlConfig,
        tables: MySqlCapturedTables,
        structures: TableStructures,
        sessions: MySqlSessions,
        server: ServerInfo,
        version: str,
        extras: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """``extras`` returns what offsets have besides the position."""
        self._settings = settings
        self._tables = tables
        self._structures = structures
        self._sessions = sessions
        self._server = server
        self._version = version
        self._extras = extras
        self._lock = SnapshotLock(sessions, settings)
        self._recorder = StructureRecorder(settings, structures, tables.captures, server, version)
        self._connections: SnapshotConnections[MySqlRowStream] | None = None
        self._reader: SnapshotReader[MySqlRowStream] | None = None
        self._progress: SnapshotProgress | None = None
        self._catalog: CatalogTables | None = None
        self._events: list[SourceRecord] = []
        self._state: str | None = None
        self._reads_rows = True
        self._records_structure = True
        self._offsets: SnapshotOffsets | None = None
        self._position: BinlogPosition | None = None
        self._is_aborted = False
        self.done = False
        """Whether all events were returned."""
        self.tables: tuple[str, ...] = ()
        """The tables of the snapshot, those included that an earlier attempt has read."""

    @property
    def position(self) -> BinlogPosition:
        """Where streaming begins."""
        assert self._position is not None
        return self._position

    def start(
        self,
        stored_state: str | None = None,
        *,
        records_structure: bool = True,
        offsets: Callable[[BinlogPosition], SnapshotOffsets] | None = None,
    ) -> None:
        """Fixes the point in time, and stores the structure of the tables. Reads no rows yet.

        ``stored_state`` is what an interrupted attempt completed. It must not be used unless the stream has been, or will be,
        read from there to this point before the first :meth:`read`; without ``records_structure``, the schema history is that of
        the stream. ``offsets`` replace those of an initial snapshot, from the position.

        Raises ConfigError for missing privileges, ConnectError for locks that the server does not give in time, and
        TablesChangedError if tables change meanwhile; then a new session may succeed.
        """
        try:
            self._state = stored_state if self._settings.snapshot.resumes else None
            self._records_structure = records_structure
            self._start()
            if offsets is not None:
                self._offsets = offsets(self.position)
            if records_structure:
                self._events = self._record(self.position, self._offset(last=False))
                self._plan()
        except BaseException:
            self.close()
            raise

    def start_structure(self, at: BinlogPosition | None = None, offset: Mapping[str, Any] | None = None) -> None:
        """The same for a snapshot of the structure alone. With a stored offset and its position, the history is rebuilt for it
        (``snapshot.mode=recovery``)."""
        self._reads_rows = False
        try:
            self._start()
            if at is not None and offset is not None:
                self._position = at
                self._events = self._record(at, offset)
            else:
                self._events = self._record(self.position, self._offset(last=False))
                if self._events:
                    self._events[-1].source_offset = self._offset(last=True)
        finally:
            self._close_connections()

    def _offset(self, *, last: bool) -> dict[str, Any]:
        return {**snapshot_offset(self.position, int(time.time()), last=last), **self._extras()}

    # --- the point in time ----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        catalog_reader = StructureReader(self._settings, self._tables.captures, lambda name: self._captures_database(name))
        count = self._settings.snapshot.max_threads if self._reads_rows else 1
        connections: list[MySqlConnection] = []
        try:
            connections += (self._sessions.open() for _ in range(count))
            used = self._fix_point(connections, catalog_reader)
        except BaseException:
            for connection in connections:
                connection.close()
            raise
        for connection in connections[used:]:
            connection.close()
        streams = [MySqlRowStream(connection) for connection in connections[:used]]
        self._connections = SnapshotConnections(streams[0], used, self._sessions.interrupt)
        self._connections.readers = streams
        for stream in streams[1:]:
            stream.connection.execute(f"SET SESSION lock_wait_timeout = {_MDL_TIMEOUT_S}")

    def _captures_database(self, name: str) -> bool:
        """Whether tables of the database can be captured."""
        capture = self._settings.capture
        if capture.schema_include:
            return name_matches(capture.schema_include, name)
        return not name_matches(capture.schema_exclude, name)

    def _fix_point(self, connections: Sequence[MySqlConnection], reader: StructureReader) -> int:
        """Starts the transactions, and reads position and structure; returns how many of the connections see the point."""
        lock, server = self._lock, self._server
        needs_lock = lock.is_allowed and (lock.is_held_to_the_end or lock.is_backup_lock or not server.is_mariadb)
        if not needs_lock:
            # MariaDB says which position a transaction sees.
            for attempt in range(_ATTEMPTS):
                if (used := self._fix_without_lock(connections, reader)) is not None:
                    return used
                log.info("commits or changes of tables came between the steps of the snapshot's start, attempt %d", attempt + 1)
                if lock.is_allowed:
                    break
            if not lock.is_allowed:
                raise TablesChangedError("tables changed at the start of the snapshot, so a new one is needed")
        catalog = connections[0]
        lock.acquire(self._captured_ids(catalog))
        position = start_transactions(connections, server, is_locked=lock.stops_commits)
        used = len(connections)
        if position is None:
            used = 1
            position = start_transactions(connections[:1], server, is_locked=False) or start_behind(connections[:1], server)
        self._position = position
        self._catalog = reader.read(catalog)
        if not lock.is_held_to_the_end:
            lock.release()
        return used

    def _fix_without_lock(self, connections: Sequence[MySqlConnection], reader: StructureReader) -> int | None:
        """The same without a lock; None if there was a change in between."""
        first = connections[0]
        before = reader.read(first)
        used = len(connections)
        position = start_transactions(connections, self._server, is_locked=False)
        if position is None:
            if self._lock.is_allowed:
                return None
            used = 1
            log.warning("the snapshot uses one connection, because commits came between the starts of several ones")
            position = start_transactions(connections[:1], self._server, is_locked=False)
            position = position or start_behind(connections[:1], self._server)
        self._catalog = reader.read(first)
        self._position = position
        return used if before.has_structure_of(self._catalog) else None

    def _captured_ids(self, connection: MySqlConnection) -> list[TableId]:
        ids = [TableId(info.database, info.name) for info in read_tables(connection)]
        return [id for id in ids if self._tables.captures(id)]

    # --- structure ------------------------------------------------------------------------------------------------------------

    def _record(self, position: BinlogPosition, offset: Mapping[str, Any]) -> list[SourceRecord]:
        assert self._catalog is not None
        return self._recorder.record(self._catalog, position, offset)

    def _snapshot_tables(self) -> dict[TableId, MySqlTable]:
        """The captured tables whose rows are read."""
        assert self._catalog is not None
        include, filters = self._settings.snapshot.include, self._tables.filters
        ids = [
            id
            for id in self._catalog.statements
            if self._tables.captures(id)
            and (not include or name_matches(include, str(id)))
            and not filters.is_signal_table(id.database, id.name)
        ]
        if self._records_structure:
            return {id: table for id in ids if (table := self._structures.tables.get(id)) is not None}
        return self._recorder.parse(self._catalog, ids)

    # --- rows -----------------------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Plans the reading of the tables."""
        settings, connections, catalog = self._settings, self._connections, self._catalog
        assert connections is not None
        assert catalog is not None
        found = self._snapshot_tables()
        if not self._records_structure:
            self._recorder.settle(found, self._offset(last=False))
        if not found:
            log.warning("the snapshot reads no rows: no table on %s is captured", self._settings.address.where)
        plans = [self._plan_table(table, catalog) for table in found.values()]
        self._check_access(plans)
        state = SnapshotState.parse(self._state)
        state.keep({str(plan.rows.table): plan.fingerprint for plan in plans})
        if settings.snapshot.order != "disabled":
            plans.sort(key=lambda plan: plan.estimated_rows, reverse=settings.snapshot.order == "descending")
        self.tables = tuple(str(plan.rows.table) for plan in plans)
        reads: list[TableRead[MySqlRowStream]] = []
        expected = 0
        for index, plan in enumerate(plans):
            if str(plan.rows.table) in state.done:
                continue
            events = MySqlTableEvents(plan.rows, self.position, settings, self._version)
            table = MySqlSnapshotTable(plan, events, settings, connections.leader)
            reads.append(TableRead(index, table, state.partial.get(table.id)))
            expected += max(plan.estimated_rows - reads[-1].rows, 0)
        if state.done or state.partial:
            log.info(
                "the snapshot continues: %d of %d tables are completed, and %d in part",
                len(state.done), len(plans), len(state.partial),
            )  # fmt: skip
        self._progress = SnapshotProgress(len(plans), len(plans) - len(reads), expected)
        resumes = settings.snapshot.resumes and self._offsets is None
        offsets = self._offsets or InitialOffsets(self._create_offset, state if resumes else None, self._extras)
        self._reader = SnapshotReader(connections, reads, offsets, self._progress, len(plans))

    def _check_access(self, plans: Sequence[MySqlTablePlan]) -> None:
        """Raises ConfigError if the user may not read a table: hours may pass until it is read. Another connection asks, because
        the transaction would keep a lock of each table."""
        catalog = self._sessions.catalog()
        for plan in plans:
            if str(plan.rows.table) in self._settings.snapshot.overrides:
                continue
            try:
                catalog.execute(f"{select_statement(plan.rows, self._settings)} LIMIT 0")
            except MySqlServerError as e:
                raise explain_changed_table(e) from e

    def _create_offset(self, last: bool, state: str | None) -> Mapping[str, Any]:
        return snapshot_offset(self.position, int(time.time()), last=last, state=state)

    def _plan_table(self, table: MySqlTable, catalog: CatalogTables) -> MySqlTablePlan:
        info = catalog.infos[table.id]
        snapshot = self._settings.snapshot
        reads_ranges = snapshot.resumes or (snapshot.max_threads > 1 and not snapshot.table_per_thread)
        return plan_table(
            self._tables.snapshot_rows(table),
            self._settings,
            estimated_rows=info.rows or 0,
            size_bytes=info.size_bytes,
            has_full_images=reads_ranges and self._server.row_image == "FULL",
        )

    def read(self) -> Sequence[SourceRecord]:
        """Returns the next events, an empty list after a timeout; after the last ones, ``done`` is set and the connections are
        closed."""
        if self._events or not self._reads_rows:
            events, self._events = self._events, []
            self.done = not self._reads_rows
            return events
        if self._reader is None:
            self._plan()
        assert self._reader is not None
        records = self._reader.read()
        if self._reader.done:
            self.done = True
            self.close()
            numbers = self.progress()
            log.info("snapshot: %d rows of %d tables as of %s", numbers["rows"], numbers["tables_total"], self.position)
        return records

    def restart_clock(self) -> None:
        """The first row is read now: changes before the snapshot have been streamed."""
        if self._progress is not None:
            self._progress.restart_clock()

    def take_steps(self) -> list[SnapshotStep]:
        """Returns what has happened since the last call."""
        return [] if self._progress is None else self._progress.take_steps()

    def progress(self) -> Mapping[str, Any]:
        return {} if self._progress is None else self._progress.details()

    def _close_connections(self) -> None:
        if self._connections is not None:
            self._connections.close()
        self._lock.release()

    def close(self) -> None:
        """Closes the connections and releases locks. May be called twice."""
        if self._progress is not None and not self.done and not self._is_aborted:
            self._is_aborted = True
            self._progress.aborted()
        self._close_connections()
