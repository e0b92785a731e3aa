"""Blocking ad hoc snapshots of PostgreSQL: as of the start of a slot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from connectors.cdc.incremental.requests import SnapshotRequest
from connectors.cdc.schema.filters import Filters, name_matches
from connectors.cdc.signals.blocking import RequestedOffsets, RequestedSnapshots, limit_snapshot
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection
from connectors.postgres.offsets import TX_EVENTS, TX_LSN
from connectors.postgres.schema.catalog import CapturedTable
from connectors.postgres.sessions import DatabaseSessions
from connectors.postgres.snapshot.session import SnapshotSession
from connectors.postgres.streaming import publications, slots
from connectors.postgres.streaming.captured_tables import CapturedTables
from connectors.postgres.streaming.observers import StreamObservers


class BlockingSnapshots(RequestedSnapshots[SnapshotSession, slots.CreatedSlot]):
    """Runs one snapshot at a time, as of the start of a slot."""

    def __init__(
        self,
        settings: PostgresConfig,
        filters: Filters,
        tables: CapturedTables,
        sessions: DatabaseSessions,
        observers: StreamObservers,
        version: str,
    ) -> None:
        super().__init__(observers)
        self._settings = settings
        self._filters = filters
        self._tables = tables
        self._sessions = sessions
        self._version = version

    def _open(self, request: SnapshotRequest, point: slots.CreatedSlot) -> SnapshotSession | None:
        settings = self._limited_settings(self._sessions.catalog(), request)
        if settings is None:
            return None
        session = SnapshotSession(settings, self._filters, self._tables, self._sessions, self._version)
        try:
            session.start(point, offsets=RequestedOffsets(_position(point.consistent_lsn), self.offset_extras))
        except BaseException:
            session.close()
            raise
        return session

    def _limited_settings(self, connection: Connection, request: SnapshotRequest) -> PostgresConfig | None:
        """The configuration of a snapshot of the requested tables; None if there are none."""
        tables = publications.read_captured_tables(connection, self._settings, self._filters)
        found = [(str(table), _select(table)) for table in tables if name_matches(request.collections, str(table))]
        if not found:
            return None
        return replace(self._settings, snapshot=limit_snapshot(self._settings.snapshot, request, found))


def _position(lsn: int) -> dict[str, Any]:
    """The stream's offset between two transactions."""
    return {"lsn": lsn, "lsn_proc": lsn, "lsn_commit": lsn, "messageType": "COMMIT", TX_LSN: lsn, TX_EVENTS: 0}


def _select(table: CapturedTable) -> str:
    """Selects the captured rows of a table; a condition follows."""
    row_filter = f"({table.row_filter}) AND" if table.row_filter else ""
    return f"SELECT * FROM {table.own_rows} WHERE {row_filter}"
