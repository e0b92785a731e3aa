"""The data files of a table's current version, with their deleted rows."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.tables.files.file_columns import FileColumns, UnreadableColumn, Values, open_parquet
from connectors.spark.tables.files.key_index import Ints32, Mask
from connectors.spark.tables.files.row_bitmaps import DamagedVector, Rows

Entry = Mapping[str, Any]
"""What a table's metadata says about a data file, in the words of its format."""
Vector = Mapping[str, Any]
"""Where the deletion vector of a data file is, in the words of its format."""


class UnreadableFile(ConnectError):
    """A file that the table names is missing or damaged."""


@dataclass(slots=True)
class LiveFile:
    """A data file. ``number`` identifies it in the key index."""

    number: int
    entry: Entry
    """Without its deletion vector."""
    path: str
    """As the table's metadata writes it."""
    size_bytes: int
    rows: int
    """Rows in the file, deleted ones included."""
    created: int = 0
    """Orders the files of a table by their age."""
    values: Values = field(default_factory=dict)
    """Of columns that need not be in the file, because all of its rows have the same value."""
    partition: Hashable = ()
    """The same in files of one partition."""
    is_clustered: bool = False
    """Whether its rows were put in order with those of other files, and should stay there."""
    vector: Vector | None = None
    deleted: Mask | None = None
    """By row; None when no row is deleted."""
    deleted_count: int = 0

    @property
    def live_rows(self) -> int:
        return self.rows - self.deleted_count

    def with_deleted(self, rows: Rows) -> Rows:
        """All deleted rows once these are deleted too, sorted."""
        if self.deleted is None:
            return np.unique(rows)
        deleted = self.deleted.copy()
        deleted[rows] = True
        return np.flatnonzero(deleted)

    def set_deleted(self, rows: Rows, vector: Vector | None) -> None:
        """Replaces the deleted rows."""
        self.vector = vector
        self.deleted_count = len(rows)
        self.deleted = None
        if len(rows):
            self.deleted = np.zeros(max(self.rows, int(rows[-1]) + 1), bool)
            self.deleted[rows] = True


class FileFormat(Protocol):
    """What differs between the data files of table formats."""

    restore_hint: str
    """How to get a table without a lost file."""

    def path(self, entry: Entry) -> str:
        """The path of an entry that adds or removes a file."""
        ...

    def vector(self, entry: Entry) -> Vector | None:
        """The deletion vector of an entry that adds a file."""
        ...

    def describe(self, number: int, entry: Entry) -> LiveFile:
        """The file of an entry, without deleted rows. Its ``rows`` are -1 if the entry does not say."""
        ...

    def location(self, path: str) -> str:
        """Where a file is in the file system."""
        ...

    def read_vector(self, files: fs.FileSystem, vector: Vector, read: dict[str, bytes]) -> Rows:
        """The rows of a vector; ``read`` keeps whole files of vectors, which usually hold several. Raises
        UnreadableFile."""
        ...

    def columns(self, types: Mapping[str, pa.DataType]) -> FileColumns:
        """How files have these columns of the table."""
        ...


def is_storage_failure(error: Exception) -> bool:
    """Whether the storage failed while a file was read, rather than that the file is damaged. Arrow raises OSError for both."""
    return isinstance(error, OSError) and (error.errno is not None or "AWS Error" in str(error))


@contextlib.contextmanager
def reading(path: str, hint: str) -> Iterator[None]:
    """Raises UnreadableFile for what goes wrong while a file is read in a with block; ``hint`` is the format's."""
    try:
        yield
    except FileNotFoundError as e:
        raise UnreadableFile(
            f"the table names the file {path}, which does not exist. Restore the file, or the table to a version without it "
            f"{hint}"
        ) from e
    except UnreadableColumn as e:
        raise UnreadableFile(
            f"{e.message}. Rewrite the file with Spark, or restore the table to a version without it {hint}"
        ) from e
    except (OSError, pa.ArrowException, DamagedVector) as e:
        if is_storage_failure(e):
            raise
        raise UnreadableFile(
            f"the file {path} cannot be read: {e}. Restore the file, or the table to a version without it {hint}"
        ) from e


