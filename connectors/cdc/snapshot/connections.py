"""The connections of a snapshot, all of which read as of the same point in time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic

from connect.errors import ConnectError
from connectors.cdc.interrupt import Interrupt
from connectors.cdc.snapshot.row_stream import Stream

log = logging.getLogger(__name__)

_MAX_REPLACEMENTS = 3
"""How often a connection is replaced before it completes a range."""


class SnapshotConnections(Generic[Stream]):
    """The leader holds the point in time; other connections join it where the database lets them."""

    def __init__(self, leader: Stream, count: int, interrupt: Interrupt) -> None:
        self.leader = leader
        self.interrupt = interrupt
        self.readers = [leader]
        self.join: Callable[[], Stream] | None = None
        """Opens another connection with the leader's point in time; None if that is impossible."""
        self._count = count
        self._replaced = 0

    def open_all(self) -> None:
        """Opens the other connections. Without one, the snapshot continues with fewer."""
        while self.join is not None and len(self.readers) < self._count and self._add(self.join):
            pass

    def _add(self, join: Callable[[], Stream]) -> bool:
        try:
            self.readers.append(join())
        except ConnectError as e:
            log.warning("the snapshot continues with %d of %d connections: %s", len(self.readers), self._count, e.message)
            self._count = len(self.readers)
            return False
        return True

    def replace(self, reader: Stream) -> None:
        """Closes a connection other than the leader, which was lost or whose transaction is aborted, and opens another one."""
        reader.close()
        self.readers.remove(reader)
        self._replaced += 1
        if self.join is None or self._replaced > _MAX_REPLACEMENTS:
            log.warning("the snapshot continues with %d connections", len(self.readers))
            self._count = len(self.readers)
        else:
            self._add(self.join)

    def range_completed(self) -> None:
        """Connections work: failures before do not count any more."""
        self._replaced = 0

    def close(self) -> None:
        """Closes all connections. May be called twice."""
        for reader in self.readers:
            reader.close()
