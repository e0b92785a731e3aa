"""Decides which offset to store, and up to which LSN the server may discard WAL.

The server retains WAL from the slot's confirmed position. That is always the position of a stored offset, so a slot that is ahead
of the stored offset was moved or recreated by somebody else, and changes are missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connectors.cdc.streaming.offset_tracker import OffsetPairs, StoredOffsetTracker
from connectors.postgres.offsets import ServerTimeline, confirmable_lsn, server_of, with_server


class FlushTracker(StoredOffsetTracker[ServerTimeline]):
    """Follows offsets from poll to storage. ``confirmed_lsn`` may be read from any thread."""

    def __init__(self, partition: Mapping[str, Any], *, confirms_idle: bool = False) -> None:
        """``confirms_idle``: WAL without captured changes is confirmed before its position is stored."""
        super().__init__(partition, with_server)
        self._confirms_idle = confirms_idle
        self.confirmed_lsn = 0

    def start(self, server: ServerTimeline, confirmed_lsn: int) -> None:
        """The task reads from this server now. ``confirmed_lsn`` may be lower than before: that was another database."""
        self.set_server(server)
        self.confirmed_lsn = confirmed_lsn

    def promoted(self, timeline: int) -> None:
        """The server, a standby, was promoted: all that was read from it is part of its new timeline too."""
        before = self._server
        if before is None or before.timeline == timeline:
            return
        self._server = ServerTimeline(before.systemid, timeline)
        if self._latest_server == before:
            self._latest_server = self._server
        if self._position is not None:
            self._position = with_server(self._position, self._server)

    def polled(self, latest: Mapping[str, Any] | None, position: Mapping[str, Any] | None) -> None:
        super().polled(latest, position)
        if self._confirms_idle and self._all_stored and position is not None:
            # Promise 1: all records are stored, and the WAL between the last one and the position contains no captured change.
            self.confirmed_lsn = max(self.confirmed_lsn, confirmable_lsn(position))

    def offsets_stored(self, offsets: OffsetPairs) -> bool:
        """Offsets are durable. Returns whether ``confirmed_lsn`` has increased."""
        if not super().offsets_stored(offsets):
            return False
        offset = self._stored
        assert offset is not None
        if server_of(offset) not in (None, self._server):
            return False  # a position of another server says nothing about this one's WAL
        # Promise 1: the server may discard WAL only up to the position of a stored offset.
        lsn = confirmable_lsn(offset)
        if lsn <= self.confirmed_lsn:
            return False
        self.confirmed_lsn = lsn
        return True
