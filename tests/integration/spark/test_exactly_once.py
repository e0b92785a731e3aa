"""Promise 6: a table commit carries its offsets, the table is the source of truth, and the group is repaired from it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from connect import crash_points
from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.connector import SparkSink
from connectors.spark.tables.delta import DeltaTable

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Crash(BaseException):
    """The process is gone."""


def fill(topic: Any, first: int, count: int, partition: int = 0) -> None:
    for i in range(first, first + count):
        value = {"before": None, "after": {"id": i, "v": f"v{i}"}, "source": {"ts_ms": i, "table": topic.name}, "op": "c"}
        topic.add(json.dumps({"id": i}).encode(), json.dumps(value).encode(), partition)


def crash_at(monkeypatch: pytest.MonkeyPatch, name: str, time: int) -> None:
    left = [time]

    def point(here: str) -> None:
        if here == name:
            left[0] -= 1
            if left[0] == 0:
                raise Crash

    monkeypatch.setattr(crash_points, "point", point)


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("point", ["spark.staged", "spark.committed"])
def test_after_a_crash_every_record_is_there_once(
    props: Any, run: Any, topic: Any, read: Any, monkeypatch: pytest.MonkeyPatch, point: str, mode: str
) -> None:
    one, two = topic("one", schemas=False), topic("two", schemas=False)
    group: dict[TopicPartition, int] = {}
    settings = {**props, "write.mode": mode}
    for t in (one, two):
        fill(t, 0, 30)
    life = run(settings, [one, two], raw=True, group=group)
    life.deliver()
    life.commit()
    for t in (one, two):
        fill(t, 30, 30)
    life.deliver()
    crash_at(monkeypatch, point, 1)  # after the first of two tables
    with pytest.raises(Crash):
        life.commit()
    assert group == {TopicPartition("one", 0): 30, TopicPartition("two", 0): 30}
    monkeypatch.undo()
    for t in (one, two):
        fill(t, 60, 10)
    again = run(settings, [one, two], raw=True, group=group)
    # The group is behind the table that had committed; the table says so.
    assert again.position[TopicPartition("one", 0)] == (60 if point == "spark.committed" else 30)
    again.deliver()
    again.close()
    for t in (one, two):
        assert Counter(r["id"] for r in read(t.name)) == Counter(range(70))
        assert group[TopicPartition(t.name, 0)] == 70
    assert not (Path(props["table.location"]) / ".sluice-staging").exists()


def test_a_crash_before_a_second_table_is_created_loses_no_rows(
    props: Any, run: Any, topic: Any, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = topic("mixed", schemas=False)
    for i in range(40):
        source = {"ts_ms": i, "table": "even" if i % 2 == 0 else "odd"}
        value = {"before": None, "after": {"id": i}, "source": source, "op": "c"}
        mixed.add(json.dumps({"id": i}).encode(), json.dumps(value).encode(), 0)
    settings = {**props, "table.name.format": "${table}"}
    group: dict[TopicPartition, int] = {}
    life = run(settings, [mixed], raw=True, group=group)
    life.deliver()
    crash_at(monkeypatch, "spark.committed", 1)
    with pytest.raises(Crash):
        life.commit()
    monkeypatch.undo()
    again = run(settings, [mixed], raw=True, group=group)
    again.deliver()
    again.close()
    for name, ids in (("even", range(0, 40, 2)), ("odd", range(1, 40, 2))):
        assert Counter(r["id"] for r in read(name)) == Counter(ids)


def test_the_group_is_repaired_when_it_lags_is_lost_or_runs_ahead(props: Any, run: Any, topic: Any, read: Any) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 20)
    life = run(props, [t], raw=True, group={})
    life.deliver()
    life.close()
    fill(t, 20, 5)
    for wrong in ({}, {TopicPartition("t", 0): 3}, {TopicPartition("t", 0): 24}):
        again = run(props, [t], raw=True, group=dict(wrong))
        assert again.position[TopicPartition("t", 0)] == 20
        again.task.close()
    last = run(props, [t], raw=True, group={TopicPartition("t", 0): 3})
    last.deliver()
    last.close()
    assert Counter(r["__offset"] for r in read("t")) == Counter(range(25))


def test_redelivered_records_are_skipped_and_other_writers_do_not_hide_the_offsets(
    props: Any, run: Any, topic: Any, read: Any
) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    settings = {**props, "table.name.format": "${table}"}  # names from the records: nothing moves the reader at start
    life = run(settings, [t], raw=True, group={})
    life.deliver()
    life.close()
    lease = session.lease(parse_config(props).spark)
    for _ in range(3):
        lease.session().sql(f"OPTIMIZE delta.`{props['table.location']}/t`")
        lease.session().sql(f"DELETE FROM delta.`{props['table.location']}/t` WHERE false")
    lease.release()
    fill(t, 10, 5)
    again = run(settings, [t], raw=True, group={})
    again.position = {TopicPartition("t", 0): 0}
    again.task._positions.clear()
    again.deliver()
    again.close()
    assert again.task.progress()["tables"]["t"]["skipped"] == 10
    assert Counter(r["__offset"] for r in read("t")) == Counter(range(15))


def test_two_tasks_that_both_own_a_partition_add_its_records_once(props: Any, run: Any, topic: Any, read: Any) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    one = run(props, [t], raw=True, group={})
    one.deliver()
    one.commit()
    fill(t, 10, 10)
    two = run(props, [t], raw=True, group={})  # the first was cut off and does not know it
    one.deliver()
    two.deliver()
    two.commit()
    one.commit()
    one.task.close()
    two.close()
    assert Counter(r["__offset"] for r in read("t")) == Counter(range(20))


def test_a_commit_with_a_used_sequence_number_fails(props: Any, run: Any, topic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 5)
    life = run(props, [t], raw=True, group={})
    life.deliver()
    monkeypatch.setattr(DeltaTable, "append_file", lambda *a, **k: None)
    with pytest.raises(RetriableError, match="committed first"):
        life.commit()
    monkeypatch.undo()
    life.close()


def test_append_keeps_deletes_and_tombstones_as_rows(props: Any, run: Any, topic: Any, read: Any) -> None:
    for raw in (True, False):
        t = topic(f"t{raw}", schemas=False)
        fill(t, 0, 2)
        removed = {"before": {"id": 1, "v": "old"}, "after": None, "source": {"ts_ms": 9, "table": "t"}, "op": "d"}
        t.add(b'{"id":1}', json.dumps(removed).encode())
        t.add(b'{"id":1}', None)
        life = run(props, [t], raw=raw, group={})
        life.deliver()
        life.close()
        got = [(r["__offset"], r["__op"], r["id"], r["v"]) for r in sorted(read(t.name), key=lambda r: r["__offset"])]
        assert got == [(0, "c", 0, "v0"), (1, "c", 1, "v1"), (2, "d", 1, "old"), (3, "tombstone", 1, None)]


def test_parquet_files_carry_their_offsets(props: Any, run: Any, topic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    settings = {**props, "table.format": "parquet"}
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    life = run(settings, [t], raw=True, group={})
    life.deliver()
    life.close()
    fill(t, 10, 10)
    for point in ("spark.staged", "spark.committed"):
        life = run(settings, [t], raw=True, group={})
        life.deliver()
        crash_at(monkeypatch, point, 1)
        with pytest.raises(Crash):
            life.commit()
        monkeypatch.undo()
        fill(t, len(t.logs[0]), 5)
    life = run(settings, [t], raw=True, group={})
    life.deliver()
    life.close()
    files = list((Path(props["table.location"]) / "t").glob("*.parquet"))
    offsets = [o for f in files for o in pq.read_table(f)["__offset"].to_pylist()]
    assert Counter(offsets) == Counter(range(30))


def test_offsets_changed_over_rest_apply(props: Any, run: Any, topic: Any, read: Any) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    group: dict[TopicPartition, int] = {}
    life = run(props, [t], raw=True, group=group)
    life.deliver()
    life.close()
    tp = TopicPartition("t", 0)
    assert SparkSink().alter_offsets(props, {tp: 7})
    again = run(props, [t], raw=True, group={tp: 7})
    assert again.position[tp] == 7
    again.deliver()
    again.close()
    assert Counter(r["__offset"] for r in read("t")) == Counter([*range(10), 7, 8, 9])
    assert SparkSink().alter_offsets(props, {tp: None})
    assert run(props, [t], raw=True, group={}).position[tp] == 0


def test_a_recreated_topic_is_not_skipped_silently(props: Any, run: Any, topic: Any) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 10)
    life = run(props, [t], raw=True, group={})
    life.deliver()
    life.close()
    anew = topic("t", schemas=False)
    fill(anew, 0, 3)
    with pytest.raises(ConnectError, match="was deleted and recreated"):
        run(props, [anew], raw=True, group={})


def test_records_of_lost_partitions_are_discarded(props: Any, run: Any, topic: Any, read: Any) -> None:
    t = topic("t", schemas=False)
    fill(t, 0, 5, partition=0)
    fill(t, 100, 5, partition=1)
    life = run(props, [t], raw=True, group={})
    life.deliver()
    life.task.close_partitions([TopicPartition("t", 1)], lost=True)
    life.close()
    assert Counter(r["id"] for r in read("t")) == Counter(range(5))


def test_topics_routed_into_one_table_keep_their_own_offsets(props: Any, run: Any, topic: Any, read: Any) -> None:
    one, two = topic("one", schemas=False), topic("two", schemas=False)
    fill(one, 0, 5)
    fill(two, 100, 8)
    for _ in range(2):  # the second time the group knows nothing, and the table knows all
        life = run(props, [one, two], raw=False, group={})
        put = life.task.put

        def routed(records: Any, put: Any = put) -> None:
            for record in records:
                record.topic = "both"
            put(records)

        life.task.put = routed
        life.deliver(3)
        life.commit()
        life.deliver()
        life.close()
    assert Counter(r["id"] for r in read("both")) == Counter([*range(5), *range(100, 108)])
