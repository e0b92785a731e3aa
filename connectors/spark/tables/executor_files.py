"""Data files that Spark's executors write for a table, and what they need to write them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyarrow import fs

from connect.record import TopicPartition
from connectors.spark.plan.deduplicate import DeduplicatedChanges
from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.row_limits import NO_LIMITS, RowLimits
from connectors.spark.plan.truncates import NO_FEEDS, Feeds

Entry = Mapping[str, Any]
RowNumbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that was written just now, and its rows in their order."""

    path: str
    """As the table's metadata writes it."""
    entry: Entry
    rows: pa.Table


class FileTarget(Protocol):
    """Writes data files of one version of a table, in any process. Picklable, perhaps with credentials of the storage."""

    def check(self) -> None:
        """Raises ConnectError if the table is not where this process looks for it: then its files would be lost."""

    def write(self, rows: pa.Table) -> list[NewFile]:
        """Writes rows, one file per partition of the table. Until they are committed, the files belong to nobody."""

    def find_missing(self, paths: Sequence[str]) -> list[str]:
        """Those of the files that this process does not find, in their order. One request to the storage for each. Raises
        OSError if it cannot tell."""

    def delete(self, paths: Collection[str]) -> None:
        """Deletes files that certainly no commit names, as far as possible."""


def missing_files(files: fs.FileSystem, places: Mapping[str, str]) -> list[str]:
    """The names of the files that the file system does not have; ``places`` are their paths by name. Raises OSError."""
    found = files.get_file_info(list(places.values()))
    return [name for name, info in zip(places, found, strict=True) if info.type == fs.FileType.NotFound]


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """What executors need to know of a table to prepare its rows."""

    columns: Columns | None
    """None when the table does not exist."""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """By partition: the offset up to which the table has the records (promise 6)."""
    limits: RowLimits = NO_LIMITS
    keys: tuple[str, ...] = ()
    """Key columns, if they are known."""
    files: FileTarget | None = None
    """None if executors cannot write files for this table."""
    feeds: Feeds = NO_FEEDS


@dataclass(frozen=True, slots=True)
class ExecutorFile:
    """A data file. ``superseded`` are rows that a later file replaces."""

    path: str
    entry: Entry
    rows: int
    keys: pa.Table | None = None
    """Of an upsert: the keys of all rows, in their order."""
    superseded: RowNumbers = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class ExecutorFiles:
    """The files of one commit; ``schema`` has all of their columns."""

    schema: pa.Schema
    files: Sequence[ExecutorFile]

    def remaining(self) -> Iterator[ExecutorFile]:
        """The files with rows that are not superseded. The others are not added to the table."""
        return (file for file in self.files if len(file.superseded) < file.rows)


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Rows of one commit that executors have written."""

    files: ExecutorFiles
    count: int
    keys: tuple[str, ...] = ()
    latest: DeduplicatedChanges | None = None
    """Of an upsert: one row per key, with the columns of the key only, also for deleted keys."""
