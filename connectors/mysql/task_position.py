"""Where a task is: its stored offset, the position of its stream, and what of a snapshot is completed."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from connectors.mysql.offsets import (
    SNAPSHOT,
    SNAPSHOT_COMPLETED,
    SNAPSHOT_STATE,
    BinlogPosition,
    StoredBinlogOffset,
    parse_offset,
)
from connectors.mysql.schema.history.history import SchemaHistory

log = logging.getLogger(__name__)

_READS_ROWS = ("initial", "when_needed", "always")
"""Snapshot modes whose first start reads rows, and then streams."""
_FIRST_OFFSET_MS = 3_600_000
"""The first offset of a snapshot is stored long before this time. An older snapshot had one, which was removed on purpose."""


class MySqlTaskPosition:
    """Not thread-safe."""

    def __init__(self, stored: StoredBinlogOffset | None, *, reads_all_again: bool) -> None:
        """``reads_all_again``: the first snapshot starts over in any case (snapshot.mode=always)."""
        self.stored = stored
        self.snapshot_done = False
        self.snapshot_state = None if stored is None or reads_all_again else stored.snapshot_state
        """What an interrupted snapshot has completed; None if the next one starts over."""
        self.structure_is_current = False
        """Whether the structure of the tables is known as of the position of the stream."""
        self._is_started = False

    def find_unstored_snapshot(self, history: SchemaHistory, mode: str) -> None:
        """At the first start, continues a snapshot that ended before an offset was stored, if the history has its position.

        The topics may have rows that were deleted since then, which a new snapshot alone would leave there forever.
        """
        if self._is_started:
            return
        found = None
        if self.stored is None and mode in _READS_ROWS:
            found = history.last_snapshot(time.time_ns() // 1_000_000 - _FIRST_OFFSET_MS)
        self._is_started = True
        if found is not None:
            self.stored = parse_offset(found)
            log.info("continuing from %s: an earlier start has taken a snapshot there, and stored no offset", dict(found))

    @property
    def misses_snapshot(self) -> bool:
        """Whether rows must still be read."""
        return not self.snapshot_done and (self.stored is None or not self.stored.snapshot_completed)

    def known(self, position: BinlogPosition | None, server_uuid: str | None) -> StoredBinlogOffset | None:
        """Where the task is: at the stream's ``position`` of a server, before its first start at the stored offset."""
        if position is None:
            return self.stored
        if self.stored is None:
            return StoredBinlogOffset(position, self.snapshot_done, server_uuid=server_uuid)
        completed = self.snapshot_done or self.stored.snapshot_completed
        return replace(self.stored, position=position, snapshot_completed=completed, server_uuid=server_uuid)

    def polled(self, offset: Mapping[str, Any]) -> None:
        """Records up to an offset are returned."""
        self.snapshot_state = offset.get(SNAPSHOT_STATE)

    def snapshot_completed(self) -> None:
        self.snapshot_done = self.structure_is_current = True

    def start_over(self) -> None:
        """A new snapshot replaces everything."""
        self.stored = self.snapshot_state = None
        self.snapshot_done = self.structure_is_current = False

    def members_before_snapshot(self) -> dict[str, Any]:
        """More members of the offsets of changes before a snapshot: after a restart, they still require it."""
        state = {} if self.snapshot_state is None else {SNAPSHOT_STATE: self.snapshot_state}
        return {SNAPSHOT: "INITIAL", SNAPSHOT_COMPLETED: False, **state}
