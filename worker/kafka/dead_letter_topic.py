"""Reads the topic of a dead letter queue, and writes dead letters back in transactions that include the replay's position."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, IsolationLevel, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import OffsetSpec

from connect import crash_points
from connect.errors import ConnectError, NotFoundError, UnreachableError
from connect.record import TopicPartition
from connect.sink import OffsetRange
from connect.suggestions import did_you_mean
from worker.kafka.admin import require_reachable
from worker.kafka.clients import LastReport, kafka_error, make_admin, make_consumer, make_producer
from worker.kafka.range_consumer import OffsetGoneError, read_range

_TIMEOUT_S = 15.0
_WAIT_S = 20.0
_COMMIT_TIMEOUT_S = 60.0
_SLICE_S = 0.5
_MAX_MESSAGES = 1000
_SILENCE_S = 20.0
_MOVING = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)
"""Errors while a coordinator or a leader is moving or being elected, which the client does not always call retriable."""
_FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})


class TopicRecord(NamedTuple):
    """A record as it is stored in a topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class RecordToWrite(NamedTuple):
    """A record to be written. ``partition`` None leaves the partition to the key."""

    topic: str
    partition: int | None
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class CommittedPosition(NamedTuple):
    """A committed offset with its metadata."""

    offset: int
    metadata: str | None


def topic_ranges(java: Mapping[str, str], topics: Sequence[str]) -> dict[TopicPartition, tuple[int, int]]:
    """Returns the first and the next committed offset of each partition. Raises NotFoundError for an unknown topic,
    UnreachableError."""
    bootstrap, what = java["bootstrap.servers"], f"reading the offsets of {', '.join(topics)}"
    require_reachable(bootstrap)
    report = LastReport()
    admin = make_admin(java, error_cb=report, log_level="0")
    try:
        # All topics are requested: a request for one topic would create it if the broker creates topics automatically.
        known = admin.list_topics(timeout=_TIMEOUT_S).topics
        for topic in topics:
            if topic not in known:
                raise NotFoundError(f"There is no topic {topic}{did_you_mean(topic, list(known), '; ')}")
        wanted = [Position(topic, number) for topic in topics for number in sorted(known[topic].partitions)]
        return _list_offsets(admin, wanted)
    except KafkaException as e:
        raise kafka_error(e.args[0], what, bootstrap, report.error) from e
    except FutureTimeout as e:
        raise UnreachableError(f"{what}: no answer from {bootstrap} within {_WAIT_S:g} s") from e


def _list_offsets(admin: Any, wanted: Sequence[Position]) -> dict[TopicPartition, tuple[int, int]]:
    """Waits while partitions get their leaders, for a topic that was just created or whose broker has stopped."""
    deadline, pause = time.monotonic() + _TIMEOUT_S, threading.Event()
    while True:
        low, high = (
            admin.list_offsets(
                dict.fromkeys(wanted, spec), isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_TIMEOUT_S
            )
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
        )
        try:
            return {
                TopicPartition(one.topic, one.partition): (low[one].result(_WAIT_S).offset, high[one].result(_WAIT_S).offset)
                for one in wanted
            }
        except KafkaException as e:
            if not (e.args[0].retriable() or e.args[0].code() in _MOVING) or time.monotonic() >= deadline:
                raise
        pause.wait(_SLICE_S)


def read_stored(java: Mapping[str, str], partition: TopicPartition, first: int, end: int) -> Iterator[list[TopicRecord]]:
    """Yields the records of one partition from offset ``first`` to below ``end``. Raises ConnectError.

    Continues after records that retention deletes meanwhile: dead letters keep their old timestamps, and retention goes by these.
    """
    while first < end:
        try:
            for messages in read_range(_reader(java), OffsetRange(partition, first, end), _MAX_MESSAGES, _SILENCE_S):
                first = (messages[-1].offset() or 0) + 1
                yield [_stored(message) for message in messages]
            return
        except OffsetGoneError:
            earliest, _ = topic_ranges(java, [partition.topic])[partition]
            if earliest <= first:
                raise
            first = earliest


def _stored(message: Message) -> TopicRecord:
    kind, timestamp_ms = message.timestamp()
    return TopicRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        message.key(),
        message.value(),
        message.headers() or [],
    )


def _reader(java: Mapping[str, str]) -> dict[str, str]:
    # A group ID is required and not used. What an aborted replay has written does not exist.
    own = {"enable.auto.commit": "false", "isolation.level": "read_committed"}
    return {**java, "group.id": java.get("group.id", "sluice-dead-letters"), **own}


