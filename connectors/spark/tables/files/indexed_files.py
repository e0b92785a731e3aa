"""The live files of an upsert table together with the index of their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import fs

from connectors.spark.tables.files.compaction import MergedFile
from connectors.spark.tables.files.file_reader import read_file
from connectors.spark.tables.files.key_encoding import encode_keys, encode_rows
from connectors.spark.tables.files.key_index import Entries, KeyIndex, Matches, Run
from connectors.spark.tables.files.live_files import Entry, FileFormat, LiveFile, LiveFiles, Move

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
        """Moves on by a commit, and reads the keys of files that are new. What fails leaves everything as it was."""
        self._move(adds, removes, self._read_keys)

    def apply_own(self, adds: Iterable[Entry], removes: Iterable[Entry], new_rows: Mapping[str, pa.Table]) -> None:
        """The same with the rows of its new files, by path, as far as they are in memory."""

        def keys_of(file: LiveFile) -> Iterator[Entries]:
            rows = new_rows.get(file.path)
            return self._read_keys(file) if rows is None else self._encode(file, rows, 0)

        self._move(adds, removes, keys_of)

    def apply_merged(self, merged: MergedFile, adds: Iterable[Entry], removes: Iterable[Entry]) -> None:
        """The same for a compaction, whose keys are known if there was an index when it began."""
        path = None if merged.entry is None else self.live.format.path(merged.entry)

        def keys_of(file: LiveFile) -> Iterator[Entries]:
            if merged.keys is None or merged.has_key is None or file.path != path:
                yield from self._read_keys(file)
                return
            at = np.flatnonzero(merged.has_key)
            yield Entries(merged.keys.take(at), np.full(len(at), file.number, np.int32), at.astype(np.int32))

        self._move(adds, removes, keys_of)

    def find(self, rows: pa.Table) -> Matches:
        """The rows of the table that have the keys of these rows. Needs an index."""
        assert self._index is not None
        keys, _ = encode_keys([rows[name] for name in self.keys])
        return self._index.find(keys)

    def _move(
        self, adds: Iterable[Entry], removes: Iterable[Entry], keys_of: Callable[[LiveFile], Iterator[Entries]]
    ) -> None:  # fmt: skip
        """Moves the live files and the index on together: everything is read before anything changes."""
        move = self.live.prepare(adds, removes)
        index, runs = self._plan_index(move, keys_of)
        self.live.swap(move)
        self._index = index
        if index is not None:
            index.swap(runs)

    def _plan_index(self, move: Move, keys_of: Callable[[LiveFile], Iterator[Entries]]) -> tuple[KeyIndex | None, list[Run]]:
        """The index after a move, with its runs; drops or builds it if the table's number of rows demands it."""
        if not self.keys:
            return None, []
        files = self.live.after(move)
        rows = sum(file.live_rows for file in files) - sum(len(rows) - file.deleted_count for file, rows, _ in move.deleted)
        if rows > (self._max_keys // 2 if self._index is None else self._max_keys):
            return None, []
        if self._index is None:
            built = KeyIndex(self.live.are_live)
            return built, built.plan(entries for file in files for entries in self._read_keys(file))
        return self._index, self._index.plan(entries for file in move.new for entries in keys_of(file))

    def _read_keys(self, file: LiveFile) -> Iterator[Entries]:
        for first, rows in read_file(self.live, file, self.keys, _BATCH_ROWS):
            yield from self._encode(file, rows, first)

    def _encode(self, file: LiveFile, rows: pa.Table, first: int) -> Iterator[Entries]:
        """The keys of the file's rows from row ``first`` on, without deleted rows."""
        if not rows.num_rows:
            return
        keys, valid = encode_rows(rows, self.keys)
        if file.deleted is not None:
            valid &= ~file.deleted[first : first + len(valid)]
        at = np.flatnonzero(valid)
        if len(at) < len(valid):
            keys = keys.take(at)
        yield Entries(keys, np.full(len(at), file.number, np.int32), (at + first).astype(np.int32))


def has_keys(indexed: IndexedFiles | None, keys: Sequence[str], columns: Mapping[str, pa.DataType]) -> bool:
    """Whether the index is for these key columns."""
    return indexed is not None and indexed.keys == {name: columns[name] for name in keys}
