"""Sink tasks against a real broker: delivery, commits, redelivery, rewinding, rebalances."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from connect import RetriableError, SinkRecord, TopicPartition
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.worker.conftest import FAKES, StartWorker, Worker
from tests.integration.worker.fakes import SCRIPTS, Offsets, ScriptedSinkTask
from tests.support.waiting import WAIT_S, eventually
from worker.model import State, TargetState, TaskId

Name = Callable[[str], str]


def config_of(script: str, topic: str, **more: str) -> dict[str, str]:
    return {"connector.class": f"{FAKES}:ScriptedSink", "script": script, "topics": topic, **more}


def create_topic(worker: Worker, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": worker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT_S)


def values(records: list[SinkRecord]) -> list[object]:
    return [record.value for record in records]


def committed(worker: Worker, name: str) -> dict[int, int]:
    return {
        (entry.partition or {})["kafka_partition"]: entry.offset["kafka_offset"]
        for entry in worker.herder.offsets(name)
        if entry.offset
    }


def test_records_are_delivered_in_order_and_committed(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, [str(i) for i in range(5000)])
    worker.create(name, config_of(name, topic))
    script = SCRIPTS[name]
    eventually(lambda: len(script.delivered) == 5000, "all records")
    assert values(script.delivered) == [str(i) for i in range(5000)]
    assert [r.offset for r in script.delivered] == list(range(5000))
    assert script.delivered[0].timestamp_type == "CreateTime"
    assert script.delivered[0].original_topic == topic
    eventually(lambda: committed(worker, name) == {0: 5000}, "the commit")
    progress = worker.herder.progress(TaskId(name, 0))
    assert progress is not None
    assert progress.records == 5000
    eventually(lambda: (worker.herder.progress(TaskId(name, 0)) or progress).lag == {f"{topic}-0": 0}, "no lag")


def test_the_position_of_a_partition_without_records_is_committed(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    create_topic(worker, topic, 2)
    worker.produce(topic, ["before"], partition=1)
    worker.create(name, config_of(name, topic, **{"consumer.override.auto.offset.reset": "latest"}))
    script = SCRIPTS[name]
    eventually(lambda: "open [0, 1]" in script.events, "the assignment")
    worker.produce(topic, ["a"], partition=0)
    eventually(lambda: committed(worker, name) == {0: 1, 1: 1}, "the commit of both partitions")
    worker.herder.set_target_state(name, TargetState.STOPPED)
    eventually(lambda: worker.herder.connector_status(name).connector.state is State.STOPPED, "STOPPED")
    worker.produce(topic, ["while it was away"], partition=1)
    worker.herder.set_target_state(name, TargetState.STARTED)
    eventually(lambda: values(script.delivered) == ["a", "while it was away"], "the record")


def test_a_lone_record_is_delivered_at_once(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    create_topic(worker, topic)
    worker.create(name, config_of(name, topic))
    script = SCRIPTS[name]
    eventually(lambda: "open [0]" in script.events, "the assignment")
    worker.produce(topic, ["a"])
    eventually(lambda: values(script.delivered) == ["a"], "the record")


def test_raw_columns_for_a_task_that_wants_them(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    create_topic(worker, topic, 2)
    worker.produce(topic, ["a", None, "c"], partition=0)
    worker.produce(topic, ["d"], partition=1)
    script = SCRIPTS[name]
    script.raw = True
    worker.create(name, config_of(name, topic))
    eventually(lambda: sum(map(len, script.raw_delivered)) == 4, "all records")
    found = {p: [v for b in script.raw_delivered if b.partition == p for v in b.values] for p in (0, 1)}
    assert found == {0: [b"a", None, b"c"], 1: [b"d"]}
    assert script.raw_delivered[0].headers is None
    assert not script.delivered


def test_only_what_pre_commit_returns_is_committed(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, [str(i) for i in range(10)])
    other = TopicPartition("other", 7)
    SCRIPTS[name].pre_commit = lambda offsets: {**dict.fromkeys(offsets, 4), other: 1}
    worker.create(name, config_of(name, topic))
    eventually(lambda: committed(worker, name) == {0: 4}, "the commit of what was returned")
    worker.herder.delete_connector(name)
    SCRIPTS[name].delivered.clear()
    SCRIPTS[name].pre_commit = None
    worker.create(name, config_of(name, topic))
    eventually(lambda: len(SCRIPTS[name].delivered) == 6, "the rest")
    assert values(SCRIPTS[name].delivered) == [str(i) for i in range(4, 10)]


def test_an_offset_beyond_the_delivered_records_is_not_committed(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, ["a", "b"])
    asked = threading.Event()

    def pre_commit(offsets: Offsets) -> Offsets:
        if offsets:
            asked.set()
        return {p: offset + 100 for p, offset in offsets.items()}

    SCRIPTS[name].pre_commit = pre_commit
    worker.create(name, config_of(name, topic))
    assert asked.wait(WAIT_S)
    worker.herder.set_target_state(name, TargetState.STOPPED)
    eventually(lambda: worker.herder.connector_status(name).connector.state is State.STOPPED, "STOPPED")
    assert committed(worker, name) == {}


def test_the_same_records_are_delivered_again_after_a_retriable_error(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, ["a", "b", "c"])
    script, attempts = SCRIPTS[name], []

    def put(records: list[SinkRecord], task: ScriptedSinkTask) -> None:
        attempts.append(values(records))
        if records and len(attempts) <= 3:
            raise RetriableError("busy")

    script.put = put
    worker.create(name, config_of(name, topic))
    eventually(lambda: len(script.delivered) >= 3, "delivery in the end")
    assert attempts[0] == attempts[1] == attempts[2]
    assert values(script.delivered) == ["a", "b", "c"]
    worker.produce(topic, ["d"])
    eventually(lambda: values(script.delivered) == ["a", "b", "c", "d"], "what comes after")
    assert worker.state(name) is State.RUNNING


def test_any_other_error_fails_the_task_and_commits_the_records_delivered_before(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, ["a"])
    script = SCRIPTS[name]

    def put(records: list[SinkRecord], task: ScriptedSinkTask) -> None:
        if "bad" in values(records):
            raise ValueError("no room for bad")

    script.put = put
    worker.create(name, config_of(name, topic))
    eventually(lambda: values(script.delivered) == ["a"], "the first")
    worker.produce(topic, ["bad"])
    worker.wait_for(name, State.FAILED)
    assert worker.trace(name).splitlines()[:2] == [
        "org.apache.kafka.connect.errors.ConnectException: Exiting WorkerSinkTask due to unrecoverable exception. "
        f"ValueError: no room for bad (in task put ScriptedSinkTask, 1 record: topic {topic}, partition 0, offsets 1 to 1)",
        "Caused by: org.apache.kafka.connect.errors.ConnectException: ValueError: no room for bad",
    ]
    assert committed(worker, name) == {0: 1}
    assert script.closed.is_set()


def test_a_payload_that_cannot_be_converted_is_named(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, ['{"a": 1}', "{broken"])
    json = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
    worker.create(name, config_of(name, topic, **json))
    worker.wait_for(name, State.FAILED)
    first, second = worker.trace(name).splitlines()[:2]
    # As in Apache's worker (recording status-bad-converter-data), and then what it tells further down.
    assert first.startswith("org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler")
    assert f"(in value converter JsonConverter, topic {topic}, partition 0, offset 1)" in first
    assert second.startswith("Caused by: org.apache.kafka.connect.errors.DataException: Converting byte[] to Kafka Connect data")


def test_a_failed_pre_commit_rewinds_to_the_last_commit(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, ["a", "b"])
    script, failing = SCRIPTS[name], iter([True])

    def pre_commit(offsets: Offsets) -> Offsets:
        fails = next(failing, False) if offsets else False
        if fails:
            raise RuntimeError("disk full")
        return offsets

    script.pre_commit = pre_commit
    worker.create(name, config_of(name, topic))
    eventually(lambda: values(script.delivered) == ["a", "b", "a", "b"], "both again")
    eventually(lambda: committed(worker, name) == {0: 2}, "the commit")


def test_a_task_can_set_the_read_position_in_open_and_in_put(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, [str(i) for i in range(6)])
    script, rewinding = SCRIPTS[name], iter([True])

    def on_open(task: ScriptedSinkTask, partitions: list[TopicPartition]) -> None:
        task.context.offset(dict.fromkeys(partitions, 3))

    def put(records: list[SinkRecord], task: ScriptedSinkTask) -> None:
        rewinds = next(rewinding, False) if records else False
        if rewinds:
            task.context.offset({TopicPartition(topic, 0): 1})

    script.on_open, script.put = on_open, put
    worker.create(name, config_of(name, topic))
    eventually(lambda: len(script.delivered) == 8, "both passes")
    assert values(script.delivered) == ["3", "4", "5", "1", "2", "3", "4", "5"]
    eventually(lambda: committed(worker, name) == {0: 6}, "the commit")


def test_pause_stops_delivery_and_resume_continues_it(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, ["a"])
    script = SCRIPTS[name]
    worker.create(name, config_of(name, topic))
    eventually(lambda: values(script.delivered) == ["a"], "the first")
    worker.herder.set_target_state(name, TargetState.PAUSED)
    worker.wait_for(name, State.PAUSED)
    eventually(lambda: committed(worker, name) == {0: 1}, "the commit at the pause")
    worker.produce(topic, ["b"])
    threading.Event().wait(1.0)
    assert values(script.delivered) == ["a"]
    worker.herder.set_target_state(name, TargetState.STARTED)
    eventually(lambda: values(script.delivered) == ["a", "b"], "the second")


def test_request_commit_and_timeout(start_worker: StartWorker, unique_name: Name) -> None:
    worker = start_worker(offset_flush_interval_ms="600000")
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, ["a"])
    calls: list[int] = []

    def put(records: list[SinkRecord], task: ScriptedSinkTask) -> None:
        calls.append(len(records))
        task.context.timeout(50)
        task.context.request_commit()

    SCRIPTS[name].put = put
    worker.create(name, config_of(name, topic))
    eventually(lambda: len(calls) > 5, "empty puts by time-out")
    assert calls[0] == 1
    assert set(calls[1:]) == {0}
    eventually(lambda: committed(worker, name) == {0: 1}, "the commit")


def test_topics_by_pattern_are_those_that_match_whole_and_new_ones_too(worker: Worker, unique_name: Name) -> None:
    name, stem = unique_name("sink"), unique_name("stem")
    worker.produce(f"{stem}-1", ["a"])
    worker.produce(f"x{stem}-1", ["no"])
    worker.produce(f"{stem}-1-more", ["no"])
    script = SCRIPTS[name]
    config = config_of(name, "", **{"topics.regex": rf"{stem}-\d+", "consumer.override.metadata.max.age.ms": "300"})
    del config["topics"]
    worker.create(name, config)
    eventually(lambda: values(script.delivered) == ["a"], "the first topic")
    worker.produce(f"{stem}-22", ["b"])
    eventually(lambda: values(script.delivered) == ["a", "b"], "the new topic")


def test_two_tasks_share_the_partitions_and_a_stop_hands_them_over(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    create_topic(worker, topic, 2)
    script = SCRIPTS[name]
    worker.create(name, config_of(name, topic, **{"tasks.max": "2"}))
    eventually(lambda: {"open [0]", "open [1]"} <= set(script.events), "each with one partition")
    for partition in (0, 1):
        worker.produce(topic, [str(i) for i in range(partition, 100, 2)], partition=partition)
    eventually(lambda: len(script.delivered) == 100, "all records")
    worker.herder.put_connector(name, config_of(name, topic, **{"tasks.max": "1"}), replace=True)
    eventually(lambda: script.events[-1] == "open [0, 1]", "both at one task")
    worker.produce(topic, ["last"])
    eventually(lambda: len(script.delivered) == 101, "the last")
    # Commits at the hand-over: nothing is delivered twice.
    assert sorted(str(v) for v in values(script.delivered)) == sorted([*map(str, range(100)), "last"])


@pytest.mark.harms_broker
@pytest.mark.long
def test_a_broker_that_restarts_is_waited_for(worker: Worker, broker: EmbeddedBroker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, ["a"])
    script = SCRIPTS[name]
    worker.create(name, config_of(name, topic))
    eventually(lambda: values(script.delivered) == ["a"], "the first")
    eventually(lambda: committed(worker, name) == {0: 1}, "the commit")
    broker.kill()
    broker.start()
    worker.produce(topic, ["b"])
    eventually(lambda: values(script.delivered) == ["a", "b"], "the second")
    eventually(lambda: committed(worker, name) == {0: 2}, "the second commit")
    assert worker.state(name) is State.RUNNING


def test_a_hanging_put_is_cut_off_and_its_partitions_are_given_up(start_worker: StartWorker, unique_name: Name) -> None:
    worker = start_worker(task_shutdown_graceful_timeout_ms="500")
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, ["a"])
    script = SCRIPTS[name]
    script.hang_in = "put"
    worker.create(name, config_of(name, topic))
    assert script.hanging.wait(WAIT_S)
    try:
        worker.herder.delete_connector(name)
        script.hang_in = None
        worker.create(name, config_of(name, topic))
        eventually(lambda: values(script.delivered) == ["a"], "delivery by the new task")
    finally:
        script.hang.set()


def test_the_consumer_group_may_be_overridden(worker: Worker, unique_name: Name) -> None:
    name, topic, group = unique_name("sink"), unique_name("topic"), unique_name("group")
    worker.produce(topic, ["a"])
    worker.create(name, config_of(name, topic, **{"consumer.override.group.id": group}))
    eventually(lambda: committed(worker, name) == {0: 1}, "the commit")


def test_a_topic_created_after_the_sink_is_read(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    worker.create(name, config_of(name, topic))
    worker.wait_for(name, State.RUNNING)
    threading.Event().wait(1.0)
    worker.produce(topic, ["a"])
    eventually(lambda: values(SCRIPTS[name].delivered) == ["a"], "the record")
