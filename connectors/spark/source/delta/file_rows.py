"""Reads rows of data files as the columns of a version, in batches: all rows, those of a bitmap, or all but those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from connect.errors import DataError
from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.plan.stored_variants import cast_stored
from connectors.spark.tables.delta.file_format import DeltaFormat
from connectors.spark.tables.files.key_index import Mask
from connectors.spark.tables.files.live_files import LiveFile, LiveFiles, reading
from connectors.spark.tables.files.partition_values import parse_value
from connectors.spark.tables.files.row_bitmaps import Rows


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

    def read(self, files: LiveFiles, columns: Mapping[str, pa.DataType], batch_rows: int) -> Iterator[pa.Table]:
        """Yields the rows in order, at most ``batch_rows`` at a time; holds one row group.

        Columns that the file lacks are null. Raises UnreadableFile.
        """
        path = files.location(self.file)
        with reading(path, files.format.restore_hint), files.files.open_input_file(path) as stream:
            yield from self.read_open(pq.ParquetFile(stream, coerce_int96_timestamp_unit="us"), columns, batch_rows)

    def read_open(self, parquet: pq.ParquetFile, columns: Mapping[str, pa.DataType], batch_rows: int) -> Iterator[pa.Table]:
        """As :meth:`read`, from the open file."""
        # Other writers may repeat partition columns in the file; the log's values count.
        in_file = set(parquet.schema_arrow.names) - set(self.file.values)
        names = [name for name in columns if name in in_file]
        for rows, mask in self._read_selected(parquet, names, batch_rows):
            kept = rows if mask is None else rows.filter(mask)
            if kept.num_rows:
                yield complete_columns(kept, self.file.values, columns)

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


def _table(batch: pa.RecordBatch) -> pa.Table:
    if batch.num_columns:
        return pa.table(batch)
    return pa.table({"": pa.nulls(batch.num_rows)})  # a table without columns forgets its number of rows


def complete_columns(rows: pa.Table, values: Mapping[str, str | None], columns: Mapping[str, pa.DataType]) -> pa.Table:
    """The rows with exactly these columns and types; ``values`` are those of partition columns. Raises DataError."""
    found = {}
    count = rows.num_rows
    names = set(rows.column_names)
    for name, type_ in columns.items():
        if name in values:
            found[name] = pa.chunked_array([pa.repeat(parse_value(values[name], type_, name), count)])
        elif name in names:
            column = rows[name]
            if column.type != type_:
                try:
                    stored = _as_written_by_spark(as_array(column), type_)
                except pa.ArrowInvalid as e:
                    raise DataError(f"column {name}: {e}") from e
                column = cast_stored(pa.chunked_array([stored]), type_, name)
            found[name] = column
        else:
            found[name] = pa.chunked_array([pa.nulls(count, type_)])
    return pa.table(found)


def _as_written_by_spark(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The array with the types that Arrow gives to files of Spark: those of other writers differ in size or unit. INT96
    timestamps, which Spark writes by default, have no zone in Arrow."""
    t, given = pa.types, array.type
    if given == wanted:
        return array
    if isinstance(given, pa.ExtensionType):
        return _as_written_by_spark(array.storage, wanted)
    if t.is_float16(given):
        return array.cast(pa.float32())
    if t.is_dictionary(given):
        return _as_written_by_spark(array.dictionary_decode(), wanted)
    if t.is_timestamp(given) and t.is_timestamp(wanted):
        return array.cast(wanted)
    if t.is_large_string(given) or t.is_string_view(given):
        return array.cast(pa.string())
    if t.is_large_binary(given) or t.is_binary_view(given) or t.is_fixed_size_binary(given):
        return array.cast(pa.binary())
    if t.is_large_list(given) or t.is_fixed_size_list(given):
        return _as_written_by_spark(array.cast(pa.list_(given.value_type)), wanted)
    mask = array.is_null() if array.null_count else None
    if t.is_struct(given) and t.is_struct(wanted):
        types = {f.name: f.type for f in wanted}
        parts = [
            _as_written_by_spark(array.field(i), types[f.name]) if f.name in types else array.field(i)
            for i, f in enumerate(given)
        ]
        return pa.StructArray.from_arrays(parts, names=[f.name for f in given], mask=mask)
    if (t.is_list(given) and t.is_list(wanted)) or (t.is_map(given) and t.is_map(wanted)):
        start = array if array.offset == 0 else array.take(pa.array(range(len(array))))
        mask = start.is_null() if start.null_count else None
        if t.is_list(given):
            return pa.ListArray.from_arrays(start.offsets, _as_written_by_spark(start.values, wanted.value_type), mask=mask)
        keys, items = (
            _as_written_by_spark(start.keys, wanted.key_type),
            _as_written_by_spark(start.items, wanted.item_type),
        )
        return pa.MapArray.from_arrays(start.offsets, keys, items, mask=mask)
    return array


class DeltaFiles:
    """Describes the files of actions and reads their deletion vectors."""

    def __init__(self, files: LiveFiles) -> None:
        self.files = files
        self._format = files.format
        self._vectors: dict[str, bytes] = {}

    def forget_vectors(self) -> None:
        """Releases the files of vectors that were read; one usually holds the vectors of one commit."""
        self._vectors.clear()

    def described(self, action: Mapping[str, object]) -> LiveFile:
        """The file of an ``add``, ``remove``, or ``cdc`` action."""
        return self._format.describe(0, {"size": 0, **action})

    def deleted_rows(self, action: Mapping[str, object]) -> Rows:
        """The rows in the deletion vector of an action."""
        vector = self._format.vector(action)
        if vector is None:
            return np.empty(0, np.int64)
        return self._format.read_vector(self.files.files, vector, self._vectors)


def open_files(files: object, folder: str) -> DeltaFiles:
    """The files of the table at ``folder`` of an Arrow file system."""
    return DeltaFiles(LiveFiles(files, DeltaFormat(folder)))
