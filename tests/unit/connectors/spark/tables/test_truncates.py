"""A truncate deletes what is older, whatever is committed together with it, and is refused where nobody knows what is older."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from connect.errors import DataError
from connect.record import TopicPartition
from connectors.spark.config import TableConfig
from connectors.spark.config_keys import CURRENT, DELETED, LOG, SCD2, SEQ, SOURCE_TS, UNAVAILABLE, VERSION_COLUMNS
from connectors.spark.decode.change_batch import empty_rows
from connectors.spark.plan.truncates import deleting
from connectors.spark.tables.application_ids import feeding_partitions
from connectors.spark.tables.delta.change import DeltaChange
from connectors.spark.tables.delta.data_files import DataFileWriter
from connectors.spark.tables.delta.file_format import DeltaFormat
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.iceberg.change import IcebergChange
from connectors.spark.tables.iceberg.data_files import IcebergFileWriter
from connectors.spark.tables.iceberg.file_format import IcebergFormat
from connectors.spark.tables.iceberg.partitioning import Partitioning, new_spec
from connectors.spark.tables.iceberg.types import new_schema
from connectors.spark.tables.patch import Patch
from tests.support.files_only_table import Crash
from tests.support.files_only_world import SETTINGS, SOFT_SETTINGS, World
from tests.support.source_order_histories import Event

BY_LOG = replace(SETTINGS, sequence_by=LOG)
SOFT_BY_LOG = replace(SOFT_SETTINGS, sequence_by=LOG)
VERSIONS = replace(BY_LOG, write_mode=SCD2, metadata_columns=(SEQ, *VERSION_COLUMNS))


def make_events(chance: random.Random) -> list[Event]:
    events = []
    for at in range(1, chance.randint(2, 14)):
        op = chance.choices("cudt", (4, 3, 3, 3))[0]
        value = chance.choice([f"v{at}", UNAVAILABLE]) if op == "u" else f"v{at}" if op == "c" else None
        events.append(Event(op, None if op == "t" else chance.randrange(3), at, value))
    return events


def rows_of(config: TableConfig, commits: list[list[Event]]) -> list[tuple[Any, ...]]:
    """The table after these commits, with all columns."""
    with TemporaryDirectory() as folder:
        world = World(Path(folder), config)
        for events in commits:
            world.commit(*events)
        return sorted((tuple(row.items()) for row in world.table.rows()), key=repr)


@pytest.mark.parametrize("config", [BY_LOG, SOFT_BY_LOG, VERSIONS], ids=["hard", "soft", "versions"])
@given(seed=st.integers(0, 1 << 32))
def test_commits_of_any_size_give_the_same_table(config: TableConfig, seed: int) -> None:
    chance = random.Random(seed)
    events = make_events(chance)
    cut = [events[0:0]]
    for event in events:
        if chance.random() < 0.4:
            cut.append([])
        cut[-1].append(event)
    assert rows_of(config, [part for part in cut if part]) == rows_of(config, [[event] for event in events])


@pytest.mark.parametrize("config", [BY_LOG, SOFT_BY_LOG, VERSIONS], ids=["hard", "soft", "versions"])
def test_what_comes_after_a_truncate_is_written_whatever_its_position(config: TableConfig, tmp_path: Path) -> None:
    """Rows of a later snapshot, and changes after a failover, have lower positions."""
    world = World(tmp_path, config)
    world.commit(Event("c", 1, 1000, "old"), Event("t", None, 2000))
    world.commit(Event("r", 1, 5000, "read"), Event("r", 2, 5000, "read"))
    world.commit(Event("c", 3, 100, "changed"))
    rows = [row for row in world.table.rows() if not row.get("__deleted") and row.get(CURRENT, True)]
    assert {row["id"]: row["v"] for row in rows} == {1: "read", 2: "read", 3: "changed"}


@pytest.mark.parametrize("config", [SOFT_BY_LOG, VERSIONS], ids=["soft", "versions"])
def test_a_crash_before_the_commit_leaves_the_rows_as_they_were(config: TableConfig, tmp_path: Path) -> None:
    world = World(tmp_path, config)
    world.commit(Event("c", 1, 1, "a"), Event("c", 2, 2, "b"))
    before = world.table.rows()
    world.table.crashes = True
    batch = world.partitions.batch([(Event("t", None, 3), 0), (Event("c", 1, 4, "c"), 0)])
    with pytest.raises(Crash):
        world.writer.commit([batch], [TopicPartition("t", 0)])
    assert world.table.rows() == before
    world.restart()
    world.writer.commit([batch], [TopicPartition("t", 0)])
    rows = [row for row in world.table.rows() if not row.get("__deleted") and row.get(CURRENT, True)]
    assert [(row["id"], row["v"]) for row in rows] == [(1, "c")]


@pytest.mark.parametrize("config", [BY_LOG, SOFT_BY_LOG, VERSIONS], ids=["hard", "soft", "versions"])
@pytest.mark.parametrize("known_by", ["rows in the table", "rows in the commit", "the topic"])
def test_a_table_that_several_partitions_feed_refuses_a_truncate_by_name(
    config: TableConfig, known_by: str, tmp_path: Path
) -> None:  # fmt: skip
    world = World(tmp_path, config)
    if known_by == "the topic":
        world.partition_counts["t"] = 2
    world.commit(Event("c", 1, 1, "a"))
    if known_by == "rows in the table":
        world.commit(Event("c", 2, 2, "b"), partitions=[1])
    other = [(Event("c", 3, 3, "c"), 1)] if known_by == "rows in the commit" else []
    batch = world.partitions.batch([*other, (Event("t", None, 4), 0), (Event("c", 4, 5, "d"), 0)])
    expected = (
        r"topic t, partition 0, offset 1: which rows are older than this truncate is not known, because table t is fed by "
        r"several partitions: t-0, t-1\. Either set sequence\.by=source, .*skipped\.operations=t"
    )
    with pytest.raises(DataError, match=expected):
        world.writer.commit([batch], [])
    good, bad = world.writer.split_bad_records([batch], [])
    assert [(one.topic_partition, one.offset) for one in bad] == [(TopicPartition("t", 0), 1)]
    world.writer.commit(good, [])
    assert {row["id"] for row in world.table.rows()} >= {1, 4}


def test_positions_of_several_topics_are_not_compared(tmp_path: Path) -> None:
    world = World(tmp_path, SETTINGS)
    world.partition_counts["t"] = 3
    world.commit(Event("c", 1, 1, "a"), Event("c", 2, 9, "b"), partitions=[0, 1])
    world.commit(Event("t", None, 5), partitions=[2])
    assert world.rows() == {2: "b"}
    world.writer.commit([replace(world.partitions.batch([(Event("c", 7, 1, "shard"), 3)]), topic="shard")], [])
    with pytest.raises(DataError, match=r"fed by several topics, whose positions cannot be compared: shard, t\."):
        world.commit(Event("t", None, 12))
    assert world.rows() == {2: "b", 7: "shard"}


def test_deletes_that_are_ignored_ignore_truncates_of_any_partition(tmp_path: Path) -> None:
    world = World(tmp_path, replace(BY_LOG, delete_mode="ignore"))
    world.commit(Event("c", 1, 1, "a"), Event("t", None, 2), Event("c", 2, 3, "b"), partitions=[0, 1, 1])
    assert world.rows() == {1: "a", 2: "b"}


def test_rows_that_a_truncate_updates_go_to_their_new_partition_of_a_delta_table(tmp_path: Path) -> None:
    columns = {"id": pa.int64(), DELETED: pa.bool_()}
    files, layout = fs.LocalFileSystem(), TableLayout(columns, (DELETED,))
    writer, indexed = DataFileWriter(files, str(tmp_path), 1000), IndexedFiles(files, DeltaFormat(str(tmp_path)), {}, 0)
    written = DeltaChange(writer, layout, pa.table({"id": [1, 2], DELETED: [False, False]}))
    written.write_rows()
    indexed.apply(written.adds, ())
    change = DeltaChange(writer, layout)
    change.write(Patch(pa.table({}), {}, False, columns, deleting({DELETED: pa.scalar(True)}, None), 0), indexed.live)
    assert [add["partitionValues"] for add in change.adds] == [{DELETED: "true"}]
    assert len(change.removes) == 1


def test_rows_that_a_truncate_updates_go_to_their_new_partition_of_an_iceberg_table(tmp_path: Path) -> None:
    day, later = (pa.scalar(dt.datetime(2024, month, 1, tzinfo=dt.UTC), pa.timestamp("us", "UTC")) for month in (1, 6))
    columns = {"id": pa.int64(), SOURCE_TS: day.type, DELETED: pa.bool_()}
    schema = new_schema(columns)
    spec = new_spec([f"day({SOURCE_TS})"], schema, columns)
    partitioning = Partitioning.read({"spec-id": 0, **spec}, schema)
    writer = IcebergFileWriter(fs.LocalFileSystem(), str(tmp_path), schema, 0, 1000)
    before = pa.table({"id": [1], SOURCE_TS: pa.array([day.as_py()], day.type), DELETED: [False]})
    change = IcebergChange(writer, partitioning, before)
    change.write_rows()
    state = {"schema": schema, "specs": [{"spec-id": 0, **spec}], "properties": {}, "format": 3}
    indexed = IndexedFiles(fs.LocalFileSystem(), IcebergFormat(state), {}, 0)
    indexed.apply(change.entries(), ())
    update = deleting({DELETED: pa.scalar(True), SOURCE_TS: later}, None)
    updated = IcebergChange(writer, partitioning, columns=columns)
    updated.write(Patch(pa.table({}), {}, False, columns, update, 0), indexed.live)
    rows = pa.table({SOURCE_TS: pa.array([later.as_py()], later.type)})
    assert [tuple(entry["partition"]) for entry in updated.added] == [values for values, _ in partitioning.split(rows)]


@pytest.mark.parametrize(
    ("other", "feed"),
    [
        ("sluice:other:cluster:id:0:u", TopicPartition("u", 0)),
        ("sluice:a:b:t", TopicPartition("unknown topic of connector a:b", 0)),
    ],
    ids=["worker", "Spark"],
)
def test_a_table_with_rows_of_another_connector_refuses_a_truncate(tmp_path: Path, other: str, feed: TopicPartition) -> None:
    found = feeding_partitions({other: 7, "sluice:c:cluster:id:1:t": 0, "app": 3})
    assert found == {feed}
    world = World(tmp_path, BY_LOG)
    world.commit(Event("c", 1, 1, "a"))
    world.table.feeds = found
    with pytest.raises(DataError, match=rf"fed by several partitions: t-0, {feed}\."):
        world.commit(Event("t", None, 2))


def test_rows_that_a_truncate_updates_leave_the_partitions_of_an_older_spec(tmp_path: Path) -> None:
    columns = {"id": pa.int64(), DELETED: pa.bool_()}
    schema = new_schema(columns)
    older: dict[str, Any] = {"spec-id": 0, **new_spec([DELETED], schema, columns)}
    newer: dict[str, Any] = {"spec-id": 1, "fields": []}
    local, rows = fs.LocalFileSystem(), pa.table({"id": [1], DELETED: [False]})
    change = IcebergChange(IcebergFileWriter(local, str(tmp_path), schema, 0, 1000), Partitioning.read(older, schema), rows)
    change.write_rows()
    state = {"schema": schema, "specs": [older, newer], "properties": {}, "format": 3}
    indexed = IndexedFiles(local, IcebergFormat(state), {}, 0)
    indexed.apply(change.entries(), ())
    writer = IcebergFileWriter(local, str(tmp_path), schema, 1, 1000)
    updated = IcebergChange(writer, Partitioning.read(newer, schema), columns=columns)
    update = deleting({DELETED: pa.scalar(True)}, None)
    updated.write(Patch(pa.table({}), {}, False, columns, update, 0), indexed.live)
    assert [(entry["spec"], list(entry["partition"])) for entry in updated.added] == [(1, [])]


ALONE = {"hard": BY_LOG, "soft": SOFT_BY_LOG, "versions": VERSIONS, "by source": SETTINGS, "soft, by source": SOFT_SETTINGS}


@pytest.mark.parametrize("config", ALONE.values(), ids=ALONE)
@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("knows_keys", [True, False])
def test_a_truncate_without_columns_deletes_the_rows(
    config: TableConfig, lenient: bool, knows_keys: bool, tmp_path: Path
) -> None:  # fmt: skip
    """As JSON without a schema has it, in which nothing tells the type of the key."""
    world = World(tmp_path, replace(config, schema_evolution="lenient" if lenient else "add"))
    world.commit(Event("c", 1, 1, "a"), Event("c", 2, 2, "b"))
    if not knows_keys:
        world.restart()
    batch = world.partitions.batch([(Event("t", None, 3), 0)])
    world.writer.commit([replace(batch, image=empty_rows(1), keys=None, has_schema=False)], [])
    assert not [row for row in world.table.rows() if not row.get(DELETED) and row.get(CURRENT, True)]
    world.commit(Event("c", 3, 4, "c"))
    assert [row["id"] for row in world.table.rows() if not row.get(DELETED) and row.get(CURRENT, True)] == [3]


@pytest.mark.parametrize("config", ALONE.values(), ids=ALONE)
def test_a_truncate_is_left_alone_by_a_bad_record(config: TableConfig, tmp_path: Path) -> None:
    world = World(tmp_path, config)
    world.commit(Event("c", 1, 1, "a"))
    batch = replace(world.partitions.batch([(Event("c", None, 2, "b"), 0), (Event("t", None, 3), 0)]), has_schema=False)
    with pytest.raises(DataError, match="the record has no key"):
        world.writer.commit([batch], [])
    good, bad = world.writer.split_bad_records([batch], [])
    assert [one.offset for one in bad] == [1]
    world.writer.commit(good, [], {TopicPartition("t", 0): (1, 2)})
    assert not [row for row in world.table.rows() if not row.get(DELETED) and row.get(CURRENT, True)]


@pytest.mark.parametrize("config", ALONE.values(), ids=ALONE)
def test_a_truncate_creates_no_table(config: TableConfig, tmp_path: Path) -> None:
    world = World(tmp_path, replace(config, key_columns=("id",)))
    batch = world.partitions.batch([(Event("t", None, 1), 0)])
    world.writer.commit([replace(batch, image=empty_rows(1), keys=None, has_schema=False)], [])
    world.commit(Event("c", 1, 2, "a"))
    assert world.rows() == {1: "a"}
