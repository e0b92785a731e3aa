"""Blocking ad hoc snapshots of MySQL and MariaDB: as of a position that the stream reaches before their rows are read."""

from __future__ import annotations

import time
from dataclasses import replace

from connectors.cdc.incremental.requests import SnapshotRequest
from connectors.cdc.schema.filters import name_matches
from connectors.cdc.signals.blocking import RequestedOffsets, RequestedSnapshots, limit_snapshot
from connectors.mysql.config import MySqlConfig
from connectors.mysql.connection import quote_name
from connectors.mysql.offsets import BinlogPosition, stream_offset
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.tables import TableStructures
from connectors.mysql.server import ServerInfo
from connectors.mysql.sessions import MySqlSessions
from connectors.mysql.snapshot.session import MySqlSnapshotSession
from connectors.mysql.streaming.observers import BinlogObservers


class MySqlBlockingSnapshots(RequestedSnapshots[MySqlSnapshotSession, ServerInfo]):
    """Runs one snapshot at a time, as of its own position on a server."""

    def __init__(
        self,
        settings: MySqlConfig,
        tables: MySqlCapturedTables,
        structures: TableStructures,
        sessions: MySqlSessions,
        observers: BinlogObservers,
        version: str,
    ) -> None:
        super().__init__(observers)
        self._settings = settings
        self._tables = tables
        self._structures = structures
        self._sessions = sessions
        self._version = version

    def _open(self, request: SnapshotRequest, point: ServerInfo) -> MySqlSnapshotSession | None:
        settings = self._limited_settings(request)
        if settings is None:
            return None
        session = MySqlSnapshotSession(settings, self._tables, self._structures, self._sessions, point, self._version)
        session.start(records_structure=False, offsets=self._offsets)
        return session

    def _offsets(self, position: BinlogPosition) -> RequestedOffsets:
        return RequestedOffsets(stream_offset(position, 0, int(time.time())), self.offset_extras)

    def _limited_settings(self, request: SnapshotRequest) -> MySqlConfig | None:
        """The configuration of a snapshot of the requested tables; None if there are none."""
        found = [
            (str(id), f"SELECT * FROM {quote_name(*id)} WHERE")
            for id in self._structures.tables
            if self._tables.captures(id) and name_matches(request.collections, str(id))
        ]
        if not found:
            return None
        return replace(self._settings, snapshot=limit_snapshot(self._settings.snapshot, request, found))
