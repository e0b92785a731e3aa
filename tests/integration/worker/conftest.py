"""A standalone worker in this process with the session's broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from sluice.embedded.broker import EmbeddedBroker
from tests.support.waiting import WAIT_S, Deadline, eventually
from worker.config.worker_config import WorkerConfig
from worker.model import State, TaskId
from worker.standalone.connector import StandaloneConnector
from worker.standalone.herder import StandaloneHerder

if TYPE_CHECKING:
    from tests.integration.worker.transactions import Setting

STRING = "org.apache.kafka.connect.storage.StringConverter"
FAKES = "tests.integration.worker.fakes"

Settings = Mapping[str, str]


class Worker:
    """A herder with the helpers that tests need."""

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

    def wait_for(self, name: str, state: State, task: int = 0) -> None:
        eventually(
            lambda: self.state(name, task) is state, f"{name}-{task} {state.value}", lambda: self.herder.connector_status(name)
        )

    def values(self, topic: str, count: int | None = None) -> list[str | None]:
        """Waits for the first values of a topic with one partition; without a count, returns those up to its present end."""
        return [None if v is None else v.decode() for _, v in self.records(topic, count)]

    def records(self, topic: str, count: int | None = None) -> list[tuple[bytes | None, bytes | None]]:
        settings = {
            "group.id": "test-reader", "enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 20,
        }  # fmt: skip
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **settings})
        try:
            # Once it exists: otherwise the client looks again half a second later.
            eventually(lambda: bool(consumer.list_topics(topic, timeout=WAIT_S).topics[topic].partitions), topic)
            consumer.assign([TopicPartition(topic, 0, 0)])
            found: list[tuple[bytes | None, bytes | None]] = []
            deadline, end_seen = Deadline(f"{count or 'all'} records of {topic}", lambda: found), False
            while len(found) < count if count is not None else not end_seen:
                deadline.check()
                for message in consumer.consume(1000, 0.02):
                    error = message.error()
                    if error is None:
                        found.append((message.key(), message.value()))
                    end_seen = error is not None and error.code() == KafkaError._PARTITION_EOF
            return found[:count]
        finally:
            consumer.close()

    def produce(self, topic: str, values: list[str | None], partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        # Connect first: otherwise the client requests its producer id half a second later.
        producer.list_topics(topic, timeout=WAIT_S)
        for value in values:
            producer.produce(topic, value, partition=partition)
            producer.poll(0)
        assert producer.flush(WAIT_S) == 0
        producer.close()


StartWorker = Callable[..., Worker]


@pytest.fixture
def start_worker(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[StartWorker]:
    """Starts workers; the settings override the defaults."""
    herders: list[StandaloneHerder] = []

    def start(**settings: str) -> Worker:
        props = {
            "bootstrap.servers": broker.bootstrap,
            "key.converter": STRING,
            "value.converter": STRING,
            "offset.storage.file.filename": str(tmp_path / "offsets"),
            "offset.flush.interval.ms": "300",
            "task.executors": "0",  # the scripts of fakes are in this process
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


class StateHistory:
    """Records all states of connectors and tasks in this process in order, including short-lived ones."""

    def __init__(self) -> None:
        self._states: list[tuple[str, int | None, State]] = []

    def note(self, connector: str, task: int | None, state: State) -> None:
        self._states.append((connector, task, state))

    def of(self, connector: str, task: int | None = None) -> list[State]:
        """Returns the states of a task or, without a task number, of the connector."""
        return [state for *instance, state in self._states if instance == [connector, task]]


@pytest.fixture
def state_history(monkeypatch: pytest.MonkeyPatch) -> StateHistory:
    state_history = StateHistory()
    of_connector, of_task = StandaloneConnector.on_connector_state, StandaloneConnector.on_task_state

    # Recorded after the status shows the state.
    def on_connector_state(connector: StandaloneConnector, run: int, state: State, trace: str | None) -> None:
        of_connector(connector, run, state, trace)
        state_history.note(connector.definition.name, None, state)

    def on_task_state(
        connector: StandaloneConnector, run: int, number: int, state: State, trace: str | None, version: str | None
    ) -> None:
        of_task(connector, run, number, state, trace, version)
        state_history.note(connector.definition.name, number, state)

    monkeypatch.setattr(StandaloneConnector, "on_connector_state", on_connector_state)
    monkeypatch.setattr(StandaloneConnector, "on_task_state", on_task_state)
    return state_history


@pytest.fixture
def setting(broker: EmbeddedBroker, unique_name: Callable[[str], str]) -> Iterator[Setting]:
    from tests.integration.worker.transactions import Setting  # imports this module itself

    created = Setting(broker.bootstrap, unique_name("eos"))
    yield created
    created.tasks.close()
