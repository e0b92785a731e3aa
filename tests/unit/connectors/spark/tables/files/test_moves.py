"""Whatever fails while files and index follow a commit, both stay as they were, and the commit can be followed again."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from connectors.spark.plan.row_limits import RowLimits
from connectors.spark.tables.delta.change import DeltaChange
from connectors.spark.tables.file_table import FileTable
from connectors.spark.tables.files import key_index
from connectors.spark.tables.files.file_columns import FileColumns
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.files.live_files import Entry, LiveFile, Vector
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.table_format import FileTableSettings, Moves, Step, View
from connectors.spark.tables.table_lock import TableLock

KEYS = {"id": pa.string()}


class Storage:
    """Data files in a folder, with vectors in their entries. The call number ``failing`` that could fail does, once."""

    restore_hint = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls = 0
        self.failing = 0

    def call(self) -> None:
        self.calls += 1
        if self.calls == self.failing:
            raise OSError(errno.ETIMEDOUT, "the storage did not answer")

    def write(self, path: str, ids: Sequence[str], deleted: Sequence[int] = ()) -> dict[str, Any]:
        pq.write_table(pa.table({"id": pa.array(ids, pa.string())}), self.folder / path)
        return {"path": path, "rows": len(ids), "vector": {"rows": list(deleted)} if deleted else None}

    def path(self, entry: Entry) -> str:
        return str(entry["path"])

    def vector(self, entry: Entry) -> Vector | None:
        found: Vector | None = entry["vector"]
        return found

    def describe(self, number: int, entry: Entry) -> LiveFile:
        return LiveFile(number, entry, entry["path"], 1, entry["rows"])

    def location(self, path: str) -> str:
        self.call()
        return str(self.folder / path)

    def read_vector(self, files: fs.FileSystem, vector: Vector, read: dict[str, bytes]) -> Rows:
        self.call()
        return np.array(vector["rows"], np.int64)

    def columns(self, types: Mapping[str, pa.DataType]) -> FileColumns:
        return FileColumns.by_name(types)


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    made = Storage(tmp_path)
    real = tempfile.TemporaryFile

    def temporary_file(**options: Any) -> Any:
        made.call()
        return real(**options)

    # Each run of the index is mapped from a file of its own, for which there may be no space.
    monkeypatch.setattr(key_index, "_MAPPED_KEYS", 1)
    monkeypatch.setattr(tempfile, "TemporaryFile", temporary_file)
    return made


def places(indexed: IndexedFiles) -> dict[str, set[tuple[str, int]]]:
    """By key: the files and rows in which the index finds it."""
    ids = [str(i) for i in range(10)]
    matches = indexed.find(pa.table({"id": pa.array(ids)}))
    found: dict[str, set[tuple[str, int]]] = {}
    for key, file, row in zip(matches.keys.tolist(), matches.files.tolist(), matches.rows.tolist(), strict=True):
        found.setdefault(ids[key], set()).add((indexed.live.at(file).path, row))
    return found


def state(indexed: IndexedFiles) -> Any:
    files = {path: (file.live_rows, file.vector) for path, file in indexed.live.by_path.items()}
    return files, places(indexed)


class Case:
    """A table with three files, and a commit that removes one, adds two, and deletes rows of another."""

    def __init__(self, storage: Storage, max_keys: int = 100) -> None:
        self.storage = storage
        a, d = storage.write("a", ["1", "2"]), storage.write("d", ["4", "5", "6"])
        before = [a, d, storage.write("e", ["7"])]
        self.adds = [storage.write("b", ["1"]), storage.write("c", ["2", "3", "9"], [2]), {**d, "vector": {"rows": [0, 2]}}]
        self.removes = [a]
        self.indexed = IndexedFiles(fs.LocalFileSystem(), storage, KEYS, max_keys)
        self.indexed.apply(before, ())
        fresh = IndexedFiles(fs.LocalFileSystem(), storage, KEYS, max_keys)
        fresh.apply([*self.adds, before[2]], ())
        self.before, self.after = state(self.indexed), state(fresh)
        storage.calls = 0


def has_index(indexed: IndexedFiles) -> bool:
    return indexed.has_index


def attempts(storage: Storage) -> Iterator[int]:
    """Yields 1, 2, ... as the failing call, until an attempt has fewer calls than that."""
    number = 0
    while number == 0 or storage.calls >= number:
        number += 1
        storage.failing = 0
        yield number
    assert number > 5, "nothing failed"


def test_a_failed_call_leaves_files_and_index_as_they_were(storage: Storage) -> None:
    for number in attempts(storage):
        case = Case(storage)
        storage.failing = number
        try:
            case.indexed.apply(case.adds, case.removes)
        except OSError:
            assert state(case.indexed) == case.before, f"call {number}"
            case.indexed.apply(case.adds, case.removes)
        storage.failing = 0
        assert state(case.indexed) == case.after, f"call {number}"


def test_an_index_that_cannot_be_built_again_stays_dropped(storage: Storage) -> None:
    """The table had too many rows, and shrinks."""
    for number in attempts(storage):
        case = Case(storage)
        small = IndexedFiles(fs.LocalFileSystem(), storage, KEYS, 12)
        small.apply([storage.write("large", [str(i) for i in range(20)]), *case.adds], ())
        assert not has_index(small)
        storage.calls, storage.failing = 0, number
        removes = [{"path": "large"}]
        try:
            small.apply((), removes)
        except OSError:
            assert not has_index(small)
            assert "large" in small.live.by_path
            small.apply((), removes)
        storage.failing = 0
        assert has_index(small)
        assert places(small) == {k: v for k, v in case.after[1].items() if v != {("e", 0)}}


class Format:
    """A format whose table has the version 2, which the case's commit made."""

    name = place = "t"

    def __init__(self, case: Case) -> None:
        self._case = case

    def read(self, before: View) -> Step[View]:
        return Step(replace(before, version=2), self._case.adds, self._case.removes)

    def commit(self, view: View, change: DeltaChange, moves: Moves) -> Step[View]:
        return Step(replace(view, version=2), change.adds, change.removes)

    def is_gone(self, view: View, error: Exception) -> bool:
        return False


