"""What the sink needs of a table, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from connect.record import TopicPartition
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.plan.deduplicate import DeduplicatedChanges
from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.key_equality import Ints
from connectors.spark.plan.row_limits import NO_LIMITS, RowLimits
from connectors.spark.plan.truncates import RowUpdate
from connectors.spark.plan.versions import as_open
from connectors.spark.tables.executor_files import ExecutorFiles, FileTarget
from connectors.spark.tables.offset_ranges import OffsetRanges

Defaults = Mapping[str, pa.Scalar]
"""By column of the table: the value that its existing rows get."""


@dataclass(slots=True)
class TableState:
    """What a table contained when it was read."""

    columns: Columns | None
    """None when the table does not exist."""
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """By partition: the offset after its last record in the table (promise 6)."""
    limits: RowLimits = NO_LIMITS
    feeds: frozenset[TopicPartition] = frozenset()
    """All partitions whose rows the table has, also those of other connectors, and of topics that no longer exist."""
    one_partition: bool = False
    """Whether a commit has the records of one partition only."""
    keys: tuple[str, ...] = ()
    """The key columns; empty if the table does not say them."""


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """The offsets of one table commit: the ranges that it adds, and the new end of each of their partitions. ``known`` are the
    ends that the table had before, as far as it had any.

    With ``files``, Spark's executors have written the rows: those of an append, and those of an upsert that are not deleted. They
    are added as they are; on a conflict, and after an error, they are left to the caller.
    """

    ranges: OffsetRanges
    ends: Mapping[TopicPartition, int]
    known: Mapping[TopicPartition, int] = field(default_factory=dict)
    files: ExecutorFiles | None = None
    is_alone: bool = False
    """Whether the commit is planned for a table that has no records of other partitions than it had when it was read."""

    def continues(self, stored: Mapping[str, int], identities: Mapping[TopicPartition, str]) -> bool:
        """Whether the table's ends are still those that are known: by partition, the end that is stored under its identity. One
        that was deleted since is another one, or a task that was frozen would undo that."""
        return all((stored.get(identities[tp]) or None) == self.known.get(tp) for tp in self.ranges)

    def schema_of(self, rows: pa.Table) -> pa.Schema:
        """The columns that the commit writes."""
        return rows.schema if self.files is None else self.files.schema


@dataclass(frozen=True, slots=True)
class Upsert:
    """Changes of a table, one per key."""

    rows: pa.Table
    """The new rows with their metadata columns. For a deleted key, the columns of its last image that are known."""
    changes: DeduplicatedChanges
    keys: tuple[str, ...]
    columns: Columns
    """All columns of the table. Those that ``rows`` lacks become null, because the source no longer has them."""
    soft_deletes: bool
    update: RowUpdate | None = None
    """What a truncate does to the table's rows of other keys, if they stay in the table."""

    keeps_versions: bool = False
    """With :mod:`connectors.spark.plan.versions`: ``rows`` have several versions of a key; a deleted one becomes the closed copy
    of the open version, which is the row of the table that has the key and ``__current``."""

    by_source: SourceChanges | None = None
    """The table's rows have positions, and changes that are older than the row of their key are ignored
    (:mod:`connectors.spark.tables.source_order`)."""

    @property
    def searched(self) -> pa.Table:
        """Rows with the keys of the rows that are replaced."""
        return as_open(self.rows) if self.keeps_versions else self.rows

    @property
    def truncates(self) -> bool:
        return self.changes.truncate is not None

    @property
    def empties(self) -> bool:
        """Whether all rows that the table has are removed."""
        return self.truncates and self.update is None and self.by_source is None


@dataclass(frozen=True, slots=True)
class SourceChanges:
    """The changes behind an upsert, from the oldest to the newest in the source's log, after the last truncate."""

    changes: ChangeBatch
    numbers: Ints
    """By change: the row of the upsert that has its key."""
    reduce: Callable[[ChangeBatch], Upsert]
    """Gives the upsert of some of the changes, whose rows have the order of the first changes of their keys."""


class Table(Protocol):
    """One table of a sink task. Used by one thread at a time.

    ``append`` and ``upsert`` are atomic, and compare-and-set: they return None and change nothing when another commit has moved
    one of the commit's partitions, or anything else that the call depends on, since :meth:`load`. The caller then loads again.
    """

    @property
    def path(self) -> str:
        """The directory or URI of the table."""
        ...

    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        """Reads columns and the ends of these partitions (of all that are known, if none are given)."""
        ...

    def create(self, columns: Columns, keys: Sequence[str]) -> None:
        """Creates the table, empty, if it does not exist; ``keys`` are its merge key. The caller loads again."""
        ...

    def add_columns(self, added: list[tuple[str, pa.DataType]], columns: Columns, defaults: Defaults) -> None:
        """Adds columns (quoted paths) in a commit of its own; ``columns`` are those that the table then has. Existing rows get
        ``defaults`` in the same commit. The caller loads again."""
        ...

    def widen_columns(self, widened: list[tuple[str, pa.DataType]]) -> None:
        """Gives columns (quoted paths) wider types, in commits of their own. The caller loads again."""
        ...

    def set_keys(self, keys: Sequence[str]) -> None:
        """Has the table say its key columns, in a commit of its own. The caller loads again."""
        ...

    def append(self, rows: pa.Table, commit: OffsetCommit) -> int | None:
        """Adds rows; without rows, only commits the offsets. Returns the version."""
        ...

    def upsert(self, upsert: Upsert, commit: OffsetCommit) -> int | None:
        """Applies changes. Returns the version."""
        ...

    def file_target(self) -> FileTarget | None:
        """How executors write data files for the version that was read last; None if they cannot."""
        ...

    def stored_ends(self) -> Mapping[TopicPartition, int]:
        """The end of every partition that the table knows, also of topics that no longer exist."""
        ...

    def move_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Sets the ends of partitions, or deletes them (None), without rows. A table without ends forgets that it had some."""
        ...

    def maintain(self, is_stopping: Callable[[], bool]) -> None:
        """Does work that keeps reading and committing fast, such as compaction. Called from another thread, beside commits;
        blocks them only for moments, and ends early when the task stops. After an error, it may be called again."""
        ...

    def progress(self) -> Mapping[str, Any]:
        """Figures about the table, callable from any thread."""
        ...
