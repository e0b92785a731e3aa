"""Starts a snapshot: connections that see the same rows, their position in the log, and the structure of the tables there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from connectors.cdc.errors import TablesChangedError
from connectors.cdc.snapshot.connections import SnapshotConnections
from connectors.mysql.catalog import read_tables
from connectors.mysql.config import MySqlConfig
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.offsets import BinlogPosition
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.model import TableId
from connectors.mysql.server import ServerInfo
from connectors.mysql.sessions import MySqlSessions
from connectors.mysql.snapshot.locks import SnapshotLock
from connectors.mysql.snapshot.point import start_behind, start_transactions
from connectors.mysql.snapshot.row_stream import MySqlRowStream
from connectors.mysql.snapshot.structure import CatalogTables, StructureReader

log = logging.getLogger(__name__)

_ATTEMPTS: Final = 5
"""Attempts to read the structure without a lock while nobody changes it."""
_LOCK_WAIT_S: Final = 1
"""How long connections other than the first one wait for tables that another session is about to change."""


@dataclass(slots=True)
class StartedSnapshot:
    """Connections whose transactions see the tables of ``catalog`` as of ``position``.

    ``lock`` is held to the end, or released.
    """

    connections: SnapshotConnections[MySqlRowStream]
    position: BinlogPosition
    catalog: CatalogTables
    lock: SnapshotLock

    def close(self) -> None:
        """Closes the connections and releases the lock. May be called twice."""
        self.connections.close()
        self.lock.release()


@dataclass(frozen=True, slots=True)
class _Point:
    """``used`` is how many connections see it, the first ones."""

    used: int
    position: BinlogPosition
    catalog: CatalogTables


class SnapshotStart:
    """Finds the point in time. Not thread-safe."""

    def __init__(
        self,
        settings: MySqlConfig,
        tables: MySqlCapturedTables,
        sessions: MySqlSessions,
        server: ServerInfo,
        is_wanted: Callable[[TableId], bool],
    ) -> None:
        """``is_wanted``: whether the snapshot needs the structure of a table."""
        self._tables = tables
        self._sessions = sessions
        self._server = server
        self._lock = SnapshotLock(sessions, settings)
        self._reader = StructureReader(is_wanted, tables.captures)

    def open(self, count: int) -> StartedSnapshot:
        """Starts with ``count`` connections, or fewer if the server is too busy for several without a lock.

        Raises ConfigError for missing privileges, ConnectError for locks that the server does not give in time, and
        TablesChangedError if tables change meanwhile.
        """
        connections: list[MySqlConnection] = []
        try:
            connections += (self._sessions.open() for _ in range(count))
            point = self._fix_point(connections)
            for connection in connections[1 : point.used]:
                connection.execute(f"SET SESSION lock_wait_timeout = {_LOCK_WAIT_S}")
        except BaseException:
            for connection in connections:
                connection.close()
            self._lock.release()
            raise
        for connection in connections[point.used :]:
            connection.close()
        streams = [MySqlRowStream(connection) for connection in connections[: point.used]]
        joined = SnapshotConnections(streams[0], point.used, self._sessions.interrupt)
        joined.readers = streams
        return StartedSnapshot(joined, point.position, point.catalog, self._lock)

    def _fix_point(self, connections: Sequence[MySqlConnection]) -> _Point:
        """Starts the transactions, and reads position and structure."""
        lock = self._lock
        if not lock.is_allowed:
            for _ in range(_ATTEMPTS):
                if (point := self._fix_without_lock(connections)) is not None:
                    return point
            raise TablesChangedError("tables changed at the start of the snapshot, so a new one is needed")
        # MariaDB says which position a transaction sees, so it needs no lock unless others commit or change tables right now.
        needs_lock = lock.is_held_to_the_end or lock.is_backup_lock or not self._server.is_mariadb
        if not needs_lock and (point := self._fix_without_lock(connections)) is not None:
            return point
        return self._fix_with_lock(connections)

    def _fix_without_lock(self, connections: Sequence[MySqlConnection]) -> _Point | None:
        """Returns None if there was a change in between."""
        first = connections[0]
        before = self._reader.read(first)
        used = len(connections)
        position = start_transactions(connections, self._server, is_locked=False)
        if position is None:
            if self._lock.is_allowed:
                return None
            used, position = 1, self._start_one(first)
        catalog = self._reader.read(first)
        return _Point(used, position, catalog) if before.has_structure_of(catalog) else None

    def _start_one(self, connection: MySqlConnection) -> BinlogPosition:
        log.warning("the snapshot uses one connection, because commits came between the starts of several ones")
        position = start_transactions([connection], self._server, is_locked=False)
        return start_behind([connection], self._server) if position is None else position

    def _fix_with_lock(self, connections: Sequence[MySqlConnection]) -> _Point:
        first, lock = connections[0], self._lock
        lock.acquire(self._captured_ids(first))
        used = len(connections)
        position = start_transactions(connections, self._server, is_locked=lock.stops_commits)
        if position is None:
            used, position = 1, self._start_one(first)
        catalog = self._reader.read(first)
        if not lock.is_held_to_the_end:
            lock.release()
        return _Point(used, position, catalog)

    def _captured_ids(self, connection: MySqlConnection) -> list[TableId]:
        ids = [TableId(info.database, info.name) for info in read_tables(connection)]
        return [id for id in ids if self._tables.captures(id)]
