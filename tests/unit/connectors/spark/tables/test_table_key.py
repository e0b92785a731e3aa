"""The key of an upsert table is the table's: a task that starts later takes no other one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from connect.errors import DataError
from connect.record import TopicPartition
from connectors.spark.config import TableConfig
from connectors.spark.config_keys import CURRENT, SCD2, SEQ, VALID_FROM, VALID_TO
from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from connectors.spark.tables.key_property import KEY_PROPERTY, key_properties, read_key
from tests.support.files_only_world import World

UPSERT_SETTINGS = TableConfig("upsert", (), "hard", "add", (), keep_tombstones=True)
SCD2_SETTINGS = replace(UPSERT_SETTINGS, write_mode=SCD2, metadata_columns=(SEQ, VALID_FROM, VALID_TO, CURRENT))
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


def test_an_existing_table_gets_the_key_of_its_first_records(tmp_path: Path) -> None:
    world = World(tmp_path, UPSERT_SETTINGS)
    world.writer.commit([batch(0, ROWS, ["region", "id"])], PARTITIONS)
    world.table.set_keys(())  # as if somebody else had created it
    world.restart()
    world.writer.commit([batch(4, ROWS[:1], ["region", "id"])], PARTITIONS)
    assert world.storage.keys == ("region", "id")


@pytest.mark.parametrize("has_schema", [False, True])
def test_a_field_without_a_value_is_no_part_of_the_key(has_schema: bool, tmp_path: Path) -> None:
    """JSON without schemas: an earlier record had it, perhaps an errant one."""
    world = World(tmp_path, UPSERT_SETTINGS)
    world.writer.commit([batch(0, [{"id": 1, "v": "a"}], ["id"])], PARTITIONS)
    later = batch(1, [{"id": 2, "v": "b"}], ["id"])
    assert later.keys is not None
    later = replace(later, keys=later.keys.append_column("x", pa.nulls(1, pa.int64())), has_schema=has_schema)
    world.writer.commit([later], PARTITIONS)
    assert world.table.rows() == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]


@pytest.mark.parametrize("text", ["", "id", "{}", "[1]", "null"])
def test_a_property_that_names_no_columns_says_nothing(text: str) -> None:
    assert read_key({KEY_PROPERTY: text}) == ()
    assert read_key(key_properties(["größe", "id"])) == ("größe", "id")
    assert key_properties([]) == {}
