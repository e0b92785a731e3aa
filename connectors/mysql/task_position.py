"""Where a task is: its stored offset, the position of its stream, and what of a snapshot is completed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from connectors.mysql.offsets import SNAPSHOT, SNAPSHOT_COMPLETED, SNAPSHOT_STATE, BinlogPosition, StoredBinlogOffset


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
