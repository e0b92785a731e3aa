"""Topics that one source task keeps (:class:`connect.source.OwnedTopic`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from connect.backoff import Backoff
from connect.errors import ConnectError, RetriableError, UnreachableError
from connect.record import TopicPartition
from connect.sink import OffsetRange
from connect.source import OwnedTopicSettings, TopicRecord
from worker.kafka.internal_topics import InternalTopics
from worker.kafka.log_writer import LogWriter
from worker.kafka.range_consumer import read_range
from worker.kafka.stored_records import reader_settings
from worker.kafka.topic_creation import NewTopicSpec, uniform_rules
from worker.kafka.topic_creator import TopicCreator

_BATCH = 500
_RETRY_FIRST_S, _RETRY_MAX_S = 0.1, 1.0


class KafkaOwnedTopic:
    """Partition 0 of a topic. Reading and creating use clients of their own; the writer stays until the topic is closed."""

    def __init__(self, topic: str, settings: OwnedTopicSettings) -> None:
        self._topic = topic
        self._settings = settings
        self._bootstrap = settings.producer["bootstrap.servers"]
        self._writer: LogWriter | None = None

    def exists(self) -> bool:
        return self._has_partition(self._new_admin())

    def _new_admin(self) -> InternalTopics:
        return InternalTopics(self._settings.producer)

    def _has_partition(self, admin: InternalTopics) -> bool:
        """Returns False if the topic does not exist. Raises ConnectError for more partitions, whose records have no order."""
        count = admin.count_partitions(self._topic, self._settings.query_timeout_s)
        if count is not None and count > 1:
            raise ConnectError(f"topic {self._topic} has {count} partitions; expected one, so that its records have an order")
        return count is not None

    def create(self, configs: Mapping[str, str]) -> None:
        if self.exists():
            return
        creator = TopicCreator(self._settings.producer, uniform_rules(NewTopicSpec(1, -1, configs)), "the task")
        deadline, pause = time.monotonic() + self._settings.create_timeout_s, threading.Event()
        if not creator.ensure(self._topic, lambda wait_s: pause.wait(wait_s) or time.monotonic() >= deadline):
            raise UnreachableError(
                f"topic {self._topic} was not created within {self._settings.create_timeout_s:g} s: no Kafka broker answers at "
                f"{self._bootstrap}"
            )
        admin = self._new_admin()
        while not self._has_partition(admin):  # brokers show it a little later
            if time.monotonic() >= deadline:
                raise UnreachableError(
                    f"topic {self._topic} was created, but the broker at {self._bootstrap} does not show it yet"
                )
            pause.wait(_RETRY_FIRST_S)

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
        admin, timeout_s = self._new_admin(), self._settings.query_timeout_s
        deadline, pause, backoff = time.monotonic() + timeout_s, threading.Event(), Backoff(_RETRY_FIRST_S, _RETRY_MAX_S)
        if not self._has_partition(admin):
            return 0, 0
        while True:
            try:
                first = admin.begin_offsets(self._topic, 1, timeout_s)[0]
                return first, admin.end_offsets(self._topic, 1, timeout_s, committed=True)[0]
            except UnreachableError:
                if time.monotonic() >= deadline:
                    raise
            pause.wait(backoff.next_delay_s())

    def append(self, values: Sequence[bytes]) -> None:
        if self._writer is None:
            # The worker's producers wait for brokers as long as it takes.
            timeout_ms = str(int(self._settings.append_timeout_s * 1000))
            self._writer = LogWriter({**self._settings.producer, "delivery.timeout.ms": timeout_ms}, self._topic)
        self._writer.send_all([(None, value) for value in values], self._settings.append_timeout_s)

    def serve(self) -> None:
        """Handles what the writer's client reports, without waiting. Called now and then while the topic is open."""
        if self._writer is not None:
            self._writer.serve()

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
