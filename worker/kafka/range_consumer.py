"""Reads an offset range of one partition, without a consumer group's assignment."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from connect.errors import ConnectError, RetriableError
from connect.sink import OffsetRange
from worker.kafka.clients import UNREACHABLE, BrokerNotices, LastReport, kafka_error, make_consumer

_POLL_S = 1.0
_SILENCE_S = 60.0
"""How long no broker may answer until reading fails."""
_GROUP_KEYS = frozenset(
    {"group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "partition.assignment.strategy",
     "session.timeout.ms"}
)  # fmt: skip
_FIXED = {
    # A record that is gone is an error; the range must not continue elsewhere.
    "auto.offset.reset": "error",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "allow.auto.create.topics": "false",
}


class OffsetGoneError(ConnectError):
    """The broker has deleted the record at the next offset."""


def read_range(
    java: Mapping[str, str],
    offset_range: OffsetRange,
    max_messages: int,
    silence_s: float = _SILENCE_S,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[list[Message]]:
    """Yields the messages of a range in order. Ends when all have been read, though none may be just before the range's end:
    the client says so by a later message, or by the end of the partition.

    Raises RetriableError when no broker answers for ``silence_s``, and ConnectError for other errors, such as records that the
    broker has deleted.
    """
    partition, first, end = offset_range
    bootstrap = java["bootstrap.servers"]
    what = f"reading {offset_range} on host {socket.gethostname()}"
    report, notices = LastReport(), BrokerNotices(bootstrap)
    consumer = make_consumer(
        {**{key: value for key, value in java.items() if key not in _GROUP_KEYS}, **_FIXED}, error_cb=report, log_level="0"
    )
    try:
        consumer.assign([TopicPartition(partition.topic, partition.partition, first)])
        heard_at, position = clock(), first
        while position < end:
            found = _take(consumer, max_messages)
            if not found:
                last = report.error
                if last is not None and (failure := notices.failure(last)) is not None:
                    raise failure
                if clock() - heard_at > silence_s:
                    error = last if last is not None else KafkaError(KafkaError._TIMED_OUT)
                    raise RetriableError(kafka_error(error, what, bootstrap).message)
                continue
            heard_at = clock()
            report.worked()
            messages = []
            for message in found:
                error = message.error()
                offset = message.offset() or 0
                if error is None:
                    position = offset + 1
                    if offset < end:
                        messages.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    position = max(position, offset)
                else:
                    _raise(error, what, bootstrap)
            if messages:
                yield messages
    finally:
        consumer.close()


def _take(consumer: Consumer, max_messages: int) -> list[Message]:
    """The first messages to arrive: ``consume`` waits for as many as it is asked for."""
    found: list[Message] = consumer.consume(max_messages, 0)
    if not found:
        found = consumer.consume(1, _POLL_S)
        if found:
            found += consumer.consume(max_messages - 1, 0)
    return found


def _raise(error: KafkaError, what: str, bootstrap: str) -> None:
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        raise OffsetGoneError(
            f"{what}: the broker has no record at this offset any more: retention deleted it before it was written. To continue "
            "without it, set the offset of the partition over REST (PATCH /connectors/<name>/offsets)"
        )
    failure = kafka_error(error, what, bootstrap)
    raise RetriableError(failure.message) if error.retriable() or error.code() in UNREACHABLE else failure
