"""Topics that one source task keeps (:class:`connect.source.OwnedTopic`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from connect.backoff import Backoff
from connect.errors import ConnectError, RetriableError, UnreachableError
from connect.record import TopicPartition
from connect.sink import OffsetRange
from connect.source import OwnedTopicSettings, TopicRecord
from worker.kafka.internal_topics import InternalTopics
from worker.kafka.log_writer import LogWriter
from worker.kafka.range_consumer import read_range
from worker.kafka.stored_records import reader_settings
from worker.kafka.topic_creation import NewTopicSpec

T = TypeVar("T")

_BATCH = 500
_RETRY_FIRST_S, _RETRY_MAX_S = 0.1, 1.0
_LeftTime = Callable[[], float]
"""Returns the seconds that are left."""


class KafkaOwnedTopic:
    """Partition 0 of a topic. One client looks it up and creates it while the task starts, another one reads; the writer stays
    until the topic is closed."""

    def __init__(self, topic: str, settings: OwnedTopicSettings) -> None:
        self._topic = topic
        self._settings = settings
        self._admin: InternalTopics | None = None
        self._writer: LogWriter | None = None

    def exists(self) -> bool:
        return self._retry("looking for", self._settings.query_timeout_s, self._has_partition)

    def create(self, configs: Mapping[str, str]) -> None:
        self._retry("creating", self._settings.create_timeout_s, lambda left_s: self._create_if_missing(configs, left_s))

    def _create_if_missing(self, configs: Mapping[str, str], left_s: _LeftTime) -> None:
        if self._has_partition(left_s):
            return
        self._topics.create(self._topic, NewTopicSpec(1, -1, configs), left_s())
        if not self._has_partition(left_s):  # brokers show it a little later
            raise UnreachableError("it was created, but the broker does not show it yet")

    def is_empty(self) -> bool:
        first, end = self._offsets()
        return end <= first

    def read(self) -> Iterator[TopicRecord]:
        first, end = self._offsets()
        if end <= first:
            return
        wanted = OffsetRange(TopicPartition(self._topic, 0), first, end)
        try:
            batches = read_range(reader_settings(self._settings.consumer), wanted, _BATCH, self._settings.read_timeout_s)
            for messages in batches:
                for message in messages:
                    yield TopicRecord(message.offset() or 0, message.key(), message.value())
        except RetriableError as e:
            raise UnreachableError(e.message) from e

    def _offsets(self) -> tuple[int, int]:
        """Returns the first and the next offset, which are equal if the topic does not exist. Waits while a new topic gets its
        leader."""
        return self._retry("looking at the offsets of", self._settings.query_timeout_s, self._read_offsets)

    def _read_offsets(self, left_s: _LeftTime) -> tuple[int, int]:
        if not self._has_partition(left_s):
            return 0, 0
        first = self._topics.begin_offsets(self._topic, 1, left_s())[0]
        return first, self._topics.end_offsets(self._topic, 1, left_s(), committed=True)[0]

    @property
    def _topics(self) -> InternalTopics:
        if self._admin is None:
            self._admin = InternalTopics(self._settings.producer)
        return self._admin

    def _has_partition(self, left_s: _LeftTime) -> bool:
        """Returns False if the topic does not exist. Raises ConnectError for more partitions, whose records have no order."""
        count = self._topics.count_partitions(self._topic, left_s())
        if count is not None and count > 1:
            raise ConnectError(f"topic {self._topic} has {count} partitions; expected one, so that its records have an order")
        return count is not None

    def _retry(self, doing: str, timeout_s: float, attempt: Callable[[_LeftTime], T]) -> T:
        """Returns the result of an attempt, which gets the time that is left. Repeats it after temporary errors."""
        deadline, pause, backoff = time.monotonic() + timeout_s, threading.Event(), Backoff(_RETRY_FIRST_S, _RETRY_MAX_S)
        while True:
            try:
                return attempt(lambda: max(0.0, deadline - time.monotonic()))
            except UnreachableError as e:
                delay_s = backoff.next_delay_s()
                if time.monotonic() + delay_s >= deadline:
                    raise UnreachableError(
                        f"{doing} topic {self._topic} did not succeed within {timeout_s:g} s: {e.message}"
                    ) from e
            pause.wait(delay_s)

    def append(self, values: Sequence[bytes]) -> None:
        if self._writer is None:
            # The worker's producers wait for brokers as long as it takes.
            timeout_ms = str(int(self._settings.append_timeout_s * 1000))
            self._writer = LogWriter({**self._settings.producer, "delivery.timeout.ms": timeout_ms}, self._topic)
        self._writer.send_all([(None, value) for value in values], self._settings.append_timeout_s)

    def serve(self) -> None:
        """Handles what the writer's client reports, without waiting. Called now and then while the topic is open."""
        self._admin = None  # the task has started, and will hardly need it again
        if self._writer is not None:
            self._writer.serve()

    def close(self) -> None:
        self._admin = None
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
