"""Writes the data files of Delta tables, with the statistics that readers use to skip them."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import math
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from connect.errors import RetriableError
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.delta.log import Action
from connectors.spark.tables.executor_files import missing_files
from connectors.spark.tables.files.file_writer import FileWriter
from connectors.spark.tables.files.partition_values import PartitionValues

_INDEXED_COLUMNS = 32
_TEXT_PREFIX = 32
_LARGEST_CHARACTER = "\U0010ffff"
_open_writer = functools.partial(pq.ParquetWriter, compression="zstd", compression_level=1)


class DataFileWriter:
    """Writes files into the table at ``folder``."""

    def __init__(self, files: fs.FileSystem, folder: str, row_group_size: int) -> None:
        self._files = FileWriter(files, lambda name: f"{folder}/{name}", row_group_size, _open_writer)

    def write(self, rows: pa.Table, layout: TableLayout | None = None, partition: PartitionValues | None = None) -> Action:
        """Writes the rows of one partition into a file; returns the action that adds it. Until that is committed, the file
        belongs to nobody: VACUUM removes it, as it does with files of every other writer that did not commit.

        The file is directly in the table's folder, whatever its partition: readers find the values in the log.
        """
        layout = layout or TableLayout()
        rows = layout.file_rows(rows)
        name = _new_name()
        self._files.write(name, rows)
        return self._add_action(name, file_statistics(rows, layout.clustering_columns), partition)

    def write_batches(self, batches: Iterable[pa.Table], layout: TableLayout, partition: PartitionValues) -> Action | None:
        """Writes one file from batches with all columns of the table, as they come; None, and no file, when there are no
        rows."""
        name = _new_name()
        statistics: dict[str, Any] | None = None

        def rows() -> Iterator[pa.Table]:
            nonlocal statistics
            for batch in batches:
                if batch.num_rows:
                    batch = layout.file_rows(batch)
                    statistics = merge_statistics(statistics, file_statistics(batch, layout.clustering_columns))
                    yield batch

        self._files.write(name, rows())
        return None if statistics is None else self._add_action(name, statistics, partition)

    def _add_action(self, name: str, statistics: Mapping[str, Any], partition: PartitionValues | None) -> Action:
        return {
            "path": name,
            "partitionValues": dict(partition or {}),
            "size": self._files.size(name),
            "modificationTime": int(time.time() * 1000),
            "dataChange": True,
            "stats": orjson.dumps(statistics, default=_plain_digits).decode(),
        }

    def check_exist(self, names: Sequence[str], place: str) -> None:
        """Raises RetriableError when files that were written and not committed yet are gone: VACUUM without retention deletes
        them, and a commit that names them would leave a table that nobody can read."""
        missing = missing_files(self._files.files, {name: self._files.locate(name) for name in names})
        if missing:
            self.delete(names)
            raise RetriableError(
                f"{place}: {', '.join(missing)} was deleted before it was committed, so its rows are written again. Run VACUUM "
                "only with a retention that is longer than a commit takes"
            )

    def delete(self, names: Iterable[str]) -> None:
        """Deletes files that certainly no commit names."""
        self._files.delete(names)

    def write_bytes(self, name: str, data: bytes) -> None:
        """Writes a file of another kind."""
        self._files.write_bytes(name, data)


def _new_name() -> str:
    return f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"


def value_range(column: pa.ChunkedArray) -> tuple[Any, Any]:
    """The smallest and largest value; None for both if there is none, or for dates outside the years 1 to 9999."""
    found = pc.min_max(column)
    try:
        return found["min"].as_py(), found["max"].as_py()
    except (OverflowError, ValueError):
        return None, None


def file_statistics(rows: pa.Table, required: Sequence[str] = ()) -> dict[str, Any]:
    """Delta's statistics of a file: row count, and by column the smallest and largest value and the number of nulls.

    ``required`` columns have statistics even if they are not among the first ones, or not in the file.
    """
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls = {name: rows.num_rows for name in required if name not in rows.column_names}
    present = [name for name in required if name in rows.column_names]
    for name in dict.fromkeys([*rows.column_names[:_INDEXED_COLUMNS], *present]):
        column = rows[name]
        if pa.types.is_nested(column.type):
            continue
        nulls[name] = column.null_count
        bounds = _bounds(column)
        if bounds is not None:
            least[name], greatest[name] = bounds
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def merge_statistics(known: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any]:
    """The statistics of two sets of rows together."""
    if known is None:
        return other
    merged: dict[str, Any] = {"numRecords": known["numRecords"] + other["numRecords"], "minValues": {}, "maxValues": {}}
    merged["nullCount"] = {name: count + other["nullCount"][name] for name, count in known["nullCount"].items()}
    for name in known["nullCount"]:
        for part, others in ((known, other), (other, known)):
            # A set of nulls alone has no bounds, and adds nothing to those of the other one.
            if name in part["minValues"] and others["nullCount"][name] == others["numRecords"]:
                merged["minValues"][name], merged["maxValues"][name] = part["minValues"][name], part["maxValues"][name]
        if name in known["minValues"] and name in other["minValues"]:
            merged["minValues"][name] = min(known["minValues"][name], other["minValues"][name])
            merged["maxValues"][name] = max(known["maxValues"][name], other["maxValues"][name])
    return merged


def _bounds(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """Bounds of a column as they are written into JSON: no value is outside, though the bounds themselves may be."""
    type_ = column.type
    t = pa.types
    if t.is_timestamp(type_):
        return _timestamp_bounds(column)
    if t.is_floating(type_) and pc.any(pc.invert(pc.is_finite(column))).as_py():
        return None
    if not (t.is_integer(type_) or t.is_date(type_) or t.is_string(type_) or t.is_decimal(type_) or t.is_floating(type_)):
        return None
    low, high = value_range(column)
    if low is None:
        return None
    if isinstance(low, dt.date):
        return low.isoformat(), high.isoformat()
    if isinstance(low, str):
        upper = _text_above(high)
        return None if upper is None else (low[:_TEXT_PREFIX], upper)
    if isinstance(low, float) and (math.copysign(1.0, low) < 0 or math.copysign(1.0, high) < 0):
        return low + 0.0, high + 0.0  # readers may not consider -0.0 and 0.0 equal
    return low, high


def _text_above(text: str) -> str | None:
    """A short text that is not before this one, by code points; None when there is none."""
    if len(text) <= _TEXT_PREFIX:
        return text
    return None if text[_TEXT_PREFIX] == _LARGEST_CHARACTER else text[:_TEXT_PREFIX] + _LARGEST_CHARACTER


def _timestamp_bounds(column: pa.ChunkedArray) -> tuple[str, str] | None:
    found = pc.min_max(column.cast(pa.int64()))
    low, high = found["min"].as_py(), found["max"].as_py()
    if low is None:
        return None
    epoch = dt.datetime(1970, 1, 1)
    try:
        # Statistics have milliseconds: the lower bound is rounded down, the upper one up.
        texts = [epoch + dt.timedelta(milliseconds=ms) for ms in (low // 1000, -(-high // 1000))]
    except OverflowError:
        return None
    suffix = "Z" if column.type.tz else ""
    first, last = (moment.isoformat(timespec="milliseconds") + suffix for moment in texts)
    return first, last


def _plain_digits(value: object) -> object:
    if isinstance(value, decimal.Decimal):
        return orjson.Fragment(f"{value:f}")
    raise TypeError(f"no JSON for {value!r}")
