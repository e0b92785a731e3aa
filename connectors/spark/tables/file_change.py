"""What one commit does to the data files of a table, as far as formats do not differ."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from connectors.spark.plan.truncates import RowUpdate
from connectors.spark.tables.executor_files import ExecutorFile, ExecutorFiles
from connectors.spark.tables.files.live_files import LiveFile, LiveFiles
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.patch import Patch


class Writer(Protocol):
    """Writes files of one table."""

    def delete(self, paths: Iterable[str], /) -> None: ...


class Layout(Protocol):
    """The partitions of one table."""

    def split(self, rows: pa.Table) -> Iterator[tuple[Any, pa.Table]]:
        """Rows by partition, each in their order, with the values of the partition."""
        ...


@dataclass(slots=True)
class FileChange(ABC):
    """The files that were written for one commit; subclasses have what else it does."""

    writer: Writer
    layout: Layout
    rows: pa.Table = field(default_factory=lambda: pa.table({}))
    files: ExecutorFiles | None = None
    """Instead of ``rows``: what executors have written."""
    written: list[str] = field(default_factory=list)
    """Deleted if there is no commit."""
    new_rows: dict[str, pa.Table] = field(default_factory=dict)
    """By path: the rows of a new data file, in its order, with all their columns."""

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

    def write(self, patch: Patch, live: LiveFiles) -> None:
        """Writes the files of a patch."""
        deleted = dict(patch.deleted)
        if patch.empties:
            for file in live.by_path.values():
                self.remove(file)
        for file, rows in patch.updated_rows(live):
            assert patch.update is not None
            self._write_updated(file, rows, patch.update, live)
            deleted[file.number] = np.union1d(deleted[file.number], rows) if file.number in deleted else rows
        self.delete_rows(deleted, live)
        self.write_rows()

    def write_rows(self) -> None:
        """Writes the new rows, if there are any: one file per partition. With files of executors, only their vectors."""
        if self.files is not None:
            files = list(self.files.remaining())
            self.new_rows |= {file.path: file.keys for file in files if file.keys is not None}
            kept = [(self._keep(file), file.superseded) for file in files]
            self._write_vectors([(file, rows) for file, rows in kept if len(rows)])
        elif self.rows.num_rows:
            for values, rows in self.layout.split(self.rows):
                self.new_rows[self._write(rows, values)] = rows

    def delete_rows(self, deleted: Mapping[int, Rows], live: LiveFiles) -> None:
        """Deletes rows of live files."""
        self._mark_rows(deleted, live)

    def _mark_rows(self, deleted: Mapping[int, Rows], live: LiveFiles) -> None:
        """Deletes rows by deletion vectors, and removes files without any other rows."""
        remaining: list[tuple[LiveFile, Rows]] = []
        for number, rows in deleted.items():
            file = live.at(number)
            all_deleted = file.with_deleted(rows)
            if len(all_deleted) < file.rows:
                self._drop_vector(file)
                remaining.append((file, all_deleted))
            else:
                self.remove(file)
        self._write_vectors(remaining)

    def _write_updated(self, file: LiveFile, rows: Rows, update: RowUpdate, live: LiveFiles) -> None:
        """Writes copies of updated rows."""
        copies = self._copies(file, rows, update, live)
        if not self._may_move(file, update):
            self._write_beside(file, copies)
            return
        for batch in copies:
            for values, part in self.layout.split(batch):
                self._write(part, values)

    @abstractmethod
    def remove(self, file: LiveFile) -> None:
        """Removes a whole file, with its deletes."""

    @abstractmethod
    def _drop_vector(self, file: LiveFile) -> None:
        """Makes room for a new vector of a file that stays."""

    @abstractmethod
    def _keep(self, file: ExecutorFile) -> LiveFile:
        """Adds a file that executors have written; one with superseded rows gets a vector next."""

    @abstractmethod
    def _write(self, rows: pa.Table, partition: Any) -> str:
        """Writes rows of one partition into a new file. Returns its path."""

    @abstractmethod
    def _write_vectors(self, marked: list[tuple[LiveFile, Rows]]) -> None:
        """Writes the vectors of files, if there are any: all rows that each of them has deleted."""

    @abstractmethod
    def _copies(self, file: LiveFile, rows: Rows, update: RowUpdate, live: LiveFiles) -> Iterator[pa.Table]:
        """Updated copies of some rows."""

    @abstractmethod
    def _may_move(self, file: LiveFile, update: RowUpdate) -> bool:
        """Whether updated rows may belong to another partition than their file."""

    @abstractmethod
    def _write_beside(self, file: LiveFile, copies: Iterator[pa.Table]) -> None:
        """Writes rows, if there are any, into a new file in the partition of another one."""
