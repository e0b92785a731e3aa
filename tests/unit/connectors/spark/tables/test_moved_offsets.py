"""Offsets that are moved over REST: tasks that still run do not undo that, and topics that have gone stay out of the way."""

from __future__ import annotations

import pytest

from connect.errors import ConnectError
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.config import parse_config
from connectors.spark.tables import move_offsets
from connectors.spark.tables.writer import TableWriter
from tests.support.lake.calls import Calls
from tests.support.lake.delta import DeltaLake
from tests.support.lake.iceberg import IcebergLake
from tests.support.lake.lakes import Lake
from tests.support.lake.model import TOPIC, Topic, settings_of

PARTITION = TopicPartition(TOPIC, 0)
RECORDS = Topic("c1 c2 c3 c4 c5 c6")
SETTINGS = settings_of("upsert")


@pytest.fixture(params=[DeltaLake, IcebergLake])
def lake(request: pytest.FixtureRequest) -> Lake:
    made: Lake = request.param("upsert")
    return made


def start(lake: Lake) -> TableWriter:
    writer = TableWriter("t", SETTINGS, lake.open(SETTINGS, Calls()))
    writer.committed_offsets([PARTITION])
    return writer


@pytest.mark.parametrize("offset", [None, 1])
def test_a_task_that_was_frozen_does_not_undo_moved_offsets(lake: Lake, offset: int | None) -> None:
    frozen = start(lake)
    frozen.commit([RECORDS.batch(PARTITION, 0, 3, 0)], [PARTITION])
    lake.open(SETTINGS, Calls()).move_offsets({PARTITION: offset})
    with pytest.raises(ConnectError, match=r"the offset of topic-0 was 3 and is (gone|1) now"):
        frozen.commit([RECORDS.batch(PARTITION, 3, 5, 3)], [PARTITION])
    assert start(lake).committed_offsets([PARTITION]).ends == ({} if offset is None else {PARTITION: offset})
    start(lake).commit([RECORDS.batch(PARTITION, offset or 0, 6, 0)], [PARTITION])
    assert {row[0] for row in lake.rows(lake.newest)} == {1, 2, 3, 4, 5, 6}


def test_an_offset_of_a_new_topic_can_be_set(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    start(lake).commit([RECORDS.batch(PARTITION, 0, 3, 0)], [PARTITION])

    def open_after() -> TableWriter:
        table = lake.open(SETTINGS, Calls())
        monkeypatch.setattr(table, "_identify", lambda topic: TopicIdentity("cluster", "new"))
        return TableWriter("t", SETTINGS, table)

    with pytest.raises(ConnectError, match="a topic that was recreated"):
        open_after().committed_offsets([PARTITION])
    for offset in (None, 2):  # deleted: the topic is accepted; and set at once
        open_after()._table.move_offsets({PARTITION: offset})
        assert open_after().committed_offsets([PARTITION]).ends == ({} if offset is None else {PARTITION: offset})
    open_after().commit([RECORDS.batch(PARTITION, 2, 5, 0)], [PARTITION])
    open_after()._table.move_offsets({PARTITION: 4})
    assert open_after().committed_offsets([PARTITION]).ends == {PARTITION: 4}


@pytest.mark.parametrize("reset", [False, True])
def test_a_reset_deletes_the_offsets_of_partitions_that_a_recreated_topic_lacks(
    lake: Lake, reset: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, records = TopicPartition(TOPIC, 1), Topic("c1 c2 c3 | c4 c5")
    writer = TableWriter("t", SETTINGS, lake.open(SETTINGS, Calls()))
    writer.commit([records.batch(PARTITION, 0, 3, 0), records.batch(other, 0, 2, 3)], [PARTITION, other])
    monkeypatch.setattr(move_offsets, "find_own_tables", lambda *_: ["t"])
    monkeypatch.setattr(move_offsets, "open_table", lambda *_: lake.open(SETTINGS, Calls()))
    config = parse_config({"name": "c", "topics": TOPIC, "write.mode": "upsert", "table.location": "lake"})
    move_offsets.move_offsets(config, None, {PARTITION: None}, reset=reset)
    assert lake.open(SETTINGS, Calls()).stored_ends() == ({} if reset else {other: 2})
