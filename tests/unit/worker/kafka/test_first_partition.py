"""Reading a topic for a source task. What needs a broker is in the tests of the signal topic."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import OFFSET_STORED, KafkaError, TopicPartition

from worker.kafka import first_partition
from worker.kafka.first_partition import FirstPartitionReader


class FakeMessage:
    def __init__(self, offset: int, error: KafkaError | None = None) -> None:
        self._offset = offset
        self._error = error

    def error(self) -> KafkaError | None:
        return self._error

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"


class FakeConsumer:
    def __init__(self) -> None:
        self.assigned: list[tuple[str, int, int]] = []
        self.answers: list[list[FakeMessage]] = []

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.assigned += [(one.topic, one.partition, one.offset) for one in partitions]

    def consume(self, count: int, timeout_s: float) -> list[FakeMessage]:
        return self.answers.pop(0)


def test_a_moved_coordinator_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client itself would never read the partition."""
    consumer = FakeConsumer()
    monkeypatch.setattr(first_partition, "make_consumer", lambda *args, **more: consumer)
    reader = FirstPartitionReader({"bootstrap.servers": "h:1", "group.id": "g"}, "signals", None)
    assert consumer.assigned == [("signals", 0, OFFSET_STORED)]
    consumer.answers = [[FakeMessage(-1, KafkaError(KafkaError.NOT_COORDINATOR))], [FakeMessage(7)]]
    assert list(reader.read()) == []
    assert consumer.assigned == [("signals", 0, OFFSET_STORED)] * 2
    assert [record.offset for record in reader.read()] == [7]
    consumer.answers = [[FakeMessage(-1, KafkaError(KafkaError.NOT_COORDINATOR))]]
    assert list(reader.read()) == []
    assert consumer.assigned[2:] == [("signals", 0, 8)]


def test_a_problem_is_logged_once_until_something_is_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = FakeConsumer()
    callbacks: dict[str, Any] = {}
    monkeypatch.setattr(first_partition, "make_consumer", lambda *args, **more: callbacks.update(more) or consumer)
    reader = FirstPartitionReader({"bootstrap.servers": "h:1", "group.id": "g"}, "signals", 3)
    assert consumer.assigned == [("signals", 0, 3)]
    missing = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    callbacks["error_cb"](missing)
    callbacks["error_cb"](missing)
    assert caplog.text.count("topic signals cannot be read now: reading topic signals") == 1
    consumer.answers = [[FakeMessage(3)]]
    assert len(reader.read()) == 1
    callbacks["error_cb"](missing)
    assert caplog.text.count("topic signals cannot be read now") == 2
