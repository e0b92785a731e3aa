"""Reads the snapshot: rows of all captured tables as of one point in time, as 'r' events.

Connections read ranges of tables side by side; their rows are returned one block at a time, so one thread serves all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Generic

from connect.record import SourceRecord
from connectors.cdc.errors import ConnectionLostError
from connectors.cdc.snapshot.connections import SnapshotConnections
from connectors.cdc.snapshot.offsets import SnapshotOffsets
from connectors.cdc.snapshot.progress import SnapshotProgress
from connectors.cdc.snapshot.row_stream import RowBlock, Stream, first_full
from connectors.cdc.snapshot.table_read import PendingRow, RangeRead, TableLockedError, TableRead

log = logging.getLogger(__name__)

_MAX_POLL_S = 0.5


class SnapshotReader(Generic[Stream]):
    """``read`` returns the next events; ``done`` is set after the last. ``progress`` may be read from any thread."""

    def __init__(
        self,
        connections: SnapshotConnections[Stream],
        tables: Sequence[TableRead[Stream]],
        offsets: SnapshotOffsets,
        progress: SnapshotProgress,
        tables_total: int,
    ) -> None:
        """``tables`` are those that are not completed, in order."""
        self._connections = connections
        self._tables = list(tables)
        self._offsets = offsets
        self.progress = progress
        self._tables_total = tables_total
        self._assigned: dict[Stream, RangeRead[Stream]] = {}
        self._last_of_table: PendingRow[Stream] | None = None
        """The last row of a table that was read completely: the last of the snapshot if no other row follows."""
        self.done = False

    def read(self) -> Sequence[SourceRecord]:
        """Returns the next events; an empty list after a timeout. Raises ConnectionLostError and WaitInterrupted."""
        self._connections.open_all()
        self._assign_ranges()
        readers = self._active_readers()
        if not readers:
            self.done = True
            self.progress.completed()
            return self._take_last_of_table(is_last=True)
        try:
            reader = first_full(readers, self._connections.interrupt, _MAX_POLL_S)
        except ConnectionLostError as e:
            lost = [reader for reader in readers if reader.is_lost]
            if self._connections.leader in lost or not lost:
                raise
            for reader in lost:
                self._give_up(reader, e.message)
            return []
        return [] if reader is None else self._events(reader, reader.take())

    # --- ranges -----------------------------------------------------------------------------------------------------------------

    def _assign_ranges(self) -> None:
        """Gives each connection that reads nothing the next range."""
        for reader in list(self._connections.readers):
            if reader not in self._assigned:
                self._assign_range(reader)
        tables = {range_.table for range_ in self._assigned.values()}
        self.progress.tables = tuple(str(table) for table in sorted(tables, key=lambda table: table.index))

    def _assign_range(self, reader: Stream) -> None:
        is_leader = reader is self._connections.leader
        table = next((t for t in self._tables if t.next_range() and (is_leader or not t.leader_only)), None)
        if table is None:
            return
        try:
            self._split(table, reader)
            range_ = table.next_range()
            assert range_ is not None
            self._assigned[reader] = range_
            range_.is_assigned = True
            table.table.start(reader, range_.missing)
        except TableLockedError as e:
            table.leader_only = True
            if not e.is_usable:
                self._give_up(reader, f"another session waits for a lock of {table}")
            elif (waiting := self._assigned.pop(reader, None)) is not None:
                table.give_back(waiting)
        except ConnectionLostError as e:
            if is_leader:
                raise
            self._give_up(reader, e.message)

    def _split(self, table: TableRead[Stream], reader: Stream) -> None:
        """Divides a table that is read next into ranges."""
        if table.is_split:
            return
        table.set_ranges(table.table.split(reader, table.missing))
        table.is_split = True
        self.progress.table_started(str(table))
        log.info("snapshot: reading %s (%d of %d)", table, table.index + 1, self._tables_total)

    def _give_up(self, reader: Stream, reason: str) -> None:
        """A connection cannot continue: another one reads its range, from the last emitted row on."""
        range_ = self._assigned.pop(reader, None)
        if range_ is not None:
            range_.table.give_back(range_)
        log.warning("replacing a connection of the snapshot: %s", reason)
        self._connections.replace(reader)

    def _active_readers(self) -> list[Stream]:
        """The connections to receive rows from. The first row of the first table precedes all other rows, as in Debezium."""
        first = [reader for reader, range_ in self._assigned.items() if range_.table.index == 0]
        if first and not self._assigned[first[0]].table.has_begun:
            return first
        return list(self._assigned)

    # --- events -----------------------------------------------------------------------------------------------------------------

    def _events(self, reader: Stream, block: RowBlock) -> Sequence[SourceRecord]:
        """The events of a block and of the row before it; the last row of the block is kept back."""
        range_ = self._assigned.pop(reader)
        table = range_.table
        self.progress.bytes += block.size_bytes
        records = self._row_events(range_, block) if block.rows else []
        if not block.is_last:
            self._assigned[reader] = range_  # at the end: the next connection to return rows is another one, if it has some
        else:
            self._connections.range_completed()
            table.range_read(range_)
            if table.is_read:
                records = self._finish(table, records)
        self.progress.log_if_due()
        return records

    def _row_events(self, range_: RangeRead[Stream], block: RowBlock) -> Sequence[SourceRecord]:
        table, pending = range_.table, range_.table.pending
        records = self._take_last_of_table(is_last=False)
        if pending is not None:
            block.prepend(pending.row)
        *ready, newest = block.rows
        table.pending = PendingRow(range_, newest)
        if ready and not table.has_begun:
            marker = "first" if table.index == 0 else "first_in_data_collection"
            records += self._emit_one(pending.range if pending is not None else range_, ready.pop(0), marker)
            pending = None
        if not ready:
            return records
        if pending is not None:
            table.emitted(pending.range, pending.row, 1)
        if others := len(ready) - (pending is not None):
            table.emitted(range_, ready[-1], others)
        self._offsets.table_emitted(table)
        self.progress.rows += len(ready)
        batch = table.table.batch(ready, block, self._offsets.step())
        return [*records, *batch] if records else batch

    def _emit_one(self, range_: RangeRead[Stream], row: Any, marker: str, *, completes: bool = False) -> list[SourceRecord]:
        table = range_.table
        table.emitted(range_, row, 1)
        self._offsets.table_emitted(table, is_complete=completes)
        self.progress.rows += 1
        return table.table.records([row], marker, self._offsets.step(last=marker == "last"))

    def _finish(self, table: TableRead[Stream], records: Sequence[SourceRecord]) -> Sequence[SourceRecord]:
        """A table was read completely. Its last row is kept back until another row follows, or none."""
        self._tables.remove(table)
        self.progress.table_completed(str(table), table.rows + (table.pending is not None))
        if table.pending is None:
            self._offsets.table_emitted(table, is_complete=True)
            return records
        if self._last_of_table is not None:
            records = [*records, *self._take_last_of_table(is_last=False)]
        self._last_of_table = table.pending
        return records

    def _take_last_of_table(self, *, is_last: bool) -> list[SourceRecord]:
        """The event of the last row of a table, or of the snapshot."""
        pending, self._last_of_table = self._last_of_table, None
        if pending is None:
            return []
        table = pending.range.table
        if is_last:
            marker = "last"
        else:
            # For a table with one row, Debezium uses "first" in the first table, else "last_in_data_collection".
            marker = "first" if table.index == 0 and not table.has_begun else "last_in_data_collection"
        return self._emit_one(pending.range, pending.row, marker, completes=True)
