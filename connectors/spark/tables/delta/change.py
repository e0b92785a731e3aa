"""The actions of one commit to a Delta table, and the files that were written for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from connectors.spark.plan.truncates import RowUpdate
from connectors.spark.tables.delta.data_files import DataFileWriter
from connectors.spark.tables.delta.deletion_vectors import encode_vector_file, vector_file_name
from connectors.spark.tables.delta.file_format import DeltaFormat, add_action, remove_action
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.delta.log import Action
from connectors.spark.tables.executor_files import ExecutorFile
from connectors.spark.tables.file_change import FileChange
from connectors.spark.tables.files.compaction import MergedFile
from connectors.spark.tables.files.live_files import LiveFile, LiveFiles
from connectors.spark.tables.files.partition_values import PartitionValues
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.patch import updated_copies


@dataclass(slots=True)
class DeltaChange(FileChange):
    """Actions of a commit, and the files that were written for it."""

    writer: DataFileWriter
    layout: TableLayout
    reads_table: bool = False
    """Whether it depends on the rows of the table."""
    adds: list[Action] = field(default_factory=list)
    removes: list[Action] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """Files of executors."""

    def remove(self, file: LiveFile) -> None:
        self.removes.append(remove_action(file, int(time.time() * 1000)))

    def _drop_vector(self, file: LiveFile) -> None:
        self.remove(file)  # it is added again with another vector

    def _keep(self, file: ExecutorFile) -> LiveFile:
        self.kept.append(file.path)
        if not len(file.superseded):
            self.adds.append(dict(file.entry))
        return DeltaFormat("").describe(-1, file.entry)

    def add(self, action: Action) -> str:
        """Adds a file that was written. Returns its path."""
        self.adds.append(action)
        self.written.append(action["path"])
        return self.written[-1]

    def _write(self, rows: pa.Table, partition: PartitionValues) -> str:
        return self.add(self.writer.write(rows, self.layout, partition))

    def _write_vectors(self, marked: list[tuple[LiveFile, Rows]]) -> None:
        if not marked:
            return
        data, identity, descriptors = encode_vector_file([rows for _, rows in marked])
        self.writer.write_bytes(vector_file_name(identity), data)
        self.written.append(vector_file_name(identity))
        self.adds += [add_action(file, descriptor) for (file, _), descriptor in zip(marked, descriptors, strict=True)]

    def _copies(self, file: LiveFile, rows: Rows, update: RowUpdate, live: LiveFiles) -> Iterator[pa.Table]:
        return (batch for _, batch in updated_copies(live, file, rows, update, self.layout.columns))

    def _may_move(self, file: LiveFile, update: RowUpdate) -> bool:
        return bool(update.values.keys() & set(self.layout.partition_columns))

    def _write_beside(self, file: LiveFile, copies: Iterator[pa.Table]) -> None:
        action = self.writer.write_batches(copies, self.layout, file.values)
        if action is not None:
            self.add(action)

    @classmethod
    def of_merged(cls, merged: MergedFile, writer: DataFileWriter, layout: TableLayout) -> DeltaChange:
        """The change of a compaction: no row is added or removed."""
        change = cls(writer, layout)
        now_ms = int(time.time() * 1000)
        change.removes = [remove_action(source.file, now_ms, data_change=False) for source in merged.sources]
        if merged.entry is None:
            return change
        change.written.append(str(merged.entry["path"]))
        deleted = merged.deleted_since()
        file = DeltaFormat("").describe(-1, merged.entry)
        descriptor = None
        if len(deleted):
            data, identity, (descriptor,) = encode_vector_file([deleted])
            writer.write_bytes(vector_file_name(identity), data)
            change.written.append(vector_file_name(identity))
        change.adds = [add_action(file, descriptor, data_change=False)]
        return change

    def actions(self) -> list[Action]:
        return [*({"remove": action} for action in self.removes), *({"add": action} for action in self.adds)]
