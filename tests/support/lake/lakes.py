"""What both fake formats have in common: a history of versions with their files, an independent reader, and a foreign writer.

A fake stands where the sink calls Spark's JVM; everything above is the product. What it refuses and what it keeps are the rules
of the real format. Data files and deletion vectors are real ones.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.config import TableConfig
from connectors.spark.config_keys import CURRENT, DELETED
from connectors.spark.tables.files.compaction import CompactionSettings
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.table import Table
from tests.support.lake.calls import Calls
from tests.support.lake.model import Row, columns_of, row_columns
from tests.support.lake.store import ObjectStore

FOLDER = "lake/t"
PATH = f"s3://{FOLDER}"
"""No local disk, so the sink takes no lock: versions are guarded by the store or catalog only."""
CONNECTOR = "c"
IDENTITY = TopicIdentity("cluster", "topic-id")
MERGING = CompactionSettings(min_files=2)

Values = dict[str, Any]
"""A row by its columns."""
Effect = Callable[[Sequence[Row]], list[Row]]
"""What a foreign writer's change does to the rows."""


@dataclass(slots=True)
class Version:
    """A version of a Delta table, or a snapshot of an Iceberg table. ``deleted`` has the deleted rows of each of its files."""

    id: int
    parent: int | None
    operation: str
    ends: dict[TopicPartition, int]
    """What it says about the sink's offsets."""
    deleted: dict[str, frozenset[int]]
    effect: Effect | None = None
    """None if the sink made it."""
    restored: int | None = None
    """The version whose rows it brought back."""
    problems: list[str] = field(default_factory=list)
    """What readers would make of it that no writer can want."""


class MissingFile(Exception):
    """A version names a file that does not exist."""


@dataclass(frozen=True, slots=True)
class Belief:
    """What an open table takes for granted: the files and the ends of a version."""

    version: int
    files: IndexedFiles | None
    ends: Mapping[TopicPartition, int]


