"""Promise 6: a table commit includes its offsets, which the task restores to the consumer group at its start."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from connect.errors import BadRequestError, ConnectError, RetriableError
from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.connector import SparkSink
from connectors.spark.delivery import commit_scheduler
from connectors.spark.delivery.sink_tables import SinkTables
from connectors.spark.tables.file_table import FileTable
from tests.integration.spark.change_events import fill
from tests.integration.spark.crashes import Crash, crash_at

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("point", ["spark.staged", "spark.committed"])
def test_tables_have_every_record_once_after_a_crash(
    props: Any, run: Any, topic: Any, read: Any, monkeypatch: pytest.MonkeyPatch, point: str, mode: str
) -> None:
    one, two = topic("one", schemas=False), topic("two", schemas=False)
    group: dict[TopicPartition, int] = {}
    settings = {**props, "write.mode": mode}
    monkeypatch.setattr(commit_scheduler, "MAX_THREADS", 1)  # the second table's commit does not start before the crash
    for t in (one, two):
        fill(t, 0, 30)
    task_run = run(settings, [one, two], raw=True, group=group)
    task_run.deliver()
    task_run.commit()
    for t in (one, two):
        fill(t, 30, 30)
    task_run.deliver()
    crash_at(monkeypatch, point, 1)  # after the first of two tables
    with pytest.raises(Crash):
        task_run.commit()
    assert group == {TopicPartition("one", 0): 30, TopicPartition("two", 0): 30}
    monkeypatch.undo()
    for t in (one, two):
        fill(t, 60, 10)
    restarted = run(settings, [one, two], raw=True, group=group)
    # The table that committed is ahead of the group, and its offsets win.
    assert restarted.position[TopicPartition("one", 0)] == (60 if point == "spark.committed" else 30)
    restarted.deliver()
    restarted.close()
    for t in (one, two):
        assert Counter(r["id"] for r in read(t.name)) == Counter(range(70))
        assert group[TopicPartition(t.name, 0)] == 70
    assert not (Path(props["table.location"]) / ".sluice-staging").exists()


def test_crash_before_a_second_table_is_created_loses_no_rows(
    props: Any, run: Any, topic: Any, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = topic("mixed", schemas=False)
    for i in range(40):
        source = {"ts_ms": i, "table": "even" if i % 2 == 0 else "odd"}
        value = {"before": None, "after": {"id": i}, "source": source, "op": "c"}
        mixed.add(json.dumps({"id": i}).encode(), json.dumps(value).encode(), 0)
    settings = {**props, "table.name.format": "${table}"}
    monkeypatch.setattr(commit_scheduler, "MAX_THREADS", 1)
    group: dict[TopicPartition, int] = {}
    task_run = run(settings, [mixed], raw=True, group=group)
    task_run.deliver()
    crash_at(monkeypatch, "spark.committed", 1)
    with pytest.raises(Crash):
        task_run.commit()
    monkeypatch.undo()
    restarted = run(settings, [mixed], raw=True, group=group)
    restarted.deliver()
    restarted.close()
    for name, ids in (("even", range(0, 40, 2)), ("odd", range(1, 40, 2))):
        assert Counter(r["id"] for r in read(name)) == Counter(ids)


def test_missing_or_wrong_group_offsets_are_corrected_from_the_table(props: Any, run: Any, topic: Any, read: Any) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 20)
    task_run = run(props, [t], raw=True, group={})
    task_run.deliver()
    task_run.close()
    fill(t, 20, 5)
    for wrong in ({}, {TopicPartition("t", 0): 3}, {TopicPartition("t", 0): 24}):
        restarted = run(props, [t], raw=True, group=dict(wrong))
        assert restarted.position[TopicPartition("t", 0)] == 20
        restarted.task.close()
    last = run(props, [t], raw=True, group={TopicPartition("t", 0): 3})
    last.deliver()
    last.close()
    assert Counter(r["__offset"] for r in read("t")) == Counter(range(25))


def test_redelivered_records_are_skipped_and_other_writers_do_not_hide_the_offsets(
    props: Any, run: Any, topic: Any, read: Any
) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    settings = {**props, "table.name.format": "${table}"}  # table names come from the records, so the start seeks no partition
    task_run = run(settings, [t], raw=True, group={})
    task_run.deliver()
    task_run.close()
    lease = session.lease(parse_config(props).spark)
    for _ in range(3):
        lease.session().sql(f"OPTIMIZE delta.`{props['table.location']}/t`")
        lease.session().sql(f"DELETE FROM delta.`{props['table.location']}/t` WHERE false")
    lease.release()
    fill(t, 10, 5)
    restarted = run(settings, [t], raw=True, group={})
    restarted.position = {TopicPartition("t", 0): 0}
    restarted.task.sink._offsets.forget(list(restarted.position))
    restarted.deliver()
    restarted.close()
    assert restarted.task.progress()["tables"]["t"]["skipped"] == 10
    assert Counter(r["__offset"] for r in read("t")) == Counter(range(15))


def test_two_tasks_with_the_same_partition_add_its_records_once(props: Any, run: Any, topic: Any, read: Any) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    one = run(props, [t], raw=True, group={})
    one.deliver()
    one.commit()
    fill(t, 10, 10)
    two = run(props, [t], raw=True, group={})  # the first has lost the partition without noticing
    one.deliver()
    two.deliver()
    two.commit()
    one.commit()
    one.task.close()
    two.close()
    assert Counter(r["__offset"] for r in read("t")) == Counter(range(20))


def test_commit_with_a_used_sequence_number_fails(props: Any, run: Any, topic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 5)
    task_run = run(props, [t], raw=True, group={})
    task_run.deliver()
    monkeypatch.setattr(FileTable, "append", lambda *a, **k: None)
    with pytest.raises(RetriableError, match="committed first"):
        task_run.commit()
    monkeypatch.undo()
    task_run.close()


def test_append_writes_deletes_and_tombstones_as_rows(props: Any, run: Any, topic: Any, read: Any) -> None:
    for raw in (True, False):
        t = topic(f"t{raw}", schemas=False)
        fill(t, 0, 2)
        removed = {"before": {"id": 1, "v": "old"}, "after": None, "source": {"ts_ms": 9, "table": "t"}, "op": "d"}
        t.add(b'{"id":1}', json.dumps(removed).encode())
        t.add(b'{"id":1}', None)
        task_run = run(props, [t], raw=raw, group={})
        task_run.deliver()
        task_run.close()
        got = [(r["__offset"], r["__op"], r["id"], r["v"]) for r in sorted(read(t.name), key=lambda r: r["__offset"])]
        assert got == [(0, "c", 0, "v0"), (1, "c", 1, "v1"), (2, "d", 1, "old"), (3, "tombstone", 1, None)]


def test_parquet_files_contain_their_offsets(props: Any, run: Any, topic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    settings = {**props, "table.format": "parquet"}
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    task_run = run(settings, [t], raw=True, group={})
    task_run.deliver()
    task_run.close()
    fill(t, 10, 10)
    for point in ("spark.staged", "spark.committed"):
        task_run = run(settings, [t], raw=True, group={})
        task_run.deliver()
        crash_at(monkeypatch, point, 1)
        with pytest.raises(Crash):
            task_run.commit()
        monkeypatch.undo()
        fill(t, len(t.logs[0]), 5)
    task_run = run(settings, [t], raw=True, group={})
    task_run.deliver()
    task_run.close()
    files = list((Path(props["table.location"]) / "t").glob("*.parquet"))
    offsets = [o for f in files for o in pq.read_table(f)["__offset"].to_pylist()]
    assert Counter(offsets) == Counter(range(30))
    lease = session.lease(parse_config(props).spark)
    rows = lease.session().read.parquet(f"{props['table.location']}/t").toArrow()
    lease.release()
    assert sorted(rows["__offset"].to_pylist()) == list(range(30)), "Spark sees each record once"


def test_offsets_changed_over_rest_apply(props: Any, run: Any, topic: Any, read: Any) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    group: dict[TopicPartition, int] = {}
    task_run = run(props, [t], raw=True, group=group)
    task_run.deliver()
    task_run.close()
    tp = TopicPartition("t", 0)
    with pytest.raises(BadRequestError, match=r"records of t-0 up to offset 10.*append\.replay=repeat"):
        SparkSink().alter_offsets(props, {tp: 7})
    repeating = {**props, "append.replay": "repeat"}
    assert SparkSink().alter_offsets(repeating, {tp: 7})
    restarted = run(props, [t], raw=True, group={tp: 7})
    assert restarted.position[tp] == 7
    restarted.deliver()
    restarted.close()
    assert Counter(r["__offset"] for r in read("t")) == Counter([*range(10), 7, 8, 9])
    assert SparkSink().alter_offsets(repeating, {tp: None})
    assert run(props, [t], raw=True, group={}).position[tp] == 0


def test_records_that_another_task_writes_meanwhile_are_no_recreated_topic(
    props: Any, run: Any, topic: Any, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    owner = run(props, [t], raw=True, group={})
    owner.deliver()
    owner.commit()
    load = SinkTables.load

    def load_later(self: SinkTables, *arguments: Any) -> Any:
        if len(t.logs[0]) == 10:
            fill(t, 10, 10)
            owner.deliver()
            owner.commit()
        return load(self, *arguments)

    monkeypatch.setattr(SinkTables, "load", load_later)
    late = run(props, [t], raw=True, group={})
    assert late.position[TopicPartition("t", 0)] == 20
    late.close()
    owner.close()
    assert sorted(r["__offset"] for r in read("t")) == list(range(20))


def test_recreated_topic_is_rejected(props: Any, run: Any, topic: Any, read: Any) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    task_run = run(props, [t], raw=True, group={})
    task_run.deliver()
    task_run.close()
    recreated = topic("t", schemas=False)
    recreated.id = "another"
    fill(recreated, 0, 30)  # it has grown beyond the old one
    with pytest.raises(ConnectError, match=r"topic that was recreated .*DELETE /connectors"):
        run(props, [recreated], raw=True, group={})
    SparkSink().alter_offsets({**props, "append.replay": "repeat"}, {TopicPartition("t", 0): None})
    restarted = run(props, [recreated], raw=True, group={})
    restarted.deliver()
    restarted.close()
    assert Counter(r["__offset"] for r in read("t")) == Counter([*range(10), *range(30)])


def test_records_of_lost_partitions_are_discarded(props: Any, run: Any, topic: Any, read: Any) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 5, partition=0)
    fill(t, 100, 5, partition=1)
    task_run = run(props, [t], raw=True, group={})
    task_run.deliver()
    task_run.task.close_partitions([TopicPartition("t", 1)], lost=True)
    task_run.close()
    assert Counter(r["id"] for r in read("t")) == Counter(range(5))


def test_topics_routed_into_one_table_have_separate_offsets(props: Any, run: Any, topic: Any, read: Any) -> None:
    one, two = topic("one", schemas=False), topic("two", schemas=False)
    fill(one, 0, 5)
    fill(two, 100, 8)
    for _ in range(2):  # the second run has no group offsets, only those of the table
        task_run = run(props, [one, two], raw=False, group={})
        put = task_run.task.put

        def routed(records: Any, put: Any = put) -> None:
            for record in records:
                record.topic = "both"
            put(records)

        task_run.task.put = routed
        task_run.deliver(3)
        task_run.commit()
        task_run.deliver()
        task_run.close()
    assert Counter(r["id"] for r in read("both")) == Counter([*range(5), *range(100, 108)])
