"""The whole task over tables in memory: freshness, back-pressure, and the offsets that the worker gets."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from connect.converters.json.converter import JsonConverter
from connect.errors import ConnectError, RetriableError
from connect.record import RawBatch, TopicPartition
from connect.sink import TopicIdentity
from connect.testing import ManualClock
from connect.testing.harness import MemoryReporter, SinkContext
from connectors.spark import task as spark_task
from connectors.spark.delivery import sink_tables
from connectors.spark.tables.table import TableState
from connectors.spark.task import SparkSinkTask
from tests.support.waiting import WAIT_S
from tests.unit.connectors.spark.delivery.fakes import FakeTables

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Sink:
    """A task with a manual clock, whose tables are in memory."""

    def __init__(self, folder: Path, tables: FakeTables, clock: ManualClock, *, reporter: Any = None, **more: str) -> None:
        self.tables, self.clock = tables, clock
        key, value = JsonConverter(), JsonConverter()
        for converter, is_key in ((key, True), (value, False)):
            converter.configure({"schemas.enable": "false"}, is_key)
        config = {
            "name": "lake",
            "topics.regex": ".*",
            "table.format": "parquet",
            "table.location": str(folder),
            "errors.tolerance": "all",
            **{name.replace("_", "."): text for name, text in more.items()},
        }
        self.context = SinkContext(config, key, value, raw_allowed=True, reporter=reporter)
        self.task = SparkSinkTask()
        self.task.initialize(self.context)
        self.task.start(config)
        self.open(P0)
        self.ends: dict[TopicPartition, int] = {}

    def open(self, *partitions: TopicPartition) -> None:
        self.context.assigned |= set(partitions)
        self.task.open(partitions)

    def put(self, *offsets: int, topic: str = "t", partition: int = 0, **source: str) -> None:
        """Puts records at these offsets: plain ones, or events of the source's table."""
        event = {"op": "c", "source": source} if source else {}
        values = [json.dumps({**event, "after": {"id": o}} if source else {"id": o}).encode() for o in offsets]
        self.put_values(offsets, values, topic, partition)

    def put_values(self, offsets: Any, values: Sequence[bytes | None], topic: str = "t", partition: int = 0) -> None:
        self.context.requested_timeout_ms = None
        keys: list[bytes | None] = [b'{"id":1}'] * len(values)
        batch = RawBatch(topic, partition, list(offsets), keys, list(values), [0] * len(values))
        self.task.put_raw([batch] if offsets else [])
        if offsets:
            self.ends[TopicPartition(topic, partition)] = offsets[-1] + 1

    def settle(self) -> None:
        """Collects all commits that were started."""
        self.task.sink._scheduler.wait_for([table.name for table in self.task.sink.tables.queues()])
        self.put()

    def hear_topic_ids(self) -> None:
        """Takes the answer to a question for the topics' IDs, if one was asked."""
        if (thread := self.task._watch._thread) is not None:
            thread.join(WAIT_S)
        self.put()

    def timeout_ms(self) -> int | None:
        """When the task wants the next put."""
        return self.context.requested_timeout_ms

    def has_requested_commit(self) -> bool:
        """Whether the task requested a commit of its offsets since the last call."""
        requested, self.context.commit_requested = self.context.commit_requested, False
        return requested

    def pre_commit(self) -> dict[TopicPartition, int]:
        return self.task.pre_commit(dict(self.ends))


@pytest.fixture
def create(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Sink]]:
    tables, clock = FakeTables(), ManualClock()
    monkeypatch.setattr(sink_tables, "make_writer", lambda config, name, *more: tables.open(name))
    monkeypatch.setattr(spark_task, "time", SimpleNamespace(monotonic=clock.monotonic))
    monkeypatch.setattr(spark_task, "_ROOM_WAIT_S", 0.0)
    sinks: list[Sink] = []

    def new(**more: Any) -> Sink:
        sinks.append(Sink(tmp_path, tables, clock, **more))
        return sinks[-1]

    yield new
    for writer in tables.writers.values():
        writer.gate.set()
    for sink in sinks:
        sink.task.close()