class ReplayProducer:
    """Writes records and the position of a replay in one transaction. Fences another replay with the same ID. Not thread-safe.

    Promise 5: killed at any instant, either both are written or none.
    """

    def __init__(self, producer: Mapping[str, str], consumer: Mapping[str, str], group: str) -> None:
        """``producer`` and ``consumer`` are clients' settings for the same cluster."""
        self._bootstrap = producer["bootstrap.servers"]
        self._group = group
        self._report = LastReport()
        self._failed: list[KafkaError] = []
        settings = {key: value for key, value in producer.items() if key not in ("transactional.id", "delivery.timeout.ms")}
        fixed = {"enable.idempotence": "true", "acks": "all", "transactional.id": group, "transaction.timeout.ms": "60000"}
        self._producer = make_producer({**settings, **fixed}, error_cb=self._report, log_level="0")
        self._consumer = make_consumer({**_reader(consumer), "group.id": group}, log_level="0")

    def begin(self) -> None:
        """Fences an earlier replay that may still run, and ends its open transaction. Raises ConnectError."""
        require_reachable(self._bootstrap)
        self._retry(lambda: self._producer.init_transactions(_SLICE_S), "starting the replay")

    def positions(self, topic: str, partitions: Sequence[int]) -> dict[int, CommittedPosition]:
        """Returns the committed positions of the partitions that have one. Raises ConnectError."""
        return read_positions(self._consumer, topic, partitions, self._bootstrap, self._group)

    def write(self, records: Sequence[RecordToWrite], topic: str, positions: Mapping[int, CommittedPosition]) -> None:
        """Writes records in their order, with the positions in ``topic``; returns when both are committed.

        Raises ConnectError, and then nothing was written, unless the error says that it is unknown.
        """
        self._failed.clear()
        try:
            self._producer.begin_transaction()
            for record in records:
                self._produce(record)
            offsets = [Position(topic, number, one.offset, one.metadata or "") for number, one in positions.items()]
            crash_points.point("dead_letters.written")
            metadata = self._consumer.consumer_group_metadata()
            self._retry(
                lambda: self._producer.send_offsets_to_transaction(offsets, metadata, _SLICE_S), "storing the replay's position"
            )
            self._retry(lambda: self._producer.commit_transaction(_SLICE_S), "committing replayed records")
        except (KafkaException, ConnectError) as e:
            self._abort()
            if self._failed:
                raise kafka_error(self._failed[0], "writing replayed records", self._bootstrap) from e
            if isinstance(e, ConnectError):
                raise
            raise kafka_error(e.args[0], "writing replayed records", self._bootstrap, self._report.error) from e

    def _produce(self, record: RecordToWrite) -> None:
        partition = -1 if record.partition is None else record.partition
        headers = [*record.headers] or None
        while True:
            try:
                self._producer.produce(
                    record.topic, record.value, record.key, partition, self._delivered, None, record.timestamp_ms or 0, headers
                )
                return
            except BufferError:
                self._producer.poll(_SLICE_S)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and error.code() not in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
            self._failed.append(error)

    def _retry(self, call: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + _COMMIT_TIMEOUT_S
        while True:
            try:
                call()
                return
            except KafkaException as e:
                error = e.args[0]
                if not (error.retriable() or error.code() in _MOVING) or time.monotonic() >= deadline:
                    if error.code() in _FENCED:
                        raise ConnectError(f"{what}: another replay of these dead letters has started meanwhile") from e
                    raise kafka_error(error, what, self._bootstrap, self._report.error) from e

    def _abort(self) -> None:
        try:
            self._producer.abort_transaction(_TIMEOUT_S)
        except KafkaException:
            return  # the next replay, or the transaction's timeout, ends it

    def close(self) -> None:
        """Releases the clients. May be called after any error."""
        self._consumer.close()
        with suppress(KafkaException):  # a fenced producer repeats why it cannot be used any more
            self._producer.purge(blocking=False)
            self._producer.close()


def read_positions(
    consumer: Any, topic: str, partitions: Sequence[int], bootstrap: str, group: str
) -> dict[int, CommittedPosition]:
    """Returns the committed positions of a group; waits while its coordinator is being created."""
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        try:
            found = consumer.committed([Position(topic, number) for number in partitions], timeout=_TIMEOUT_S)
            return {one.partition: CommittedPosition(one.offset, one.metadata) for one in found if one.offset >= 0}
        except KafkaException as e:
            if not (e.args[0].retriable() or e.args[0].code() in _MOVING) or time.monotonic() >= deadline:
                raise kafka_error(e.args[0], f"reading the offsets of consumer group {group}", bootstrap) from e
        consumer.poll(_SLICE_S)


def committed_positions(
    java: Mapping[str, str], group: str, topic: str, partitions: Sequence[int]
) -> dict[int, CommittedPosition]:
    """Returns the committed positions of a group in a topic; empty if there is none."""
    consumer = make_consumer({**_reader(java), "group.id": group}, log_level="0")
    try:
        return read_positions(consumer, topic, partitions, java["bootstrap.servers"], group)
    finally:
        consumer.close()
