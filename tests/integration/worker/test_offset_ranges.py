"""Offset ranges of a real broker: transactions, deleted records, transformations, and a Spark sink that reads them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connect.sink import OffsetRange
from sluice.demo.delta_table import read_delta_table
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.jars import ensure_jars, folder_of, jar_set
from tests.integration.worker.conftest import Worker
from tests.support.waiting import WAIT_S, eventually
from worker.kafka.range_consumer import read_range
from worker.model import State, TaskId
from worker.sink.range_reader import KafkaRangeReader

# PySpark leaves the socket that it read results from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Name = Callable[[str], str]

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_HEADER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


def write_transactions(bootstrap: str, topic: str, *, partitions: int, count: int) -> None:
    """Per partition: ``count`` committed records, as many aborted ones, and one committed again, each followed by a marker."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT_S)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(WAIT_S)
    for name, records, commits in (("good", count, True), ("bad", count, False), ("last", 1, True)):
        producer.begin_transaction()
        for partition in range(partitions):
            for number in range(records):
                producer.produce(topic, b'{"name":"%s","n":%d}' % (name.encode(), number), partition=partition)
        producer.flush(WAIT_S)
        if commits:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(20)
    producer.close()


def consumer_settings(bootstrap: str, **more: str) -> dict[str, str]:
    fixed = {"group.id": "ranges", "isolation.level": "read_committed", "fetch.max.wait.ms": "50"}
    return {"bootstrap.servers": bootstrap, **fixed, **{key.replace("_", "."): value for key, value in more.items()}}


def reader_of(bootstrap: str, connector: dict[str, str], *, raw: bool = False) -> KafkaRangeReader:
    json = (_JSON, {"schemas.enable": "false"})
    reader = KafkaRangeReader(
        TaskId("lake", 0), consumer_settings(bootstrap, sasl_password="hidden"), json, json, (_HEADER, {}), connector, raw
    )
    assert "hidden" not in repr(reader)
    restored: KafkaRangeReader = pickle.loads(pickle.dumps(reader))
    return restored


def test_range_has_committed_records_and_ends_at_markers(broker: EmbeddedBroker, unique_name: Name) -> None:
    topic, count = unique_name("topic"), 50
    write_transactions(broker.bootstrap, topic, partitions=1, count=count)
    reader, partition = reader_of(broker.bootstrap, {}, raw=True), TopicPartition(topic, 0)
    end = 2 * count + 4  # with three markers
    parts = [OffsetRange(partition, 0, 10), OffsetRange(partition, 10, count + 20), OffsetRange(partition, count + 20, end)]
    found: list[int] = []
    for part in parts:
        batches = list(reader.read(part))
        assert batches[-1].end == part.end
        assert all(batch.records is None for batch in batches)
        offsets = [offset for batch in batches for offset in batch.raw.offsets]
        assert all(part.first <= offset < part.end for offset in offsets)
        found += offsets
    assert found == [*range(count), end - 2]


def test_records_are_transformed_and_failures_have_their_bytes(broker: EmbeddedBroker, worker: Worker, unique_name: Name) -> None:
    topic = unique_name("topic")
    worker.produce(topic, ['{"a":1}', "no json", '{"a":2}'])
    chain = {
        "transforms": "r",
        "transforms.r.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
        "transforms.r.renames": "a:b",
    }
    for tolerance, values, end in (("all", [{"b": 1}, {"b": 2}], 3), ("none", [{"b": 1}], 3)):
        reader = reader_of(broker.bootstrap, {**chain, "errors.tolerance": tolerance})
        (batch,) = reader.read(OffsetRange(TopicPartition(topic, 0), 0, 3))
        assert batch.records is not None
        assert [record.value for record in batch.records] == values
        (failure,) = batch.failures
        assert (failure.stage, failure.record.offset, failure.record.value) == ("VALUE_CONVERTER", 1, b"no json")
        assert pickle.loads(pickle.dumps(failure)).error.args == failure.error.args
        assert batch.end == end


def test_deleted_records_and_missing_brokers_are_errors(broker: EmbeddedBroker, worker: Worker, unique_name: Name) -> None:
    topic = unique_name("topic")
    worker.produce(topic, [str(number) for number in range(10)])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_records([ClientPartition(topic, 0, 5)])[ClientPartition(topic, 0)].result(WAIT_S)
    lost = OffsetRange(TopicPartition(topic, 0), 3, 10)
    with pytest.raises(ConnectError, match=rf"{topic}-0 from 3 to below 10.*retention deleted it") as raised:
        list(read_range(consumer_settings(broker.bootstrap), lost, 100))
    assert not isinstance(raised.value, RetriableError)
    with pytest.raises(RetriableError, match=r"on host \S+: no Kafka broker answers at 127\.0\.0\.1:1 "):
        list(read_range(consumer_settings("127.0.0.1:1"), lost, 100, silence_s=1.0))


@pytest.mark.timeout(1200)
@pytest.mark.long
def test_spark_sink_writes_a_topic_with_transactions_through_executors(
    broker: EmbeddedBroker, worker: Worker, unique_name: Name, tmp_path: Path
) -> None:
    ensure_jars("spark")
    name, topic, count = unique_name("lake"), unique_name("topic"), 2000
    write_transactions(broker.bootstrap, topic, partitions=2, count=count)
    worker.create(
        name,
        {
            "connector.class": "SparkSink",
            "topics": topic,
            "spark.master": "local[2]",
            "spark.jars": str(folder_of(jar_set("spark"))),
            "spark.engine": "executors",
            "spark.linger.ms": "0",
            "table.location": str(tmp_path / "lake"),
            "key.converter": _JSON,
            "value.converter": _JSON,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "consumer.override.isolation.level": "read_committed",
        },
    )
    end = 2 * count + 4

    def offsets() -> dict[int, int]:
        assert worker.state(name) is not State.FAILED, worker.trace(name)
        entries = worker.herder.offsets(name)
        return {(e.partition or {})["kafka_partition"]: e.offset["kafka_offset"] for e in entries if e.offset}

    eventually(lambda: offsets() == {0: end, 1: end}, "all offsets", timeout_s=900.0)
    rows = read_delta_table(tmp_path / "lake" / topic).to_pylist()
    found = sorted((row["__partition"], row["name"], row["n"]) for row in rows)
    good = [("good", number) for number in range(count)]
    assert found == [(partition, *value) for partition in (0, 1) for value in [*good, ("last", 0)]]
    eventually(lambda: _lag(worker, name) == {f"{topic}-0": 0, f"{topic}-1": 0}, "no lag")
    progress = worker.herder.progress(TaskId(name, 0))
    assert progress is not None
    assert progress.records == 2 * (count + 1)
    # Back to the worker: it continues where the executors stopped.
    worker.produce(topic, ['{"name":"new","n":1}'], partition=1)
    eventually(lambda: offsets() == {0: end, 1: end + 1}, "the new record")


def _lag(worker: Worker, name: str) -> object:
    progress = worker.herder.progress(TaskId(name, 0))
    return None if progress is None else progress.lag
