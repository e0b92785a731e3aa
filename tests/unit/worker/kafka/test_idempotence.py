"""Records keep their order whatever the broker refuses for a while, and a producer that cannot go on is replaced.

The broker is a mock: one node alone never refuses a batch and takes the next one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message

from connect import Schema, SourceConnector, SourceRecord, SourceTask
from connect.plugins import Plugins
from tests.mock_kafka import MockKafka, Request
from tests.support.waiting import WAIT_S, eventually
from tests.unit.worker.executors.conftest import MemoryServices
from tests.unit.worker.tasks.task_listener import Listener
from worker.config.client_overrides import client_properties
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.executors.task_factory import TaskFactory, TaskRequest
from worker.kafka.idempotence import with_idempotence
from worker.kafka.record_producer import ProducerRun, RecordProducer
from worker.kafka.settings import ClientKind
from worker.model import TaskId
from worker.source import task as source_task

pytestmark = pytest.mark.slow

ID = TaskId("c", 0)
TOPIC = "t"
STRING = "org.apache.kafka.connect.storage.StringConverter"
NOT_LEADER = KafkaError.NOT_LEADER_FOR_PARTITION


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with MockKafka() as kafka:
        kafka.create_topic(TOPIC)
        yield kafka


def worker_of(kafka: MockKafka, **more: str) -> WorkerConfig:
    required = {"key.converter": STRING, "value.converter": STRING, "offset.storage.file.filename": "unused"}
    named = {key.replace("_", "."): value for key, value in more.items()}
    return WorkerConfig.standalone({"bootstrap.servers": kafka.bootstrap, **required, "offset.flush.interval.ms": "50", **named})


def test_a_temporarily_rejected_batch_keeps_its_order(kafka: MockKafka) -> None:
    java = with_idempotence(
        client_properties(ClientKind.PRODUCER, worker_of(kafka), "c", 0, {"producer.override.batch.size": "20000"})
    )
    producer = RecordProducer(java, stopping=lambda: False, confirms_each=True, replaceable=True)
    written: dict[int, int] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None
        written[int((message.value() or b"")[:6])] = message.offset() or 0

    try:
        number = 0
        for _ in range(20):
            for _ in range(200):
                producer.send_one(ProducerRun(TOPIC, [None], [b"%06d" % number + b"x" * 500], [0]), delivered)
                number += 1
            kafka.refuse(Request.PRODUCE, NOT_LEADER)
            producer.serve()
            threading.Event().wait(0.01)
        assert producer.drain(WAIT_S)
    finally:
        producer.close()
    assert list(written) == list(range(number))  # as they were told of
    assert [written[n] for n in range(number)] == sorted(written.values())


class Counting(SourceTask):
    """Gives records 0, 1, 2 ... from where its offset stands, ten at a time, up to the ``limit`` of the test."""

    limit = 0
    refuse_at: tuple[int, Callable[[], None]] | None = None
    starts: list[int]

    def start(self, config: Mapping[str, str]) -> None:
        offset = self.context.offset_reader.offset({"p": 1})
        self._next = int(offset["n"]) + 1 if offset else 0
        type(self).starts.append(self._next)

    def poll(self) -> Sequence[SourceRecord] | None:
        cls = type(self)
        if self._next >= cls.limit:
            return None
        if cls.refuse_at is not None and self._next >= cls.refuse_at[0]:
            (_, refuse), cls.refuse_at = cls.refuse_at, None
            refuse()
        begin, self._next = self._next, self._next + 10
        return [SourceRecord({"p": 1}, {"n": n}, TOPIC, 0, None, None, Schema.STRING, str(n)) for n in range(begin, self._next)]

    def stop(self) -> None: ...


class Scene:
    """One task of a counting source, and what it told."""

    def __init__(self, kafka: MockKafka, config: Mapping[str, str], **worker: str) -> None:
        self.services, self.listener = MemoryServices(), Listener()
        Counting.limit, Counting.refuse_at, Counting.starts = 100, None, []
        factory = TaskFactory(worker_of(kafka, **worker), Plugins.discover(), self.services, SecretMask())
        full = {"name": "c", "connector.class": "x", **config}
        self.task = factory.create(TaskRequest(ID, SourceConnector, Counting, full, full, None, paused=False), self.listener)

    def stored(self) -> int | None:
        found: Any = self.services.offsets.get("c", {"p": 1})
        return None if found is None else int(found["n"])

    def wait_until_stored(self, number: int) -> None:
        def is_stored() -> bool:
            assert not self.listener.ended.is_set(), self.listener.error
            return self.stored() == number

        eventually(is_stored, f"offset {number}", lambda: (self.stored(), self.listener.said))


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Scene], Scene]]:
    monkeypatch.setattr(source_task, "_RETRY_FIRST_S", 0.001)
    started: list[Scene] = []

    def start(scene: Scene) -> Scene:
        started.append(scene)
        scene.task.start()
        return scene

    yield start
    for scene in started:
        scene.task.stop()
        assert scene.task.join(time.monotonic() + WAIT_S)


Start = Callable[[Scene], Scene]


def test_a_principal_without_permission_writes_without_idempotence(
    kafka: MockKafka, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.refuse(Request.INIT_PRODUCER_ID, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    scene = start(Scene(kafka, {}))
    scene.wait_until_stored(99)
    assert Counting.starts == [0, 0]  # nothing had been written
    assert "Without IDEMPOTENT_WRITE on the cluster" in caplog.text


@pytest.mark.parametrize("config", [{}, {"errors.tolerance": "all"}])
def test_a_producer_with_a_sequence_error_is_replaced_after_the_last_acknowledged_record(
    kafka: MockKafka, start: Start, caplog: pytest.LogCaptureFixture, config: dict[str, str]
) -> None:
    scene = start(Scene(kafka, config))
    scene.wait_until_stored(99)
    refuse = [KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER] * 3
    Counting.refuse_at, Counting.limit = (100, lambda: kafka.refuse(Request.PRODUCE, *refuse)), 300
    scene.wait_until_stored(299)
    assert Counting.starts[:2] == [0, 100]  # none was skipped, though failures are tolerated
    assert "Task c-0 restarts from its last committed offsets" in caplog.text
    assert scene.listener.error is None


def test_a_task_whose_producers_keep_failing_fails(kafka: MockKafka, start: Start) -> None:
    kafka.refuse(Request.PRODUCE, *[KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER] * 50)
    scene = start(Scene(kafka, {}))
    assert scene.listener.ended.wait(WAIT_S)
    assert Counting.starts == [0] * 4
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in str(scene.listener.error)


def test_configured_idempotence_is_not_disabled(kafka: MockKafka, start: Start) -> None:
    kafka.refuse(Request.INIT_PRODUCER_ID, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    scene = start(Scene(kafka, {"producer.override.enable.idempotence": "true"}))
    assert scene.listener.ended.wait(WAIT_S)
    assert Counting.starts == [0]
    assert "not authorized" in str(scene.listener.error)


@pytest.mark.parametrize(
    ("given", "numbered"),
    [
        ({}, True),
        ({"max.in.flight.requests.per.connection": "5", "acks": "-1"}, True),
        ({"max.in.flight.requests.per.connection": "6"}, False),
        ({"acks": "1"}, False),
        ({"retries": "0"}, False),
        ({"enable.idempotence": "false"}, False),
    ],
)
def test_idempotence_is_enabled_unless_settings_contradict_it(given: dict[str, str], numbered: bool) -> None:
    assert (with_idempotence(given).get("enable.idempotence") == "true") is numbered
    assert {**with_idempotence(given), **given} == with_idempotence(given)
