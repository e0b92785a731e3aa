"""Records that fail, with a real broker: what is skipped lies in the dead letter queue before its offset is committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from connect import SinkRecord
from tests.integration.worker.conftest import FAKES, Worker
from tests.integration.worker.fakes import SCRIPTS, ScriptedSinkTask, source_record
from tests.support.waiting import WAIT_S, eventually
from worker.model import ErrorCounts, State, TaskId

Name = Callable[[str], str]
PREFIX = "__connect.errors."
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}


def sink_config(script: str, topic: str, dlq: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": f"{FAKES}:ScriptedSink",
        "script": script,
        "topics": topic,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dlq,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        **more,
    }


def source_config(script: str, dlq: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": f"{FAKES}:ScriptedSource",
        "script": script,
        "errors.tolerance": "all",
        "errors.deadletterqueue.source.topic.name": dlq,
        "errors.deadletterqueue.source.topic.replication.factor": "1",
        **more,
    }


def messages(worker: Worker, topic: str, count: int) -> list[Message]:
    """All of a topic of one partition, which has at least so many."""
    consumer = Consumer({"bootstrap.servers": worker.bootstrap, "group.id": "test-reader", "enable.auto.commit": False})
    try:
        eventually(
            lambda: consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)[1] >= count, f"{count} in {topic}"
        )
        end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)[1]
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Message] = []
        while len(found) < end:
            found += [m for m in consumer.consume(end - len(found), 1.0) if m.error() is None]
        return found
    finally:
        consumer.close()


def context_of(message: Message) -> dict[str, bytes | None]:
    return {name.removeprefix(PREFIX): data for name, data in message.headers() or [] if name.startswith(PREFIX)}


def counts(worker: Worker, name: str) -> ErrorCounts:
    progress = worker.herder.progress(TaskId(name, 0))
    return ErrorCounts() if progress is None else progress.errors


def committed(worker: Worker, name: str) -> dict[int, Any]:
    return {
        (entry.partition or {})["kafka_partition"]: entry.offset["kafka_offset"]
        for entry in worker.herder.offsets(name)
        if entry.offset
    }


def members(worker: Worker, name: str) -> list[str]:
    """Who is in the consumer group of a sink just now."""
    group = f"connect-{name}"
    admin = AdminClient({"bootstrap.servers": worker.bootstrap})
    return [member.member_id for member in admin.describe_consumer_groups([group])[group].result(WAIT_S).members]


def values(records: list[SinkRecord]) -> list[Any]:
    return [record.value for record in records]


def test_errant_records_of_a_sink_go_to_the_dead_letter_queue_and_others_are_delivered_in_order(
    worker: Worker, unique_name: Name
) -> None:
    name, topic, dlq = unique_name("sink"), unique_name("topic"), unique_name("dlq")
    producer = Producer({"bootstrap.servers": worker.bootstrap, "enable.idempotence": True})
    for i in range(300):
        value = f"{{bad {i}" if i % 100 == 7 else f'{{"n": {i}}}' if i != 250 else '"no map"'
        producer.produce(topic, value, f"k{i}", headers=[("mine", b"\x00\xff"), ("none", None)], timestamp=1_700_000_000_000 + i)
    assert producer.flush(WAIT_S) == 0
    producer.close()
    cast = {
        "transforms": "c",
        "transforms.c.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.c.spec": "n:string",
    }
    worker.create(name, sink_config(name, topic, dlq, **JSON, **cast))
    bad = [7, 107, 207, 250]
    eventually(lambda: len(SCRIPTS[name].delivered) == 296, "the good records")
    assert values(SCRIPTS[name].delivered) == [{"n": str(i)} for i in range(300) if i not in bad]
    eventually(lambda: committed(worker, name) == {0: 300}, "the commit")
    letters = messages(worker, dlq, 4)
    assert [m.key() for m in letters] == [f"k{i}".encode() for i in bad]
    assert [m.value() for m in letters] == [b"{bad 7", b"{bad 107", b"{bad 207", b'"no map"']
    assert [m.timestamp()[1] for m in letters] == [1_700_000_000_000 + i for i in bad]
    first, *_, last = letters
    headers = first.headers() or []
    assert headers[:2] == [("mine", b"\x00\xff"), ("none", None)]
    assert [header for header, _ in headers[2:]] == [
        f"{PREFIX}{part}"
        for part in (
            "topic", "partition", "offset", "connector.name", "task.id", "stage", "class.name", "exception.class.name",
            "exception.message", "exception.stacktrace",
        )
    ]  # fmt: skip
    context = context_of(first)
    assert (context["topic"], context["partition"], context["offset"]) == (topic.encode(), b"0", b"7")
    assert (context["connector.name"], context["task.id"]) == (name.encode(), b"0")
    assert (context["stage"], context["class.name"]) == (b"VALUE_CONVERTER", b"org.apache.kafka.connect.json.JsonConverter")
    assert context["exception.class.name"] == b"org.apache.kafka.connect.errors.DataException"
    assert context["exception.message"] == b"Converting byte[] to Kafka Connect data failed due to serialization error: "
    assert (context["exception.stacktrace"] or b"").startswith(
        b"org.apache.kafka.connect.errors.DataException: Converting byte[] "
    )
    context = context_of(last)
    assert (context["stage"], context["class.name"]) == (b"TRANSFORMATION", b"org.apache.kafka.connect.transforms.Cast$Value")
    found = counts(worker, name)
    assert (found.failures, found.errors, found.skipped, found.dead_letters, found.dead_letter_failures) == (4, 4, 4, 4, 0)


def test_without_tolerance_the_first_errant_record_is_reported_and_fails_the_task(worker: Worker, unique_name: Name) -> None:
    name, topic, dlq = unique_name("sink"), unique_name("topic"), unique_name("dlq")
    worker.produce(topic, ['{"a": 1}', "{first", "{second"])
    worker.create(name, sink_config(name, topic, dlq, **JSON, **{"errors.tolerance": "none"}))
    worker.wait_for(name, State.FAILED)
    assert [m.value() for m in messages(worker, dlq, 1)] == [b"{first"]
    assert SCRIPTS[name].delivered == []
    assert committed(worker, name) == {}


def test_a_sink_task_reports_records_and_may_wait_for_it(worker: Worker, unique_name: Name) -> None:
    name, topic, dlq = unique_name("sink"), unique_name("topic"), unique_name("dlq")
    worker.produce(topic, ["a", "bad", "b"])
    script, offsets_at_report = SCRIPTS[name], list[dict[int, Any]]()

    def put(records: list[SinkRecord], task: ScriptedSinkTask) -> None:
        reporter = task.context.errant_record_reporter
        assert reporter is not None
        for record in records:
            if record.value == "BAD":
                offsets_at_report.append(committed(worker, name))
                reporter.report(record, ValueError("no room")).result(WAIT_S)

    script.put = put
    transform = {"transforms": "up", "transforms.up.type": f"{FAKES}:Lower2Upper"}
    worker.create(name, sink_config(name, topic, dlq, **transform))
    eventually(lambda: committed(worker, name) == {0: 3}, "the commit")
    (letter,) = messages(worker, dlq, 1)
    assert letter.value() == b"bad"  # as it lay in the topic, before the transformation
    context = context_of(letter)
    assert (context["stage"], context["class.name"]) == (b"TASK_PUT", b"org.apache.kafka.connect.sink.SinkTask")
    assert context["exception.message"] == b"ValueError: no room"
    assert context["offset"] == b"1"
    assert offsets_at_report == [{}]
    assert counts(worker, name).failures == 1


def test_a_report_that_is_not_tolerated_fails_the_task_though_it_is_swallowed(worker: Worker, unique_name: Name) -> None:
    name, topic, dlq = unique_name("sink"), unique_name("topic"), unique_name("dlq")
    worker.produce(topic, ["a"])
    swallowed: list[Exception] = []

    def put(records: list[SinkRecord], task: ScriptedSinkTask) -> None:
        reporter = task.context.errant_record_reporter
        for record in records:
            try:
                assert reporter is not None
                reporter.report(record, ValueError("no room"))
            except Exception as e:
                swallowed.append(e)

    SCRIPTS[name].put = put
    worker.create(name, sink_config(name, topic, dlq, **{"errors.tolerance": "none"}))
    worker.wait_for(name, State.FAILED)
    assert len(swallowed) == 1
    assert "ConnectException: Tolerance exceeded in error handler: ValueError: no room" in worker.trace(name).splitlines()[0]
    assert [m.value() for m in messages(worker, dlq, 1)] == [b"a"]
    assert committed(worker, name) == {}


def test_without_a_queue_or_log_there_is_no_reporter(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, ["a"])
    reporters: list[object] = []
    SCRIPTS[name].put = lambda _, task: reporters.append(task.context.errant_record_reporter)
    worker.create(name, {"connector.class": f"{FAKES}:ScriptedSink", "script": name, "topics": topic, "errors.tolerance": "all"})
    eventually(lambda: bool(SCRIPTS[name].delivered), "the record")
    assert reporters[0] is None


@pytest.mark.parametrize("reports_raw", [False, True])
def test_a_task_gets_undecoded_records_where_it_reports_bad_ones_itself(
    reports_raw: bool, worker: Worker, unique_name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, topic, dlq = unique_name("sink"), unique_name("topic"), unique_name("dlq")
    worker.produce(topic, ["a"])
    script = SCRIPTS[name]
    script.raw = True
    monkeypatch.setattr(ScriptedSinkTask, "reports_raw", reports_raw)
    worker.create(name, sink_config(name, topic, dlq))
    eventually(lambda: bool(script.delivered or script.raw_delivered), "the record")
    assert bool(script.raw_delivered) is reports_raw


def test_a_dead_letter_topic_that_cannot_be_created_fails_the_task_with_the_key(worker: Worker, unique_name: Name) -> None:
    name, topic, dlq = unique_name("sink"), unique_name("topic"), unique_name("dlq")
    config = sink_config(name, topic, dlq)
    del config["errors.deadletterqueue.topic.replication.factor"]  # 3, as in Apache
    worker.create(name, config)
    worker.wait_for(name, State.FAILED)
    first = worker.trace(name).splitlines()[0]
    assert first.startswith(
        "org.apache.kafka.connect.errors.ConnectException: "
        f"Could not initialize dead letter queue with topic={dlq}: creating topic {dlq} as errors.deadletterqueue.topic.* says"
    )
    assert "replication factor" in first.lower()


def test_errant_records_of_a_source_go_to_its_queue_before_their_offsets_are_stored(worker: Worker, unique_name: Name) -> None:
    name, topic, dlq = unique_name("source"), unique_name("topic"), unique_name("dlq")
    given = ["a", "bad", "b", "x" * 2_000_000, "c", "drop"]
    SCRIPTS[name].batches = [[source_record(topic, value, i) for i, value in enumerate(given)]]
    transform = {"transforms": "up", "transforms.up.type": f"{FAKES}:Upper"}
    worker.create(name, source_config(name, dlq, **transform))
    assert worker.values(topic, 3) == ["A", "B", "C"]
    eventually(lambda: [e.offset for e in worker.herder.offsets(name)] == [{"offset": 5}], "the offset of the last record")
    letters = messages(worker, dlq, 2)
    assert [orjson.loads(m.value() or b"")["sourceOffset"] for m in letters] == [{"offset": 1}, {"offset": 3}]
    bad, large = (context_of(m) for m in letters)
    assert orjson.loads(letters[0].value() or b"")["value"]["payload"] == "bad"
    assert (bad["stage"], bad["class.name"]) == (b"TRANSFORMATION", f"{FAKES}:Upper".encode())
    assert (bad["partition"], bad["offset"]) == (b'{"source": "p"}', b'{"offset": 1}')
    assert (large["stage"], large["class.name"]) == (b"KAFKA_PRODUCE", b"org.apache.kafka.connect.runtime.WorkerSourceTask")
    assert b"which is more than max.request.size=1048576" in (large["exception.message"] or b"")
    assert "omitted" in orjson.loads(letters[1].value() or b"")["value"]  # the content would not fit here either
    found = counts(worker, name)
    assert (found.failures, found.errors, found.skipped, found.dead_letters) == (2, 1, 2, 2)


def test_a_record_rejected_because_of_another_one_in_its_batch_is_sent_again_alone(worker: Worker, unique_name: Name) -> None:
    name, topic, dlq = unique_name("source"), unique_name("topic"), unique_name("dlq")
    admin = AdminClient({"bootstrap.servers": worker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": "20000"})])[topic].result(WAIT_S)
    sizes = [9000, 9000, 9000, 40_000, 9000]
    SCRIPTS[name].batches = [[source_record(topic, str(i) * size, i) for i, size in enumerate(sizes)]]
    worker.create(name, source_config(name, dlq))
    eventually(lambda: [e.offset for e in worker.herder.offsets(name)] == [{"offset": 4}], "the offset of the last record")
    assert [(v or "")[0] for v in worker.values(topic, 4)] == ["0", "1", "2", "4"]
    (letter,) = messages(worker, dlq, 1)
    assert orjson.loads(letter.value() or b"")["sourceOffset"] == {"offset": 3}
    assert counts(worker, name).skipped == 1


def test_commit_record_is_called_for_skipped_records_too(worker: Worker, unique_name: Name) -> None:
    name, topic, dlq = unique_name("source"), unique_name("topic"), unique_name("dlq")
    admin = AdminClient({"bootstrap.servers": worker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": "20000"})])[topic].result(WAIT_S)
    script = SCRIPTS[name]
    script.batches = [[source_record(topic, value, i) for i, value in enumerate(["a", "bad", "b", "x" * 30_000, "c"])]]
    transform = {"transforms": "up", "transforms.up.type": f"{FAKES}:Upper", "connector.class": f"{FAKES}:ConfirmingSource"}
    worker.create(name, source_config(name, dlq, **transform))
    eventually(lambda: len(script.confirmed) == 5, "five confirmations")
    found = {r.source_offset["offset"]: place is not None for r, place in script.confirmed if r.source_offset}
    assert found == {0: True, 1: False, 2: True, 3: False, 4: True}
    assert len(messages(worker, dlq, 2)) == 2
    eventually(lambda: [e.offset for e in worker.herder.offsets(name)] == [{"offset": 4}], "the offset of the last record")


def test_a_dead_letter_larger_than_the_clients_memory_fails_the_task(worker: Worker, unique_name: Name) -> None:
    name, topic, dlq = unique_name("source"), unique_name("topic"), unique_name("dlq")
    SCRIPTS[name].batches = [[source_record(topic, value, i) for i, value in enumerate(["a", "bad" + "x" * 60_000])]]
    settings = {"transforms": "up", "transforms.up.type": f"{FAKES}:Upper", "producer.override.buffer.memory": "20480"}
    worker.create(name, source_config(name, dlq, **settings))
    worker.wait_for(name, State.FAILED)
    assert "do not fit into the client's memory; raise producer.override.buffer.memory" in worker.trace(name).splitlines()[0]
    assert worker.herder.offsets(name) == []


def test_a_record_that_the_dead_letter_queue_rejects_fails_the_task_and_its_offset_is_not_stored(
    worker: Worker, unique_name: Name
) -> None:
    name, topic, dlq = unique_name("source"), unique_name("topic"), unique_name("dlq")
    admin = AdminClient({"bootstrap.servers": worker.bootstrap})
    admin.create_topics([NewTopic(dlq, 1, 1, config={"max.message.bytes": "1000"})])[dlq].result(WAIT_S)
    SCRIPTS[name].batches = [[source_record(topic, value, i) for i, value in enumerate(["a", "bad", "b"])]]
    worker.create(name, source_config(name, dlq, **{"transforms": "up", "transforms.up.type": f"{FAKES}:Upper"}))
    worker.wait_for(name, State.FAILED)
    first = worker.trace(name).splitlines()[0]
    assert (
        f"Could not produce message to dead letter queue. topic={dlq}: it is larger than the topic or the client allows" in first
    )
    assert worker.herder.offsets(name) == []
    assert counts(worker, name).dead_letter_failures == 1


def test_a_record_that_is_retried_when_its_task_is_stopped_is_neither_skipped_nor_committed(
    worker: Worker, unique_name: Name
) -> None:
    name, topic, dlq = unique_name("sink"), unique_name("topic"), unique_name("dlq")
    worker.produce(topic, ["a", "later", "b"])
    script = SCRIPTS[name]
    retries = {"errors.retry.timeout": "-1", "errors.retry.delay.max.ms": "300"}
    transform = {"transforms": "l", "transforms.l.type": f"{FAKES}:Later", "transforms.l.suffix": name}
    worker.create(name, sink_config(name, topic, dlq, **retries, **transform))
    assert script.hanging.wait(WAIT_S)
    eventually(lambda: counts(worker, name).retries > 0, "a retry")
    worker.herder.delete_connector(name)
    assert members(worker, name) == []  # whoever takes over need not wait for a session to run out
    assert script.delivered == []
    script.hang.set()
    worker.create(name, sink_config(name, topic, dlq, **retries, **transform))
    eventually(lambda: values(script.delivered) == ["a", "later", "b"], "all records")
    eventually(lambda: committed(worker, name) == {0: 3}, "the commit")
    assert messages(worker, dlq, 0) == []
