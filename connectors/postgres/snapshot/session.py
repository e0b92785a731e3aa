"""A snapshot in progress: its connections, its point in time, and its tables."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from connect.record import SourceRecord
from connectors.cdc.schema.filters import Filters, name_matches
from connectors.cdc.snapshot.connections import SnapshotConnections
from connectors.cdc.snapshot.key_ranges import SnapshotState
from connectors.cdc.snapshot.offsets import InitialOffsets, SnapshotOffsets
from connectors.cdc.snapshot.plan import PlannedTable, SnapshotPlan
from connectors.cdc.snapshot.progress import SnapshotStep
from connectors.cdc.snapshot.reader import SnapshotReader
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection
from connectors.postgres.offsets import format_lsn, snapshot_offset
from connectors.postgres.schema.catalog import estimated_rows
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.sessions import DatabaseSessions
from connectors.postgres.snapshot.copy_stream import CopyStream
from connectors.postgres.snapshot.events import SnapshotPoint, TableEvents
from connectors.postgres.snapshot.table import PostgresSnapshotTable
from connectors.postgres.snapshot.table_plan import TablePlan, plan_tables
from connectors.postgres.snapshot.transaction import export_snapshot, join_snapshot, read_next_transaction_id, start_snapshot
from connectors.postgres.streaming import publications, slots
from connectors.postgres.streaming.captured_tables import CapturedTables
from connectors.postgres.streaming.observers import StreamObservers

log = logging.getLogger(__name__)


class SnapshotSession:
    """Reads the captured tables as of one point in time."""

    def __init__(
        self, settings: PostgresConfig, filters: Filters, tables: CapturedTables, sessions: DatabaseSessions, version: str
    ) -> None:
        self._settings = settings
        self._filters = filters
        self._tables = tables
        self._version = version
        self._sessions = sessions
        leader = CopyStream(sessions.open())
        self._connections = SnapshotConnections(leader, settings.snapshot.max_threads, sessions.interrupt)
        self._reader: SnapshotReader[CopyStream] | None = None
        self.tables: tuple[str, ...] = ()
        """The tables of the snapshot, those included that an earlier attempt has read."""
        self.lsn = 0

    def start(
        self,
        created: slots.CreatedSlot | None,
        before: str | None = None,
        observers: StreamObservers | None = None,
        offsets: SnapshotOffsets | None = None,
    ) -> None:
        """Fixes the point in time: the start of a slot that exported its snapshot, or now. Reads no rows yet.

        ``before`` is what an interrupted attempt completed. It must not be used unless the stream has been, or will be, read from
        there to this point first. ``observers`` add to offsets. ``offsets`` replace those of an initial snapshot.
        """
        connection, settings = self._connections.leader.connection, self._settings
        tables = start_snapshot(connection, created.snapshot if created else None, self._read_tables, settings)
        if settings.snapshot.max_threads > 1:
            exported = export_snapshot(connection)
            self._connections.join = lambda: self._join(exported)
        self.lsn = created.consistent_lsn if created else slots.current_lsn(connection)
        point = SnapshotPoint(self.lsn, read_next_transaction_id(connection))
        # Without a slot, nothing can bring completed rows up to the point of a later attempt.
        resumes = settings.snapshot.resumes and created is not None
        plans = plan_tables(connection, tables, settings)
        if not resumes and (settings.snapshot.max_threads == 1 or settings.snapshot.table_per_thread):
            plans = [replace(plan, key=()) for plan in plans]
        planned = [PlannedTable(self._table(plan, point), estimated_rows(connection, plan.rows.table)) for plan in plans]
        snapshot = SnapshotPlan(planned, settings.snapshot.order, before if resumes else None)
        self.tables = snapshot.tables
        offsets = offsets or _initial_offsets(point, snapshot.state if resumes else None, observers)
        self._reader = snapshot.reader(self._connections, offsets)

    def _table(self, plan: TablePlan, point: SnapshotPoint) -> PostgresSnapshotTable:
        events = TableEvents(plan.rows, point, self._settings, self._version, self._tables.make_nullable)
        return PostgresSnapshotTable(plan, events, self._settings, self._connections.leader)

    def _join(self, exported: str) -> CopyStream:
        connection = self._sessions.open()
        try:
            join_snapshot(connection, exported)
        except BaseException:
            connection.close()
            raise
        return CopyStream(connection)

    def _read_tables(self, connection: Connection) -> list[TableRows]:
        """Reads the tables of the snapshot as of the connection's transaction."""
        include = self._settings.snapshot.include
        tables = publications.read_captured_tables(connection, self._settings, self._filters)
        return [
            self._tables.snapshot_rows(table)
            for table in tables
            if (not include or name_matches(include, str(table))) and not self._filters.is_signal_table(table.schema, table.name)
        ]

    @property
    def done(self) -> bool:
        return self._reader is not None and self._reader.done

    def restart_clock(self) -> None:
        """The first row is read now: changes before the snapshot have been streamed."""
        if self._reader is not None:
            self._reader.progress.restart_clock()

    def read(self) -> Sequence[SourceRecord]:
        """Returns the next events; after the last ones, ``done`` is set and the connections are closed."""
        assert self._reader is not None
        records = self._reader.read()
        if self._reader.done:
            self.close()
            numbers = self.progress()
            log.info("snapshot: %d rows of %d tables as of %s", numbers["rows"], numbers["tables_total"], format_lsn(self.lsn))
        return records

    def take_steps(self) -> list[SnapshotStep]:
        """Returns what has happened since the last call."""
        return [] if self._reader is None else self._reader.progress.take_steps()

    def progress(self) -> Mapping[str, Any]:
        return {} if self._reader is None else self._reader.progress.details()

    def close(self) -> None:
        """Closes the connections. May be called twice."""
        if self._reader is not None:
            self._reader.progress.closed()
        self._connections.close()


def _initial_offsets(point: SnapshotPoint, state: SnapshotState | None, observers: StreamObservers | None) -> InitialOffsets:
    """``state`` is None if a later attempt starts over in any case; ``observers`` add to the offsets."""

    def create(last: bool, completed: str | None) -> Mapping[str, Any]:
        return snapshot_offset(point.lsn, point.tx_id, time.time_ns() // 1000, last=last, state=completed)

    return InitialOffsets(create, state, dict if observers is None else lambda: observers.offset_extras)