def test_commits_start_in_time_for_the_freshness_of_each_table(create: Callable[..., Sink]) -> None:
    sink = create(freshness_quick_ms="200")
    sink.open(TopicPartition("quick", 0))
    sink.put(0)
    sink.put(0, topic="quick")
    assert sink.timeout_ms() == 100  # half of the target: how long a commit takes is not known yet
    sink.clock.advance(0.1)
    sink.put()
    sink.settle()
    assert (sink.tables["quick"].commits, sink.tables["t"].commits) == ([[0]], [])
    assert sink.timeout_ms() == 400
    sink.clock.advance(0.4)
    sink.put()
    sink.settle()
    assert sink.tables["t"].commits == [[0]]
    assert sink.timeout_ms() == 600  # only the next request to commit the group's offsets
    sink.clock.advance(0.6)
    sink.put()
    assert sink.timeout_ms() == 3900  # only the next question for the topics' IDs
    sink.clock.advance(3.9)
    sink.put()
    sink.hear_topic_ids()
    assert sink.timeout_ms() is None
    progress = sink.task.progress()
    assert progress["tables"]["t"]["oldest_ms"] == {"p50": 500, "p99": 500}
    assert progress["tables"]["t"]["pending"] == progress["buffered"] == 0


def test_an_interval_replaces_the_freshness(create: Callable[..., Sink]) -> None:
    sink = create(commit_interval_ms="5000")
    sink.put(0)
    assert sink.timeout_ms() == 5000
    sink.clock.advance(4.5)
    sink.put(1)
    assert sink.task.sink._scheduler.records == 0  # not even decoded
    assert sink.task.progress()["tables"]["t"]["pending"] == 2
    sink.clock.advance(0.5)
    sink.put(2)
    sink.settle()
    assert sink.tables["t"].commits == [[0, 1, 2]]


def test_transaction_markers_and_other_gaps_delay_nothing(create: Callable[..., Sink]) -> None:
    sink = create(commit_interval_ms="1000")
    sink.context.ends = {P0: 100}  # markers, which nobody gets
    sink.put(0, 1)
    sink.clock.advance(1)
    sink.put()
    sink.settle()
    assert sink.tables["t"].commits == [[0, 1]]
    assert sink.pre_commit() == {P0: 2}


def test_offsets_of_records_that_the_worker_left_out_are_committed(create: Callable[..., Sink]) -> None:
    sink = create(commit_interval_ms="1000")
    assert sink.task.pre_commit({P0: 7}) == {P0: 7}  # a filter has left out all of them
    sink.put(7, 8)
    assert sink.task.pre_commit({P0: 12}) == {P0: 7}
    sink.clock.advance(1)
    sink.put()
    sink.settle()
    assert sink.task.pre_commit({P0: 12}) == {P0: 12}


def test_records_are_received_while_a_table_is_committed(create: Callable[..., Sink]) -> None:
    sink = create(commit_interval_ms="1000")
    sink.tables["t"].gate.clear()
    sink.put(0, 1)
    sink.clock.advance(1)
    sink.put(2)
    sink.tables["t"].wait_until_committing()
    sink.put(3)
    assert sink.pre_commit() == {P0: 0}
    assert sink.task.lag() == {P0: 4}
    assert sink.task.progress()["tables"]["t"]["pending"] == 4
    sink.tables["t"].gate.set()
    sink.settle()
    assert sink.has_requested_commit()
    assert sink.pre_commit() == {P0: 3}
    sink.clock.advance(1)
    sink.put()
    sink.settle()
    assert sink.tables["t"].commits == [[0, 1, 2], [3]]


def test_a_full_buffer_pauses_consumption_until_commits_have_freed_half_of_it(create: Callable[..., Sink]) -> None:
    sink = create(commit_max_records="10", commit_interval_ms="60000")
    sink.tables["t"].gate.clear()
    sink.put(*range(4))
    assert sink.task.sink.tables.queue("t").running is None
    sink.put(4)  # half of the buffer: the commit starts early
    sink.tables["t"].wait_until_committing()
    sink.put(*range(5, 9))
    assert sink.context.paused == set()
    sink.put(9)
    assert sink.context.paused == {P0}
    assert sink.timeout_ms() == 50
    other = TopicPartition("u", 0)
    sink.open(other)
    assert sink.context.paused == {P0, other}
    sink.put()
    assert sink.task.sink._scheduler.records == 10
    sink.tables["t"].gate.set()
    sink.settle()
    sink.settle()
    assert sink.context.paused == set()
    assert [offset for commit in sink.tables["t"].commits for offset in commit] == list(range(10))
    assert all(len(commit) <= 10 for commit in sink.tables["t"].commits)


