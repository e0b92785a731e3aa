"""A null fits every column, whatever type the schema of its record has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import DataError
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.config import TableConfig
from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from connectors.spark.plan.row_limits import NO_LIMITS
from connectors.spark.plan.rows import RowPreparation
from connectors.spark.plan.truncates import NO_FEEDS
from connectors.spark.tables.planned_rows import split_bad_records
from connectors.spark.tables.writer import TableWriter
from tests.support.files_only_table import FilesOnlyTable, Storage

ADD = TableConfig("append", (), "hard", "add", (), keep_tombstones=True)
MODES = ("add", "widen", "lenient", "none", "fail")
STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
OTHER = pa.struct([("a", pa.string()), ("b", pa.string())])
PARTITIONS = [TopicPartition("t", 0)]


def changes(first: int, *, has_schema: bool = True, **columns: pa.Array) -> ChangeBatch:
    image = pa.table(columns)
    numbers = pa.array(range(first, first + image.num_rows), pa.int64())
    count = image.num_rows
    meta = make_meta(
        numbers, pa.nulls(count, pa.string()), pa.nulls(count, pa.int64()), pa.array([0] * count, pa.int32()), numbers
    )
    return ChangeBatch("t", meta, image, None, has_schema=has_schema)


def prepared_rows(settings: TableConfig, table: dict[str, pa.DataType] | None, *batches: ChangeBatch) -> list[dict[str, Any]]:
    prepared = RowPreparation("t", settings).prepare(table, batches, ())
    assert prepared is not None
    return [row for part in prepared.changes for row in part.image.to_pylist()]


def make_writer(folder: Path, settings: TableConfig, table: dict[str, pa.DataType] | None) -> TableWriter:
    storage = Storage(folder)
    storage.columns = table
    return TableWriter("t", settings, FilesOnlyTable(storage), lambda topic: TopicIdentity("c", "-", 1))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("known", "given"),
    [
        (pa.float32(), pa.float64()),
        (pa.string(), pa.int32()),
        (STRUCT, pa.int64()),
        (pa.int64(), STRUCT),
        (pa.map_(pa.string(), pa.int32()), pa.list_(pa.int32())),
        (pa.decimal128(10, 2), pa.timestamp("us")),
    ],
)
def test_nulls_of_another_type_fit_every_column(mode: str, known: pa.DataType, given: pa.DataType) -> None:
    settings = replace(ADD, schema_evolution=mode)
    rows = prepared_rows(settings, {"id": pa.int64(), "f": known}, changes(0, id=pa.array([1, 2]), f=pa.nulls(2, given)))
    assert [(row["id"], row["f"]) for row in rows] == [(1, None), (2, None)]


@pytest.mark.parametrize("mode", MODES)
def test_nested_nulls_of_another_type_fit_too(mode: str) -> None:
    settings = replace(ADD, schema_evolution=mode)
    table = {"s": STRUCT, "l": pa.list_(STRUCT), "m": pa.map_(pa.string(), STRUCT)}
    value = {"a": None, "b": "x"}
    batch = changes(
        0,
        s=pa.array([value, None], OTHER),
        l=pa.array([[value, None], []], pa.list_(OTHER)),
        m=pa.array([[("k", value)], None], pa.map_(pa.string(), OTHER)),
    )
    (first, second) = prepared_rows(settings, table, batch)
    assert (first["s"], first["l"], first["m"]) == (value, [value, None], [("k", value)])
    assert (second["s"], second["l"], second["m"]) == (None, [], None)


def test_only_rows_with_a_nested_value_of_another_type_are_rescued() -> None:
    settings = replace(ADD, schema_evolution="lenient")
    batch = changes(0, s=pa.array([{"a": None, "b": "x"}, {"a": "1", "b": "y"}, None], OTHER))
    rows = prepared_rows(settings, {"s": STRUCT}, batch)
    assert [row["s"] for row in rows] == [{"a": None, "b": "x"}, None, None]
    assert [row["_rescued_data"] for row in rows] == [None, '{"s":{"a":"1","b":"y"}}', None]


@pytest.mark.parametrize("newest_first", [False, True])
def test_the_type_of_a_new_column_comes_from_the_records_with_values(newest_first: bool) -> None:
    batches = [changes(0, f=pa.nulls(1, pa.string())), changes(1, f=pa.array([1.5])), changes(2, f=pa.nulls(1, pa.int32()))]
    prepared = RowPreparation("t", ADD).prepare(None, batches[::-1] if newest_first else batches, ())
    assert prepared is not None
    assert prepared.columns == {"f": pa.float64()}


def test_attempt_and_commit_agree_on_records_that_have_nulls_of_another_type(tmp_path: Path) -> None:
    """``f`` gets its type from the only value, although the attempts begin with the largest batch; ``s`` does not fit."""
    writer = make_writer(tmp_path, ADD, {"id": pa.int64(), "s": pa.string()})
    batches = [
        changes(0, id=pa.array([1, 2, 3]), f=pa.nulls(3, pa.string())),
        changes(3, id=pa.array([4]), f=pa.array([1.5])),
        changes(4, id=pa.array([5, 6]), s=pa.array([None, 1], pa.int32())),
    ]
    with pytest.raises(DataError):
        writer.commit(batches, PARTITIONS)
    good, bad = writer.split_bad_records(batches, PARTITIONS)
    assert [one.offset for one in bad] == [5]
    prepared = RowPreparation("t", ADD).prepare({"id": pa.int64(), "s": pa.string()}, good, ())
    assert prepared is not None
    assert prepared.columns == {"id": pa.int64(), "f": pa.float64(), "s": pa.string()}


def test_fields_of_a_schema_become_columns_also_beside_a_bad_record() -> None:
    """With ``schema.evolution=none``, a column that the first records do not bring would never come."""
    batch = changes(0, id=pa.array([1, 2]), note=pa.nulls(2, pa.string()))
    bad = changes(2, id=pa.array(["x"]))
    rows = RowPreparation("t", ADD)
    good, found = split_bad_records(rows, None, NO_LIMITS, (), [batch, bad], NO_FEEDS)
    assert [one.offset for one in found] == [2]
    prepared = rows.prepare(None, good, ())
    assert prepared is not None
    assert prepared.columns == {"id": pa.int64(), "note": pa.string()}


def test_names_that_differ_only_in_case_are_judged_alike_in_attempt_and_commit() -> None:
    rows = RowPreparation("t", ADD)
    batches = [changes(0, a=pa.nulls(2, pa.string())), changes(2, A=pa.array(["x"]))]
    good, found = split_bad_records(rows, None, NO_LIMITS, (), batches, NO_FEEDS)
    assert [one.offset for one in found] == [2]
    assert rows.prepare(None, good, ()) is not None


def test_a_record_without_values_is_a_row_of_nulls() -> None:
    batch = changes(0, has_schema=False, of_others=pa.nulls(2, pa.int64()))
    assert prepared_rows(ADD, {"a": pa.string()}, batch) == [{"a": None}] * 2
