"""A standalone worker in this process, over the session's broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sluice.embedded.broker import EmbeddedBroker
from worker.config import WorkerConfig
from worker.herder import State, TaskId
from worker.standalone import StandaloneHerder

STRING = "org.apache.kafka.connect.storage.StringConverter"
FAKES = "tests.integration.worker.fakes"

Settings = Mapping[str, str]


def eventually(claim: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    """Waits until the claim holds; fails with ``what`` when it never does."""
    deadline = time.monotonic() + timeout_s
    while not claim():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)


class Worker:
    """A herder with what tests ask of it."""

    def __init__(self, herder: StandaloneHerder, bootstrap: str) -> None:
        self.herder = herder
        self.bootstrap = bootstrap

    def create(self, name: str, config: Settings) -> None:
        self.herder.put_connector(name, config, replace=False)

    def state(self, name: str, task: int = 0) -> State | None:
        tasks = dict(self.herder.connector_status(name).tasks)
        return tasks[task].state if task in tasks else None

    def trace(self, name: str, task: int = 0) -> str:
        return self.herder.task_status(TaskId(name, task)).trace or ""

    def wait_for(self, name: str, state: State, task: int = 0, timeout_s: float = 30.0) -> None:
        eventually(
            lambda: self.state(name, task) is state,
            f"{name}-{task} {state.value}, but it is {self.herder.connector_status(name)}",
            timeout_s,
        )

    def values(self, topic: str, count: int, timeout_s: float = 30.0) -> list[str | None]:
        """The first values of a topic of one partition; fewer when there are no more within the time."""
        return [None if v is None else v.decode() for _, v in self.records(topic, count, timeout_s)]

    def records(self, topic: str, count: int, timeout_s: float = 30.0) -> list[tuple[bytes | None, bytes | None]]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "test-reader", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            found: list[tuple[bytes | None, bytes | None]] = []
            deadline = time.monotonic() + timeout_s
            while len(found) < count and time.monotonic() < deadline:
                found += [(m.key(), m.value()) for m in consumer.consume(1000, 0.1) if m.error() is None]
            return found[:count]
        finally:
            consumer.close()

    def produce(self, topic: str, values: list[str | None], partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for value in values:
            producer.produce(topic, value, partition=partition)
            producer.poll(0)
        assert producer.flush(20) == 0
        producer.close()


StartWorker = Callable[..., Worker]


@pytest.fixture
def start_worker(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[StartWorker]:
    """Starts workers; settings override the usual ones."""
    herders: list[StandaloneHerder] = []

    def start(**settings: str) -> Worker:
        props = {
            "bootstrap.servers": broker.bootstrap,
            "key.converter": STRING,
            "value.converter": STRING,
            "offset.storage.file.filename": str(tmp_path / "offsets"),
            "offset.flush.interval.ms": "300",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        herder = StandaloneHerder(WorkerConfig.standalone(props))
        herders.append(herder)
        herder.start()
        return Worker(herder, broker.bootstrap)

    yield start
    for herder in herders:
        herder.close(10)


@pytest.fixture
def worker(start_worker: StartWorker) -> Worker:
    return start_worker()
