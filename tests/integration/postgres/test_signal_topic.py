"""Signals in a topic."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import free_ports
from sluice.embedded.postgres import EmbeddedPostgres
from tests.chaos.pipeline import create_tables
from tests.chaos.source_pipeline import SourcePipeline

_EXECUTE = json.dumps({"type": "execute-snapshot", "data": {"data-collections": ["public.t"]}})
_TIMEOUT_S = 30.0


def send(broker: EmbeddedBroker, topic: str, *signals: tuple[str, str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for key, value in signals:
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(_TIMEOUT_S) == 0


def committed(broker: EmbeddedBroker, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        return int(consumer.committed([TopicPartition(topic, 0)], timeout=_TIMEOUT_S)[0].offset)
    finally:
        consumer.close()


def read_rows(source: Any, count: int) -> list[Any]:
    """Polls until that many rows of snapshots have been read, and returns all records."""
    found: list[Any] = []
    deadline = time.monotonic() + _TIMEOUT_S
    while sum(record.value["op"] == "r" for record in found) < count:
        assert time.monotonic() < deadline, (len(found), source.task.progress())
        found += source.poll()
    return found


@pytest.fixture
def topic(source: Any, unique_name: Callable[[str], str]) -> str:
    name = unique_name("signals")
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        db.execute("insert into t select generate_series(1, 3)")
    return name


def start(source: Any, broker: EmbeddedBroker, topic: str) -> None:
    source.start(
        snapshot_mode="no_data", read_only="true", signal_enabled_channels="kafka", signal_kafka_topic=topic,
        signal_kafka_bootstrap_servers=broker.bootstrap, signal_poll_interval_ms="50", poll_interval_ms="20",
    )  # fmt: skip


def test_a_signal_is_neither_lost_nor_run_twice(source: Any, broker: EmbeddedBroker, topic: str, caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    send(broker, topic, ("other", _EXECUTE), ("shop", "not json"), ("shop", _EXECUTE))
    source.config["signal.kafka.groupId"] = f"group-{topic}"
    start(source, broker, topic)
    assert len(read_rows(source, 3)) == 3
    assert "skipping a signal that cannot be read" in caplog.text
    source.kill()  # before its offsets are stored
    source.start()
    records = read_rows(source, 3)
    source.store(records[-1])
    assert source.offsets.stored["signal_topic_position"] == 3
    source.kill()
    assert committed(broker, f"group-{topic}", topic) == 3
    source.start()
    deadline = time.monotonic() + _TIMEOUT_S
    send(broker, topic, ("shop", json.dumps({"id": "x", "type": "log", "data": {"message": "seen again"}})))
    while "signal x: seen again" not in caplog.text:
        assert time.monotonic() < deadline
        assert source.poll() == []


def test_without_an_offset_of_its_own_a_task_continues_where_the_group_is(
    source: Any, broker: EmbeddedBroker, topic: str, caplog: Any
) -> None:
    """As after Debezium."""
    caplog.set_level(logging.INFO)
    group = f"group-{topic}"
    log = [("shop", json.dumps({"type": "log", "data": {"message": f"message {n}"}})) for n in range(3)]
    send(broker, topic, *log)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()
    source.config["signal.kafka.groupId"] = group
    start(source, broker, topic)
    deadline = time.monotonic() + _TIMEOUT_S
    while "message 2" not in caplog.text:
        assert time.monotonic() < deadline
        source.poll()
    assert "message 1" not in caplog.text
    assert f"signal {topic}-2: message 2" in caplog.text


def test_a_topic_that_does_not_exist_yet_is_named_and_read_later(
    source: Any, broker: EmbeddedBroker, topic: str, unique_name: Callable[[str], str], caplog: Any
) -> None:
    """The position of another topic says nothing about it."""
    send(broker, topic, ("shop", _EXECUTE))
    start(source, broker, topic)
    source.store(read_rows(source, 3)[-1])
    source.kill()
    other = unique_name("signals")
    source.start(signal_kafka_topic=other)
    deadline = time.monotonic() + _TIMEOUT_S
    while f"topic {other} cannot be read now" not in caplog.text:
        assert time.monotonic() < deadline
        assert source.poll() == []
    send(broker, other, ("shop", _EXECUTE))
    assert len(read_rows(source, 3)) == 3


def test_brokers_that_do_not_answer_are_named(source: Any, topic: str, caplog: Any) -> None:
    """Streaming goes on."""
    (port,) = free_ports(1)
    source.start(
        snapshot_mode="no_data", signal_enabled_channels="kafka", signal_kafka_topic=topic, signal_poll_interval_ms="50",
        signal_kafka_bootstrap_servers=f"127.0.0.1:{port}",
    )  # fmt: skip
    source.until("streaming")
    deadline = time.monotonic() + _TIMEOUT_S
    while f"No Kafka broker answers at 127.0.0.1:{port}" not in caplog.text:
        assert time.monotonic() < deadline
        source.poll()
    with source.sql() as db:
        db.execute("insert into t values (4)")
    assert [record.key["id"] for record in source.read(1)] == [4]


def test_a_worker_reads_signals_from_its_own_cluster(
    tmp_path: Path, broker: EmbeddedBroker, postgres: EmbeddedPostgres, database: str
) -> None:
    create_tables(postgres, database, 10)
    settings = {"snapshot_mode": "no_data", "read_only": "true", "signal_enabled_channels": "kafka"}
    pipeline = SourcePipeline(tmp_path, broker, postgres, database, signal_poll_interval_ms="50", **settings)
    data = {"data-collections": ["public.counters"]}
    send(broker, f"{database}-signal", (database, json.dumps({"type": "execute-snapshot", "data": data})))
    try:
        pipeline.start()
        pipeline.wait_for(lambda: len(pipeline.values("counters")) == 1010, 60, "the rows of the snapshot")
        assert {value["op"] for value in pipeline.values("counters") if value is not None} == {"r"}
    finally:
        pipeline.close()
