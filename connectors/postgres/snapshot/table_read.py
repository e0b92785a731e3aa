"""What was read and emitted of a table in a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from connectors.postgres.snapshot.events import TableEvents
from connectors.postgres.snapshot.key_ranges import EVERYTHING, Key, KeyRange, PartialTable, merge_ranges
from connectors.postgres.snapshot.table_plan import TablePlan


@dataclass(slots=True, eq=False)
class RangeRead:
    """A range whose rows were not all emitted. ``missing`` begins after the last emitted row."""

    table: TableRead
    missing: KeyRange
    is_assigned: bool = False
    is_read: bool = False
    """Whether all rows were read; the last one may be pending."""


@dataclass(frozen=True, slots=True)
class PendingRow:
    """The last row read of a table: its marker depends on whether another row follows."""

    range: RangeRead
    line: str


class TableRead:
    """A table of a snapshot, from the first range to the last."""

    def __init__(self, index: int, plan: TablePlan, events: TableEvents, before: PartialTable | None) -> None:
        """``before`` is what an interrupted attempt left."""
        self.index = index
        self.plan = plan
        self.events = events
        self.rows = 0 if before is None else before.rows
        self.has_begun = before is not None
        self.pending: PendingRow | None = None
        self.is_split = False
        self.leader_only = False
        """Whether another session waits for a lock of the table."""
        self.ranges: list[RangeRead] = []
        self.set_ranges([EVERYTHING] if before is None else before.missing)

    def __str__(self) -> str:
        return str(self.plan.rows.table)

    @property
    def oid(self) -> int:
        return self.plan.rows.table.oid

    def set_ranges(self, missing: Sequence[KeyRange]) -> None:
        """Sets the ranges to read."""
        self.ranges = [RangeRead(self, bounds) for bounds in missing]

    @property
    def missing(self) -> list[KeyRange]:
        return [range_.missing for range_ in self.ranges]

    def next_range(self) -> RangeRead | None:
        """The next range that no connection reads."""
        return next((range_ for range_ in self.ranges if not range_.is_assigned), None)

    @property
    def is_read(self) -> bool:
        """Whether all rows were read; the last one may be pending."""
        return all(range_.is_read for range_ in self.ranges)

    def give_back(self, range_: RangeRead) -> None:
        """A range was not read to its end: it has to be read again after the last emitted row."""
        range_.is_assigned = False
        if self.pending is not None and self.pending.range is range_:
            self.pending = None

    def range_read(self, range_: RangeRead) -> None:
        """All rows of a range were read."""
        range_.is_read = True
        if self.pending is None or self.pending.range is not range_:
            self.ranges.remove(range_)

    def emitted(self, range_: RangeRead, line: str, rows: int) -> None:
        """Some rows were emitted, the last of them of this range."""
        self.has_begun = True
        self.rows += rows
        if range_.is_read:
            self.ranges.remove(range_)
        elif self.plan.key:
            range_.missing = KeyRange(self._key(line), range_.missing.until)

    def _key(self, line: str) -> Key:
        return self.events.key_of(line, [column.index for column in self.plan.key])

    def state(self) -> PartialTable | None:
        """What an offset stores while the table is incomplete; None if it has to be read from the start."""
        if not self.has_begun or not self.plan.key:
            return None
        return PartialTable(self.plan.fingerprint, self.rows, tuple(merge_ranges(self.missing)))