def table_of(case: Case) -> FileTable[View, DeltaChange]:
    """The table at version 1."""
    any_: Any = None
    settings = FileTableSettings("c", True, False, 100, any_, any_, 0, 0)
    form: Any = Format(case)
    table: FileTable[View, DeltaChange] = FileTable(form, settings, lambda topic: None)
    table.view = View(
        version=1,
        table_id="t",
        columns={},
        limits=RowLimits(),
        shape=(),
        ends={},
        order_state=0,
        order_files=any_,
        lock=TableLock(None, ""),
        keys=(),
        files=case.indexed,
    )
    return table


def test_a_version_is_followed_again_after_a_failed_call(storage: Storage) -> None:
    for number in attempts(storage):
        case = Case(storage)
        table = table_of(case)
        storage.failing = number
        try:
            table.load([])
        except OSError:
            assert table.view is not None
            assert (table.view.version, table.view.files) == (1, case.indexed)
            table.load([])  # what a task does next
        storage.failing = 0
        assert table.view is not None
        assert table.view.version == 2
        assert table.view.files is not None
        assert state(table.view.files) == case.after, f"call {number}"


def test_an_own_commit_is_followed_again_after_a_failed_call(storage: Storage) -> None:
    """The commit has landed: the vector that it has written is read back, and that call fails."""
    for number in attempts(storage):
        case = Case(storage)
        table = table_of(case)
        assert table.view is not None
        any_: Any = None
        change = DeltaChange(any_, any_, adds=case.adds, removes=case.removes)
        storage.failing = number
        try:
            table._commit(table.view, change, Moves())
        except OSError:
            assert table.view.version == 1
            table.load([])
        storage.failing = 0
        assert table.view.version == 2
        assert table.view.files is not None
        assert state(table.view.files) == case.after, f"call {number}"
