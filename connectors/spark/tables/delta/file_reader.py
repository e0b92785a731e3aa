"""Reads data files as rows of the table: columns that a file lacks are null, and partition columns come from the log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from connectors.spark.plan.evolution import cast_column
from connectors.spark.tables.delta.deletion_vectors import Rows
from connectors.spark.tables.delta.live_files import LiveFile, LiveFiles
from connectors.spark.tables.delta.partition_values import parse_value


def count_rows(live: LiveFiles, file: LiveFile) -> int:
    """The number of rows in a file, deleted ones included."""
    with live.open(file) as parquet:
        return int(parquet.metadata.num_rows)


def read_file(
    live: LiveFiles, file: LiveFile, columns: Mapping[str, pa.DataType], batch_rows: int
) -> Iterator[tuple[int, pa.Table]]:
    """Reads a file in batches, each with the number of its first row."""
    with live.open(file) as parquet:
        present = _present(parquet, file, columns)
        first = 0
        for batch in parquet.iter_batches(batch_rows, columns=present, use_threads=False):
            yield first, _complete(pa.table(batch) if present else None, batch.num_rows, file, columns)
            first += batch.num_rows


def read_rows(live: LiveFiles, file: LiveFile, rows: Rows, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Reads some rows (sorted) of a file: only the row groups that contain them."""
    with live.open(file) as parquet:
        present = _present(parquet, file, columns)
        if not present:
            return _complete(None, len(rows), file, columns)
        metadata = parquet.metadata
        starts = np.cumsum([0, *(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))])
        groups = np.searchsorted(starts, rows, "right") - 1
        needed = np.unique(groups)
        # The place of each row among the rows of the groups that are read.
        shift = np.cumsum([0, *(starts[g + 1] - starts[g] for g in needed)])
        place = rows - starts[groups] + shift[np.searchsorted(needed, groups)]
        read = parquet.read_row_groups([int(g) for g in needed], columns=present, use_threads=False).take(pa.array(place))
    return _complete(read, len(rows), file, columns)


def has_columns(live: LiveFiles, file: LiveFile, columns: Collection[str]) -> bool:
    """Whether the file, or its partition, has all of these columns."""
    with live.open(file) as parquet:
        return set(columns) <= {*parquet.schema_arrow.names, *file.partition_values}


def _present(parquet: pq.ParquetFile, file: LiveFile, columns: Collection[str]) -> list[str]:
    # Other writers may repeat partition columns in the file; the log's values count.
    return [n for n in columns if n in parquet.schema_arrow.names and n not in file.partition_values]


def _complete(read: pa.Table | None, count: int, file: LiveFile, columns: Mapping[str, pa.DataType]) -> pa.Table:
    found = {}
    for name, type_ in columns.items():
        if name in file.partition_values:
            found[name] = pa.chunked_array([pa.repeat(parse_value(file.partition_values[name], type_, name), count)])
        elif read is not None and name in read.column_names:
            found[name] = cast_column(read[name], type_, name)
        else:
            found[name] = pa.chunked_array([pa.nulls(count, type_)])
    return pa.table(found)
