"""A snapshot in progress: its connections, its point in time, its tables, and their rows."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect.record import SourceRecord
from connectors.cdc.schema.filters import name_matches
from connectors.cdc.snapshot.offsets import InitialOffsets, SnapshotOffsets
from connectors.cdc.snapshot.plan import PlannedTable, SnapshotPlan
from connectors.cdc.snapshot.progress import SnapshotStep
from connectors.cdc.snapshot.reader import SnapshotReader
from connectors.mysql.catalog import read_column_orders
from connectors.mysql.config import MySqlConfig
from connectors.mysql.errors import MySqlServerError
from connectors.mysql.offsets import BinlogPosition, snapshot_offset
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.model import MySqlTable, TableId
from connectors.mysql.schema.tables import TableStructures
from connectors.mysql.server import ServerInfo
from connectors.mysql.sessions import MySqlSessions
from connectors.mysql.snapshot.events import MySqlTableEvents
from connectors.mysql.snapshot.row_stream import MySqlRowStream, explain_changed_table
from connectors.mysql.snapshot.start import SnapshotStart, StartedSnapshot
from connectors.mysql.snapshot.structure import CatalogTables, StructureRecorder
from connectors.mysql.snapshot.table import MySqlSnapshotTable
from connectors.mysql.snapshot.table_plan import MySqlTablePlan, plan_table, select_statement

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _RowsRequest:
    """How rows are read. ``state`` is what an interrupted attempt completed; ``offsets`` replace those of an initial snapshot.

    ``history_is_current``: the schema history has the structure of the snapshot; otherwise that of the stream.
    """

    state: str | None = None
    offsets: SnapshotOffsets | None = None
    history_is_current: bool = True


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
        self._recorder = StructureRecorder(settings, structures, tables.captures, server, version)
        self._started: StartedSnapshot | None = None
        self._request: _RowsRequest | None = None
        self._events: list[SourceRecord] = []
        self._reader: SnapshotReader[MySqlRowStream] | None = None
        self.done = False
        """Whether all events were returned."""
        self.tables: tuple[str, ...] = ()
        """The tables of the snapshot, those included that an earlier attempt has read."""

    @property
    def position(self) -> BinlogPosition:
        """Where streaming begins."""
        assert self._started is not None
        return self._started.position

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
            is_wanted = self._belongs_in_history if records_structure else self._reads_rows_of
            self._start(self._settings.snapshot.max_threads, is_wanted)
            own_offsets = None if offsets is None else offsets(self.position)
            state = stored_state if self._settings.snapshot.resumes and own_offsets is None else None
            request = self._request = _RowsRequest(state, own_offsets, records_structure)
            if records_structure:
                self._events = self._record(self.position, self._offset(last=False))
                self._plan(request)
        except BaseException:
            self.close()
            raise

    def start_structure(self, at: BinlogPosition | None = None, offset: Mapping[str, Any] | None = None) -> None:
        """The same for a snapshot of the structure alone. With a stored offset and its position, the history is rebuilt for it
        (``snapshot.mode=recovery``)."""
        try:
            started = self._start(1, self._belongs_in_history)
            if at is not None and offset is not None:
                started.position = at
                self._events = self._record(at, offset)
            else:
                self._events = self._record(self.position, self._offset(last=False))
                if self._events:
                    self._events[-1].source_offset = self._offset(last=True)
        finally:
            self.close()

    def _start(self, connections: int, is_wanted: Callable[[TableId], bool]) -> StartedSnapshot:
        start = SnapshotStart(self._settings, self._tables, self._sessions, self._server, is_wanted)
        self._started = start.open(connections)
        return self._started

    def _offset(self, *, last: bool) -> dict[str, Any]:
        return {**snapshot_offset(self.position, int(time.time()), last=last), **self._extras()}

    # --- structure ------------------------------------------------------------------------------------------------------------

    def _record(self, position: BinlogPosition, offset: Mapping[str, Any]) -> list[SourceRecord]:
        assert self._started is not None
        return self._recorder.record(self._started.catalog, position, offset)

    def _belongs_in_history(self, id: TableId) -> bool:
        """Whether the schema history gets the structure of a table."""
        history = self._settings.history
        if self._tables.captures(id):
            return True
        if history.only_captured_tables:
            return False
        return not history.only_captured_databases or self._tables.filters.captures_schema(id.database)

    def _reads_rows_of(self, id: TableId) -> bool:
        include = self._settings.snapshot.include
        is_included = self._tables.captures(id) and (not include or name_matches(include, str(id)))
        return is_included and not self._tables.filters.is_signal_table(*id)

    def _snapshot_tables(self, catalog: CatalogTables, *, history_is_current: bool) -> dict[TableId, MySqlTable]:
        """The captured tables whose rows are read."""
        ids = [id for id in catalog.statements if self._reads_rows_of(id)]
        if history_is_current:
            return {id: table for id in ids if (table := self._structures.tables.get(id)) is not None}
        return self._recorder.parse(catalog, ids)

    # --- rows -----------------------------------------------------------------------------------------------------------------

    def _plan(self, request: _RowsRequest) -> SnapshotReader[MySqlRowStream]:
        """Plans the reading of the tables."""
        settings, started = self._settings, self._started
        assert started is not None
        catalog, connections = started.catalog, started.connections
        found = self._snapshot_tables(catalog, history_is_current=request.history_is_current)
        if not request.history_is_current:
            self._recorder.settle(found, self._offset(last=False))
        if not found:
            log.warning("the snapshot reads no rows: no table on %s is captured", self._settings.address.where)
        orders = read_column_orders(self._sessions.catalog(), list(found))
        plans = [self._plan_table(table, catalog, orders.get(id, {})) for id, table in found.items()]
        self._check_access(plans)
        planned = [PlannedTable(self._table(plan, connections.leader), plan.estimated_rows) for plan in plans]
        snapshot = SnapshotPlan(planned, settings.snapshot.order, request.state)
        self.tables = snapshot.tables
        offsets = request.offsets
        if offsets is None:
            offsets = InitialOffsets(self._create_offset, snapshot.state if settings.snapshot.resumes else None, self._extras)
        self._reader = snapshot.reader(connections, offsets)
        return self._reader

    def _table(self, plan: MySqlTablePlan, leader: MySqlRowStream) -> MySqlSnapshotTable:
        events = MySqlTableEvents(plan.rows, self.position, self._settings, self._version)
        return MySqlSnapshotTable(plan, events, self._settings, leader)

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

    def _plan_table(self, table: MySqlTable, catalog: CatalogTables, orders: Mapping[str, Sequence[str]]) -> MySqlTablePlan:
        info = catalog.infos[table.id]
        snapshot = self._settings.snapshot
        reads_ranges = snapshot.resumes or (snapshot.max_threads > 1 and not snapshot.table_per_thread)
        return plan_table(
            self._tables.snapshot_rows(table),
            self._settings,
            orders,
            estimated_rows=info.rows or 0,
            size_bytes=info.size_bytes,
            has_full_images=reads_ranges and self._server.row_image == "FULL",
        )

    def read(self) -> Sequence[SourceRecord]:
        """Returns the next events, an empty list after a timeout; after the last ones, ``done`` is set and the connections are
        closed."""
        if self._events or self._request is None:
            events, self._events = self._events, []
            self.done = self._request is None
            return events
        reader = self._plan(self._request) if self._reader is None else self._reader
        records = reader.read()
        if reader.done:
            self.done = True
            self.close()
            numbers = self.progress()
            log.info("snapshot: %d rows of %d tables as of %s", numbers["rows"], numbers["tables_total"], self.position)
        return records

    def restart_clock(self) -> None:
        """The first row is read now: changes before the snapshot have been streamed."""
        if self._reader is not None:
            self._reader.progress.restart_clock()

    def take_steps(self) -> list[SnapshotStep]:
        """Returns what has happened since the last call."""
        return [] if self._reader is None else self._reader.progress.take_steps()

    def progress(self) -> Mapping[str, Any]:
        return {} if self._reader is None else self._reader.progress.details()

    def close(self) -> None:
        """Closes the connections and releases locks. May be called twice."""
        if self._reader is not None:
            self._reader.progress.closed()
        if self._started is not None:
            self._started.close()
