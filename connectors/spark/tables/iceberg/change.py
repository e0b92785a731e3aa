"""One commit to an Iceberg table, and the files that were written for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.spark.plan.evolution import Columns
from connectors.spark.tables.executor_files import ExecutorFiles
from connectors.spark.tables.files.compaction import MergedFile
from connectors.spark.tables.files.file_reader import read_file
from connectors.spark.tables.files.live_files import Entry, LiveFile, LiveFiles
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.iceberg.data_files import IcebergFileWriter
from connectors.spark.tables.iceberg.file_format import IcebergFormat, replaced_deletes, vector_entry
from connectors.spark.tables.iceberg.lineage import LINEAGE, with_row_ids
from connectors.spark.tables.iceberg.partitioning import Partitioning
from connectors.spark.tables.iceberg.puffin import encode_puffin
from connectors.spark.tables.patch import Patch, updated_copies

_BATCH_ROWS = 64 * 1024


@dataclass(slots=True)
class IcebergChange:
    """``added`` and ``removed`` are data files, the others are the delete files of vectors."""

    writer: IcebergFileWriter
    partitioning: Partitioning
    rows: pa.Table = field(default_factory=lambda: pa.table({}))
    files: ExecutorFiles | None = None
    """Instead of ``rows``: what executors have written."""
    added: list[Entry] = field(default_factory=list)
    removed: list[Entry] = field(default_factory=list)
    vectors: list[Entry] = field(default_factory=list)
    old_vectors: list[Entry] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    new_rows: dict[str, pa.Table] = field(default_factory=dict)
    """By path: the rows of a new data file, in its order."""
    marked: list[Entry] = field(default_factory=list)
    """Entries of known data files with their new vector."""
    kind: str = "append"
    """See ``prepare`` in ``IcebergTables.java``."""

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
        for values, rows in self.partitioning.split(self.rows):
            self._add(self.writer.write(rows, values))
            self.new_rows[self.added[-1]["path"]] = rows

    def _add_files(self, files: ExecutorFiles) -> None:
        marked: list[tuple[LiveFile, Rows]] = []
        for file in files.remaining():
            self.added.append(file.entry)
            if file.keys is not None:
                self.new_rows[file.path] = file.keys
            if len(file.superseded):
                # A vector needs nothing of the table's schema.
                marked.append((IcebergFormat({}).describe(-1, file.entry), file.superseded))
        self._write_vectors(marked)

    def _add(self, entry: Entry) -> None:
        self.added.append(entry)
        self.written.append(entry["path"])

    def remove_files(self, files: list[LiveFile]) -> None:
        """Removes whole files, with their own deletes."""
        for file in files:
            self.removed.append(file.entry)
            self.old_vectors += replaced_deletes(file)

    def mark_deleted(self, deleted: Mapping[int, Rows], live: LiveFiles) -> None:
        """Deletes rows by deletion vectors, and removes files without any other rows."""
        remaining: list[tuple[LiveFile, Rows]] = []
        for number, rows in deleted.items():
            file = live.at(number)
            all_deleted = file.with_deleted(rows)
            if len(all_deleted) < file.rows:
                self.old_vectors += replaced_deletes(file)
                remaining.append((file, all_deleted))
            else:
                self.remove_files([file])
        self._write_vectors(remaining)

    def _write_vectors(self, marked: list[tuple[LiveFile, Rows]]) -> None:
        if not marked:
            return
        data, places = encode_puffin([(file.path, rows) for file, rows in marked])
        path = self.writer.write_bytes(data)
        self.written.append(path)
        for (file, rows), place in zip(marked, places, strict=True):
            vector = vector_entry(file, path, len(data), place, len(rows))
            self.vectors.append(vector)
            self.marked.append({**file.entry, "deletes": [vector]})

    def copy_without(self, deleted: Mapping[int, Rows], live: LiveFiles, columns: Columns) -> None:
        """Deletes rows by writing the others of their files into new files (copy-on-write)."""
        for number, rows in deleted.items():
            file = live.at(number)
            gone = np.zeros(file.rows, bool)
            gone[file.with_deleted(rows)] = True
            self.remove_files([file])
            if not gone.all():
                self._copy(file, gone, live, columns)

    def _copy(self, file: LiveFile, gone: Any, live: LiveFiles, columns: Columns) -> None:
        def batches() -> Iterator[pa.Table]:
            for first, batch in read_file(live, file, columns, _BATCH_ROWS):
                yield batch.filter(pa.array(~gone[first : first + batch.num_rows]))

        entry = self.writer.write_batches(batches(), tuple(file.entry["partition"]), file.entry["spec"])
        if entry is not None:
            self._add(entry)

    def write(self, patch: Patch, live: LiveFiles, columns: Columns, *, has_vectors: bool) -> None:
        """Writes the files of a patch."""
        deleted = dict(patch.deleted)
        if patch.empties:
            self.remove_files(list(live.by_path.values()))
        for file, rows in patch.updated_rows(live):
            self._write_updated(file, rows, patch, live, columns)
            deleted[file.number] = np.union1d(deleted[file.number], rows) if file.number in deleted else rows
        if has_vectors:
            self.mark_deleted(deleted, live)
        else:
            self.copy_without(deleted, live, columns)
        self.write_rows()

    def _write_updated(self, file: LiveFile, rows: Rows, patch: Patch, live: LiveFiles, columns: Columns) -> None:
        """Writes copies of updated rows, which keep the IDs of their lineage."""
        assert patch.update is not None
        copies = updated_copies(live, file, rows, patch.update, {**columns, **LINEAGE})
        batches = (with_row_ids(file, numbers, batch) for numbers, batch in copies)
        is_older_spec = file.entry["spec"] != self.partitioning.spec_id  # which may have partitions by updated columns
        if is_older_spec or patch.update.values.keys() & set(self.partitioning.columns):
            for batch in batches:
                for values, part in self.partitioning.split(batch):
                    self._add(self.writer.write(part, values))
            return
        entry = self.writer.write_batches(batches, tuple(file.entry["partition"]), file.entry["spec"])
        if entry is not None:
            self._add(entry)

    @classmethod
    def of_merged(cls, merged: MergedFile, writer: IcebergFileWriter, partitioning: Partitioning) -> IcebergChange:
        """The change of a compaction: no row is added or removed."""
        change = cls(writer, partitioning, kind="rewrite")
        change.remove_files([source.file for source in merged.sources])
        if merged.entry is None:
            return change
        change._add(merged.entry)
        deleted = merged.deleted_since()
        if len(deleted):
            change._write_vectors([(IcebergFormat({}).describe(-1, merged.entry), deleted)])
        return change

    def entries(self) -> list[Entry]:
        """What the commit puts into the table: new files, and known ones with new vectors."""
        marked = {entry["path"]: entry for entry in self.marked}
        return [*(marked.pop(entry["path"], entry) for entry in self.added), *marked.values()]

    def request(self, base: int, offsets: Mapping[str, Any]) -> dict[str, Any]:
        """The change for ``commit`` in ``IcebergTables.java``: planned on the snapshot ``base``, with these offsets."""
        return {
            **offsets,
            "kind": self.kind,
            "base": base,
            "add": self.added,
            "remove": self.removed,
            "add_vectors": self.vectors,
            "remove_vectors": self.old_vectors,
        }