@dataclass(slots=True)
class Move:
    """What one commit changes, with everything that had to be read for it."""

    removed: list[LiveFile]
    new: list[LiveFile] = field(default_factory=list)
    deleted: list[tuple[LiveFile, Rows, Vector | None]] = field(default_factory=list)
    """Files that stay, with all of their deleted rows from then on."""


@dataclass(slots=True)
class LiveFiles:
    """All data files of the version that was applied last. Not thread-safe."""

    files: fs.FileSystem
    format: FileFormat
    by_path: dict[str, LiveFile] = field(default_factory=dict)
    _by_number: list[LiveFile | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.by_path)

    def at(self, number: int) -> LiveFile:
        """The live file with this number."""
        found = self._by_number[number]
        assert found is not None
        return found

    def prepare(self, adds: Iterable[Entry], removes: Iterable[Entry]) -> Move:
        """Reads what is needed to apply one commit, and changes nothing. Raises ConnectError."""
        added = {self.format.path(entry): entry for entry in adds}
        gone = {self.format.path(entry) for entry in removes} - added.keys()
        move = Move([self.by_path[path] for path in gone if path in self.by_path])
        vectors: dict[str, bytes] = {}
        for path, entry in added.items():
            vector = self.format.vector(entry)
            known = self.by_path.get(path)
            if known is not None and known.vector == vector:
                continue
            rows = np.empty(0, np.int64) if vector is None else self.format.read_vector(self.files, vector, vectors)
            if known is not None:
                move.deleted.append((known, rows, vector))
                continue
            new = self.format.describe(len(self._by_number) + len(move.new), entry)
            if new.rows < 0:  # the metadata has no statistics
                new.rows = self.count_rows(new)
            new.set_deleted(rows, vector)
            move.new.append(new)
        return move

    def after(self, move: Move) -> list[LiveFile]:
        """The files that there will be, with the deleted rows of now."""
        gone = {file.number for file in move.removed}
        return [*(file for file in self.by_path.values() if file.number not in gone), *move.new]

    def swap(self, move: Move) -> None:
        """Applies what has been prepared, without reading anything."""
        for file in move.removed:
            del self.by_path[file.path]
            self._by_number[file.number] = None
        for file in move.new:
            self.by_path[file.path] = file
            self._by_number.append(file)
        for file, rows, vector in move.deleted:
            file.set_deleted(rows, vector)

    def are_live(self, numbers: Ints32, rows: Ints32) -> Mask:
        """Which of these rows exist: their file is in the table, and they are not deleted. Files that are being prepared are."""
        live = np.ones(len(numbers), bool)
        for number in np.unique(numbers):
            if number >= len(self._by_number):
                continue
            file = self._by_number[number]
            here = numbers == number
            if file is None:
                live[here] = False
            elif file.deleted is not None:
                live[here] = ~file.deleted[rows[here]]
        return live

    def location(self, file: LiveFile) -> str:
        """The file's path in the file system."""
        return self.format.location(file.path)

    @contextlib.contextmanager
    def open(self, file: LiveFile) -> Iterator[pq.ParquetFile]:
        """Opens a data file for a with block. Raises UnreadableFile, also for an error of reading inside the block."""
        path = self.location(file)
        with reading(path, self.format.restore_hint), self.files.open_input_file(path) as stream:
            yield open_parquet(stream)

    def count_rows(self, file: LiveFile) -> int:
        """The number of rows in a file, deleted ones included."""
        with self.open(file) as parquet:
            return int(parquet.metadata.num_rows)


def group_rows(numbers: Sequence[int] | Ints32, rows: Ints32) -> dict[int, Rows]:
    """Row numbers by file, sorted."""
    if not len(numbers):
        return {}
    numbers = np.asarray(numbers, np.int32)
    order = np.lexsort((rows, numbers))
    numbers, rows = numbers[order], rows[order]
    starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
    ends = np.r_[starts[1:], len(numbers)]
    return {int(numbers[a]): rows[a:b].astype(np.int64) for a, b in zip(starts, ends, strict=True)}
