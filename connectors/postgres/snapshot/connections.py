"""The connections of a snapshot, all of which read as of the same point in time."""

from __future__ import annotations

import logging

from connect.errors import ConnectError
from connectors.cdc.interrupt import Interrupt
from connectors.postgres.connection import Connection
from connectors.postgres.sessions import DatabaseSessions
from connectors.postgres.snapshot.copy_stream import CopyStream
from connectors.postgres.snapshot.transaction import export_snapshot, join_snapshot

log = logging.getLogger(__name__)

_MAX_REPLACEMENTS = 3
"""How often a connection is replaced before it completes a range."""


class SnapshotConnections:
    """The leader holds the locks and the exported snapshot; other connections join it, also to replace one that was lost."""

    def __init__(self, sessions: DatabaseSessions, count: int) -> None:
        self._sessions = sessions
        self._count = count
        self._exported: str | None = None
        self._replaced = 0
        self.leader = CopyStream(sessions.open())
        self.readers = [self.leader]

    @property
    def interrupt(self) -> Interrupt:
        return self._sessions.interrupt

    def export(self) -> None:
        """Exports the snapshot of the leader's transaction."""
        if self._count > 1:
            self._exported = export_snapshot(self.leader.connection)

    def open_all(self) -> None:
        """Opens the other connections. Without one, the snapshot continues with fewer."""
        while self._exported is not None and len(self.readers) < self._count and self._add():
            pass

    def _add(self) -> bool:
        try:
            connection = self._join()
        except ConnectError as e:
            log.warning("the snapshot continues with %d of %d connections: %s", len(self.readers), self._count, e.message)
            self._count = len(self.readers)
            return False
        self.readers.append(CopyStream(connection))
        return True

    def _join(self) -> Connection:
        assert self._exported is not None
        connection = self._sessions.open()
        try:
            join_snapshot(connection, self._exported)
        except BaseException:
            connection.close()
            raise
        return connection

    def replace(self, reader: CopyStream) -> None:
        """Closes a connection other than the leader, which was lost or whose transaction is aborted, and opens another one."""
        reader.connection.close()
        self.readers.remove(reader)
        self._replaced += 1
        if self._replaced > _MAX_REPLACEMENTS:
            log.warning("the snapshot continues with %d connections", len(self.readers))
            self._count = len(self.readers)
        else:
            self._add()

    def range_completed(self) -> None:
        """Connections work: failures before do not count any more."""
        self._replaced = 0

    def close(self) -> None:
        """Closes all connections. May be called twice."""
        for reader in self.readers:
            reader.connection.close()
