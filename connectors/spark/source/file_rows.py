"""Reads rows of data files as the columns of a version, in batches: all rows, those of a bitmap, or all but those."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from connectors.spark.tables.files.key_index import Mask
from connectors.spark.tables.files.live_files import LiveFile, LiveFiles, reading
from connectors.spark.tables.files.row_bitmaps import Rows


class FileColumns(Protocol):
    """Which columns are read, and how a table format has them in its files."""

    def names(self, schema: pa.Schema, file: LiveFile) -> Sequence[str]:
        """The columns of a file with this schema that are needed."""
        ...

    def complete(self, rows: pa.Table, schema: pa.Schema, file: LiveFile) -> pa.Table:
        """The columns of the version, from rows with those columns of the file."""
        ...


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of one data file."""

    file: LiveFile
    only: Rows | None = None
    """These rows, sorted; None: all."""
    without: Rows | None = None
    """But not these."""

    def count(self, files: LiveFiles) -> int:
        """The number of rows."""
        if self.only is not None:
            return len(self.only)
        total = self.file.rows
        if total < 0:
            with files.open(self.file) as parquet:
                total = int(parquet.metadata.num_rows)
        return total - (0 if self.without is None else len(self.without))

    def read(self, files: LiveFiles, columns: FileColumns, batch_rows: int) -> Iterator[pa.Table]:
        """Yields the rows in order, at most ``batch_rows`` at a time; holds one row group. Raises UnreadableFile."""
        path = files.location(self.file)
        with reading(path, files.format.restore_hint), files.files.open_input_file(path) as stream:
            yield from self.read_open(pq.ParquetFile(stream, coerce_int96_timestamp_unit="us"), columns, batch_rows)

    def read_open(self, parquet: pq.ParquetFile, columns: FileColumns, batch_rows: int) -> Iterator[pa.Table]:
        """As :meth:`read`, from the open file."""
        schema = parquet.schema_arrow
        names = columns.names(schema, self.file)
        for rows, mask in self._read_selected(parquet, names, batch_rows):
            kept = rows if mask is None else rows.filter(mask)
            if kept.num_rows:
                yield columns.complete(kept, schema, self.file)

    def _read_selected(
        self, parquet: pq.ParquetFile, names: Sequence[str], batch_rows: int
    ) -> Iterator[tuple[pa.Table, pa.Array | None]]:
        first = 0
        for group in range(parquet.metadata.num_row_groups):
            size = parquet.metadata.row_group(group).num_rows
            if self._selects(first, first + size):
                at = first
                for batch in parquet.iter_batches(batch_rows, row_groups=[group], columns=list(names), use_threads=False):
                    yield _table(batch), self._mask(at, at + batch.num_rows)
                    at += batch.num_rows
                    if not self._selects(at, first + size):
                        break
            first += size

    def _selects(self, start: int, end: int) -> bool:
        if self.only is None:
            return True
        low, high = np.searchsorted(self.only, (start, end))
        return bool(low < high)

    def _mask(self, start: int, end: int) -> pa.Array | None:
        mask: Mask | None = None
        if self.only is not None:
            mask = np.zeros(end - start, bool)
            mask[self.only[slice(*np.searchsorted(self.only, (start, end)))] - start] = True
        if self.without is not None and len(self.without):
            low, high = np.searchsorted(self.without, (start, end))
            if low < high:
                mask = np.ones(end - start, bool) if mask is None else mask
                mask[self.without[low:high] - start] = False
        return None if mask is None else pa.array(mask)


@dataclass(frozen=True, slots=True)
class FileRowSets:
    """Rows of several files, in order (:class:`connectors.spark.source.pairing.RowSource`)."""

    files: LiveFiles
    sets: Sequence[FileRows]
    choose: Callable[[Mapping[str, pa.DataType] | None], FileColumns]
    """How some columns are read, or all."""
    batch_rows: int

    def count(self) -> int:
        return sum(one.count(self.files) for one in self.sets)

    def read(self, columns: Mapping[str, pa.DataType] | None = None) -> Iterator[pa.Table]:
        wanted = self.choose(columns)
        for one in self.sets:
            yield from one.read(self.files, wanted, self.batch_rows)


def _table(batch: pa.RecordBatch) -> pa.Table:
    if batch.num_columns:
        return pa.table(batch)
    return pa.table({"": pa.nulls(batch.num_rows)})  # a table without columns forgets its number of rows
