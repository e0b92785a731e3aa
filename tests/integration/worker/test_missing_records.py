"""A running sink whose tables say which records they have stops when its topic lost records before they were read (promise 6)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from connectors.spark.delivery import topic_watch
from tests.integration.worker.conftest import Worker
from tests.support.waiting import WAIT_S, eventually
from worker.model import State, TargetState

Name = Callable[[str], str]
_JSON = "org.apache.kafka.connect.json.JsonConverter"


class Sink:
    """A Parquet table that a connector writes from a topic with one partition."""

    def __init__(self, worker: Worker, folder: Path, name: str, topic: str) -> None:
        self.worker, self.folder, self.name, self.topic = worker, folder, name, topic
        self.admin = AdminClient({"bootstrap.servers": worker.bootstrap})

    def create_topic(self) -> None:
        def is_created() -> bool:
            try:
                self.admin.create_topics([NewTopic(self.topic, 1, 1)])[self.topic].result(WAIT_S)
            except KafkaException:  # the old one is still being deleted
                return False
            return True

        eventually(is_created, "the topic")

    def delete_topic(self) -> None:
        self.admin.delete_topics([self.topic])[self.topic].result(WAIT_S)

    def delete_records(self, end: int) -> None:
        for deleted in self.admin.delete_records([ClientPartition(self.topic, 0, end)]).values():
            deleted.result(WAIT_S)

    def produce(self, first: int, end: int) -> None:
        self.worker.produce(self.topic, [json.dumps({"id": i}) for i in range(first, end)])

    def create(self) -> None:
        config = {
            "connector.class": "SparkSink",
            "topics": self.topic,
            "table.location": str(self.folder),
            "table.format": "parquet",
            "table.name.format": "t",
            "freshness.ms": "100",
            "metadata.columns": "none",
            "value.converter": _JSON,
            "value.converter.schemas.enable": "false",
        }
        self.worker.create(self.name, config)

    def ids(self) -> list[int]:
        if not list((self.folder / "t").glob("*.parquet")):
            return []
        found: list[int] = ds.dataset(str(self.folder / "t"), format="parquet").to_table(["id"])["id"].to_pylist()
        return sorted(found)

    def wait_for(self, ids: list[int]) -> None:
        eventually(lambda: self.ids() == ids, "the rows", self.ids)

    def pause(self) -> None:
        self.worker.herder.set_target_state(self.name, TargetState.PAUSED)
        self.worker.wait_for(self.name, State.PAUSED)

    def resume(self) -> None:
        self.worker.herder.set_target_state(self.name, TargetState.STARTED)

    def failure(self) -> str:
        self.worker.wait_for(self.name, State.FAILED)
        return self.worker.trace(self.name)


@pytest.fixture
def sink(worker: Worker, tmp_path: Path, unique_name: Name) -> Sink:
    """It has written 100 records."""
    sink = Sink(worker, tmp_path / "lake", unique_name("sink"), unique_name("topic"))
    sink.create_topic()
    sink.produce(0, 100)
    sink.create()
    sink.wait_for(list(range(100)))
    return sink


def test_a_task_stops_when_retention_overtakes_it(sink: Sink) -> None:
    sink.pause()
    sink.produce(100, 1000)
    sink.delete_records(600)
    sink.resume()
    trace = sink.failure()
    assert f"{sink.topic}-0 up to offset 100, but the topic begins at 600: retention deleted 500 records" in trace
    assert sink.ids() == list(range(100))


def test_a_task_goes_on_when_retention_deletes_what_it_has(sink: Sink) -> None:
    sink.pause()
    sink.produce(100, 200)
    sink.delete_records(100)
    sink.resume()
    sink.wait_for(list(range(200)))


@pytest.mark.parametrize("records", [30, pytest.param(300, marks=pytest.mark.long)])
def test_a_task_stops_when_its_topic_was_recreated(sink: Sink, records: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_watch, "_INTERVAL_S", 0.5)
    sink.pause()
    sink.delete_topic()
    sink.create_topic()
    sink.produce(0, records)
    sink.resume()
    assert "recreated" in (trace := sink.failure())
    assert f"{sink.topic}-0 up to offset " in trace
    assert sink.ids()[:100] == list(range(100))
