"""Errant records with a worker and a broker: the table has the good records once, the dead letter queue the bad ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from connect.record import TopicPartition as ConnectTopicPartition
from connect.testing.harness import MemoryReporter
from connectors.spark.tables import open_table
from connectors.spark.task import SparkSinkTask
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.spark.conftest import Context
from tests.support.waiting import WAIT_S, eventually
from worker.config.worker_config import WorkerConfig
from worker.model import TaskId
from worker.standalone.herder import StandaloneHerder

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PREFIX = "__connect.errors."
JSON = "org.apache.kafka.connect.json.JsonConverter"


def good(id_: int) -> tuple[bytes, bytes]:
    value = {"before": None, "after": {"id": id_, "v": f"v{id_}"}, "op": "c", "source": {"ts_ms": 1}}
    return json.dumps({"id": id_}).encode(), json.dumps(value).encode()


def bad(which: int) -> tuple[bytes | None, bytes]:
    key, value = good(1000 + which)
    return (
        (key, b"{broken"),
        (None, value),
        (key, b'{"id":1}'),
        (key, value.replace(b'"v1003"', b"3")),
        (b'{"other":4}', value),
    )[which]


def test_good_records_are_in_the_table_and_bad_ones_in_the_dead_letter_queue_once(
    props: dict[str, str],
    read: Callable[[str], list[dict[str, Any]]],
    broker: EmbeddedBroker,
    unique_name: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Undecoded records only: put() would be the worker's fallback.
    monkeypatch.setattr(SparkSinkTask, "put", None)
    topic, dlq, name = unique_name("topic"), unique_name("dlq"), unique_name("lake")
    config = {
        **props,
        "name": name,
        "topics": topic,
        "write.mode": "upsert",
        "commit.interval.ms": "100",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dlq,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    worker_settings = {
        "bootstrap.servers": broker.bootstrap,
        "key.converter": JSON,
        "value.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "task.executors": "0",
        "offset.flush.interval.ms": "200",
    }
    first = [*(good(i) for i in range(50)), bad(0), bad(1), good(50)]
    second = [good(51), bad(2), bad(3), good(52), bad(4)]
    for batches in ([(first, 51, 2), ([bad(0)], 51, 3)], [(second, 2, 3)]):
        herder = StandaloneHerder(WorkerConfig.standalone(worker_settings))
        try:
            herder.start()
            herder.put_connector(name, config, replace=False)
            for records, rows, errant in batches:
                produce(broker, topic, records)
                wait_until_in_table(herder, name, topic, rows, errant)
            progress = herder.progress(TaskId(name, 0))
            assert progress is not None
            assert progress.errors.failures == progress.errors.dead_letters == 3
        finally:
            herder.close(10)
    assert sorted((r["id"], r["v"]) for r in read(topic)) == [(i, f"v{i}") for i in range(53)]
    dead_letters = messages(broker, dlq)
    assert [(m.key(), m.value()) for m in dead_letters] == [bad(i) for i in (0, 1, 0, 2, 3, 4)]
    context = [{h.removeprefix(PREFIX): (v or b"").decode() for h, v in m.headers() or []} for m in dead_letters]
    assert [c["offset"] for c in context] == ["50", "51", "53", "55", "56", "58"]
    assert {(c["topic"], c["partition"], c["stage"], c["connector.name"]) for c in context} == {(topic, "0", "TASK_PUT", name)}
    expected = [
        "cannot be read",
        "has no key",
        "cannot be read",
        "no op field",
        "field v: ",
        "the record key has the fields other",
    ]
    for message, text in zip([c["exception.message"] for c in context], expected, strict=True):
        assert text in message


def test_commit_with_only_errant_records_advances_the_table_offsets(
    props: Any, run: Any, topic: Any, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_table, "reaches_jvm", lambda spark: False)
    reporter = MemoryReporter()
    t = topic("t", schemas=False)
    monkeypatch.setattr(Context, "errant_record_reporter", reporter)
    t.add(None, b'{"id":1}')
    task_run = run({**props, "errors.tolerance": "all"}, [t], raw=True, group={})
    task_run.deliver()
    task_run.commit()
    t.add(None, b"{")
    task_run.deliver()
    task_run.close()
    restarted = run(props, [t], raw=True, group={})
    assert restarted.position == {ConnectTopicPartition("t", 0): 2}
    restarted.task.close()
    assert [r["id"] for r in read("t")] == [1]
    assert len(reporter.reported_raw) == 1


def produce(broker: EmbeddedBroker, topic: str, records: list[tuple[bytes | None, bytes]]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for key, value in records:
        producer.produce(topic, value, key, 0)
    assert producer.flush(WAIT_S) == 0
    producer.close()


def wait_until_in_table(herder: StandaloneHerder, name: str, table: str, rows: int, errant: int) -> None:
    """Waits until this run of the task has committed this many rows and errant records to the table."""
    details: Any = {}

    def are_in_table() -> bool:
        nonlocal details
        progress = herder.progress(TaskId(name, 0))
        details = progress.details if progress is not None else {}
        written = details.get("tables", {}).get(table, {}).get("rows", 0)
        return bool((written, details.get("refused"), details.get("buffered")) == (rows, errant, 0))

    eventually(are_in_table, f"{rows} rows and {errant} errant records", lambda: (herder.connector_status(name), details))


def messages(broker: EmbeddedBroker, topic: str) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "test-reader", "enable.auto.commit": False})
    try:
        end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)[1]
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Message] = []
        while len(found) < end:
            found += [m for m in consumer.consume(end - len(found), 1.0) if m.error() is None]
        return found
    finally:
        consumer.close()
