"""The actions of one commit to a Delta table, and the files that were written for it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from connectors.spark.tables.delta.data_files import DataFileWriter
from connectors.spark.tables.delta.deletion_vectors import encode_vector_file, vector_file_name
from connectors.spark.tables.delta.file_format import DeltaFormat, add_action, remove_action
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.delta.log import Action
from connectors.spark.tables.executor_files import ExecutorFiles
from connectors.spark.tables.files.compaction import MergedFile
from connectors.spark.tables.files.live_files import LiveFile, LiveFiles
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.patch import Patch, updated_copies


@dataclass(slots=True)
class TableChange:
    """Actions of a commit, and the files that were written for it."""

    writer: DataFileWriter
    layout: TableLayout
    rows: pa.Table = field(default_factory=lambda: pa.table({}))
    files: ExecutorFiles | None = None
    """Instead of ``rows``: what executors have written."""
    reads_table: bool = False
    """Whether it depends on the rows of the table."""
    adds: list[Action] = field(default_factory=list)
    removes: list[Action] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    """Deleted if there is no commit."""
    kept: list[str] = field(default_factory=list)
    """Files of executors."""
    new_rows: dict[str, pa.Table] = field(default_factory=dict)
    """By path: the rows of a new data file, in its order, with all their columns."""

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Deletes what was written when the block fails: a full disk would stay full."""
        try:
            yield
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Deletes the files, which certainly no commit names."""
        self.writer.delete(self.written)

    def write_rows(self) -> None:
        """Writes the new rows, if there are any: one file per partition. With files of executors, only their vectors."""
        if self.files is not None:
            self._add_files(self.files)
            return
        if not self.rows.num_rows:
            return
        for values, rows in self.layout.split(self.rows):
            add = self.writer.write(rows, self.layout, values)
            self.adds.append(add)
            self.written.append(add["path"])
            self.new_rows[add["path"]] = rows

    def _add_files(self, files: ExecutorFiles) -> None:
        marked: list[tuple[LiveFile, Rows]] = []
        for file in files.remaining():
            self.kept.append(file.path)
            if file.keys is not None:
                self.new_rows[file.path] = file.keys
            if len(file.superseded):
                marked.append((DeltaFormat("").describe(-1, file.entry), file.superseded))
            else:
                self.adds.append(dict(file.entry))
        if marked:
            self._write_vectors(marked)

    def _write_vectors(self, marked: list[tuple[LiveFile, Rows]]) -> None:
        data, identity, descriptors = encode_vector_file([rows for _, rows in marked])
        self.writer.write_bytes(vector_file_name(identity), data)
        self.written.append(vector_file_name(identity))
        self.adds += [add_action(file, descriptor) for (file, _), descriptor in zip(marked, descriptors, strict=True)]

    def delete_rows(self, deleted: Mapping[int, Rows], live: LiveFiles) -> None:
        """Marks rows of live files as deleted, and removes files without any other rows."""
        now_ms = int(time.time() * 1000)
        remaining: list[tuple[LiveFile, Rows]] = []
        for number, rows in deleted.items():
            file = live.at(number)
            self.removes.append(remove_action(file, now_ms))
            all_deleted = file.with_deleted(rows)
            if len(all_deleted) < file.rows:
                remaining.append((file, all_deleted))
        if remaining:
            self._write_vectors(remaining)

    def write(self, patch: Patch, live: LiveFiles) -> None:
        """Writes the files of a patch."""
        deleted = dict(patch.deleted)
        if patch.empties:
            now_ms = int(time.time() * 1000)
            self.removes += [remove_action(file, now_ms) for file in live.by_path.values()]
        for file, rows in patch.updated_rows(live):
            self._write_updated(file, rows, patch, live)
            deleted[file.number] = np.union1d(deleted[file.number], rows) if file.number in deleted else rows
        self.delete_rows(deleted, live)
        self.write_rows()

    def _write_updated(self, file: LiveFile, rows: Rows, patch: Patch, live: LiveFiles) -> None:
        assert patch.update is not None
        writer, layout = self.writer, self.layout
        copies = (batch for _, batch in updated_copies(live, file, rows, patch.update, layout.columns))
        if patch.update.values.keys() & set(layout.partition_columns):
            adds = (writer.write(part, layout, values) for batch in copies for values, part in layout.split(batch))
        else:
            add = writer.write_batches(copies, layout, file.values)
            adds = (one for one in [add] if one is not None)
        for add in adds:
            self.adds.append(add)
            self.written.append(add["path"])

    @classmethod
    def of_merged(cls, merged: MergedFile, writer: DataFileWriter, layout: TableLayout) -> TableChange:
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
