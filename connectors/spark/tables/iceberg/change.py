"""One commit to an Iceberg table, and the files that were written for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.truncates import RowUpdate
from connectors.spark.tables.executor_files import ExecutorFile
from connectors.spark.tables.file_change import FileChange
from connectors.spark.tables.files.compaction import MergedFile
from connectors.spark.tables.files.file_reader import read_file
from connectors.spark.tables.files.live_files import Entry, LiveFile, LiveFiles
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.iceberg.data_files import IcebergFileWriter
from connectors.spark.tables.iceberg.file_format import IcebergFormat, replaced_deletes, vector_entry
from connectors.spark.tables.iceberg.lineage import LINEAGE, with_row_ids
from connectors.spark.tables.iceberg.partitioning import Partitioning, Values
from connectors.spark.tables.iceberg.puffin import encode_puffin
from connectors.spark.tables.patch import updated_copies

_BATCH_ROWS = 64 * 1024


@dataclass(slots=True)
class IcebergChange(FileChange):
    """``added`` and ``removed`` are data files, the others are the delete files of vectors."""

    writer: IcebergFileWriter
    layout: Partitioning
    columns: Columns = field(default_factory=dict)
    """Of the table; only needed for a change that reads files."""
    has_vectors: bool = True
    """Whether rows are deleted by vectors; otherwise, the other rows of their files are written again (copy-on-write)."""
    added: list[Entry] = field(default_factory=list)
    removed: list[Entry] = field(default_factory=list)
    vectors: list[Entry] = field(default_factory=list)
    old_vectors: list[Entry] = field(default_factory=list)
    marked: list[Entry] = field(default_factory=list)
    """Entries of known data files with their new vector."""
    kind: str = "append"
    """See ``prepare`` in ``IcebergTables.java``."""

    def remove(self, file: LiveFile) -> None:
        self.removed.append(file.entry)
        self._drop_vector(file)

    def _drop_vector(self, file: LiveFile) -> None:
        self.old_vectors += replaced_deletes(file)

    def _keep(self, file: ExecutorFile) -> LiveFile:
        self.added.append(file.entry)
        return IcebergFormat({}).describe(-1, file.entry)  # a vector needs nothing of the table's schema

    def _add(self, entry: Entry) -> str:
        self.added.append(entry)
        self.written.append(entry["path"])
        return self.written[-1]

    def _write(self, rows: pa.Table, partition: Values) -> str:
        return self._add(self.writer.write(rows, partition))

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

    def delete_rows(self, deleted: Mapping[int, Rows], live: LiveFiles) -> None:
        if self.has_vectors:
            self._mark_rows(deleted, live)
            return
        for number, rows in deleted.items():
            file = live.at(number)
            gone = np.zeros(file.rows, bool)
            gone[file.with_deleted(rows)] = True
            self.remove(file)
            if not gone.all():
                batches = read_file(live, file, self.columns, _BATCH_ROWS)
                kept = (batch.filter(pa.array(~gone[first : first + batch.num_rows])) for first, batch in batches)
                self._write_beside(file, kept)

    def _copies(self, file: LiveFile, rows: Rows, update: RowUpdate, live: LiveFiles) -> Iterator[pa.Table]:
        """They keep the IDs of their lineage."""
        copies = updated_copies(live, file, rows, update, {**self.columns, **LINEAGE})
        return (with_row_ids(file, numbers, batch) for numbers, batch in copies)

    def _may_move(self, file: LiveFile, update: RowUpdate) -> bool:
        is_older_spec = file.entry["spec"] != self.layout.spec_id  # which may have partitions by updated columns
        return is_older_spec or bool(update.values.keys() & set(self.layout.columns))

    def _write_beside(self, file: LiveFile, copies: Iterator[pa.Table]) -> None:
        entry = self.writer.write_batches(copies, tuple(file.entry["partition"]), file.entry["spec"])
        if entry is not None:
            self._add(entry)

    @classmethod
    def of_merged(cls, merged: MergedFile, writer: IcebergFileWriter, layout: Partitioning) -> IcebergChange:
        """The change of a compaction: no row is added or removed."""
        change = cls(writer, layout, kind="rewrite")
        for source in merged.sources:
            change.remove(source.file)
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

    def request(self, base: int, schema: int, offsets: Mapping[str, Any]) -> dict[str, Any]:
        """The change for ``commit`` in ``IcebergTables.java``: planned on the snapshot ``base`` and the schema with this ID, with
        these offsets."""
        return {
            **offsets,
            "kind": self.kind,
            "base": base,
            "schema": schema,
            "add": self.added,
            "remove": self.removed,
            "add_vectors": self.vectors,
            "remove_vectors": self.old_vectors,
        }
