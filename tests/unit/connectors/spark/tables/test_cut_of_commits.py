"""However records are cut into commits, the table is the same; and keys that are not known are refused."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import DataError
from connect.record import TopicPartition
from connectors.spark.config import TableConfig
from connectors.spark.config_keys import CURRENT, DELETED, SCD2, SEQ, SOFT, UNAVAILABLE, VALID_FROM, VALID_TO
from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from tests.support.files_only_world import World

HARD_SETTINGS = TableConfig("upsert", (), "hard", "add", (), keep_tombstones=True)
SOFT_SETTINGS = replace(HARD_SETTINGS, delete_mode=SOFT, metadata_columns=(DELETED,))
SCD2_SETTINGS = replace(HARD_SETTINGS, write_mode=SCD2, metadata_columns=(SEQ, VALID_FROM, VALID_TO, CURRENT))
PARTITIONS = [TopicPartition("t", 0)]

Change = tuple[str, Any, str | None]
"""Operation, ``id``, and ``v``."""


def batch(first: int, changes: Sequence[Change], id_type: pa.DataType) -> ChangeBatch:
    count = len(changes)
    numbers = pa.array(range(first, first + count), pa.int64())
    meta = make_meta(numbers, pa.array([op for op, _, _ in changes]), numbers, pa.array([0] * count, pa.int32()), numbers)
    ids, values = pa.array([id_ for _, id_, _ in changes], id_type), pa.array([v for _, _, v in changes], pa.string())
    image = pa.table({"id": ids, "v": values})
    return ChangeBatch("t", meta, image, image.select(["id"]))


def rows_of(settings: TableConfig, commits: Sequence[Sequence[Change]], id_type: pa.DataType) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        world, first = World(Path(folder), settings), 0
        for changes in commits:
            world.writer.commit([batch(first, changes, id_type)], PARTITIONS)
            first += len(changes)
        return world.table.rows()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_soft_delete_after_a_truncate_adds_the_row_as_the_delete_has_it(size: int) -> None:
    changes: list[Change] = [("c", 9, "x"), ("t", None, None), ("d", 1, "before"), ("c", 2, "y"), ("d", 2, "z")]
    commits = [changes[at : at + size] for at in range(0, len(changes), size)]
    found = {row["id"]: (row["v"], row[DELETED]) for row in rows_of(SOFT_SETTINGS, commits, pa.int64())}
    assert found == {9: ("x", True), 1: ("before", True), 2: ("y", True)}


@pytest.mark.parametrize("size", [1, 2])
def test_a_closed_version_keeps_its_own_key(size: int) -> None:
    changes: list[Change] = [("c", -0.0, "a"), ("u", 0.0, "b")]
    commits = [changes[at : at + size] for at in range(0, 2, size)]
    found = [(str(row["id"]), row["v"], row[CURRENT]) for row in rows_of(SCD2_SETTINGS, commits, pa.float64())]
    assert sorted(found) == [("-0.0", "a", False), ("0.0", "b", True)]


@pytest.mark.parametrize("settings", [HARD_SETTINGS, SCD2_SETTINGS])
def test_an_unavailable_key_is_refused_by_name(settings: TableConfig, tmp_path: Path) -> None:
    world = World(tmp_path, settings)
    changes = batch(0, [("c", "large", "a"), ("u", UNAVAILABLE, "b")], pa.string())
    with pytest.raises(DataError, match=r"offset 1: the value of the key column id is unavailable, .*REPLICA IDENTITY FULL"):
        world.writer.commit([changes], PARTITIONS)
    assert [one.offset for one in world.writer.split_bad_records([changes], PARTITIONS)[1]] == [1]
