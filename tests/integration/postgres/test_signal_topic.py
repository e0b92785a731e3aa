"""Signals in a topic."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import free_ports
from sluice.embedded.postgres import EmbeddedPostgres
from tests.support.numbered_changes import NumberedTables
from tests.support.postgres_options import postgres_source
from tests.support.source_stream import SourceStream
from tests.support.waiting import WAIT_S

_EXECUTE = json.dumps({"type": "execute-snapshot", "data": {"data-collections": ["public.t"]}})


def send(broker: EmbeddedBroker, topic: str, *signals: tuple[str, str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for key, value in signals:
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(WAIT_S) == 0


def committed(broker: EmbeddedBroker, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        return int(consumer.committed([TopicPartition(topic, 0)], timeout=WAIT_S)[0].offset)
    finally:
        consumer.close()


def read_rows(source: Any, count: int) -> list[Any]:
    """Polls until that many rows of snapshots have been read, and returns all records."""
    found: list[Any] = source.poll_until(
        lambda found: sum(record.value["op"] == "r" for record in found) >= count, f"{count} rows"
    )
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
    send(broker, topic, ("shop", json.dumps({"id": "x", "type": "log", "data": {"message": "seen again"}})))
    source.idle_until(lambda: "signal x: seen again" in caplog.text, "the signal")


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
    source.poll_until(lambda _: "message 2" in caplog.text, "the last signal")
    assert "message 1" not in caplog.text
    assert f"signal {topic}-2: message 2" in caplog.text


@pytest.mark.long
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
    source.idle_until(lambda: f"topic {other} cannot be read now" in caplog.text, "a warning")
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
    source.poll_until(lambda _: f"No Kafka broker answers at 127.0.0.1:{port}" in caplog.text, "a warning")
    with source.sql() as db:
        db.execute("insert into t values (4)")
    assert [record.key["id"] for record in source.read(1)] == [4]


@pytest.mark.long
def test_a_worker_reads_signals_from_its_own_cluster(
    tmp_path: Path, broker: EmbeddedBroker, postgres: EmbeddedPostgres, database: str
) -> None:
    source = postgres_source(
        postgres, database, table_include_list="public.counters", snapshot_mode="no_data", read_only="true",
        signal_enabled_channels="kafka", signal_poll_interval_ms="50",
    )  # fmt: skip
    stream = SourceStream(tmp_path, broker, NumberedTables.in_postgres(postgres, database, 10), source)
    data = {"data-collections": ["public.counters"]}
    send(broker, f"{database}-signal", (database, json.dumps({"type": "execute-snapshot", "data": data})))
    try:
        stream.worker.start()
        stream.worker.wait_for(lambda: len(stream.values("counters")) == 1010, WAIT_S, "the rows of the snapshot")
        assert {value["op"] for value in stream.values("counters") if value is not None} == {"r"}
    finally:
        stream.close()
