"""Fakes of confluent_kafka's clients: they record calls, and the test decides what the broker answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from connect.record import TopicPartition


@dataclass
class FakeMessage:
    """A message as the client passes it to callbacks and returns it from ``consume``."""

    topic_name: str
    partition_number: int = 0
    offset_number: int = 0
    key_data: bytes | None = None
    value_data: bytes | None = None
    failure: Any = None
    """Of a message that reports an error."""

    def topic(self) -> str:
        return self.topic_name

    def partition(self) -> int:
        return self.partition_number

    def offset(self) -> int:
        return self.offset_number

    def key(self) -> bytes | None:
        return self.key_data

    def value(self) -> bytes | None:
        return self.value_data

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000

    def error(self) -> Any:
        return self.failure


class FakeProducerClient:
    """A producer whose broker acknowledges nothing until the test says so, unless ``acknowledges`` is True."""

    def __init__(self, java: Mapping[str, str], **callbacks: Any) -> None:
        self.events: list[Any] = []
        """Everything that was asked of the client, in order; a produced record is its value."""
        self.acknowledges = False
        self.acknowledges_on_poll = False
        self.rejects: dict[bytes, int] = {}
        """Error codes by value, for records that the broker rejects when it answers."""
        self.refuses: dict[bytes, BaseException] = {}
        """Exceptions by value, for records that the client itself does not take."""
        self.transaction_errors: dict[str, KafkaError] = {}
        """The errors of transactional calls, by name; each is raised once."""
        self._on_delivery = callbacks["on_delivery"]
        self._reports_success = not callbacks["delivery.report.only.error"]
        self._in_flight: list[tuple[FakeMessage, Callable[..., None]]] = []
        self._answers: list[Callable[[], Any]] = []
        self._next_offset = 0

    def __len__(self) -> int:
        return len(self._in_flight) + len(self._answers)

    def produce(self, topic: str, value: bytes, key: bytes | None, partition: int = -1, on_delivery: Any = None, *_: Any) -> None:
        if (error := self.refuses.get(value)) is not None:
            raise error
        self.events.append(value)
        message = FakeMessage(topic, max(partition, 0), self._next_offset, key, value)
        self._next_offset += 1
        self._in_flight.append((message, on_delivery or self._on_delivery))

    @property
    def unacknowledged(self) -> list[bytes | None]:
        return [message.value_data for message, _ in self._in_flight]

    def acknowledge(self, count: int | None = None) -> None:
        """The broker answers for so many records, or for all; the client hears of it when it is polled."""
        answered, self._in_flight = self._in_flight[:count], self._in_flight[len(self._in_flight[:count]) :]
        for message, callback in answered:
            code = self.rejects.get(message.value_data or b"")
            if code is not None:
                self._answers.append(partial(callback, KafkaError(code), message))
            elif self._reports_success:
                self._answers.append(partial(callback, None, message))

    def poll(self, timeout_s: float) -> int:
        if self.acknowledges_on_poll:
            self.acknowledge()
        answers, self._answers = self._answers, []
        for answer in answers:
            answer()
        return len(answers)

    def flush(self, timeout_s: float) -> int:
        if self.acknowledges:
            self.acknowledge()
        self.poll(timeout_s)
        if len(self):
            threading.Event().wait(min(timeout_s, 0.002))
        return len(self)

    def purge(self, **_: bool) -> None:
        self._in_flight = []

    def close(self) -> None:
        self.events.append("close")

    def init_transactions(self, timeout_s: float) -> None:
        self._call("init")

    def begin_transaction(self) -> None:
        self._call("begin")

    def commit_transaction(self, timeout_s: float) -> None:
        if self.acknowledges:
            self.acknowledge()  # callbacks run when the client is polled
        self._call("commit")

    def abort_transaction(self, timeout_s: float) -> None:
        self._in_flight = []
        self._call("abort")

    def _call(self, name: str) -> None:
        self.events.append(name)
        if (error := self.transaction_errors.pop(name, None)) is not None:
            raise KafkaException(error)


class FakeConsumerClient:
    """A consumer of a group whose offsets and partitions the test sets. It records the calls of its owner in ``events``."""

    def __init__(self, java: Mapping[str, str], *, on_commit: Callable[..., None], **_: Any) -> None:
        self.java = java
        self.events: list[Any] = []
        self.messages: list[list[FakeMessage]] = []
        """What the next calls of ``consume`` return."""
        self.knows_watermarks = True
        self.group_offsets: dict[TopicPartition, int] = {}
        self.committed_error: KafkaError | None = None
        """Raised once by ``committed``."""
        self.commit_error: KafkaError | None = None
        self.watermarks = (0, 100)
        self.assigned_at: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.topics: dict[str, None] = {}
        self._on_commit = on_commit
        self._listeners: dict[str, Callable[..., None]] = {}

    def subscribe(self, topics: list[str], **listeners: Callable[..., None]) -> None:
        self.events.append(("subscribe", *topics))
        self._listeners = listeners

    def assign_partitions(self, *partitions: TopicPartition) -> None:
        """The group assigns partitions."""
        self._listeners["on_assign"](self, [ClientPartition(*p) for p in partitions])

    def revoke(self, *partitions: TopicPartition) -> None:
        self._listeners["on_revoke"](self, [ClientPartition(*p) for p in partitions])

    def lose(self, *partitions: TopicPartition) -> None:
        self._listeners["on_lost"](self, [ClientPartition(*p) for p in partitions])

    def consume(self, most: int, timeout_s: float) -> list[FakeMessage]:
        return self.messages.pop(0) if self.messages else []

    def committed(self, partitions: list[ClientPartition], timeout: float) -> list[ClientPartition]:
        if (error := self.committed_error) is not None:
            self.committed_error = None
            raise KafkaException(error)
        return [
            ClientPartition(p.topic, p.partition, self.group_offsets.get(TopicPartition(p.topic, p.partition), -1001))
            for p in partitions
        ]

    def get_watermark_offsets(self, partition: ClientPartition, timeout: float = 0, cached: bool = False) -> tuple[int, int]:
        if not self.knows_watermarks:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return self.watermarks

    def incremental_assign(self, partitions: list[ClientPartition]) -> None:
        self.assign(partitions)

    def assign(self, partitions: list[ClientPartition]) -> None:
        self.assigned_at.update((TopicPartition(p.topic, p.partition), p.offset) for p in partitions)

    def pause(self, partitions: list[ClientPartition]) -> None:
        self.paused |= _ours(partitions)

    def resume(self, partitions: list[ClientPartition]) -> None:
        self.paused -= _ours(partitions)

    def seek(self, partition: ClientPartition) -> None:
        self.events.append(("seek", partition.partition, partition.offset))

    def list_topics(self, timeout: float) -> FakeConsumerClient:
        return self

    def commit(self, offsets: list[ClientPartition], asynchronous: bool) -> list[ClientPartition] | None:
        committed = {TopicPartition(p.topic, p.partition): p.offset for p in offsets}
        self.events.append(("commit" if asynchronous else "commit and wait", committed))
        if self.commit_error is not None and not asynchronous:
            raise KafkaException(self.commit_error)
        if self.commit_error is None:
            self.group_offsets.update(committed)
        return None if asynchronous else offsets

    def answer_commit(self) -> None:
        """The broker answers the last asynchronous commit."""
        offsets = next(event[1] for event in reversed(self.events) if event[0] == "commit")
        self._on_commit(self.commit_error, [ClientPartition(p.topic, p.partition, offset) for p, offset in offsets.items()])

    @property
    def commits(self) -> list[dict[TopicPartition, int]]:
        return [event[1] for event in self.events if event[0] in ("commit", "commit and wait")]

    def close(self) -> None:
        self.events.append("close")


def _ours(partitions: Iterable[ClientPartition]) -> set[TopicPartition]:
    return {TopicPartition(p.topic, p.partition) for p in partitions}


def messages_of(partition: TopicPartition, offsets: Collection[int]) -> list[FakeMessage]:
    """Messages at these offsets, with the offset as the value."""
    return [FakeMessage(*partition, offset, None, str(offset).encode()) for offset in offsets]