def test_bytes_limit_the_buffer_too(create: Callable[..., Sink]) -> None:
    sink = create(commit_max_bytes=str(1 << 20), commit_interval_ms="60000")
    sink.tables["t"].gate.clear()
    sink.put_values([0], [json.dumps({"v": "x" * (600 << 10)}).encode()])
    sink.tables["t"].wait_until_committing()
    sink.put_values([1], [json.dumps({"v": "x" * (600 << 10)}).encode()])
    assert sink.context.paused == {P0}


def test_offsets_are_requested_once_a_second_at_most(create: Callable[..., Sink]) -> None:
    sink = create(commit_interval_ms="0")
    sink.put(0)
    sink.settle()
    assert sink.has_requested_commit()
    sink.put(1)
    sink.settle()
    assert not sink.has_requested_commit()
    assert sink.timeout_ms() == 1000
    sink.clock.advance(1)
    sink.put()
    assert sink.has_requested_commit()
    assert sink.pre_commit() == {P0: 2}


def test_a_paused_connector_commits_all_at_the_second_periodic_call(create: Callable[..., Sink]) -> None:
    sink = create(commit_interval_ms="60000")
    sink.put(0, 1)
    assert sink.pre_commit() == {P0: 0}
    assert sink.pre_commit() == {P0: 2}


def test_a_stopping_task_commits_all_before_it_returns_its_offsets(create: Callable[..., Sink]) -> None:
    sink = create(commit_interval_ms="60000")
    sink.put(0, 1)
    sink.task.stop()
    assert sink.pre_commit() == {P0: 2}
    assert sink.tables["t"].commits == [[0, 1]]


def test_revoked_partitions_are_committed_and_lost_ones_discarded(create: Callable[..., Sink]) -> None:
    sink = create(commit_interval_ms="60000")
    sink.open(P1)
    sink.put(0, 1)
    sink.put(0, partition=1)
    sink.task.close_partitions([P1], lost=True)
    sink.task.close_partitions([P0])
    assert sink.tables["t"].commits == [[0, 1]]
    assert sink.task.lag() == {}


def test_a_busy_table_is_tried_again_before_its_partitions_are_closed(create: Callable[..., Sink]) -> None:
    sink = create(commit_interval_ms="60000")
    sink.tables["t"].errors = [RetriableError("other tasks committed first")]
    sink.put(0, 1)
    sink.task.close_partitions([P0])
    assert sink.tables["t"].commits == [[0, 1]]


def test_records_that_cannot_be_committed_before_a_rebalance_are_left_to_the_next_owner(
    create: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spark_task, "_CLOSE_RETRY_MAX_S", 0.0)
    sink = create(commit_interval_ms="60000")
    sink.tables["t"].errors = [RetriableError("busy")] * 6
    sink.put(0, 1)
    sink.task.close_partitions([P0])
    assert "will be read again" in caplog.text
    assert sink.tables["t"].commits == []
    sink.open(P0)
    sink.put(0, 1)
    sink.task.flush({})
    assert sink.tables["t"].commits == [[0, 1]]


def test_an_error_of_a_commit_fails_the_task_also_if_pre_commit_collects_it(create: Callable[..., Sink]) -> None:
    sink = create(commit_interval_ms="60000")
    sink.tables["t"].errors = [ConnectError("table dropped")]
    sink.put(0)
    sink.task.stop()
    with pytest.raises(ConnectError, match="table dropped"):
        sink.pre_commit()
    with pytest.raises(ConnectError, match="table dropped"):
        sink.put()


def test_a_table_that_cannot_be_written_now_does_not_rewind_the_consumer(create: Callable[..., Sink]) -> None:
    sink = create(commit_interval_ms="60000")
    sink.open(TopicPartition("u", 0))
    sink.tables["t"].errors = [RetriableError("busy")]
    sink.put(0)
    sink.put(0, topic="u")
    sink.task.stop()
    assert sink.pre_commit() == {P0: 0, TopicPartition("u", 0): 1}
    assert sink.pre_commit() == {P0: 1, TopicPartition("u", 0): 1}


def test_redelivered_records_are_taken_once(create: Callable[..., Sink]) -> None:
    sink = create(commit_interval_ms="60000")
    sink.put(0, 1, 2)
    sink.put(1, 2, 3)
    sink.put(0, 1)
    sink.task.flush({})
    assert sink.tables["t"].commits == [[0, 1, 2, 3]]


