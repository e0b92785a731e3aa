"""The key of an upsert table is the table's: a task that starts later takes no other one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from connect.errors import ConnectError, DataError
from connect.record import TopicPartition
from connectors.spark.config import TableConfig
from connectors.spark.config_keys import APPEND, CURRENT, SCD2, SEQ, VALID_FROM, VALID_TO
from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from connectors.spark.tables.key_property import KEY_PROPERTY, key_properties, read_key
from tests.support.files_only_world import World

UPSERT_SETTINGS = TableConfig("upsert", (), "hard", "add", (), keep_tombstones=True)
SCD2_SETTINGS = replace(UPSERT_SETTINGS, write_mode=SCD2, metadata_columns=(SEQ, VALID_FROM, VALID_TO, CURRENT))
APPEND_SETTINGS = replace(UPSERT_SETTINGS, write_mode=APPEND)
ROWS: list[dict[str, object]] = [
    {"region": region, "id": id_, "v": f"{region}{id_}"} for region in ("eu", "us") for id_ in (1, 2)
]
PARTITIONS = [TopicPartition("t", 0)]


def batch(first: int, rows: Sequence[dict[str, object]], keys: Sequence[str]) -> ChangeBatch:
    count = len(rows)
    numbers = pa.array(range(first, first + count), pa.int64())
    meta = make_meta(numbers, pa.array(["c"] * count), numbers, pa.array([0] * count, pa.int32()), numbers)
    image = pa.Table.from_pylist(list(rows))
    return ChangeBatch("t", meta, image, image.select(list(keys)))


@pytest.mark.parametrize("settings", [UPSERT_SETTINGS, SCD2_SETTINGS], ids=["upsert", "scd2"])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_record_with_another_key_is_errant_also_after_a_restart(settings: TableConfig, restarts: bool, tmp_path: Path) -> None:
    world = World(tmp_path, settings)
    world.writer.commit([batch(0, ROWS, ["region", "id"])], PARTITIONS)
    if restarts:
        world.restart()
    other = batch(4, [{"region": "eu", "id": 1, "v": "new"}], ["id"])
    with pytest.raises(DataError, match=r"the record key has the fields id, and table t has the key region, id"):
        world.writer.commit([other], PARTITIONS)
    assert world.writer.split_bad_records([other], PARTITIONS)[0] == []
    assert {(row["region"], row["id"]): row["v"] for row in world.table.rows()} == {(r["region"], r["id"]): r["v"] for r in ROWS}


def test_the_key_of_the_configuration_takes_precedence_and_becomes_that_of_the_table(tmp_path: Path) -> None:
    world = World(tmp_path, UPSERT_SETTINGS)
    world.writer.commit([batch(0, ROWS, ["region", "id"])], PARTITIONS)
    world.config = replace(UPSERT_SETTINGS, key_columns=("v",))
    world.restart()
    world.writer.commit([batch(4, [{"region": "xx", "id": 9, "v": "us1"}], ["id"])], PARTITIONS)
    assert {row["v"]: row["id"] for row in world.table.rows()} == {"eu1": 1, "eu2": 2, "us1": 9, "us2": 2}
    assert world.storage.keys == ("v",)


@pytest.mark.parametrize(
    ("first", "then", "problem"),
    [
        (SCD2_SETTINGS, UPSERT_SETTINGS, r"has versions of rows \(write.mode=scd2\), which write.mode=upsert would destroy"),
        (SCD2_SETTINGS, APPEND_SETTINGS, r"has versions of rows \(write.mode=scd2\), which write.mode=append would destroy"),
        (UPSERT_SETTINGS, SCD2_SETTINGS, "has one row per key, and write.mode=scd2 would leave these rows as they are"),
    ],
)
def test_a_table_with_and_one_without_versions_are_not_written_as_the_other(
    first: TableConfig, then: TableConfig, problem: str, tmp_path: Path
) -> None:
    world = World(tmp_path, first)
    world.writer.commit([batch(0, ROWS, ["region", "id"])], PARTITIONS)
    rows = world.table.rows()
    world.config = then
    world.restart()
    with pytest.raises(ConnectError, match=rf"{problem}\. Set write.mode to what it was, or write into another table"):
        world.writer.commit([batch(4, ROWS[:1], ["region", "id"])], PARTITIONS)
    assert world.table.rows() == rows
    world.config = first
    world.restart()
    world.writer.commit([batch(4, ROWS[:1], ["region", "id"])], PARTITIONS)


def test_a_table_of_events_gets_no_versions(tmp_path: Path) -> None:
    world = World(tmp_path, APPEND_SETTINGS)
    world.table.create({"region": pa.string(), "id": pa.int64(), "v": pa.string()}, ())
    world.writer.commit([], PARTITIONS, {PARTITIONS[0]: (0, 1)})
    world.config = SCD2_SETTINGS
    world.restart()
    with pytest.raises(ConnectError, match=r"has one row per event, and write\.mode=scd2 would leave these rows as they are"):
        world.writer.commit([batch(1, ROWS, ["region", "id"])], PARTITIONS)


def test_the_table_says_that_its_key_is_that_of_an_open_version(tmp_path: Path) -> None:
    world = World(tmp_path, SCD2_SETTINGS)
    world.writer.commit([batch(0, ROWS, ["region", "id"])], PARTITIONS)
    assert world.storage.keys == ("region", "id", CURRENT)
    world.table.set_keys(("region", "id"))  # by an earlier release
    world.restart()
    world.writer.commit([batch(4, ROWS[:1], ["region", "id"])], PARTITIONS)
    assert world.storage.keys == ("region", "id", CURRENT)


def test_a_table_without_rows_becomes_one_of_versions_although_a_record_was_errant(tmp_path: Path) -> None:
    world = World(tmp_path, SCD2_SETTINGS)
    world.table.create({"region": pa.string(), "id": pa.int64(), "v": pa.string()}, ())
    world.writer.commit([], PARTITIONS, {PARTITIONS[0]: (0, 1)})
    world.restart()
    world.writer.commit([batch(1, ROWS, ["region", "id"])], PARTITIONS)
    assert len(world.table.rows()) == len(ROWS)


def test_an_existing_table_gets_the_key_of_its_first_records(tmp_path: Path) -> None:
    world = World(tmp_path, UPSERT_SETTINGS)
    world.writer.commit([batch(0, ROWS, ["region", "id"])], PARTITIONS)
    world.table.set_keys(())  # as if somebody else had created it
    world.restart()
    world.writer.commit([batch(4, ROWS[:1], ["region", "id"])], PARTITIONS)
    assert world.storage.keys == ("region", "id")


def test_a_field_without_a_value_is_no_part_of_a_key_without_a_schema(tmp_path: Path) -> None:
    """An earlier record had it, perhaps an errant one."""
    world = World(tmp_path, UPSERT_SETTINGS)
    world.writer.commit([batch(0, [{"id": 1, "v": "a"}], ["id"])], PARTITIONS)
    later = batch(1, [{"id": 2, "v": "b"}], ["id"])
    assert later.keys is not None
    later = replace(later, keys=later.keys.append_column("x", pa.nulls(1, pa.int64())), keys_have_schema=False)
    world.writer.commit([later], PARTITIONS)
    assert world.table.rows() == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]


def test_a_field_without_a_value_is_a_part_of_a_key_with_a_schema(tmp_path: Path) -> None:
    world = World(tmp_path, UPSERT_SETTINGS)
    first = batch(0, [{"id": 1, "v": "a"}], ["id"])
    assert first.keys is not None
    with pytest.raises(DataError, match="key column x has no value"):
        world.writer.commit([replace(first, keys=first.keys.append_column("x", pa.nulls(1, pa.int64())))], PARTITIONS)


@pytest.mark.parametrize("text", ["", "id", "{}", "[1]", "null"])
def test_a_property_that_names_no_columns_says_nothing(text: str) -> None:
    assert read_key({KEY_PROPERTY: text}) == ()
    assert read_key(key_properties(["größe", "id"])) == ("größe", "id")
    assert key_properties([]) == {}
