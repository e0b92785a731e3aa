"""Reads rows of data files as the table has them, in batches: all rows, those of a bitmap, or all but those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from connectors.spark.tables.files.file_columns import FileColumns
from connectors.spark.tables.files.key_index import Mask
from connectors.spark.tables.files.legacy_calendar import LegacyCalendar
from connectors.spark.tables.files.live_files import LiveFile, LiveFiles
from connectors.spark.tables.files.row_bitmaps import Rows

_BATCH_ROWS = 64 * 1024


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of one data file."""

    file: LiveFile
    only: Rows | None = None
    """These rows, sorted; None: all."""
    without: Rows | None = None
    """But not these."""

    def count(self, live: LiveFiles) -> int:
        """The number of rows."""
        if self.only is not None:
            return len(self.only)
        total = live.count_rows(self.file) if self.file.rows < 0 else self.file.rows
        return total - (0 if self.without is None else len(self.without))

    def read(self, live: LiveFiles, columns: FileColumns, batch_rows: int) -> Iterator[pa.Table]:
        """Yields the rows in order, at most ``batch_rows`` at a time; holds one row group. Raises UnreadableFile."""
        with live.open(self.file) as parquet:
            yield from self.read_open(parquet, columns, batch_rows)

    def read_open(self, parquet: pq.ParquetFile, columns: FileColumns, batch_rows: int) -> Iterator[pa.Table]:
        """As :meth:`read`, from the open file. Raises UnreadableColumn."""
        found = columns.in_file(parquet.schema_arrow, self.file.path, self.file.values)
        legacy = LegacyCalendar.of_file(parquet)
        for rows, mask in self._read_selected(parquet, found.names, batch_rows):
            # Arrow cannot select rows of views.
            kept = rows if mask is None or found.has_views else rows.filter(mask)
            if kept.num_rows:
                if legacy is not None:
                    legacy.check(kept, self.file.path)
                kept = found.complete(kept)
                yield kept.filter(mask) if mask is not None and found.has_views else kept

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


def read_file(
    live: LiveFiles, file: LiveFile, columns: Mapping[str, pa.DataType], batch_rows: int
) -> Iterator[tuple[int, pa.Table]]:
    """Reads all rows of a file, deleted ones included, in batches, each with the number of its first row."""
    first = 0
    for rows in FileRows(file).read(live, live.format.columns(columns), batch_rows):
        yield first, rows
        first += rows.num_rows


def read_rows(live: LiveFiles, file: LiveFile, rows: Rows, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Reads these rows of a file, at least one: only the row groups that contain them."""
    distinct, places = np.unique(rows, return_inverse=True)
    parts = FileRows(file, only=distinct).read(live, live.format.columns(columns), _BATCH_ROWS)
    return pa.concat_tables(parts).take(pa.array(places))


def _table(batch: pa.RecordBatch) -> pa.Table:
    if batch.num_columns:
        return pa.table(batch)
    return pa.table({"": pa.nulls(batch.num_rows)})  # a table without columns forgets its number of rows