def test_partitions_continue_from_the_offsets_of_their_table(create: Callable[..., Sink]) -> None:
    sink = create()
    sink.tables["u"].ends = {TopicPartition("u", 0): 7}
    sink.open(TopicPartition("u", 0))
    assert sink.context.requested_offsets == {TopicPartition("u", 0): 7}
    sink.ends[TopicPartition("u", 0)] = 7
    assert sink.pre_commit()[TopicPartition("u", 0)] == 7


def test_quiet_tables_of_a_topic_whose_old_records_are_gone_are_no_gap(create: Callable[..., Sink]) -> None:
    sink = create(table_name_format="${table}", commit_interval_ms="0")
    topic = TopicPartition("shop", 0)
    sink.open(topic)
    sink.put(0, topic="shop", table="b")
    sink.put(*range(1, 10), topic="shop", table="a")
    sink.settle()
    sink.tables["a"].ends, sink.tables["b"].ends = {topic: 10}, {topic: 1}
    sink.task.close_partitions([topic])
    sink.context.beginnings, sink.context.ends = {topic: 8}, {topic: 12}
    sink.context.group = {topic: 10}
    sink.open(topic)
    sink.context.group = {topic: 7}
    with pytest.raises(ConnectError, match=r"table b holds shop-0 up to offset 7, but the topic begins at 8"):
        sink.open(topic)
    sink.context.group = {}
    with pytest.raises(ConnectError, match=r"table b holds shop-0 up to offset 1, but the topic begins at 8.*deleted 7 records"):
        sink.open(topic)


def test_topic_whose_last_records_had_no_rows_continues_where_its_log_begins(create: Callable[..., Sink]) -> None:
    sink = create()
    topic = TopicPartition("u", 0)
    sink.tables["u"].ends = {topic: 3}
    sink.context.beginnings, sink.context.ends, sink.context.group = {topic: 9}, {topic: 9}, {topic: 9}
    sink.open(topic)
    assert sink.context.requested_offsets == {topic: 9}
    sink.ends[topic] = 9
    assert sink.pre_commit()[topic] == 9


def test_tombstones_of_routed_topics_are_counted_and_delete_nothing(create: Callable[..., Sink]) -> None:
    sink = create(table_name_format="${table}", commit_interval_ms="60000")
    sink.put_values([0, 1], [None, None])
    sink.task.flush({})
    assert sink.pre_commit() == {P0: 2}
    assert sink.task.progress()["ignored_tombstones"] == 2
    sink.put(2, table="a")
    sink.put_values([3], [None])
    sink.task.flush({})
    assert {name: writer.commits for name, writer in sink.tables.writers.items()} == {"a": [[2, 3]]}  # an offset without a row
    assert sink.pre_commit() == {P0: 4}


def test_one_slow_table_of_a_topic_holds_back_its_partition_and_no_other(create: Callable[..., Sink]) -> None:
    sink = create(table_name_format="${table}", commit_interval_ms="1000")
    sink.open(P1)
    sink.tables["slow"].gate.clear()
    sink.put(0, table="slow")
    sink.put(1, table="fast")
    sink.put(0, partition=1, table="fast")
    sink.clock.advance(1)
    sink.put()
    sink.tables["slow"].wait_until_committing()
    assert sink.task.sink.collect(10)
    assert sink.pre_commit() == {P0: 0, P1: 1}


def test_records_kept_for_reports_are_released_partition_by_partition(create: Callable[..., Sink]) -> None:
    sink = create(reporter=MemoryReporter(), table_name_format="${table}", commit_interval_ms="1000")
    sink.open(P1)
    sink.tables["slow"].gate.clear()
    sink.put(0, table="slow")
    sink.put(0, 1, partition=1, table="fast")
    kept = sink.task.sink._errant_records.kept_bytes
    sink.clock.advance(1)
    sink.put()
    sink.tables["slow"].wait_until_committing()
    assert sink.task.sink.collect(10)
    sink.put()
    left = sink.task.sink._errant_records.kept_bytes
    assert 0 < left < kept
    sink.tables["slow"].gate.set()
    sink.settle()
    assert sink.task.sink._errant_records.kept_bytes == 0


