"""The live files of an upsert table together with the index of their keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import fs

from connectors.spark.tables.files.compaction import MergedFile
from connectors.spark.tables.files.file_reader import count_rows, has_columns, read_file
from connectors.spark.tables.files.key_encoding import encode_keys, encode_rows
from connectors.spark.tables.files.key_index import KeyIndex, Matches
from connectors.spark.tables.files.live_files import Entry, FileFormat, LiveFile, LiveFiles

_BATCH_ROWS = 1 << 20


class IndexedFiles:
    """A cache of one version of a table, moved on by the commits that follow it. Not thread-safe.

    Above ``max_keys`` rows there is no index. It is built again when the table has shrunk to half of that.
    """

    def __init__(self, files: fs.FileSystem, form: FileFormat, keys: Mapping[str, pa.DataType], max_keys: int) -> None:
        self.keys = dict(keys)
        """The key columns with their types in the table; none for a table that is only appended to."""
        self.live = LiveFiles(files, form)
        self._max_keys = max_keys
        self._index: KeyIndex | None = KeyIndex(self.live.are_live) if keys else None

    @property
    def has_index(self) -> bool:
        return self._index is not None

    @property
    def indexed_keys(self) -> Mapping[str, pa.DataType]:
        """The key columns of the index; none without an index."""
        return {} if self._index is None else self.keys

    @property
    def key_count(self) -> int:
        """The number of keys in the index, including some of deleted rows."""
        return 0 if self._index is None else len(self._index)

    def figures(self) -> dict[str, int]:
        """Sizes for the progress of a task."""
        files = self.live.by_path.values()
        return {
            "files": len(files),
            "bytes": sum(file.size_bytes for file in files),
            "deleted_rows": sum(file.deleted_count for file in files),
            "index_keys": self.key_count,
            "index_bytes": 0 if self._index is None else self._index.size_bytes,
        }

    def apply(self, adds: Iterable[Entry], removes: Iterable[Entry]) -> None:
        """Moves on by a commit, and reads the keys of files that are new."""
        for file in self._apply(adds, removes):
            self._read_keys(file)

    def apply_own(self, adds: Iterable[Entry], removes: Iterable[Entry], new_rows: Mapping[str, pa.Table]) -> None:
        """Moves on by a commit; the rows of its new files, by path, as far as they are in memory."""
        for file in self._apply(adds, removes):
            if file.path in new_rows:
                self._add_rows(file, new_rows[file.path], 0)
            else:
                self._read_keys(file)

    def apply_merged(self, merged: MergedFile, adds: Iterable[Entry], removes: Iterable[Entry]) -> None:
        """Moves on by a compaction, whose keys are known if there was an index when it began."""
        for file in self._apply(adds, removes):
            if self._index is None:
                continue
            if merged.keys is None or merged.has_key is None:
                self._read_keys(file)
                continue
            at = np.flatnonzero(merged.has_key)
            self._index.add(merged.keys.take(at), np.full(len(at), file.number, np.int32), at.astype(np.int32))

    def find(self, rows: pa.Table) -> Matches:
        """The rows of the table that have the keys of these rows. Needs an index."""
        assert self._index is not None
        keys, _ = encode_keys([rows[name] for name in self.keys])
        return self._index.find(keys)

    def _apply(self, adds: Iterable[Entry], removes: Iterable[Entry]) -> list[LiveFile]:
        """Moves the live files on, and drops or builds the index if their number of rows demands it; returns files whose keys
        the index lacks."""
        new = self.live.apply(adds, removes)
        for file in new:
            if file.rows < 0:  # the log has no statistics
                file.rows = count_rows(self.live, file)
        if not self.keys:
            return []
        rows = sum(file.live_rows for file in self.live.by_path.values())
        if self._index is not None and rows > self._max_keys:
            self._index = None
        elif self._index is None and rows <= self._max_keys // 2:
            self._index = KeyIndex(self.live.are_live)
            for file in self.live.by_path.values():
                self._read_keys(file)
            return []
        return [] if self._index is None else new

    def _read_keys(self, file: LiveFile) -> None:
        if not has_columns(self.live, file, self.keys):
            return  # a column that was added later: no row of the file has a key
        for first, rows in read_file(self.live, file, self.keys, _BATCH_ROWS):
            self._add_rows(file, rows, first)

    def _add_rows(self, file: LiveFile, rows: pa.Table, first: int) -> None:
        """Adds the keys of the file's rows from row ``first`` on, without deleted rows."""
        if not rows.num_rows or self._index is None:
            return
        keys, valid = encode_rows(rows, self.keys)
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
