"""What was read and emitted of a table in a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from connect.record import SourceRecord
from connectors.cdc.snapshot.key_ranges import EVERYTHING, Key, KeyRange, PartialTable, merge_ranges
from connectors.cdc.snapshot.offsets import OffsetStep
from connectors.cdc.snapshot.row_stream import RowBlock, RowStream, Stream

_Reader = TypeVar("_Reader", bound=RowStream, contravariant=True)


class TableLockedError(Exception):
    """Another session waits for a lock of the table that excludes reads. Never leaves the snapshot."""

    def __init__(self, *, is_usable: bool) -> None:
        """``is_usable``: the connection can read another table."""
        super().__init__()
        self.is_usable = is_usable


class SnapshotTable(Protocol[_Reader]):
    """How a table is read, and what its rows become."""

    @property
    def id(self) -> str:
        """The text that identifies the table in a stored state."""

    @property
    def fingerprint(self) -> str:
        """A stored state counts only with the same fingerprint."""

    @property
    def has_key(self) -> bool:
        """Whether ranges of the table can be read."""

    def split(self, stream: _Reader, missing: Sequence[KeyRange]) -> list[KeyRange]:
        """Divides what is missing of the table into ranges that are read one by one."""

    def start(self, stream: _Reader, bounds: KeyRange) -> None:
        """Starts to read a range. Raises TableLockedError if the stream is not that of the leader, which has all locks."""

    def key_of(self, row: Any) -> Key:
        """The key of a row."""

    def records(self, rows: Sequence[Any], marker: str, offsets: OffsetStep) -> list[SourceRecord]:
        """The events of rows; ``marker`` is their ``source.snapshot``."""

    def batch(self, rows: Sequence[Any], block: RowBlock, offsets: OffsetStep) -> Sequence[SourceRecord]:
        """The events of rows of a block between the first and the last one of the table."""


@dataclass(slots=True, eq=False)
class RangeRead(Generic[Stream]):
    """A range whose rows were not all emitted. ``missing`` begins after the last emitted row."""

    table: TableRead[Stream]
    missing: KeyRange
    is_assigned: bool = False
    is_read: bool = False
    """Whether all rows were read; the last one may be pending."""


@dataclass(frozen=True, slots=True)
class PendingRow(Generic[Stream]):
    """The last row read of a table: its marker depends on whether another row follows."""

    range: RangeRead[Stream]
    row: Any


class TableRead(Generic[Stream]):
    """A table of a snapshot, from the first range to the last."""

    def __init__(self, index: int, table: SnapshotTable[Stream], before: PartialTable | None) -> None:
        """``before`` is what an interrupted attempt left."""
        self.index = index
        self.table = table
        self.rows = 0 if before is None else before.rows
        self.has_begun = before is not None
        self.pending: PendingRow[Stream] | None = None
        self.is_split = False
        self.leader_only = False
        """Whether another session waits for a lock of the table."""
        self.ranges: list[RangeRead[Stream]] = []
        self.set_ranges([EVERYTHING] if before is None else before.missing)

    def __str__(self) -> str:
        return str(self.table)

    @property
    def id(self) -> str:
        return self.table.id

    @property
    def fingerprint(self) -> str:
        return self.table.fingerprint

    def set_ranges(self, missing: Sequence[KeyRange]) -> None:
        """Sets the ranges to read."""
        self.ranges = [RangeRead(self, bounds) for bounds in missing]

    @property
    def missing(self) -> list[KeyRange]:
        return [range_.missing for range_ in self.ranges]

    def next_range(self) -> RangeRead[Stream] | None:
        """The next range that no connection reads."""
        return next((range_ for range_ in self.ranges if not range_.is_assigned), None)

    @property
    def is_read(self) -> bool:
        """Whether all rows were read; the last one may be pending."""
        return all(range_.is_read for range_ in self.ranges)

    def give_back(self, range_: RangeRead[Stream]) -> None:
        """A range was not read to its end: it has to be read again after the last emitted row."""
        range_.is_assigned = False
        if self.pending is not None and self.pending.range is range_:
            self.pending = None

    def range_read(self, range_: RangeRead[Stream]) -> None:
        """All rows of a range were read."""
        range_.is_read = True
        if self.pending is None or self.pending.range is not range_:
            self.ranges.remove(range_)

    def emitted(self, range_: RangeRead[Stream], row: Any, rows: int) -> None:
        """Some rows were emitted, the last of them of this range."""
        self.has_begun = True
        self.rows += rows
        if range_.is_read:
            self.ranges.remove(range_)
        elif self.table.has_key:
            range_.missing = KeyRange(self.table.key_of(row), range_.missing.until)

    def state(self) -> PartialTable | None:
        """What an offset stores while the table is incomplete; None if it has to be read from the start."""
        if not self.has_begun or not self.table.has_key:
            return None
        return PartialTable(self.fingerprint, self.rows, tuple(merge_ranges(self.missing)))
