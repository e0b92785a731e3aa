"""The data files of a table's current version, with their deleted rows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.tables.delta import deletion_vectors
from connectors.spark.tables.delta.deletion_vectors import DamagedVector, Descriptor, Rows
from connectors.spark.tables.delta.key_index import Ints32, Mask
from connectors.spark.tables.delta.log import Action
from connectors.spark.tables.delta.partition_values import PartitionValues


class UnreadableFile(ConnectError):
    """A file that the table names is missing or damaged."""


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as e:
        raise UnreadableFile(
            f"the table names the file {path}, which does not exist. Restore the file, or the table to a version without it "
            "(RESTORE TABLE); if VACUUM ran without retention, no version may have it any more"
        ) from e
    except (OSError, pa.ArrowException, DamagedVector) as e:
        if isinstance(e, OSError) and (e.errno is not None or "AWS Error" in str(e)):
            raise  # the storage fails, not the file
        raise UnreadableFile(
            f"the file {path} cannot be read: {e}. Restore the file, or the table to a version without it (RESTORE TABLE)"
        ) from e


@dataclass(slots=True)
class LiveFile:
    """A data file. ``number`` identifies it in the key index."""

    number: int
    add: Action
    """The action that added it, without its deletion vector and ``dataChange``."""
    rows: int
    """Rows in the file, deleted ones included."""
    descriptor: Descriptor | None = None
    deleted: Mask | None = None
    """By row; None when no row is deleted."""
    deleted_count: int = 0

    @property
    def path(self) -> str:
        """The path as the log writes it: URL-encoded, relative to the table or absolute."""
        return str(self.add["path"])

    @property
    def partition_values(self) -> PartitionValues:
        """The values that all rows of the file have."""
        return self.add.get("partitionValues") or {}

    @property
    def is_clustered(self) -> bool:
        """Whether OPTIMIZE has clustered its rows."""
        return self.add.get("clusteringProvider") is not None

    @property
    def size_bytes(self) -> int:
        return int(self.add["size"])

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

    def set_deleted(self, rows: Rows, descriptor: Descriptor | None) -> None:
        """Replaces the deleted rows."""
        self.descriptor = descriptor
        self.deleted_count = len(rows)
        self.deleted = None
        if len(rows):
            self.deleted = np.zeros(max(self.rows, int(rows[-1]) + 1), bool)
            self.deleted[rows] = True

    def add_action(self, descriptor: Descriptor | None, *, data_change: bool = True) -> Action:
        """The action that puts the file into the table with a deletion vector."""
        action = {**self.add, "dataChange": data_change}
        if descriptor is not None:
            action["deletionVector"] = descriptor
            action["stats"] = _with_loose_bounds(self.add.get("stats"), self.rows)
        return action

    def remove_action(self, timestamp_ms: int, *, data_change: bool = True) -> Action:
        """The action that removes the file with its present deletion vector."""
        action = {
            "path": self.path,
            "deletionTimestamp": timestamp_ms,
            "dataChange": data_change,
            "extendedFileMetadata": True,
            "partitionValues": self.partition_values,
            "size": self.size_bytes,
        }
        if self.descriptor is not None:
            action["deletionVector"] = self.descriptor
        return action


def _with_loose_bounds(stats: str | None, rows: int) -> str:
    """Statistics that remain valid when rows are deleted: bounds that need not be reached."""
    document = json.loads(stats) if stats else {"numRecords": rows}
    document["tightBounds"] = False
    return json.dumps(document, separators=(",", ":"))


@dataclass(slots=True)
class LiveFiles:
    """All data files of the version that was applied last. Not thread-safe."""

    files: fs.FileSystem
    folder: str
    by_path: dict[str, LiveFile] = field(default_factory=dict)
    _by_number: list[LiveFile | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.by_path)

    def at(self, number: int) -> LiveFile:
        """The live file with this number."""
        found = self._by_number[number]
        assert found is not None
        return found

    def apply(self, adds: Iterable[Action], removes: Iterable[Action]) -> list[LiveFile]:
        """Applies the actions of one commit; returns files that are new to the table. Raises ConnectError."""
        added = {str(a["path"]): a for a in adds}
        for remove in removes:
            path = str(remove["path"])
            if path not in added and (file := self.by_path.pop(path, None)) is not None:
                self._by_number[file.number] = None
        new = []
        vectors: dict[str, bytes] = {}
        for path, add in added.items():
            descriptor = add.get("deletionVector")
            known = self.by_path.get(path)
            if known is None:
                kept = {k: v for k, v in add.items() if k not in ("deletionVector", "dataChange")}
                known = LiveFile(len(self._by_number), kept, _row_count(add))
                self._by_number.append(known)
                self.by_path[path] = known
                new.append(known)
            elif known.descriptor == descriptor:
                continue
            known.set_deleted(self._read_vector(descriptor, vectors), descriptor)
        return new

    def are_live(self, numbers: Ints32, rows: Ints32) -> Mask:
        """Which of these rows exist: their file is in the table, and they are not deleted."""
        live = np.ones(len(numbers), bool)
        for number in np.unique(numbers):
            file = self._by_number[number]
            here = numbers == number
            if file is None:
                live[here] = False
            elif file.deleted is not None:
                live[here] = ~file.deleted[rows[here]]
        return live

    def location(self, file: LiveFile) -> str:
        """The file's path in the file system."""
        return _locate(self.folder, unquote(file.path))

    @contextlib.contextmanager
    def open(self, file: LiveFile) -> Iterator[pq.ParquetFile]:
        """Opens a data file for a with block. Raises UnreadableFile, also for an error of reading inside the block."""
        path = self.location(file)
        with _reading(path), self.files.open_input_file(path) as stream:
            yield pq.ParquetFile(stream)

    def _read_vector(self, descriptor: Descriptor | None, read: dict[str, bytes]) -> Rows:
        """The rows of a vector; ``read`` keeps whole files of vectors, which usually hold several."""
        if descriptor is None:
            return np.empty(0, np.int64)
        place = deletion_vectors.vector_location(descriptor)
        if place is None:
            return deletion_vectors.inline_vector(descriptor)
        name = place[0]
        path = _locate(self.folder, name)
        with _reading(path):
            content = read.get(name)
            if content is None:
                with self.files.open_input_file(path) as file:
                    content = read[name] = bytes(file.read())
            return deletion_vectors.read_vector(content, descriptor)


def _locate(folder: str, path: str) -> str:
    if "://" in path:
        return path.split("://", 1)[1]
    if path.startswith("file:"):
        return path.removeprefix("file:")
    return path if path.startswith("/") else f"{folder}/{path}"


def _row_count(add: Mapping[str, Any]) -> int:
    """The number of rows in the file from its statistics; -1 when they do not say."""
    stats = add.get("stats")
    return int(json.loads(stats).get("numRecords", -1)) if stats else -1


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
