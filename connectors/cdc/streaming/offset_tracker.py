"""Decides which offset to store: that of the last acknowledged record, or the position of the stream.

So that the stored position advances when no captured table changes, the position of the stream is stored without a record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

OffsetPairs = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
Server = TypeVar("Server")


class StoredOffsetTracker(Generic[Server]):
    """Follows offsets from poll to storage."""

    def __init__(
        self, partition: Mapping[str, Any], with_server: Callable[[Mapping[str, Any], Server | None], Mapping[str, Any]]
    ) -> None:
        """``with_server`` returns an offset with the server that was read from: stored offsets have it, records do not."""
        self._partition = dict(partition)
        self._with_server = with_server
        self._server: Server | None = None
        self._latest: Mapping[str, Any] | None = None
        self._latest_server: Server | None = None
        self._position: Mapping[str, Any] | None = None
        self._all_stored = True
        self._proposed: Mapping[str, Any] | None = None
        self._proposed_all = False
        self._stored: Mapping[str, Any] | None = None

    @property
    def server(self) -> Server | None:
        """The server that the task reads from."""
        return self._server

    def set_server(self, server: Server) -> None:
        """The task reads from this server now."""
        self._server = server
        self._position = None

    def polled(self, latest: Mapping[str, Any] | None, position: Mapping[str, Any] | None) -> None:
        """``poll`` returns records up to the offset ``latest``, or none. ``position`` is the offset of the position after them.

        It is None inside a transaction and until a snapshot is complete.
        """
        if latest is not None:
            self._latest, self._latest_server = latest, self._server
            self._all_stored = False
        self._position = None if position is None else self._with_server(position, self._server)

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
            chosen = pending if pending == self._proposed else self._with_server(pending, self._latest_server)
        else:
            return ()
        if pending is None and chosen == self._stored:
            return ()
        self._proposed, self._proposed_all = chosen, includes_all
        return [(self._partition, chosen)]

    def offsets_stored(self, offsets: OffsetPairs) -> bool:
        """Offsets are durable. Returns whether one of them is the connector's."""
        offset = self._find(offsets)
        if offset is None:
            return False
        self._stored = offset
        self._all_stored = self._proposed_all if offset == self._proposed else offset == self._latest
        return True

    def _find(self, offsets: OffsetPairs) -> Mapping[str, Any] | None:
        return next((offset for partition, offset in offsets if dict(partition) == self._partition), None)
