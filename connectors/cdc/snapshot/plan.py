"""Plans a snapshot: the order of its tables, and what of them an interrupted attempt has left to read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from connectors.cdc.snapshot.connections import SnapshotConnections
from connectors.cdc.snapshot.key_ranges import SnapshotState
from connectors.cdc.snapshot.offsets import SnapshotOffsets
from connectors.cdc.snapshot.progress import SnapshotProgress
from connectors.cdc.snapshot.reader import SnapshotReader
from connectors.cdc.snapshot.row_stream import Stream
from connectors.cdc.snapshot.table_read import SnapshotTable, TableRead

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlannedTable(Generic[Stream]):
    """A table of a snapshot, and the server's estimate of its rows."""

    table: SnapshotTable[Stream]
    estimated_rows: int


class SnapshotPlan(Generic[Stream]):
    """The tables of a snapshot in the order in which they are read."""

    def __init__(self, tables: Sequence[PlannedTable[Stream]], order: str, stored_state: str | None) -> None:
        """``order`` is ``snapshot.tables.order.by.row.count``. ``stored_state`` is what an interrupted attempt completed, None if
        everything is read."""
        if order != "disabled":
            tables = sorted(tables, key=lambda planned: planned.estimated_rows, reverse=order == "descending")
        self._tables = tables
        self.state = SnapshotState.parse(stored_state)
        """What is completed, without tables that have changed."""
        self.state.keep({planned.table.id: planned.table.fingerprint for planned in tables})

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of all tables, those included that are completed."""
        return tuple(str(planned.table) for planned in self._tables)

    def reader(self, connections: SnapshotConnections[Stream], offsets: SnapshotOffsets) -> SnapshotReader[Stream]:
        """Returns what reads the tables that are not completed."""
        state, total = self.state, len(self._tables)
        reads: list[TableRead[Stream]] = []
        expected = 0
        for index, planned in enumerate(self._tables):
            table = planned.table
            if table.id not in state.done:
                reads.append(TableRead(index, table, state.partial.get(table.id)))
                expected += max(planned.estimated_rows - reads[-1].rows, 0)
        if state.done or state.partial:
            done, partial = len(state.done), len(state.partial)
            log.info("the snapshot continues: %d of %d tables are completed, and %d in part", done, total, partial)
        return SnapshotReader(connections, reads, offsets, SnapshotProgress(total, total - len(reads), expected), total)
