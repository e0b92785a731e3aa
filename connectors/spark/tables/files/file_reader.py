"""Reads data files as rows of the table: columns that a file lacks get their default, partition columns come from the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from connectors.spark.plan.stored_variants import cast_stored
from connectors.spark.tables.files.live_files import LiveFile, LiveFiles
from connectors.spark.tables.files.partition_values import parse_value
from connectors.spark.tables.files.row_bitmaps import Rows


def count_rows(live: LiveFiles, file: LiveFile) -> int:
    """The number of rows in a file, deleted ones included."""
    with live.open(file) as parquet:
        return int(parquet.metadata.num_rows)


def read_file(
    live: LiveFiles, file: LiveFile, columns: Mapping[str, pa.DataType], batch_rows: int
) -> Iterator[tuple[int, pa.Table]]:
    """Reads a file in batches, each with the number of its first row."""
    with live.open(file) as parquet:
        names = _names(live, parquet, file, columns)
        first = 0
        for batch in parquet.iter_batches(batch_rows, columns=list(names.values()), use_threads=False):
            yield first, _complete(pa.table(batch), names, batch.num_rows, live, file, columns)
            first += batch.num_rows


def read_rows(live: LiveFiles, file: LiveFile, rows: Rows, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Reads some rows (sorted) of a file: only the row groups that contain them."""
    with live.open(file) as parquet:
        names = _names(live, parquet, file, columns)
        if not names:
            return _complete(None, names, len(rows), live, file, columns)
        metadata = parquet.metadata
        starts = np.cumsum([0, *(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))])
        groups = np.searchsorted(starts, rows, "right") - 1
        needed = np.unique(groups)
        # The place of each row among the rows of the groups that are read.
        shift = np.cumsum([0, *(starts[g + 1] - starts[g] for g in needed)])
        place = rows - starts[groups] + shift[np.searchsorted(needed, groups)]
        found = parquet.read_row_groups([int(g) for g in needed], columns=list(names.values()), use_threads=False)
        return _complete(found.take(pa.array(place)), names, len(rows), live, file, columns)


def has_columns(live: LiveFiles, file: LiveFile, columns: Mapping[str, pa.DataType]) -> bool:
    """Whether the file, its partition, or defaults have all of these columns."""
    with live.open(file) as parquet:
        missing = set(columns) - {*live.format.names_in_file(parquet.schema_arrow, columns), *file.values}
    return all(live.format.default(name) is not None for name in missing)


def _names(live: LiveFiles, parquet: pq.ParquetFile, file: LiveFile, columns: Mapping[str, pa.DataType]) -> dict[str, str]:
    """By column of the table: the column of the file to read."""
    # Other writers may repeat partition columns in the file; the log's values count.
    found = live.format.names_in_file(parquet.schema_arrow, columns)
    return {name: in_file for name, in_file in found.items() if name not in file.values}


def _complete(
    read: pa.Table | None,
    names: Mapping[str, str],
    count: int,
    live: LiveFiles,
    file: LiveFile,
    columns: Mapping[str, pa.DataType],
) -> pa.Table:
    found = {}
    for name, type_ in columns.items():
        if name in file.values:
            found[name] = pa.chunked_array([pa.repeat(parse_value(file.values[name], type_, name), count)])
        elif read is not None and name in names:
            found[name] = cast_stored(read[names[name]], type_, name)
        elif (default := live.format.default(name)) is not None:
            found[name] = cast_stored(pa.chunked_array([pa.repeat(default, count)]), type_, name)
        else:
            found[name] = pa.chunked_array([pa.nulls(count, type_)])
    return pa.table(found)
