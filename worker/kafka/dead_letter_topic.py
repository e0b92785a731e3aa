"""Writes dead letters back in transactions that include the replay's position."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Position

from connect import crash_points
from connect.errors import ConnectError
from worker.kafka.admin import require_reachable
from worker.kafka.clients import LastReport, kafka_error, make_consumer, make_producer
from worker.kafka.stored_records import MOVING, reader_settings

_TIMEOUT_S = 15.0
_COMMIT_TIMEOUT_S = 60.0
_SLICE_S = 0.5
_FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})


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
        self._consumer = make_consumer({**reader_settings(consumer), "group.id": group}, log_level="0")

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
                if not (error.retriable() or error.code() in MOVING) or time.monotonic() >= deadline:
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
            if not (e.args[0].retriable() or e.args[0].code() in MOVING) or time.monotonic() >= deadline:
                raise kafka_error(e.args[0], f"reading the offsets of consumer group {group}", bootstrap) from e
        consumer.poll(_SLICE_S)


def committed_positions(
    java: Mapping[str, str], group: str, topic: str, partitions: Sequence[int]
) -> dict[int, CommittedPosition]:
    """Returns the committed positions of a group in a topic; empty if there is none."""
    consumer = make_consumer({**reader_settings(java), "group.id": group}, log_level="0")
    try:
        return read_positions(consumer, topic, partitions, java["bootstrap.servers"], group)
    finally:
        consumer.close()
