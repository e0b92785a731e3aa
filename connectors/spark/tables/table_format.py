"""What a table format does for :class:`connectors.spark.tables.file_table.FileTable`, and the values that both exchange."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from connect.record import TopicPartition
from connectors.spark.config import WantedLayout
from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.row_limits import RowLimits
from connectors.spark.tables.executor_files import ExecutorFiles, FileTarget
from connectors.spark.tables.files.compaction import CompactionSettings, Complete, MergedFile, Source, WriteFile
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.files.key_index import Matches
from connectors.spark.tables.files.live_files import Entry
from connectors.spark.tables.offset_ranges import OffsetRanges
from connectors.spark.tables.patch import Patch
from connectors.spark.tables.source_order.order_state import OrderStateFiles
from connectors.spark.tables.table import Defaults
from connectors.spark.tables.table_lock import TableLock


@dataclass(frozen=True, slots=True)
class FileTableSettings:
    """How a connector writes a table. ``upkeep_interval_s``: how often files that no version needs any more are deleted; 0 turns
    it off."""

    connector: str
    upserts: bool
    fail_unavailable: bool
    max_index_keys: int
    layout: WantedLayout
    compaction: CompactionSettings
    upkeep_interval_s: float
    deleted_retention_ms: int

    @property
    def row_group(self) -> int:
        """Rows of a row group in data files. Rows of upsert tables are read one by one, and a row group is the least that can be
        read."""
        return 20_000 if self.upserts else 256 * 1024


@dataclass(slots=True, kw_only=True)
class View:
    """One version of a table: what the next commit is planned on. ``shape`` is equal in versions whose files are alike, so that
    files written for one fit the other."""

    version: int
    table_id: str
    columns: Columns
    limits: RowLimits
    shape: object
    ends: Mapping[str, int]
    """By identifier (:mod:`connectors.spark.tables.application_ids`), of all connectors."""
    order_state: int
    """Names what the table knows of the order of changes (``OrderState``); 0 for nothing."""
    order_files: OrderStateFiles
    lock: TableLock
    keys: tuple[str, ...]
    """The key columns of an upsert table; empty if it does not say them."""
    files: IndexedFiles | None = None
    """None if its files must be read before they can be changed."""

    @property
    def has_old_ends(self) -> bool:
        """Whether the ends are those of an older version, and are lost when that expires."""
        return False


V = TypeVar("V", bound=View)


@dataclass(frozen=True, slots=True)
class Step(Generic[V]):
    """The way to a version from the one before: the files that commits have added, removed, or given other deleted rows. The
    table applies them, and sets the files of the view."""

    view: V
    adds: Sequence[Entry] | None = None
    """None if it is not known how the version came about."""
    removes: Sequence[Entry] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    """For the progress of the task, as far as the commit says them."""


@dataclass(frozen=True, slots=True)
class Moves:
    """What a commit says about offsets: new ends by their identifiers, and the same by partition (None deletes one)."""

    ends: Mapping[str, int] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    ranges: OffsetRanges = field(default_factory=dict)
    order_state: int | None = None
    """None if that remains."""


@dataclass(frozen=True, slots=True)
class Merging:
    """How files are merged (:func:`connectors.spark.tables.files.compaction.merge_files`)."""

    columns: Columns
    write: WriteFile
    complete: Complete | None = None


class Change(Protocol):
    """The files that were written for one commit, and what else it does."""

    new_rows: dict[str, pa.Table]
    """By path: the rows of a new data file, in its order."""

    def discard(self) -> None:
        """Deletes the files, which certainly no commit names."""


C = TypeVar("C", bound=Change)


class Upkeep(Protocol):
    """What a format may ask of its table while it takes care of it, from another thread than the one that commits."""

    lock: threading.RLock
    """Held while the format is used, except for its care."""

    @property
    def view(self) -> Any:
        """The version that was read last; None if there is none."""
        ...

    def compact(self) -> bool:
        """Merges files once; returns whether it did."""
        ...

    def repeat_ends(self) -> None:
        """Commits the ends again if the newest version has those of an older one, which may expire."""
        ...


class TableFormat(Protocol[V, C]):
    """One table of a format. Used by one thread at a time, except for :meth:`maintain`.

    Raises HistoryMoved wherever the table's rows are no longer those of the commits that it has seen.
    """

    name: str
    """For people, as is ``place``."""
    path: str
    place: str

    def read(self, before: V | None) -> Step[V] | None:
        """The newest version; None if there is no table. ``before`` is the version that was read last: as far as the format says
        what has come since, the step has it. Calls are few if others have only changed rows, or nothing. Raises UnsuitableTable,
        and ConnectError if the table must not be written."""
        ...

    def peek(self) -> V | None:
        """The newest version with its ends, but perhaps without columns; also if :meth:`read` refuses the table because of them.
        None if there is no table."""
        ...

    def forget(self, view: V) -> None:
        """Has a table without ends of the connector forget that it had some."""
        ...

    def create(self, columns: Columns, keys: Sequence[str]) -> None:
        """See :class:`connectors.spark.tables.table.Table`, as for the next three."""
        ...

    def add_columns(self, view: V, added: list[tuple[str, pa.DataType]], columns: Columns, defaults: Defaults) -> None: ...

    def widen_columns(self, view: V, widened: list[tuple[str, pa.DataType]]) -> None: ...

    def set_keys(self, view: V, keys: Sequence[str]) -> None: ...

    def file_target(self, view: V) -> FileTarget | None:
        """How executors write files for a version; None if they cannot."""
        ...

    def read_files(self, view: V, keys: Mapping[str, pa.DataType]) -> IndexedFiles:
        """Reads the files of a version that was read last, with an index of these columns."""
        ...

    def search(self, view: V, rows: pa.Table) -> Matches:
        """Finds rows with the keys of these rows in a version whose files have no index. Raises ConnectError if the format
        cannot."""
        ...

    def is_gone(self, view: V, error: Exception) -> bool:
        """Whether reading files of a version has failed because others have removed them since."""
        ...

    def write(self, view: V, patch: Patch, files: ExecutorFiles | None) -> C:
        """Writes the files of a patch, or takes over those that executors have written. Deletes what it wrote if that fails.
        Raises CommitConflict if the version's files have gone."""
        ...

    def merging(self, view: V, sources: Sequence[Source]) -> Merging:
        """How to merge files of a version. Raises CommitConflict if they have gone."""
        ...

    def write_merged(self, view: V, merged: MergedFile) -> C:
        """The change that puts a merged file in the place of others."""
        ...

    def commit(self, view: V, change: C, moves: Moves) -> Step[V]:
        """Commits a change of the version that was read last. Called with the table's lock on local disks.

        Raises CommitConflict and TableNotLocked if there certainly is no commit: it looks for its own before. After another
        error it is not known whether there was one.
        """
        ...

    def maintain(self, table: Upkeep, is_stopping: Callable[[], bool]) -> Mapping[str, int]:
        """See :class:`connectors.spark.tables.table.Table`. Returns sizes for the progress of the task."""
        ...
