"""A consumer for one sink task, with Sluice's own partition type."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from connect.errors import ConnectError
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from worker.kafka.clients import BrokerNotices, kafka_error, make_consumer
from worker.kafka.settings import ClientKind, librdkafka_settings
from worker.kafka.topic_identities import describe_topic_identities

log = logging.getLogger(__name__)

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_IGNORED_ERRORS = frozenset({KafkaError._PARTITION_EOF, KafkaError._MAX_POLL_EXCEEDED})
_METADATA_TIMEOUT_S = 5.0
_RESETS = {"smallest": 0, "earliest": 0, "beginning": 0, "largest": 1, "latest": 1, "end": 1}
"""Values of librdkafka's auto.offset.reset for the first and the last of a partition's watermarks."""
_NO_RESET = "error"
_RESET_OFFSETS: Final[tuple[int, int]] = (OFFSET_BEGINNING, OFFSET_END)
"""What the client looks up itself, by the same numbers."""
_DEFAULT_STRATEGY = "range,roundrobin"


class ConsumerClosed(Exception):
    """The consumer was closed because its task was abandoned. Not an error."""


class MissingOffsetError(ConnectError):
    """The topic does not have the offset from which a partition would be read next."""

    def __init__(self, message: str, partition: TopicPartition, offset: int) -> None:
        super().__init__(message)
        self.partition = partition
        self.offset = offset
        """Negative for a partition that has no offset yet."""


class PartitionStarts(NamedTuple):
    """How to start reading newly assigned partitions."""

    starts: Mapping[TopicPartition, int]
    """Start offsets; a partition without one starts at the group's offset."""
    paused: Collection[TopicPartition]
    """Partitions that are paused from the start."""


class RebalanceListener(Protocol):
    """Called inside :meth:`SinkConsumer.take`, on the task's thread. Must not raise."""

    def on_assigned(self, partitions: list[TopicPartition]) -> PartitionStarts:
        """Returns how to start reading these partitions."""

    def on_revoked(self, partitions: list[TopicPartition]) -> None: ...

    def on_lost(self, partitions: list[TopicPartition]) -> None: ...

    def on_committed(self, offsets: Mapping[TopicPartition, int], error: ConnectError | None) -> None:
        """An asynchronous commit has ended."""


