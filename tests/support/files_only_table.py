"""A Delta table without Delta: the worker's files, deletion vectors, and key index, and a commit that a list stands for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs

from connect.record import TopicPartition
from connectors.spark.plan.evolution import Columns
from connectors.spark.tables.delta.change import DeltaChange
from connectors.spark.tables.delta.data_files import DataFileWriter
from connectors.spark.tables.delta.file_format import DeltaFormat
from connectors.spark.tables.delta.file_target import DeltaFileTarget
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.executor_files import FileTarget
from connectors.spark.tables.files.compaction import CompactionSettings, choose_sources, merge_files
from connectors.spark.tables.files.file_reader import read_file
from connectors.spark.tables.files.indexed_files import IndexedFiles, has_keys
from connectors.spark.tables.patch import planned_patch
from connectors.spark.tables.source_order.order_state import FOLDER, OrderStateFiles
from connectors.spark.tables.source_order.ordering import SourceOrder
from connectors.spark.tables.table import Defaults, OffsetCommit, TableState, Upsert

WEEK_MS = 7 * 86_400_000


class Crash(BaseException):
    """Stands for SIGKILL just before the commit."""


class Storage:
    """What survives a crash: files, and what the commits say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.columns: Columns | None = None
        self.keys: tuple[str, ...] = ()
        self.adds: dict[str, Mapping[str, Any]] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.order_state = 0
        self.version = 0


class FilesOnlyTable:
    """One process that writes the table. ``crashes`` has the next commit fail before it is durable."""

    def __init__(self, storage: Storage, retention_ms: int = WEEK_MS) -> None:
        self._storage = storage
        self.path = str(storage.folder)
        self.crashes = False
        self.unavailable = 0
        self.feeds: frozenset[TopicPartition] = frozenset()
        self._local = fs.LocalFileSystem()
        self._writer = DataFileWriter(self._local, self.path, 2)
        self.order = SourceOrder(retention_ms, OrderStateFiles(self._local, f"{self.path}/{FOLDER}"))
        self._indexed: IndexedFiles | None = None

    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        columns = self._storage.columns
        known = None if columns is None else dict(columns)
        return TableState(known, dict(self._storage.ends), feeds=self.feeds, keys=self._storage.keys)

    def create(self, columns: Columns, keys: Sequence[str]) -> None:
        self._storage.columns = columns
        self.set_keys(keys)

    def set_keys(self, keys: Sequence[str]) -> None:
        self._storage.keys = tuple(keys)

    def add_columns(self, added: list[tuple[str, pa.DataType]], columns: Columns, defaults: Defaults) -> None:
        self._storage.columns = columns

    def widen_columns(self, widened: list[tuple[str, pa.DataType]]) -> None:
        assert self._storage.columns is not None
        self._storage.columns |= widened

    def file_target(self) -> FileTarget | None:
        columns = self._storage.columns
        return None if columns is None else DeltaFileTarget(self.path, None, TableLayout(dict(columns)), 0, 1000)

    def _files(self, keys: Mapping[str, pa.DataType]) -> IndexedFiles:
        if self._indexed is None or not has_keys(self._indexed, list(keys), keys):
            self._indexed = IndexedFiles(self._local, DeltaFormat(self.path), keys, 1000)
            self._indexed.apply(self._storage.adds.values(), ())
        return self._indexed

    def append(self, rows: pa.Table, commit: OffsetCommit) -> int:
        assert not rows.num_rows
        self._storage.ends |= commit.ends
        return self._storage.version

    def upsert(self, upsert: Upsert, commit: OffsetCommit) -> int:
        storage = self._storage
        indexed = self._files({name: upsert.columns[name] for name in upsert.keys})
        find, live, layout = indexed.find, indexed.live, TableLayout(dict(upsert.columns))
        with planned_patch(upsert, find, live, self.order, storage.order_state, fail_unavailable=False) as patch:
            change, ordered = DeltaChange(self._writer, layout, patch.rows), patch.ordered
            change.write(patch, live)
        self.unavailable += patch.unavailable
        if self.crashes:
            raise Crash
        self._apply(change)
        storage.ends |= commit.ends
        if ordered is not None:
            storage.order_state = ordered.new_state_id or storage.order_state
        self.order.committed(ordered)
        assert self.order.deleted_keys.state.id == storage.order_state
        indexed.apply_own(change.adds, change.removes, change.new_rows)
        storage.version += 1
        return storage.version

    def _apply(self, change: DeltaChange) -> None:
        for removed in change.removes:
            del self._storage.adds[removed["path"]]
        self._storage.adds |= {added["path"]: added for added in change.adds}

    def compact(self) -> None:
        """Merges all files, without their deleted rows."""
        indexed, columns = self._indexed, self._storage.columns
        if indexed is None or columns is None or len(indexed.live) < 2:
            return
        sources = choose_sources(list(indexed.live.by_path.values()), CompactionSettings(1 << 20, 2))
        if not sources:
            return
        layout = TableLayout(dict(columns))
        merged = merge_files(
            indexed.live, sources, columns, indexed.keys, lambda batches: self._writer.write_batches(batches, layout, {})
        )
        change = DeltaChange.of_merged(merged, self._writer, layout)
        self._apply(change)
        indexed.apply_merged(merged, change.adds, change.removes)

    def rows(self) -> list[dict[str, Any]]:
        """The rows that readers see."""
        columns = self._storage.columns
        if columns is None:
            return []
        found = []
        indexed = IndexedFiles(self._local, DeltaFormat(self.path), {}, 0)
        indexed.apply(self._storage.adds.values(), ())
        for file in indexed.live.by_path.values():
            for first, batch in read_file(indexed.live, file, columns, 1000):
                live = np.ones(batch.num_rows, bool)
                if file.deleted is not None:
                    live = ~file.deleted[first : first + batch.num_rows]
                found += batch.filter(pa.array(live)).to_pylist()
        return found

    def stored_ends(self) -> Mapping[TopicPartition, int]:
        return dict(self._storage.ends)

    def move_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        self._storage.ends |= {tp: end for tp, end in offsets.items() if end is not None}
        for tp in (tp for tp, end in offsets.items() if end is None):
            self._storage.ends.pop(tp, None)

    def maintain(self, is_stopping: Callable[[], bool]) -> None:
        self.compact()

    def progress(self) -> Mapping[str, Any]:
        return self.order.figures()
