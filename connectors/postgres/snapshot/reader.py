"""Reads the snapshot: rows of all captured tables as of one point in time, with COPY, as 'r' events.

Connections read ranges of tables side by side; their rows are returned one block at a time, so one thread serves all of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Protocol

from connect.record import SourceRecord
from connectors.cdc.errors import ConnectionLostError
from connectors.cdc.snapshot.progress import SnapshotProgress
from connectors.postgres.config import PostgresConfig
from connectors.postgres.errors import ServerError
from connectors.postgres.offsets import snapshot_offset
from connectors.postgres.snapshot.connections import SnapshotConnections
from connectors.postgres.snapshot.copy_stream import Block, CopyStream, first_full
from connectors.postgres.snapshot.events import OffsetStep, SnapshotPoint
from connectors.postgres.snapshot.key_ranges import SnapshotState, key_order, range_condition
from connectors.postgres.snapshot.table_plan import count_ranges, split_table
from connectors.postgres.snapshot.table_read import PendingRow, RangeRead, TableRead
from connectors.postgres.snapshot.text_batches import Traits
from connectors.postgres.snapshot.transaction import is_lock_timeout, select_statement
from connectors.postgres.streaming.observers import StreamObservers

log = logging.getLogger(__name__)

_MAX_POLL_S = 0.5


class SnapshotOffsets(Protocol):
    """The offsets of rows in the order of their emission."""

    def table_emitted(self, table: TableRead, *, is_complete: bool = False) -> None:
        """Rows of a table were emitted, or it has no more rows."""

    def step(self, *, last: bool = False) -> OffsetStep:
        """The offsets of the rows emitted since the last call. ``last``: the snapshot is complete."""


class InitialOffsets:
    """The offsets of the initial snapshot. ``state`` is None if a later attempt starts over in any case; ``observers`` add to the
    offsets."""

    def __init__(self, point: SnapshotPoint, state: SnapshotState | None, observers: StreamObservers | None = None) -> None:
        self._point = point
        self._state = state
        self._observers = observers
        self._latest = self._offset(last=False)

    def table_emitted(self, table: TableRead, *, is_complete: bool = False) -> None:
        """Rows of a table were emitted, or it has no more rows."""
        if self._state is None:
            return
        if is_complete:
            self._state.complete(table.oid, table.plan.fingerprint)
        elif (partial := table.state()) is not None:
            self._state.partial[table.oid] = partial

    def step(self, *, last: bool = False) -> OffsetStep:
        """The offsets of the rows emitted since the last call. ``last``: the snapshot is complete."""
        before, self._latest = self._latest, self._offset(last=last)
        return OffsetStep(before, self._latest)

    def _offset(self, *, last: bool) -> dict[str, object]:
        state = None if self._state is None or last else self._state.encode()
        offset = snapshot_offset(self._point.lsn, self._point.tx_id, time.time_ns() // 1000, last=last, state=state)
        return offset if self._observers is None else {**offset, **self._observers.offset_extras}


class SnapshotReader:
    """``read`` returns the next events; ``done`` is set after the last."""

    def __init__(
        self,
        connections: SnapshotConnections,
        tables: Sequence[TableRead],
        offsets: SnapshotOffsets,
        settings: PostgresConfig,
        progress: SnapshotProgress,
        tables_total: int,
    ) -> None:
        """``tables`` are those that are not completed, in order."""
        self._connections = connections
        self._tables = list(tables)
        self._offsets = offsets
        self._settings = settings
        self._progress = progress
        self._tables_total = tables_total
        self._assigned: dict[CopyStream, RangeRead] = {}
        self._last_of_table: PendingRow | None = None
        """The last row of a table that was read completely: the last of the snapshot if no other row follows."""
        self.done = False

    def read(self) -> Sequence[SourceRecord]:
        """Returns the next events; an empty list after a timeout. Raises ConnectionLostError and WaitInterrupted."""
        self._connections.open_all()
        self._assign_ranges()
        readers = self._active_readers()
        if not readers:
            self.done = True
            self._progress.completed()
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
        self._progress.tables = tuple(str(table) for table in sorted(tables, key=lambda table: table.index))

    def _assign_range(self, reader: CopyStream) -> None:
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
            reader.start(self._statement(range_))
        except ServerError as e:
            if is_leader or not is_lock_timeout(e):
                raise
            table.leader_only = True
            self._give_up(reader, f"another session waits for a lock of {table}")
        except ConnectionLostError as e:
            if is_leader:
                raise
            self._give_up(reader, e.message)

    def _split(self, table: TableRead, reader: CopyStream) -> None:
        """Divides a table that is read next into ranges."""
        if table.is_split:
            return
        count = count_ranges(table.plan, self._settings)
        table.set_ranges(split_table(reader.connection, table.plan, table.missing, count))
        table.is_split = True
        self._progress.table_started(str(table))
        log.info("snapshot: reading %s (%d of %d)", table, table.index + 1, self._tables_total)

    def _statement(self, range_: RangeRead) -> str:
        key = range_.table.plan.key
        return select_statement(range_.table.events.rows, self._settings, range_condition(key, range_.missing), key_order(key))

    def _give_up(self, reader: CopyStream, reason: str) -> None:
        """A connection cannot continue: another one reads its range, from the last emitted row on."""
        range_ = self._assigned.pop(reader, None)
        if range_ is not None:
            range_.table.give_back(range_)
        log.warning("replacing a connection of the snapshot: %s", reason)
        self._connections.replace(reader)

    def _active_readers(self) -> list[CopyStream]:
        """The connections to receive rows from. The first row of the first table precedes all other rows, as in Debezium."""
        first = [reader for reader, range_ in self._assigned.items() if range_.table.index == 0]
        if first and not self._assigned[first[0]].table.has_begun:
            return first
        return list(self._assigned)

    # --- events -----------------------------------------------------------------------------------------------------------------

    def _events(self, reader: CopyStream, block: Block) -> Sequence[SourceRecord]:
        """The events of a block and of the row before it; the last row of the block is kept back."""
        range_ = self._assigned.pop(reader)
        table = range_.table
        self._progress.bytes += block.size_bytes
        records = self._row_events(range_, block) if block.lines else []
        if not block.is_last:
            self._assigned[reader] = range_  # at the end: the next connection to return rows is another one, if it has some
        else:
            self._connections.range_completed()
            table.range_read(range_)
            if table.is_read:
                records = self._finish(table, records)
        self._progress.log_if_due()
        return records

    def _row_events(self, range_: RangeRead, block: Block) -> Sequence[SourceRecord]:
        table, pending, lines, traits = range_.table, range_.table.pending, block.lines, block.traits
        records = self._take_last_of_table(is_last=False)
        if pending is not None:
            lines.insert(0, pending.line)
            traits |= Traits.of(pending.line.encode())
        *ready, newest = lines
        table.pending = PendingRow(range_, newest)
        if ready and not table.has_begun:
            marker = "first" if table.index == 0 else "first_in_data_collection"
            records += self._emit_one(pending.range if pending is not None else range_, ready.pop(0), marker)
            pending = None
        if not ready:
            return records
        if pending is not None:
            table.emitted(pending.range, pending.line, 1)
        if others := len(ready) - (pending is not None):
            table.emitted(range_, ready[-1], others)
        self._offsets.table_emitted(table)
        self._progress.rows += len(ready)
        batch = table.events.batch(ready, traits, self._offsets.step())
        return [*records, *batch] if records else batch

    def _emit_one(self, range_: RangeRead, line: str, marker: str, *, completes: bool = False) -> list[SourceRecord]:
        table = range_.table
        table.emitted(range_, line, 1)
        self._offsets.table_emitted(table, is_complete=completes)
        self._progress.rows += 1
        return table.events.records([line], marker, self._offsets.step(last=marker == "last"))

    def _finish(self, table: TableRead, records: Sequence[SourceRecord]) -> Sequence[SourceRecord]:
        """A table was read completely. Its last row is kept back until another row follows, or none."""
        self._tables.remove(table)
        self._progress.table_completed(str(table), table.rows + (table.pending is not None))
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
        return self._emit_one(pending.range, pending.line, marker, completes=True)
