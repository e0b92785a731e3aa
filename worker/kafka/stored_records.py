"""Reads the records that a topic has, from one offset to another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, IsolationLevel, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import OffsetSpec

from connect.errors import NotFoundError, UnreachableError
from connect.record import TopicPartition
from connect.sink import OffsetRange
from connect.suggestions import did_you_mean
from worker.kafka.admin import require_reachable
from worker.kafka.clients import LastReport, kafka_error, make_admin
from worker.kafka.range_consumer import OffsetGoneError, read_range

_TIMEOUT_S = 15.0
_WAIT_S = 20.0
_SLICE_S = 0.5
_MAX_MESSAGES = 1000
_SILENCE_S = 20.0
MOVING = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)
"""Errors while a coordinator or a leader is moving or being elected, which the client does not always call retriable."""


class KafkaRecord(NamedTuple):
    """A record as it is stored in a topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


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
            if not (e.args[0].retriable() or e.args[0].code() in MOVING) or time.monotonic() >= deadline:
                raise
        pause.wait(_SLICE_S)


def read_stored(java: Mapping[str, str], partition: TopicPartition, first: int, end: int) -> Iterator[list[KafkaRecord]]:
    """Yields the records of one partition from offset ``first`` to below ``end``. Raises ConnectError.

    Reads committed records only, and fails when no broker answers. Continues after records that retention deletes meanwhile: dead
    letters keep their old timestamps, and retention goes by these.
    """
    while first < end:
        try:
            for messages in read_range(reader_settings(java), OffsetRange(partition, first, end), _MAX_MESSAGES, _SILENCE_S):
                first = (messages[-1].offset() or 0) + 1
                yield [kafka_record(message) for message in messages]
            return
        except OffsetGoneError:
            earliest, _ = topic_ranges(java, [partition.topic])[partition]
            if earliest <= first:
                raise
            first = earliest


def kafka_record(message: Message) -> KafkaRecord:
    """Returns the record of a message that a consumer has read."""
    kind, timestamp_ms = message.timestamp()
    return KafkaRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        message.key(),
        message.value(),
        message.headers() or [],
    )


def reader_settings(java: Mapping[str, str]) -> dict[str, str]:
    """Returns settings of a consumer that reads committed records and commits nothing."""
    # A group ID is required and not used.
    own = {"enable.auto.commit": "false", "isolation.level": "read_committed"}
    return {**java, "group.id": java.get("group.id", "sluice-stored-records"), **own}
