"""The live files of an upsert table together with the index of their keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from connectors.spark.plan.evolution import cast_column
from connectors.spark.tables.delta.compaction import MergedFile
from connectors.spark.tables.delta.deletion_vectors import Rows
from connectors.spark.tables.delta.key_encoding import encode_keys
from connectors.spark.tables.delta.key_index import KeyIndex, Matches
from connectors.spark.tables.delta.live_files import LiveFile, LiveFiles, group_rows
from connectors.spark.tables.delta.log import Action

_BATCH_ROWS = 1 << 20


class IndexedFiles:
    """A cache of one version of a table, moved on by the commits that follow it. Not thread-safe."""

    def __init__(self, files: fs.FileSystem, folder: str, keys: Mapping[str, pa.DataType]) -> None:
        self.keys = dict(keys)
        """The key columns with their types in the table; none for a table that is only appended to."""
        self.live = LiveFiles(files, folder)
        self._index = KeyIndex(self.live.are_live)

    @property
    def key_count(self) -> int:
        """The number of keys, including some of deleted rows."""
        return len(self._index)

    def figures(self) -> dict[str, int]:
        """Sizes for the progress of a task."""
        files = self.live.by_path.values()
        return {
            "files": len(files),
            "bytes": sum(file.size_bytes for file in files),
            "deleted_rows": sum(file.deleted_count for file in files),
            "index_keys": len(self._index),
            "index_bytes": self._index.size_bytes,
        }

    def apply(self, adds: Iterable[Action], removes: Iterable[Action]) -> None:
        """Moves on by a commit, and reads the keys of files that are new."""
        for file in self.live.apply(adds, removes):
            self._read_keys(file)

    def apply_own(self, adds: Iterable[Action], removes: Iterable[Action], rows: pa.Table) -> None:
        """Moves on by a commit whose only new file has these rows."""
        for file in self.live.apply(adds, removes):
            self._add_rows(file, rows, 0)

    def apply_merged(self, merged: MergedFile, adds: Iterable[Action], removes: Iterable[Action]) -> None:
        """Moves on by a compaction, whose keys are known."""
        for file in self.live.apply(adds, removes):
            if merged.keys is not None and merged.has_key is not None:
                at = np.flatnonzero(merged.has_key)
                self._index.add(merged.keys.take(at), np.full(len(at), file.number, np.int32), at.astype(np.int32))

    def find(self, rows: pa.Table) -> Matches:
        """The rows of the table that have the keys of these rows."""
        keys, _ = encode_keys([rows[name] for name in self.keys])
        return self._index.find(keys)

    def surviving(self, keys: pa.Table | None, replaced: pa.Table) -> dict[int, Rows]:
        """By file: the rows with these keys, except for keys that are in ``replaced``."""
        if keys is None or not keys.num_rows:
            return {}
        found = self.find(keys)
        if replaced.num_rows:
            other = self.find(replaced)
            gone = set(zip(other.files.tolist(), other.rows.tolist(), strict=True))
            places = zip(found.files.tolist(), found.rows.tolist(), strict=True)
            found = found.filter(np.array([place not in gone for place in places], bool))
        return group_rows(found.files, found.rows)

    def _read_keys(self, file: LiveFile) -> None:
        with self.live.files.open_input_file(self.live.location(file)) as stream:
            parquet = pq.ParquetFile(stream)
            if file.rows < 0:
                file.rows = parquet.metadata.num_rows
            if not self.keys or not set(self.keys) <= set(parquet.schema_arrow.names):
                return  # a column that was added later: no row of the file has a key
            first = 0
            for batch in parquet.iter_batches(_BATCH_ROWS, columns=list(self.keys), use_threads=False):
                self._add_rows(file, pa.table(batch), first)
                first += batch.num_rows

    def _add_rows(self, file: LiveFile, rows: pa.Table, first: int) -> None:
        """Adds the keys of the file's rows from row ``first`` on, without deleted rows."""
        if not rows.num_rows or not self.keys:
            return
        keys, valid = encode_keys([cast_column(rows[n], t, n) for n, t in self.keys.items()])
        if file.deleted is not None:
            valid &= ~file.deleted[first : first + len(valid)]
        at = np.flatnonzero(valid)
        if len(at) < len(valid):
            keys = keys.take(at)
        numbers = np.full(len(at), file.number, np.int32)
        self._index.add(keys, numbers, (at + first).astype(np.int32))


def has_keys(indexed: IndexedFiles | None, keys: Sequence[str], columns: Mapping[str, pa.DataType]) -> bool:
    """Whether the index is for these key columns."""
    return indexed is not None and indexed.keys == {name: columns[name] for name in keys}