class Lake(ABC):
    """One table."""

    restores_memory = True
    """Whether an older version comes back with what the sink knew of the source's order then."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.columns = columns_of(mode)
        self.keys = ["id", CURRENT] if CURRENT in self.columns else ["id"]
        """The key that the table says."""
        self.store = ObjectStore()
        self.versions: list[Version] = []
        """In the order in which they were made."""
        self.is_operated = False
        """Whether commits of the sink's code are those of an operator who moves offsets."""
        self.is_moved = False
        """Whether somebody has taken the table back to an older version."""
        self._read: dict[str, list[Values]] = {}

    # -- for the sink

    @abstractmethod
    def open(self, settings: TableConfig, calls: Calls) -> Table:
        """The table as a new task opens it."""

    @abstractmethod
    def belief(self, table: Any) -> Belief | None:
        """What an open table believes; None before it was read."""

    # -- reading

    @property
    @abstractmethod
    def newest(self) -> Version:
        """The version that readers see."""

    def version(self, number: int) -> Version:
        return next(version for version in reversed(self.versions) if version.id == number)

    def has_version(self, number: int) -> bool:
        return any(version.id == number for version in self.versions)

    def rows_of(self, path: str) -> list[Values]:
        """All rows of a data file. Raises MissingFile."""
        place = self.place(path)
        if place not in self.store.objects:
            raise MissingFile(path)
        if path not in self._read:
            self._read[path] = pq.ParquetFile(pa.BufferReader(self.store.objects[place])).read(use_threads=False).to_pylist()
        return self._read[path]

    def live_rows(self, version: Version) -> Iterable[tuple[str, int, Values]]:
        """The rows of a version with their places."""
        for path, deleted in version.deleted.items():
            for number, row in enumerate(self.rows_of(path)):
                if number not in deleted:
                    yield path, number, row

    def rows(self, version: Version) -> list[Row]:
        """The rows of a version as the model has them."""
        names = row_columns(self.mode)
        return [tuple(_plain(row.get(name)) for name in names) for _, _, row in self.live_rows(version)]

    @abstractmethod
    def place(self, path: str) -> str:
        """Where a file is in the store."""

    @abstractmethod
    def needed(self, version: Version) -> set[str]:
        """The objects in the store that a reader of a version needs."""

    # -- the foreign writer

    @abstractmethod
    def change(
        self,
        operation: str,
        effect: Effect | None,
        *,
        rows: Sequence[Values] = (),
        removed: Sequence[str] = (),
        deleted: Mapping[str, frozenset[int]] | None = None,
        rearranges: bool = False,
    ) -> None:
        """Commits: these new rows, without these files, and with these deleted rows in others."""

    def append(self, id_: int) -> None:
        """Adds a row, unless an upsert table has its key: two rows of one key are what the sink may never see."""
        if self.mode == "append" or all(row["id"] != id_ for _, _, row in self.live_rows(self.newest)):
            values, row = self.foreign_row(id_)
            self.change("append", lambda rows: [*rows, row], rows=[values])

    def foreign_row(self, id_: int) -> tuple[Values, Row]:
        """A row for the table, and the same for the model."""
        values = {name: False if name in (DELETED, CURRENT) else None for name in self.columns} | {"id": id_, "v": "foreign"}
        return values, tuple(values[name] for name in row_columns(self.mode))

    def delete(self, id_: int) -> None:
        """Deletes rows by deletion vectors, and files that have no others."""
        self.replace("delete", lambda row: row["id"] == id_, None, lambda rows: [row for row in rows if row[0] != id_])

    def replace(
        self, operation: str, is_meant: Callable[[Values], bool], update: Callable[[Values], Values] | None, effect: Effect | None
    ) -> None:
        """DELETE or UPDATE of some rows."""
        newest, gone = self.newest, dict[str, set[int]]()
        found = [(path, number, row) for path, number, row in self.live_rows(newest) if is_meant(row)]
        if not found:
            return
        for path, number, _ in found:
            gone.setdefault(path, set()).add(number)
        removed, deleted = [], {}
        for path, numbers in gone.items():
            whole = newest.deleted[path] | numbers
            if len(whole) == len(self.rows_of(path)):
                removed.append(path)
            else:
                deleted[path] = whole
        rows = [] if update is None else [update(dict(row)) for _, _, row in found]
        self.change(operation, effect, rows=rows, removed=removed, deleted=deleted)

    def rewrite(self) -> None:
        """OPTIMIZE, or rewrite_data_files: all rows in one file."""
        rows = [row for _, _, row in self.live_rows(self.newest)]
        if rows:
            self.change("rewrite", list, rows=rows, removed=list(self.newest.deleted), rearranges=True)

    @abstractmethod
    def go_back(self, versions: int) -> None:
        """RESTORE, or rollback_to_snapshot: to the version that was the newest so many versions ago."""

    @abstractmethod
    def clean(self) -> None:
        """VACUUM, or expire_snapshots: what older versions need, and the newest one does not, is gone. Files of commits that are
        still to come are too young for it."""

    def delete_unneeded(self, kept: Iterable[Version]) -> None:
        """Deletes the files of versions other than these."""
        needed = set[str]().union(*(self.needed(version) for version in kept))
        for place in set[str]().union(*(self.needed(version) for version in self.versions)) - needed:
            self.store.objects.pop(place, None)

    @abstractmethod
    def add_column(self) -> None:
        """ALTER TABLE ADD COLUMN."""

    def _write(self, rows: Sequence[Values], name: str | None = None) -> tuple[str, int]:
        """Writes a data file; returns its path in the table's folder and its size."""
        name = name or f"foreign-{uuid.uuid4()}.parquet"
        buffer = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(list(rows), self._file_schema(rows)), buffer)
        self.store.objects[self.place(name)] = buffer.getvalue().to_pybytes()
        return name, buffer.getvalue().size

    def _file_schema(self, rows: Sequence[Values]) -> pa.Schema:
        return pa.schema(list(self.columns.items()))

    def _after(
        self, removed: Iterable[str], deleted: Mapping[str, frozenset[int]], added: Iterable[str] = ()
    ) -> dict[str, frozenset[int]]:
        """The files of the newest version after a change."""
        kept = {path: rows for path, rows in self.newest.deleted.items() if path not in set(removed)}
        return kept | dict(deleted) | {path: frozenset[int]() for path in added}


def parse_ends(versions: Mapping[str, int]) -> dict[TopicPartition, int]:
    """The sink's offsets, by identifiers such as ``sluice:connector:cluster:topic-id:partition:topic``."""
    ends = {}
    for text, end in versions.items():
        parts = text.split(":")
        if len(parts) == 6 and parts[:2] == ["sluice", CONNECTOR] and end:
            ends[TopicPartition(parts[5], int(parts[4]))] = end
    return ends


def deleted_rows(file: Any) -> frozenset[int]:
    """The deleted rows that the sink knows of a file."""
    return frozenset() if file.deleted is None else frozenset(np.flatnonzero(file.deleted).tolist())


def _plain(value: Any) -> Any:
    return round(value.timestamp() * 1000) if hasattr(value, "timestamp") else value
