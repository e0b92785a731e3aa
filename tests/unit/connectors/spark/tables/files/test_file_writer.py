"""Bounds in the footers of data files: readers skip rows by them, so they must hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.tables.delta.data_files import DataFileWriter
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.files.file_writer import FileWriter
from connectors.spark.tables.iceberg.data_files import IcebergFileWriter
from connectors.spark.tables.iceberg.types import new_schema
from connectors.spark.tables.parquet.table import ParquetTable
from connectors.spark.tables.table import OffsetCommit

NAN = float("nan")
TYPES = {
    "id": pa.int64(),
    "plain": pa.float64(),
    "d": pa.float64(),
    "single": pa.float32(),
    "s": pa.struct([("x", pa.float64()), ("y", pa.float64()), ("n", pa.int32())]),
    "l": pa.list_(pa.float64()),
    "m": pa.map_(pa.string(), pa.float64()),
    "a.b": pa.float64(),
}


def row(id_: int, nan: float) -> dict[str, Any]:
    nested = {"s": {"x": nan, "y": 1.0, "n": 1}, "l": [1.0, nan], "m": [("k", nan)]}
    return {"id": id_, "plain": 1.0, "d": nan, "single": nan, **nested, "a.b": nan}


ROWS = pa.Table.from_pylist([row(1, 1.0), row(2, 3.0), row(3, NAN)], pa.schema(list(TYPES.items())))
WITH_NAN = {"d", "single", "s.x", "l.list.element", "m.key_value.value", "a.b"}


def bounded(path: Path) -> set[str]:
    """The columns with bounds in the first row group."""
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    return {one.path_in_schema for one in columns if one.statistics is not None and one.statistics.has_min_max}


ALL = {"id", "plain", "s.y", "s.n", "m.key_value.key"}


def written(folder: Path, kind: str, rows: pa.Table) -> Path:
    files = fs.LocalFileSystem()
    if kind == "delta":
        return folder / str(DataFileWriter(files, str(folder), 2).write(rows)["path"])
    if kind == "iceberg":
        return Path(IcebergFileWriter(files, str(folder), new_schema(TYPES), 0, 2).write(rows, ())["path"])
    tp = TopicPartition("t", 0)
    table = ParquetTable(str(folder / "t"), "c", lambda topic: TopicIdentity("cluster", topic))
    table.load([tp])
    table.create({member.name: member.type for member in rows.schema}, ())
    table.load([tp])
    assert table.append(rows, OffsetCommit({tp: (0, 3)}, {tp: 3})) is not None
    (path,) = (one for one in (folder / "t").glob("*.parquet") if pq.read_metadata(one).num_rows)
    return path


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_floating_point_columns_with_a_nan_have_no_bounds(tmp_path: Path, kind: str) -> None:
    # The first row group has no NaN, and no bounds either: a footer says for the whole file which columns have some.
    path = written(tmp_path, kind, ROWS)
    assert bounded(path) == ALL
    assert pq.ParquetFile(path).read().num_rows == 3


@pytest.mark.parametrize("kind", ["delta", "iceberg", "parquet"])
def test_columns_without_a_nan_keep_their_bounds(tmp_path: Path, kind: str) -> None:
    assert bounded(written(tmp_path, kind, ROWS.slice(0, 2))) == ALL | WITH_NAN


def batches(rows: pa.Table) -> Iterator[pa.Table]:
    for start in range(rows.num_rows):
        yield rows.slice(start, 1)


@pytest.mark.parametrize(("rows", "expected"), [(ROWS, ALL - {"plain", "s.y"}), (ROWS.slice(0, 2), ALL | WITH_NAN)])
def test_rows_that_are_not_known_yet_may_have_a_nan(tmp_path: Path, rows: pa.Table, expected: set[str]) -> None:
    add = DataFileWriter(fs.LocalFileSystem(), str(tmp_path), 2).write_batches(batches(rows), TableLayout(TYPES), {})
    assert add is not None
    assert bounded(tmp_path / add["path"]) == expected
    entry = IcebergFileWriter(fs.LocalFileSystem(), str(tmp_path / "i"), new_schema(TYPES), 0, 2).write_batches(
        batches(rows), (), 0
    )
    assert entry is not None
    assert bounded(Path(entry["path"])) == expected


def test_batches_become_row_groups_of_the_wanted_size(tmp_path: Path) -> None:
    writer = FileWriter(fs.LocalFileSystem(), lambda name: str(tmp_path / name), 2, pq.ParquetWriter)
    rows = pa.table({"n": list(range(7))})
    parts = [rows.slice(0, 1), rows.slice(1, 0), rows.slice(1, 5), rows.slice(6, 1)]
    assert writer.write("f", iter(parts)) == 7
    metadata = pq.read_metadata(tmp_path / "f")
    assert [metadata.row_group(number).num_rows for number in range(4)] == [2, 2, 2, 1]
    assert pq.read_table(tmp_path / "f")["n"].to_pylist() == list(range(7))
    assert writer.write("none", iter([rows.slice(0, 0)])) == 0
    assert not (tmp_path / "none").exists()


def test_file_that_cannot_be_written_to_its_end_is_deleted(tmp_path: Path) -> None:
    writer = FileWriter(fs.LocalFileSystem(), lambda name: str(tmp_path / name), 1, pq.ParquetWriter)

    def failing() -> Iterator[pa.Table]:
        yield pa.table({"n": [1, 2, 3]})
        raise RuntimeError("damaged")

    with pytest.raises(RuntimeError, match="damaged"):
        writer.write("f", failing())
    assert not list(tmp_path.iterdir())
