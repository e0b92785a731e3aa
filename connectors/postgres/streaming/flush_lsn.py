"""Decides which offset to store, and up to which LSN the server may discard WAL.

The server retains WAL from the slot's confirmed position. That is always the position of a stored offset, so a slot that is ahead
of the stored offset was moved or recreated by somebody else, and changes are missing. So that the slot advances when no captured
table changes, the position of the stream is stored without a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connectors.postgres.offsets import ServerTimeline, confirmable_lsn, server_of, with_server

OffsetPairs = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]


class FlushTracker:
    """Follows offsets from poll to storage. ``confirmed_lsn`` may be read from any thread."""

    def __init__(self, partition: Mapping[str, Any], *, confirms_idle: bool = False) -> None:
        """``confirms_idle``: WAL without captured changes is confirmed before its position is stored."""
        self._partition = dict(partition)
        self._confirms_idle = confirms_idle
        self._server: ServerTimeline | None = None
        self._latest: Mapping[str, Any] | None = None
        self._latest_server: ServerTimeline | None = None
        self._position: Mapping[str, Any] | None = None
        self._all_stored = True
        self._proposed: Mapping[str, Any] | None = None
        self._proposed_all = False
        self._stored: Mapping[str, Any] | None = None
        self.confirmed_lsn = 0

    @property
    def server(self) -> ServerTimeline | None:
        """The server that the task reads from."""
        return self._server

    def start(self, server: ServerTimeline, confirmed_lsn: int) -> None:
        """The task reads from this server now. ``confirmed_lsn`` may be lower than before: that was another database."""
        self._server = server
        self._position = None
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
        """``poll`` returns records up to the offset ``latest``, or none. ``position`` is the offset of the position after them.

        It is None inside a transaction and until a snapshot is complete.
        """
        if latest is not None:
            self._latest, self._latest_server = latest, self._server
            self._all_stored = False
        self._position = None if position is None else with_server(position, self._server)
        if self._confirms_idle and self._all_stored and position is not None:
            # Promise 1: all records are stored, and the WAL between the last one and the position contains no captured change.
            self.confirmed_lsn = max(self.confirmed_lsn, confirmable_lsn(position))

    def update_offsets(self, offsets: OffsetPairs) -> OffsetPairs:
        """Returns the offset to store: the position of the stream once all returned records are acknowledged, otherwise that of
        the last acknowledged record."""
        pending = self._find(offsets)
        if pending is None:
            includes_all = self._all_stored
        elif pending == self._proposed:
            includes_all = self._proposed_all
        else:
            includes_all = pending == self._latest
        # Promise 1: the position is behind all returned records, so they must all be acknowledged.
        if includes_all and self._position is not None:
            chosen = self._position
        elif pending is not None:
            chosen = pending if pending == self._proposed else with_server(pending, self._latest_server)
        else:
            return ()
        if pending is None and chosen == self._stored:
            return ()
        self._proposed, self._proposed_all = chosen, includes_all
        return [(self._partition, chosen)]

    def offsets_stored(self, offsets: OffsetPairs) -> bool:
        """Offsets are durable. Returns whether ``confirmed_lsn`` has increased."""
        offset = self._find(offsets)
        if offset is None:
            return False
        self._stored = offset
        self._all_stored = self._proposed_all if offset == self._proposed else offset == self._latest
        if server_of(offset) not in (None, self._server):
            return False  # a position of another server says nothing about this one's WAL
        # Promise 1: the server may discard WAL only up to the position of a stored offset.
        lsn = confirmable_lsn(offset)
        if lsn <= self.confirmed_lsn:
            return False
        self.confirmed_lsn = lsn
        return True

    def _find(self, offsets: OffsetPairs) -> Mapping[str, Any] | None:
        return next((offset for partition, offset in offsets if dict(partition) == self._partition), None)
