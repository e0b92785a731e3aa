"""Data files of other writers are read as the sink's own: other types of the same values, and metadata without statistics."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.tables.delta.deletion_vectors import encode_vector_file, vector_file_name
from connectors.spark.tables.delta.file_format import DeltaFormat
from connectors.spark.tables.files.compaction import Source, merge_files
from connectors.spark.tables.files.file_reader import read_file, read_rows
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.files.live_files import UnreadableFile

UTC = dt.UTC
MOMENT = dt.datetime(2024, 5, 6, 7, 8, 9, 123456)
INSTANT = pa.timestamp("us", "UTC")


def live_table(folder: Path, rows: pa.Table, keys: Mapping[str, pa.DataType] | None = None, **options: Any) -> IndexedFiles:
    """A table with one file, of which the log says nothing but the path."""
    pq.write_table(rows, folder / "foreign.parquet", **options)
    indexed = IndexedFiles(fs.LocalFileSystem(), DeltaFormat(str(folder)), keys or {}, 1000)
    indexed.apply([{"path": "foreign.parquet", "size": 1, "partitionValues": {}}], ())
    return indexed


def nested(text: pa.DataType, at: pa.DataType) -> pa.DataType:
    return pa.struct([("l", pa.list_(text)), ("m", pa.map_(text, pa.struct([("at", at)])))])


VALUES: dict[str, tuple[pa.DataType, pa.DataType, Any, Any]] = {
    "large": (pa.string(), pa.large_string(), "ä", "ä"),
    "view": (pa.string(), pa.string_view(), "ä", "ä"),
    "word": (pa.string(), pa.dictionary(pa.int32(), pa.large_string()), "ä", "ä"),
    "bytes": (pa.binary(), pa.large_binary(), b"\xff", b"\xff"),
    "bytes_view": (pa.binary(), pa.binary_view(), b"\xff", b"\xff"),
    "fixed": (pa.binary(), pa.binary(2), b"\xff\x00", b"\xff\x00"),
    "nanos": (INSTANT, pa.timestamp("ns", "UTC"), MOMENT, MOMENT.replace(tzinfo=UTC)),
    "without_zone": (INSTANT, pa.timestamp("ms"), MOMENT.replace(microsecond=0), MOMENT.replace(microsecond=0, tzinfo=UTC)),
    "clock": (pa.timestamp("us"), pa.timestamp("ns"), MOMENT, MOMENT),
    "small": (pa.int64(), pa.int16(), 7, 7),
    "single": (pa.float64(), pa.float32(), 0.5, 0.5),
    "money": (pa.decimal128(38, 2), pa.decimal128(9, 2), decimal.Decimal("1.50"), decimal.Decimal("1.50")),
    "large_list": (pa.list_(pa.string()), pa.large_list(pa.large_string()), ["a", None], ["a", None]),
    "nothing": (pa.string(), pa.null(), None, None),
    "nested": (
        nested(pa.string(), INSTANT),
        nested(pa.large_string(), pa.timestamp("ns")),
        {"l": ["a"], "m": [("k", {"at": MOMENT})]},
        {"l": ["a"], "m": [("k", {"at": MOMENT.replace(tzinfo=UTC)})]},
    ),
    "grown": (pa.struct([("a", pa.int32()), ("b", pa.string())]), pa.struct([("a", pa.int32())]), {"a": 1}, {"a": 1, "b": None}),
}
TYPES = {name: type_ for name, (type_, _, _, _) in VALUES.items()}
ROW = {name: value for name, (_, _, _, value) in VALUES.items()}
EMPTY = dict.fromkeys(VALUES)


@pytest.fixture
def foreign(tmp_path: Path) -> IndexedFiles:
    arrays = [pa.array([None, value, None], given) for _, given, value, _ in VALUES.values()]
    return live_table(tmp_path, pa.table(arrays, names=list(VALUES)), row_group_size=2)


def test_columns_are_found_in_another_case_unless_the_file_has_several(tmp_path: Path) -> None:
    """As by Spark: CONVERT TO DELTA keeps the files of other writers as they are."""
    at = pa.struct([("X", pa.int64())])
    types = {"id": pa.int64(), "at": pa.struct([("x", pa.int64())])}
    found = live_table(tmp_path, pa.table({"ID": pa.array([7], pa.int64()), "At": pa.array([{"X": 1}], at)}), {"id": pa.int64()})
    (file,) = found.live.by_path.values()
    assert [rows.to_pylist() for _, rows in read_file(found.live, file, types, 10)] == [[{"id": 7, "at": {"x": 1}}]]
    assert found.key_count == 1
    with pytest.raises(UnreadableFile, match="several columns id that differ only in case: ID, Id"):
        live_table(tmp_path, pa.table({"ID": [7], "Id": [8]}), {"id": pa.int64()})
    # What the table says of a whole file counts more than a column that repeats it.
    pq.write_table(pa.table({"P": ["99"], "id": [1]}), tmp_path / "divided.parquet")
    divided = IndexedFiles(fs.LocalFileSystem(), DeltaFormat(str(tmp_path)), {}, 1000)
    divided.apply([{"path": "divided.parquet", "size": 1, "partitionValues": {"p": "1"}}], ())
    (file,) = divided.live.by_path.values()
    found_rows = [rows.to_pylist() for _, rows in read_file(divided.live, file, {"id": pa.int64(), "p": pa.string()}, 10)]
    assert found_rows == [[{"id": 1, "p": "1"}]]
    exact = live_table(tmp_path, pa.table({"ID": [7], "id": [8]}))
    (file,) = exact.live.by_path.values()
    assert [rows.to_pylist() for _, rows in read_file(exact.live, file, {"id": pa.int64()}, 10)] == [[{"id": 8}]]


def test_values_of_other_types_are_read_in_whole_files(foreign: IndexedFiles) -> None:
    (file,) = foreign.live.by_path.values()
    found = pa.concat_tables(rows for _, rows in read_file(foreign.live, file, TYPES, 1))
    assert dict(zip(found.column_names, found.schema.types, strict=True)) == TYPES
    assert found.to_pylist() == [EMPTY, ROW, EMPTY]


def test_values_of_other_types_are_read_in_single_rows(foreign: IndexedFiles) -> None:
    (file,) = foreign.live.by_path.values()
    # Two changes may need the values of one row.
    assert read_rows(foreign.live, file, np.array([1, 1, 2]), TYPES).to_pylist() == [ROW, ROW, EMPTY]
    added = {"added": pa.string()}
    assert read_rows(foreign.live, file, np.array([0, 2]), added).to_pylist() == [{"added": None}] * 2


def test_values_of_other_types_are_merged(foreign: IndexedFiles) -> None:
    (file,) = foreign.live.by_path.values()
    written: list[pa.Table] = []

    def write(batches: Any) -> None:
        written.extend(batches)

    merge_files(foreign.live, [Source(file, np.array([True, False, False]))], TYPES, {}, write)
    assert pa.concat_tables(written).to_pylist() == [ROW, EMPTY]


def test_timestamps_of_sparks_default_are_read(tmp_path: Path) -> None:
    rows = pa.table({"at": pa.array([MOMENT, None], pa.timestamp("us"))})
    indexed = live_table(tmp_path, rows, {"at": INSTANT}, use_deprecated_int96_timestamps=True)
    wanted = pa.table({"at": pa.array([MOMENT.replace(tzinfo=UTC)], INSTANT)})
    assert indexed.find(wanted).rows.tolist() == [0]


@pytest.mark.parametrize("given", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_keys_of_other_types_are_found(tmp_path: Path, given: pa.DataType) -> None:
    indexed = live_table(tmp_path, pa.table({"id": pa.array(["a", "b", None], given)}), {"id": pa.string()})
    assert indexed.find(pa.table({"id": ["b", "c"]})).rows.tolist() == [1]


def test_rows_without_a_key_column_that_was_added_later_have_no_key(tmp_path: Path) -> None:
    indexed = live_table(tmp_path, pa.table({"id": ["a"]}), {"id": pa.string(), "added": pa.int32()})
    assert not indexed.key_count


@pytest.mark.parametrize(
    ("values", "type_", "reason"),
    [
        (pa.array(["x"]), pa.int32(), "column c of the file .*foreign.parquet cannot be read as INT: the file has string"),
        (pa.array([2**40]), pa.int32(), "column c of the file .* as INT: .*1099511627776"),
        (pa.array([1.5]), pa.float32(), "as FLOAT: the file has double"),
        (pa.array([[1]]), pa.list_(pa.string()), "as ARRAY<STRING>: the file has int64"),
        (pa.array([{"a": 1}]), pa.list_(pa.int64()), "as ARRAY<BIGINT>: the file has struct"),
        (pa.array([1], pa.timestamp("ns")), pa.timestamp("us"), "as TIMESTAMP_NTZ: .*lose data"),
    ],
)
def test_column_that_cannot_be_read_is_named_and_blames_no_record(
    tmp_path: Path, values: pa.Array, type_: pa.DataType, reason: str
) -> None:
    indexed = live_table(tmp_path, pa.table({"c": values}))
    (file,) = indexed.live.by_path.values()
    with pytest.raises(UnreadableFile, match=rf"{reason}.*Rewrite the file with Spark, or restore the table") as raised:
        list(read_file(indexed.live, file, {"c": type_}, 10))
    assert type(raised.value).__mro__[1] is ConnectError


@pytest.mark.parametrize("stats", [None, "{}", json.dumps({"minValues": {}})])
def test_deleted_rows_of_a_file_without_statistics(tmp_path: Path, stats: str | None) -> None:
    pq.write_table(pa.table({"id": ["a", "b", "c", "d"]}), tmp_path / "foreign.parquet")
    data, identity, (vector,) = encode_vector_file([np.array([1])])
    (tmp_path / vector_file_name(identity)).write_bytes(data)
    add: dict[str, Any] = {"path": "foreign.parquet", "size": 1, "partitionValues": {}, "deletionVector": vector}
    indexed = IndexedFiles(fs.LocalFileSystem(), DeltaFormat(str(tmp_path)), {"id": pa.string()}, 1000)
    indexed.apply([add if stats is None else {**add, "stats": stats}], ())
    assert indexed.find(pa.table({"id": ["a", "b", "d"]})).rows.tolist() == [0, 3]
    (file,) = indexed.live.by_path.values()
    assert (file.rows, file.live_rows) == (4, 3)


def test_partition_values_count_more_than_those_in_the_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"p": [1, 1], "s": [{"q": 1}] * 2}), tmp_path / "foreign.parquet")
    indexed = IndexedFiles(fs.LocalFileSystem(), DeltaFormat(str(tmp_path)), {}, 1000)
    indexed.apply([{"path": "foreign.parquet", "size": 1, "partitionValues": {"p": "2", "q": "x"}}], ())
    (file,) = indexed.live.by_path.values()
    types = {"p": pa.int64(), "q": pa.string(), "s": pa.struct([("q", pa.int64()), ("p", pa.int64())])}
    ((_, found),) = read_file(indexed.live, file, types, 10)
    assert found.to_pylist() == [{"p": 2, "q": "x", "s": {"q": 1, "p": None}}] * 2
