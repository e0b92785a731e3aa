"""Source tasks against a real broker: order, offsets, failures, pauses, a broker that goes away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from connect import RetriableError, SourceRecord
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.worker.conftest import FAKES, STRING, StartWorker, Worker
from tests.integration.worker.fakes import SCRIPTS, source_record
from tests.integration.worker.transactions import script_large_batch
from tests.support.waiting import WAIT_S, eventually
from worker.model import State, TargetState

Name = Callable[[str], str]


def config_of(script: str, **more: str) -> dict[str, str]:
    return {"connector.class": f"{FAKES}:ScriptedSource", "script": script, **more}


def test_records_arrive_in_order_and_the_offset_is_stored_when_acknowledged(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("source"), unique_name("topic")
    script = SCRIPTS[name]
    script.batches = [[source_record(topic, f"{b}-{i}", b * 100 + i) for i in range(100)] for b in range(5)]
    worker.create(name, config_of(name))
    assert worker.values(topic, 500) == [f"{b}-{i}" for b in range(5) for i in range(100)]
    # The first flush may have come in the middle.
    eventually(lambda: script.commits[-1:] == [[({"source": "p"}, {"offset": 499})]], "commit()")
    assert [entry.offset for entry in worker.herder.offsets(name)] == [{"offset": 499}]
    progress = worker.herder.progress(worker.herder.connector_info(name).tasks[0])
    assert progress is not None
    assert progress.records == 500


def test_a_batch_over_several_topics_and_schemas_keeps_its_order_per_topic(worker: Worker, unique_name: Name) -> None:
    name, one, two = unique_name("source"), unique_name("one"), unique_name("two")
    records: list[SourceRecord] = []
    for i in range(200):
        record = source_record(one if i % 3 else two, f"v{i}", i, key=f"k{i}" if i % 5 else None)
        records.append(record)
    SCRIPTS[name].batches = [records]
    worker.create(name, config_of(name))
    expected_one = [f"v{i}" for i in range(200) if i % 3]
    expected_two = [f"v{i}" for i in range(200) if not i % 3]
    assert worker.values(one, len(expected_one)) == expected_one
    found = worker.records(two, len(expected_two))
    assert [v and v.decode() for _, v in found] == expected_two
    assert [k and k.decode() for k, _ in found] == [f"k{i}" if i % 5 else None for i in range(200) if not i % 3]


def test_partition_timestamp_and_headers_come_from_the_record(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("source"), unique_name("topic")
    admin = AdminClient({"bootstrap.servers": worker.bootstrap})
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(WAIT_S)
    record = source_record(topic, "x", 1, key="k")
    record.partition, record.timestamp = 2, 1234567890123
    record.ensure_headers().add("h", "1").add("n", None)
    SCRIPTS[name].batches = [[record]]
    worker.create(name, config_of(name))

    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": worker.bootstrap, "group.id": "r"})
    consumer.assign([TopicPartition(topic, 2, 0)])
    message = consumer.poll(WAIT_S)
    consumer.close()
    assert message is not None
    assert message.timestamp() == (1, 1234567890123)
    assert dict(message.headers() or []) == {"h": b"1", "n": None}


def test_topics_are_reported_soon_after_the_first_record(start_worker: StartWorker, unique_name: Name) -> None:
    worker = start_worker(offset_flush_interval_ms="600000")
    name, one, two = unique_name("source"), unique_name("one"), unique_name("two")
    SCRIPTS[name].batches = [[source_record(one, "a", 0), source_record(two, "b", 1)]]
    worker.create(name, config_of(name))
    eventually(lambda: sorted(worker.herder.topics(name)) == sorted([one, two]), "both topics, though no offset is stored")
    assert worker.herder.offsets(name) == []


def test_equal_partition_objects_are_one_partition(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("source"), unique_name("topic")
    SCRIPTS[name].batches = [[source_record(topic, str(i), i, partition="ab"[i % 2]) for i in range(50)]]
    worker.create(name, config_of(name))

    def stored() -> dict[str, object]:
        return {(entry.partition or {})["source"]: entry.offset for entry in worker.herder.offsets(name)}

    eventually(lambda: stored() == {"a": {"offset": 48}, "b": {"offset": 49}}, "the offsets of all records")


def test_a_users_transformation_runs_by_its_python_path(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("source"), unique_name("topic")
    SCRIPTS[name].batches = [[source_record(topic, value, i) for i, value in enumerate(("a", "drop", "b", "drop"))]]
    worker.create(
        name, config_of(name, **{"transforms": "up", "transforms.up.type": f"{FAKES}:Upper", "transforms.up.suffix": "!"})
    )
    assert worker.values(topic, 2) == ["A!", "B!"]
    # What was dropped counts as done.
    eventually(lambda: [e.offset for e in worker.herder.offsets(name)] == [{"offset": 3}], "the offset of the last record")


def test_a_bad_record_fails_the_task_after_those_before_it_were_sent(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("source"), unique_name("topic")
    SCRIPTS[name].batches = [[source_record(topic, value, i) for i, value in enumerate(("a", "b", "bad", "c"))]]
    worker.create(name, config_of(name, **{"transforms": "up", "transforms.up.type": f"{FAKES}:Upper"}))
    worker.wait_for(name, State.FAILED)
    trace = worker.trace(name)
    assert trace.splitlines()[0] == (
        "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler: ValueError: cannot make this "
        f"larger (in transformation up (Upper), record for topic {topic}, source partition {{'source': 'p'}}, "
        "source offset {'offset': 2})"
    )
    assert SCRIPTS[name].closed.wait(WAIT_S)
    eventually(lambda: [e.offset for e in worker.herder.offsets(name)] == [{"offset": 1}], "the offset of the last record")
    assert worker.values(topic) == ["A", "B"]


def test_the_trace_of_a_failure_hides_secrets(worker: Worker, unique_name: Name) -> None:
    name = unique_name("source")
    SCRIPTS[name].start_error = RuntimeError("cannot log in as joe with hunter2!? at db://joe:hunter2!?@host/x")
    worker.create(name, config_of(name, **{"db.password": "hunter2!?"}))
    worker.wait_for(name, State.FAILED)
    assert "hunter2" not in worker.trace(name)
    assert "[hidden]" in worker.trace(name)


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        (5, "int"),
        ({"a": 1}, "dict"),
        (["a line"], "a sequence with str in it"),
        ([{"topic": "t"}], "a sequence with dict in it"),
    ],
)
def test_an_invalid_batch_fails_the_task_and_the_error_shows_it(
    worker: Worker, unique_name: Name, returned: object, found: str
) -> None:
    name = unique_name("source")

    def poll() -> list[SourceRecord]:
        return cast("list[SourceRecord]", returned)  # which it is not

    SCRIPTS[name].poll = poll
    worker.create(name, config_of(name))
    worker.wait_for(name, State.FAILED)
    said = f"must return a sequence of SourceRecord, or None, but returned {found}"
    assert said in worker.trace(name).splitlines()[0]


def test_a_retriable_error_of_poll_is_followed_by_another_poll(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("source"), unique_name("topic")
    calls: Iterator[RetriableError | list[SourceRecord]] = iter(
        [RetriableError("not yet"), RetriableError("not yet"), [source_record(topic, "x", 1)]]
    )

    def poll() -> list[SourceRecord] | None:
        result = next(calls, None)
        if isinstance(result, RetriableError):
            raise result
        return result

    SCRIPTS[name].poll = poll
    worker.create(name, config_of(name))
    assert worker.values(topic, 1) == ["x"]
    assert worker.state(name) is State.RUNNING


def test_commit_record_is_called_for_each_record_with_its_position(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("source"), unique_name("topic")
    script = SCRIPTS[name]
    script.batches = [[source_record(topic, value, i) for i, value in enumerate(("a", "drop", "b"))]]
    worker.create(
        name,
        {
            **config_of(name),
            "connector.class": f"{FAKES}:ConfirmingSource",
            "transforms": "up",
            "transforms.up.type": f"{FAKES}:Upper",
        },
    )
    eventually(lambda: len(script.confirmed) == 3, "three confirmations")
    positions = {
        (record.source_offset or {})["offset"]: metadata and (metadata.topic, metadata.offset)
        for record, metadata in script.confirmed
    }
    assert positions == {0: (topic, 0), 1: None, 2: (topic, 1)}


def test_a_record_too_large_fails_the_task_with_topic_key_and_size(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("source"), unique_name("topic")
    SCRIPTS[name].batches = [
        [source_record(topic, "small", 0), source_record(topic, "x" * 2_000_000, 1, key="the-key"), source_record(topic, "y", 2)]
    ]
    worker.create(name, config_of(name))
    worker.wait_for(name, State.FAILED)
    first = worker.trace(name).splitlines()[0]
    assert topic in first
    assert "key the-key" in first
    assert "ConnectException: Unrecoverable exception from producer send callback: " in first
    assert "2000007 bytes" in first
    assert "max.request.size" in first


def test_a_record_larger_than_the_producers_memory_fails_the_task_and_is_not_waited_for(
    worker: Worker, unique_name: Name
) -> None:  # fmt: skip
    name, topic = unique_name("source"), unique_name("topic")
    SCRIPTS[name].batches = [[source_record(topic, "small", 0), source_record(topic, "x" * 50_000, 1)]]
    worker.create(name, config_of(name, **{"producer.override.buffer.memory": "20480"}))
    worker.wait_for(name, State.FAILED)
    assert "does not fit into the producer's memory, buffer.memory=20480" in worker.trace(name).splitlines()[0]
    assert SCRIPTS[name].closed.wait(WAIT_S)
    eventually(lambda: bool(worker.values(topic)), "the record before")
    assert worker.values(topic) == ["small"]


def test_a_record_that_the_topic_refuses_fails_the_task(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("source"), unique_name("topic")
    admin = AdminClient({"bootstrap.servers": worker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": "100000"})])[topic].result(WAIT_S)
    SCRIPTS[name].batches = [[source_record(topic, "x" * 500_000, 1)]]
    worker.create(name, config_of(name))
    worker.wait_for(name, State.FAILED)
    assert "max.message.bytes" in worker.trace(name).splitlines()[0]
    assert worker.herder.offsets(name) == []


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_a_topic_that_takes_no_large_batches_gets_smaller_ones(
    worker: Worker, unique_name: Name, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tolerance: str
) -> None:
    name, topic = unique_name("source"), unique_name("topic")
    admin = AdminClient({"bootstrap.servers": worker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": "400000"})])[topic].result(WAIT_S)
    values = script_large_batch(name, topic, monkeypatch)
    worker.create(name, config_of(name, **{"errors.tolerance": tolerance}))
    eventually(lambda: [e.offset for e in worker.herder.offsets(name)] == [{"offset": 1999}], "all records")
    # Those that the first producer sent after the refused batch come again.
    assert worker.values(topic)[-2000:] == values
    assert f"restarts with smaller batches from its last committed offsets: topic {topic} takes no batches of" in caplog.text


def test_pause_stores_offsets_and_resume_continues_without_loss(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("source"), unique_name("topic")
    polled = 0
    pace = threading.Event()

    def poll() -> list[SourceRecord]:
        nonlocal polled
        pace.wait(0.005)
        polled += 10
        return [source_record(topic, str(i), i) for i in range(polled - 10, polled)]

    SCRIPTS[name].poll = poll
    worker.create(name, config_of(name))
    worker.wait_for(name, State.RUNNING)
    worker.values(topic, 10)
    worker.herder.set_target_state(name, TargetState.PAUSED)
    worker.wait_for(name, State.PAUSED)
    # Nothing is polled any more; the broker may still have to take what was.
    paused_at = polled
    eventually(lambda: [e.offset for e in worker.herder.offsets(name)] == [{"offset": paused_at - 1}], "the last offset")
    assert len(worker.values(topic)) == paused_at == polled
    worker.herder.set_target_state(name, TargetState.STARTED)
    worker.wait_for(name, State.RUNNING)
    found = worker.values(topic, paused_at + 100)
    assert found == [str(i) for i in range(len(found))]


def test_stop_removes_the_tasks_and_resume_restores_them(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("source"), unique_name("topic")
    SCRIPTS[name].batches = [[source_record(topic, "a", 1)]]
    worker.create(name, config_of(name))
    worker.values(topic, 1)
    worker.herder.set_target_state(name, TargetState.STOPPED)
    eventually(lambda: worker.herder.connector_status(name).connector.state is State.STOPPED, "STOPPED")
    assert worker.herder.task_infos(name) == []
    assert worker.herder.connector_status(name).tasks == []
    assert [e.offset for e in worker.herder.offsets(name)] == [{"offset": 1}]
    SCRIPTS[name].batches = [[source_record(topic, "b", 2)]]
    worker.herder.set_target_state(name, TargetState.STARTED)
    worker.wait_for(name, State.RUNNING)
    assert worker.values(topic, 2) == ["a", "b"]


@pytest.mark.harms_broker
@pytest.mark.long
def test_a_task_waits_for_a_killed_broker_and_loses_nothing(
    start_worker: StartWorker, broker: EmbeddedBroker, unique_name: Name
) -> None:
    worker = start_worker(offset_flush_timeout_ms="500")
    name, topic = unique_name("source"), unique_name("topic")
    script, reads_for, at = SCRIPTS[name], None, 0

    def poll() -> list[SourceRecord] | None:
        nonlocal reads_for, at
        if reads_for is not script.context:
            # A producer that was lost to the broker's end makes a task begin again, from the stored offset.
            reads_for = script.context
            assert reads_for is not None
            stored = reads_for.offset_reader.offset({"source": "p"})
            at = 0 if stored is None else stored["offset"] + 1
        first, at = at, min(at + 20, 20_000)
        return [source_record(topic, str(i), i) for i in range(first, at)] or None

    script.poll = poll
    worker.create(name, config_of(name))
    worker.values(topic, 20)
    broker.kill()
    broker.start()
    found = worker.values(topic, 20_000)
    assert worker.state(name) is State.RUNNING
    # A retry may repeat a batch; in between nothing is missing and nothing is out of order.
    assert list(dict.fromkeys(found)) == [str(i) for i in range(20_000)]
    eventually(lambda: [e.offset for e in worker.herder.offsets(name)] == [{"offset": 19_999}], "the last offset")


@pytest.mark.harms_broker
def test_no_offset_is_stored_while_the_broker_is_unavailable(
    start_worker: StartWorker, broker: EmbeddedBroker, unique_name: Name
) -> None:
    worker = start_worker(offset_flush_timeout_ms="200")
    name, topic = unique_name("source"), unique_name("topic")
    script = SCRIPTS[name]
    script.batches = [[source_record(topic, "a", 1)]]
    worker.create(name, config_of(name))
    eventually(lambda: len(script.commits) == 1, "the first commit")
    broker.stop()
    try:
        script.batches = [[source_record(topic, "b", 2)]]
        eventually(lambda: not script.batches, "poll()")
        worker.herder.set_target_state(name, TargetState.PAUSED)
        worker.wait_for(name, State.PAUSED)
        assert [e.offset for e in worker.herder.offsets(name)] == [{"offset": 1}]
    finally:
        broker.start()
    eventually(lambda: [e.offset for e in worker.herder.offsets(name)] == [{"offset": 2}], "the second offset")
    assert worker.values(topic, 2) == ["a", "b"]


def test_topics_are_created_as_the_rules_say(worker: Worker, unique_name: Name) -> None:
    name, plain, wide = unique_name("source"), unique_name("plain"), unique_name("wide")
    SCRIPTS[name].batches = [[source_record(plain, "a", 1, key="k"), source_record(wide, "b", 2)]]
    worker.create(
        name,
        config_of(
            name,
            **{
                "topic.creation.groups": "wide",
                "topic.creation.default.partitions": "2",
                "topic.creation.default.replication.factor": "-1",
                "topic.creation.default.cleanup.policy": "compact",
                "topic.creation.wide.include": "wide_.*",
                "topic.creation.wide.partitions": "5",
            },
        ),
    )
    eventually(lambda: bool(SCRIPTS[name].commits), "commit()")
    admin = AdminClient({"bootstrap.servers": worker.bootstrap})
    topics = admin.list_topics(timeout=WAIT_S).topics
    assert len(topics[plain].partitions) == 2
    assert len(topics[wide].partitions) == 5
    resource = ConfigResource(ResourceType.TOPIC, plain)
    assert admin.describe_configs([resource])[resource].result(WAIT_S)["cleanup.policy"].value == "compact"


def test_offsets_are_read_at_the_start_of_a_later_worker(start_worker: StartWorker, unique_name: Name, tmp_path: Path) -> None:
    name, topic, file = unique_name("source"), unique_name("topic"), tmp_path / "lines.txt"
    file.write_text("ä\nöö\n", encoding="utf-8")
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic, "value.converter": STRING}
    first = start_worker()
    first.create(name, config)
    assert first.values(topic, 2) == ["ä", "öö"]
    first.herder.close(WAIT_S)
    with file.open("a", encoding="utf-8") as lines:
        lines.write("ü\n漢字\n")
    second = start_worker()
    second.create(name, config)
    assert second.values(topic, 4) == ["ä", "öö", "ü", "漢字"]
    with file.open("a", encoding="utf-8") as lines:
        lines.write("last\n")
    assert second.values(topic, 5)[4:] == ["last"]


@pytest.mark.parametrize("where", ["poll", "stop", "connector stop"])
def test_a_plugin_that_hangs_stalls_nobody_else(start_worker: StartWorker, unique_name: Name, where: str) -> None:
    worker = start_worker(task_shutdown_graceful_timeout_ms="500")
    stuck, other, topic = unique_name("stuck"), unique_name("other"), unique_name("topic")
    script = SCRIPTS[stuck]
    worker.create(stuck, config_of(stuck))
    worker.wait_for(stuck, State.RUNNING)
    script.hang_in = where
    try:
        worker.herder.set_target_state(stuck, TargetState.STOPPED)
        SCRIPTS[other].batches = [[source_record(topic, "a", 1)]]
        worker.create(other, config_of(other))
        assert worker.values(topic, 1) == ["a"]
        assert worker.herder.connector_status(stuck).name == stuck
        worker.herder.delete_connector(stuck)
        assert worker.herder.connectors() == [other]
    finally:
        script.hang.set()
    worker.herder.set_target_state(other, TargetState.PAUSED)
    worker.wait_for(other, State.PAUSED)


def test_restart_of_a_failed_task_runs_it_again(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("source"), unique_name("topic")
    script = SCRIPTS[name]
    script.start_error = RuntimeError("not today")
    worker.create(name, config_of(name))
    worker.wait_for(name, State.FAILED)
    script.start_error = None
    script.batches = [[source_record(topic, "a", 1)]]
    plan = worker.herder.restart_connector(name, include_tasks=True, only_failed=True)
    assert plan is not None
    assert plan.status.connector.state is State.RUNNING
    assert plan.status.tasks[0][1].state is State.RESTARTING
    worker.wait_for(name, State.RUNNING)
    assert worker.values(topic, 1) == ["a"]


def test_a_changed_configuration_replaces_the_tasks(worker: Worker, unique_name: Name) -> None:
    name = unique_name("source")
    worker.create(name, config_of(name))
    info, created = worker.herder.put_connector(name, config_of(name, **{"tasks.max": "3"}), replace=True)
    assert not created
    assert [task.task for task in info.tasks] == [0, 1, 2]
    for task in range(3):
        worker.wait_for(name, State.RUNNING, task)
    worker.herder.patch_connector(name, {"tasks.max": None})
    assert len(worker.herder.connector_info(name).tasks) == 1
