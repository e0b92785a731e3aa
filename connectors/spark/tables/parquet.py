"""An append-only directory of Parquet files, written without Spark.

Readers see a plain directory. Offsets, columns, and the order of commits are in its manifest: see
:mod:`connectors.spark.tables.parquet_manifest`.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import quote as quote_name

import pyarrow as pa
import pyarrow.parquet as pq

from connect import crash_points
from connect.errors import ConnectError, SchemaError
from connect.record import TopicPartition
from connectors.spark.errors import explain
from connectors.spark.plan.evolution import Columns, missing_columns, with_additions
from connectors.spark.s3_settings import S3Settings
from connectors.spark.tables.committed_offsets import CommittedOffsets, TableCommit
from connectors.spark.tables.files.file_writer import bounded_columns
from connectors.spark.tables.parquet_compaction import CompactionResult, ParquetCompaction
from connectors.spark.tables.parquet_files import PREFIX, SUFFIX, is_table_file, open_table_files
from connectors.spark.tables.parquet_manifest import (
    FOLDER,
    ConnectorOffsets,
    FileSwap,
    Manifest,
    ManifestEntry,
    ManifestState,
    partitions_to_json,
)

_DRAFTS = f"{FOLDER}/drafts"
_NOTHING = ManifestState()


class ParquetTable:
    """One directory, written by one task. Not thread-safe, except :meth:`compact`.

    Every commit is a compare-and-set per partition: it fails if another task has moved the end of one of its partitions since the
    committed offsets were read. So two tasks that both believe they own a partition cannot both add its records, and tasks with
    different partitions never fail because of each other.
    """

    def __init__(
        self,
        path: str,
        connector: str,
        *,
        task: str = "0",
        target_file_bytes: int = 128 << 20,
        min_files: int = 20,
        s3: S3Settings | None = None,
    ) -> None:
        self.path = path
        self._files = open_table_files(path, s3)
        self._connector = connector
        self._task = f"{connector}-{task}"
        self._stem = f"{PREFIX}{connector.replace('/', '_')}-"
        self._target_file_bytes = target_file_bytes
        self._min_files = min_files
        self._manifest = Manifest(self._files, path)
        self._epoch: int | None = None
        self._expected_ends: dict[TopicPartition, int] | None = None

    def columns(self) -> Columns | None:
        """The columns of all files, each with the type that it had first; None when there is no table."""
        entry = self._load()
        return dict(entry.state.columns) or None if entry is not None else None

    def committed_offsets(self, partitions: Collection[TopicPartition]) -> CommittedOffsets:
        """Reads this connector's offsets. Commits are refused if another task moves one of their partitions after this call."""
        entry = self._load()
        known = None if entry is None else entry.state.connectors.get(self._connector)
        self._expected_ends = {} if known is None else dict(known.ends)
        return CommittedOffsets(None if known is None else known.sequence, dict(self._expected_ends))

    def append(self, rows: pa.Table, commit: TableCommit) -> int | None:
        """Adds the rows as one file, atomically and durably; without rows, only commits the offsets.

        Returns the commit's number in the manifest, or None when another task has moved a partition of the commit, or has added a
        column with another type; then the state must be read again. After an error it is unknown whether the rows were added.
        """
        ends = {tp: end for tp, (_, end) in commit.ranges.items()}
        entry = self._write(lambda: self._commit_rows(rows, commit, ends), "write to")
        if entry is not None and self._expected_ends is not None:
            self._expected_ends |= ends
        return None if entry is None else entry.number

    def commit_metadata(self, commit: TableCommit) -> int | None:
        """Commits the ends of partitions (None removes one) without rows. Returns the same as :meth:`append`."""
        changed = {tp: end for tp, end in commit.ends.items() if end != (self._expected_ends or {}).get(tp)}
        entry = self._write(lambda: self._commit_ends(commit, changed), "write to")
        if entry is None:
            return None
        self._expected_ends = dict(entry.state.connectors[self._connector].ends)
        return entry.number

    def delete_drafts(self) -> None:
        """Deletes the drafts of this task's predecessors.

        A predecessor that is still running can no longer commit them: the manifest numbers the epochs of each task, and a draft
        of an earlier epoch is refused.
        """
        folder = self._drafts_folder()
        self._load()
        if not self._files.files_in(folder):
            return

        def begin_epoch() -> ManifestEntry | None:
            while True:
                state = self._state()
                epoch = state.epochs.get(self._task, 0) + 1
                following = ManifestState(state.connectors, state.columns, {**state.epochs, self._task: epoch})
                entry = self._manifest.add(following, description={"epoch_of": self._task})
                if entry is not None:
                    self._epoch = epoch
                    return entry

        self._write(begin_epoch, "delete incomplete files of")
        for file in self._files.files_in(folder):
            if _draft_epoch(file.name) < (self._epoch or 0):
                with contextlib.suppress(OSError):
                    self._files.delete(file.name)

    def compact(self) -> CompactionResult:
        """Merges small files of all connectors into files of about the target size. Safe to call from any thread and process.

        See :class:`~connectors.spark.tables.parquet_compaction.ParquetCompaction`.
        """
        compaction = ParquetCompaction(
            self._files, self.path, self._task, self._drafts_folder(), self._target_file_bytes, self._min_files
        )
        try:
            return compaction.run()
        except OSError as e:
            raise explain(e, f"cannot compact {self.path}") from e

    def _load(self) -> ManifestEntry | None:
        try:
            entry = self._manifest.refresh()
            if entry is None and any(is_table_file(f.name) for f in self._files.files_in("")):
                # Another task may have added the first entry and its file since the manifest was read.
                entry = self._manifest.refresh()
                if entry is None:
                    raise ConnectError(
                        f"the manifest of the table at {self.path}, which has the offsets of its files, is missing: restore "
                        f"{self.path}/{FOLDER}, or remove the whole directory and start over"
                    )
        except OSError as e:
            raise explain(e, f"cannot read {self.path}") from e
        if self._epoch is None:
            self._epoch = self._state().epochs.get(self._task, 0)
        return entry

    def _state(self) -> ManifestState:
        newest = self._manifest.newest
        return _NOTHING if newest is None else newest.state

    def _write(self, operation: Callable[[], ManifestEntry | None], doing: str) -> ManifestEntry | None:
        try:
            if self._manifest.newest is None:
                self._load()
            return operation()
        except OSError as e:
            raise explain(e, f"cannot {doing} {self.path}") from e

    def _commit_rows(self, rows: pa.Table, commit: TableCommit, ends: dict[TopicPartition, int]) -> ManifestEntry | None:
        columns = {f.name: f.type for f in rows.schema}
        name = f"{self._stem}{commit.sequence:020d}-{uuid.uuid4().hex[:8]}{SUFFIX}"
        swap: FileSwap | None = None
        description = {
            "connector": commit.connector,
            "rows": rows.num_rows,
            "ranges": partitions_to_json((tp, list(r)) for tp, r in commit.ranges.items()),
        }
        while True:
            state = self._state()
            if self._has_moved(commit, ends) or not _fit(state.columns, columns):
                # No entry names the draft: each attempt was certainly refused.
                if swap is not None:
                    self._files.delete(swap.draft)
                return None
            epoch = state.epochs.get(self._task, 0)
            if swap is not None and epoch != self._epoch:
                # A new task of the same number has started and may have deleted the draft.
                self._files.delete(swap.draft)
                swap = None
            self._epoch = epoch
            if swap is None and rows.num_rows:
                swap = FileSwap(self._write_draft(rows), name)
                crash_points.point("parquet.drafted")
            following = self._following(state, commit, ends, with_additions(state.columns, columns))
            entry = self._manifest.add(following, swap, description)
            if entry is not None:
                return entry

    def _commit_ends(self, commit: TableCommit, ends: dict[TopicPartition, int | None]) -> ManifestEntry | None:
        description = {"connector": commit.connector, "ends": partitions_to_json(ends.items())}
        while True:
            state = self._state()
            if self._has_moved(commit, ends):
                return None
            entry = self._manifest.add(self._following(state, commit, ends, state.columns), description=description)
            if entry is not None:
                return entry

    def _has_moved(self, commit: TableCommit, partitions: Collection[TopicPartition]) -> bool:
        """Whether another task has changed one of these partitions since the committed offsets were read."""
        known = self._state().connectors.get(self._connector)
        ends = {} if known is None else known.ends
        for tp in partitions:
            if self._expected_ends is not None and ends.get(tp) != self._expected_ends.get(tp):
                return True
            if tp in commit.ranges and tp in ends and ends[tp] > commit.ranges[tp][0]:
                return True
        return False

    def _following(
        self, state: ManifestState, commit: TableCommit, ends: dict[TopicPartition, Any], columns: Columns
    ) -> ManifestState:
        known = state.connectors.get(self._connector, ConnectorOffsets(0, {}))
        moved = {tp: end for tp, end in {**known.ends, **ends}.items() if end is not None}
        one = ConnectorOffsets(max(known.sequence, commit.sequence), moved)
        return ManifestState({**state.connectors, self._connector: one}, columns, state.epochs)

    def _drafts_folder(self) -> str:
        return f"{_DRAFTS}/{quote_name(self._task, safe='')}"

    def _write_draft(self, rows: pa.Table) -> str:
        # Its name ends differently so that no reader of *.parquet in subdirectories finds it.
        draft = f"{self._drafts_folder()}/{self._epoch or 0:010d}-{uuid.uuid4().hex}.draft"
        try:
            with self._files.open_output(draft) as stream:
                rows = rows.replace_schema_metadata()
                bounded = bounded_columns(rows.schema, rows)
                pq.write_table(rows, stream, compression="zstd", write_statistics=bounded)
        except BaseException:
            with contextlib.suppress(OSError):
                self._files.delete(draft)
            raise
        return draft


def _draft_epoch(name: str) -> int:
    """The epoch in a draft's name; -1 for any other file."""
    epoch = name.rpartition("/")[2].partition("-")[0]
    return int(epoch) if epoch.isdigit() else -1


def _fit(table: Columns, incoming: Columns) -> bool:
    """Whether a file with these columns can be part of the table: each column that both have is of one type."""
    try:
        missing_columns(table, incoming)
    except SchemaError:
        return False  # names that differ only in case
    return all(name not in table or _is_part(type_, table[name]) for name, type_ in incoming.items())


def _is_part(incoming: pa.DataType, known: pa.DataType) -> bool:
    if pa.types.is_struct(incoming) and pa.types.is_struct(known):
        fields = {f.name: f.type for f in known}
        return all(f.name not in fields or _is_part(f.type, fields[f.name]) for f in incoming)
    if pa.types.is_list(incoming) and pa.types.is_list(known):
        return _is_part(incoming.value_type, known.value_type)
    if pa.types.is_map(incoming) and pa.types.is_map(known):
        return bool(incoming.key_type == known.key_type) and _is_part(incoming.item_type, known.item_type)
    return bool(incoming == known)