class SinkConsumer:
    """Used by its task's thread only, except :meth:`cancel` and :meth:`topic_identities`."""

    def __init__(
        self,
        java: Mapping[str, str],
        listener: RebalanceListener,
        defaults: Mapping[str, str] = MappingProxyType({}),
        *,
        allows_resets: bool = True,
    ) -> None:
        """``defaults`` are the connector's own; settings in ``java`` take precedence. Unless it ``allows_resets``, the consumer
        fails where it would follow ``auto.offset.reset``, except to start a partition without a committed offset."""
        self.bootstrap = java["bootstrap.servers"]
        self.group = java["group.id"]
        defaults = {"partition.assignment.strategy": _DEFAULT_STRATEGY, **defaults}
        # With KIP-848 the broker assigns partitions, and the client rejects assignment strategies.
        by_broker = {**defaults, **java}.get("group.protocol", "classic").lower() == "consumer"
        if by_broker:
            del defaults["partition.assignment.strategy"]
        java = {**defaults, **java}
        settings = librdkafka_settings(ClientKind.CONSUMER, java)
        self._incremental = by_broker or "cooperative" in settings["partition.assignment.strategy"]
        self._reset = _RESETS.get(settings.get("auto.offset.reset", "latest"))
        self._java = java if allows_resets or self._reset is None else {**java, "auto.offset.reset": _NO_RESET}
        self._listener = listener
        self._notices = BrokerNotices(self.bootstrap)
        self._failure: ConnectError | None = None
        self.missing: set[str] = set()
        """Subscribed topics that did not exist when the broker was last asked."""
        # Held during each call of the client: an abandoned task's consumer is closed between two calls, never during one.
        self._lock = threading.RLock()
        self._depth = 0
        self._ends: dict[TopicPartition, int] = {}  # as last asked for
        self._cut_off = threading.Event()
        self._closed = False
        self._consumer: Consumer = make_consumer(
            self._java,
            error_cb=self._on_client_error,
            on_commit=self._on_commit,
        )

    def subscribe(self, topics: Collection[str]) -> None:
        with self._in_client():
            self._consumer.subscribe(sorted(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def existing_topics(self) -> set[str] | None:
        """Returns all topics except Kafka's internal ones; None if no broker answered. This also makes the client discover new
        topics that it is subscribed to."""
        with self._in_client():
            try:
                names = self._consumer.list_topics(timeout=_METADATA_TIMEOUT_S).topics
            except KafkaException as e:
                log.debug("topics could not be listed: %s", e)
                return None
        self.missing -= set(names)
        return set(names) - INTERNAL_TOPICS

    def take(self, max_messages: int, timeout_s: float) -> list[Message]:
        """Returns at most ``max_messages``: those available at once, or else the first ones to arrive within the time.

        Raises ConnectError if reading cannot continue, MissingOffsetError for the reason of that name, and ConsumerClosed after
        :meth:`cancel`.
        """
        with self._in_client():
            messages: list[Message] = self._consumer.consume(max_messages, 0)
            if not messages and timeout_s > 0:
                # consume() waits for as many messages as requested, which would delay a single record for the whole time.
                messages = self._consumer.consume(1, timeout_s)
                if messages and max_messages > 1:
                    messages += self._consumer.consume(max_messages - 1, 0)
        if self._failure is not None:
            raise self._failure
        # A list, not a generator: this runs for every record.
        if any([message.error() for message in messages]):  # noqa: C419
            return self._without_errors(messages)
        return messages

    def _without_errors(self, messages: list[Message]) -> list[Message]:
        good = []
        for message in messages:
            error = message.error()
            if error is None:
                good.append(message)
            elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                topic = message.topic() or ""
                if topic not in self.missing:
                    self.missing.add(topic)
                    log.warning("Topic %s does not exist yet; waiting for it", topic)
            elif error.code() == KafkaError._MAX_POLL_EXCEEDED:
                log.warning("A put took longer than max.poll.interval.ms: other members may have taken over its partitions")
            elif error.code() not in _IGNORED_ERRORS:
                failure = self._notices.failure(error)
                if failure is not None:
                    raise failure
                if not error.retriable() and error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self._failure = self._missing_offset(message, error)
        if self._failure is not None and not good:
            raise self._failure
        return good  # before the failure: records that were read are not read again

    def _missing_offset(self, message: Message, error: KafkaError) -> MissingOffsetError:
        partition = TopicPartition(message.topic() or "", message.partition() or 0)
        text = kafka_error(error, f"reading {partition}", self.bootstrap).message
        offset = message.offset()
        return MissingOffsetError(text, partition, -1 if offset is None else offset)

    def committed(self, partitions: Collection[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """Returns the group's offsets, without partitions that have none. Raises ConnectError if no answer arrived."""
        with self._in_client():
            try:
                answer = self._consumer.committed([ClientPartition(*p) for p in partitions], timeout=timeout_s)
            except KafkaException as e:
                raise kafka_error(e.args[0], f"reading the offsets of group {self.group}", self.bootstrap) from e
        for part in answer:
            if part.error is not None:
                raise kafka_error(part.error, f"reading the offsets of group {self.group}", self.bootstrap)
        return {TopicPartition(p.topic, p.partition): p.offset for p in answer if p.offset >= 0}

    def start_offsets(self, partitions: Collection[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """Returns the current start offsets according to ``auto.offset.reset``, without partitions whose brokers do not answer
        in time. Empty if ``auto.offset.reset`` names no position."""
        if self._reset is None:
            return {}
        found = {}
        deadline = time.monotonic() + timeout_s
        for partition in partitions:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            with self._in_client():
                try:
                    watermarks = self._consumer.get_watermark_offsets(ClientPartition(*partition), timeout=left_s)
                except KafkaException as e:
                    log.debug("start offset of %s is unknown: %s", partition, e)
                    continue
            if watermarks is not None and min(watermarks) >= 0:
                found[partition] = watermarks[self._reset]
        return found

    def unknown_start(self) -> int:
        """Returns with which start offset a partition without a committed offset is assigned if :meth:`start_offsets` lacks it:
        the client finds it out later."""
        if self._reset is None or self._java.get("auto.offset.reset") != _NO_RESET:
            return int(OFFSET_STORED)
        return _RESET_OFFSETS[self._reset]

    def seek(self, partition: TopicPartition, offset: int) -> bool:
        """Moves the position. Returns False if the partition is not ready for it; retry then."""
        with self._in_client():
            try:
                self._consumer.seek(ClientPartition(partition.topic, partition.partition, offset))
            except KafkaException as e:
                if e.args[0].code() in (KafkaError._STATE, KafkaError._IN_PROGRESS):
                    return False
                raise kafka_error(e.args[0], f"seeking to offset {offset} of {partition}", self.bootstrap) from e
        return True

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        with self._in_client():
            if parts := [ClientPartition(*p) for p in partitions]:
                self._consumer.pause(parts)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        with self._in_client():
            if parts := [ClientPartition(*p) for p in partitions]:
                self._consumer.resume(parts)

    def commit(self, offsets: Mapping[TopicPartition, int], *, wait: bool) -> None:
        """Commits offsets. Without ``wait``, the listener gets the result. Raises ConnectError."""
        parts = [ClientPartition(p.topic, p.partition, offset) for p, offset in offsets.items()]
        with self._in_client():
            try:
                answer = self._consumer.commit(offsets=parts, asynchronous=not wait)
            except KafkaException as e:
                raise kafka_error(e.args[0], f"committing offsets of group {self.group}", self.bootstrap) from e
        for part in answer or ():
            if part.error is not None:
                raise kafka_error(part.error, f"committing {part.topic}-{part.partition} of group {self.group}", self.bootstrap)

    def end_offset(self, partition: TopicPartition, *, cached: bool, timeout_s: float = 5.0) -> int | None:
        """Returns the offset after the last record; None if unknown. ``cached`` returns the value of the last fetch without a
        request."""
        with self._in_client():
            try:
                watermarks = self._consumer.get_watermark_offsets(ClientPartition(*partition), timeout=timeout_s, cached=cached)
            except KafkaException:
                return None
        end = watermarks[1] if watermarks is not None else -1
        if cached:
            # The client's own value is that of the last fetch, and nothing is fetched while the partition is paused.
            end = max(end, self._ends.get(partition, -1))
        elif end >= 0:
            self._ends[partition] = end
        return end if end >= 0 else None

    def beginning_offset(self, partition: TopicPartition, *, timeout_s: float = 5.0) -> int | None:
        """Returns the offset of the first record that the broker still has; None if unknown."""
        with self._in_client():
            try:
                watermarks = self._consumer.get_watermark_offsets(ClientPartition(*partition), timeout=timeout_s)
            except KafkaException:
                return None
        return watermarks[0] if watermarks is not None and watermarks[0] >= 0 else None

    def topic_identities(self, topics: Collection[str]) -> dict[str, TopicIdentity]:
        """Returns the identities of the topics that exist. Callable from any thread. Raises ConnectError."""
        if self._cut_off.is_set():
            raise ConsumerClosed
        return describe_topic_identities(self._java, topics)

    def cancel(self) -> None:
        """Closes the consumer of an abandoned task. Called from another thread; waits briefly.

        If the task is inside a call of the client, the consumer leaves the group when that call returns.
        """
        self._cut_off.set()
        if self._lock.acquire(timeout=0.5):
            try:
                self._shut()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Leaves the group. Partitions that are still assigned are reported as revoked."""
        with self._lock:
            self._shut()

    @contextmanager
    def _in_client(self) -> Iterator[None]:
        """Wraps each call of the client. Raises ConsumerClosed after the consumer was closed (promise 4)."""
        with self._lock:
            if self._cut_off.is_set() or self._closed:
                raise ConsumerClosed
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._cut_off.is_set() and not self._depth:  # not inside a callback
                    self._shut()

    def _shut(self) -> None:
        if not self._closed:
            self._closed = True
            self._consumer.close()

    def _on_client_error(self, error: KafkaError) -> None:
        failure = self._notices.failure(error)
        if failure is not None and self._failure is None:
            self._failure = failure

    def _on_commit(self, error: KafkaError | None, parts: list[ClientPartition]) -> None:
        offsets = {TopicPartition(p.topic, p.partition): p.offset for p in parts if p.error is None and p.offset >= 0}
        wrong = error or next((p.error for p in parts if p.error is not None), None)
        failure = kafka_error(wrong, f"committing offsets of group {self.group}", self.bootstrap) if wrong else None
        self._listener.on_committed(offsets if error is None else {}, failure)

    def _on_assign(self, consumer: Consumer, parts: list[ClientPartition]) -> None:
        starts, paused = self._listener.on_assigned(_ours(parts))
        assigned = [
            ClientPartition(p.topic, p.partition, starts.get(TopicPartition(p.topic, p.partition), OFFSET_STORED)) for p in parts
        ]
        if self._incremental:
            consumer.incremental_assign(assigned)
        else:
            consumer.assign(assigned)
        self.pause(paused)

    def _on_revoke(self, consumer: Consumer, parts: list[ClientPartition]) -> None:
        self._listener.on_revoked(_ours(parts))

    def _on_lost(self, consumer: Consumer, parts: list[ClientPartition]) -> None:
        self._listener.on_lost(_ours(parts))


def _ours(parts: Iterable[ClientPartition]) -> list[TopicPartition]:
    return [TopicPartition(p.topic, p.partition) for p in parts]