def raw(*offsets: int) -> list[RawBatch]:
    values: list[bytes | None] = [json.dumps({"id": o}).encode() for o in offsets]
    keys: list[bytes | None] = [None] * len(values)
    return [RawBatch("t", 0, list(offsets), keys, values, [0] * len(values))]


def test_a_task_that_retention_overtook_stops_as_it_does_at_its_start(create: Callable[..., Sink]) -> None:
    sink = create()
    assert not sink.task.allows_offset_resets
    sink.put(*range(100))
    sink.context.beginnings[P0], sink.context.ends[P0] = 600, 1000
    words = r"t-0 up to offset 100, but the topic begins at 600: retention deleted 500 records .*PATCH /connectors/<name>/offsets"
    with pytest.raises(ConnectError, match=f"^the connector has read {words}"):
        sink.task.explain_missing_offset(P0, 100)
    sink.tables["t"].ends = {P0: 100}
    restarted = create()
    restarted.context.beginnings, restarted.context.ends = sink.context.beginnings, sink.context.ends
    with pytest.raises(ConnectError, match=f"^table t holds {words}"):
        restarted.open(P0)


def test_a_task_whose_topic_was_recreated_stops(create: Callable[..., Sink]) -> None:
    sink = create()
    sink.put(*range(100))
    sink.context.beginnings[P0], sink.context.ends[P0] = 0, 30
    with pytest.raises(
        ConnectError, match=r"t-0 up to offset 100, but the topic ends at 30: the topic was deleted and recreated"
    ):
        sink.task.explain_missing_offset(P0, 100)
    sink.context.ends[P0] = 300  # it has grown beyond the old one
    sink.context.identities["t"] = TopicIdentity("memory", "another")
    with pytest.raises(ConnectError, match=r"read t-0 up to offset 100 from a topic that was recreated"):
        sink.task.explain_missing_offset(P0, 100)


def test_a_topic_that_was_recreated_and_outgrew_the_old_one_stops_the_task(create: Callable[..., Sink]) -> None:
    sink = create()
    sink.put(*range(100))
    sink.context.identities["t"] = TopicIdentity("memory", "another")
    sink.put(*range(100, 200))
    sink.clock.advance(5)
    sink.put()
    with pytest.raises(ConnectError, match=r"read t-0 up to offset 200 from a topic that was recreated"):
        sink.hear_topic_ids()


def test_gaps_and_records_that_come_again_stop_nothing(create: Callable[..., Sink]) -> None:
    sink = create()
    sink.put(0, 1, 5)
    sink.put(0, 1, 5, 9)  # compaction or transactions left gaps; a redelivered batch has new records
    sink.put(1, 5)
    sink.task.put_raw(raw(9, 12))
    sink.task.sink.flush()
    assert [o for commit in sink.tables["t"].commits for o in commit] == [0, 1, 5, 9, 12]


def test_table_that_does_not_exist_although_its_topic_was_read_is_told_of(
    create: Callable[..., Sink], caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody has removed it while the connector was stopped."""
    sink = create()
    assert "does not exist" not in caplog.text, "no record was read before"
    sink.context.group = {P1: 7}
    sink.context.beginnings = {P1: 7}
    sink.open(P1)
    assert "does not exist" not in caplog.text, "the topic has no record before"
    sink.context.beginnings = {}
    sink.open(P1)
    assert "Table t does not exist, and the consumer group has read its topics: it will have t-1 from offset 7." in caplog.text
    caplog.clear()
    sink.tables["t"].known = {"id": pa.int64()}
    sink.open(P1)
    assert not caplog.text


@pytest.mark.parametrize("failures", [2, 9])
def test_tables_that_cannot_be_read_for_a_moment_are_read_again_when_partitions_come(
    create: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """Spark's JVM may have ended in this moment."""
    monkeypatch.setattr(spark_task, "_OPEN_RETRY_MAX_S", 0.0)
    sink = create()
    read, errors = sink.tables["t"].committed_offsets, [RetriableError("Spark's JVM has ended")] * failures

    def fail_at_first(partitions: Collection[TopicPartition]) -> TableState:
        if errors:
            raise errors.pop()
        return read(partitions)

    monkeypatch.setattr(sink.tables["t"], "committed_offsets", fail_at_first)
    if failures > 5:
        with pytest.raises(RetriableError, match="JVM has ended"):
            sink.open(P1)
        return
    sink.tables["t"].ends = {P1: 7}
    sink.open(P1)
    assert sink.context.requested_offsets[P1] == 7
