"""Tombstones after deletes that stay in the table as marked rows."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.config import TableConfig
from connectors.spark.config_keys import DELETED, OP, SEQ, SOURCE_TS
from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from connectors.spark.tables.writer import TableWriter
from tests.support.files_only_table import FilesOnlyTable, Storage

TP = TopicPartition("t", 0)
SETTINGS = TableConfig("upsert", ("id",), "soft", "add", (OP, SEQ, SOURCE_TS, DELETED), keep_tombstones=True)


def batch(first: int, operations: list[str]) -> ChangeBatch:
    """Changes of the row 1: the n-th one has position n, and a tombstone has none."""
    count = len(operations)
    numbers = pa.array(range(first, first + count), pa.int64())
    is_bare = [operation == "tombstone" for operation in operations]
    places = [None if bare else number for bare, number in zip(is_bare, numbers.to_pylist(), strict=True)]
    meta = make_meta(
        numbers,
        pa.array(operations, pa.string()),
        pa.array(places, pa.int64()),
        pa.array([0] * count, pa.int32()),
        numbers,
        positions=pa.array([None if place is None else str(place) for place in places], pa.string()),
    )
    image = pa.table({"id": pa.array([1] * count, pa.int64()), "x": pa.array([None if b else "x" for b in is_bare], pa.string())})
    return ChangeBatch("t", meta, image, None)


@pytest.mark.parametrize("metadata", [SETTINGS.metadata_columns, (DELETED,)])
@pytest.mark.parametrize("ends", [*itertools.chain(*(itertools.combinations(range(1, 4), n) for n in range(4)))])
@pytest.mark.parametrize("operations", [["c", "d", "tombstone", "tombstone"], ["c", "u", "tombstone", "tombstone"]])
def test_a_tombstone_leaves_the_place_of_the_change_before_it(
    operations: list[str], ends: tuple[int, ...], metadata: tuple[str, ...], tmp_path: Path
) -> None:
    files = FilesOnlyTable(Storage(tmp_path))
    writer = TableWriter("t", replace(SETTINGS, metadata_columns=metadata), files, lambda topic: TopicIdentity("cluster", "-", 1))
    for start, end in itertools.pairwise((0, *ends, 4)):
        writer.commit([batch(start, operations[start:end])], [TP])
    (row,) = files.rows()
    assert (row["id"], row["x"], row[DELETED]) == (1, "x", True)
    if SEQ in metadata:
        assert (row[OP], row[SEQ], row[SOURCE_TS].microsecond) == ("d", "1", 1_000)
    assert files.unavailable == 0


def test_a_tombstone_without_a_change_before_it_has_no_place(tmp_path: Path) -> None:
    files = FilesOnlyTable(Storage(tmp_path))
    writer = TableWriter("t", SETTINGS, files, lambda topic: TopicIdentity("cluster", "-", 1))
    writer.commit([batch(0, ["tombstone"])], [TP])
    (row,) = files.rows()
    assert (row["id"], row["x"], row[OP], row[SEQ], row[SOURCE_TS]) == (1, None, "d", None, None)
    assert files.unavailable == 0
