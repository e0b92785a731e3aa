"""Reads the last records of a topic, without a group, within a bounded time and size."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from connect.errors import NotFoundError
from worker.kafka.clients import kafka_error, make_consumer

TIMEOUT_S = 8.0
_POLL_S = 0.2
_SAMPLES = "sluice-preview"
_GROUP_KEYS = frozenset({"group.instance.id", "group.protocol", "group.remote.assignor", "partition.assignment.strategy"})
_FIXED = {
    "group.id": _SAMPLES,
    "client.id": _SAMPLES,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "allow.auto.create.topics": "false",
    "queued.min.messages": "100",
    "queued.max.messages.kbytes": "4096",
}


@dataclass(frozen=True, slots=True)
class TopicSample:
    """Messages of a topic, oldest first. ``skipped`` counts those that were larger than the limit."""

    messages: list[Message]
    skipped: int


def sample_topic(java: Mapping[str, str], topic: str, limit: int, max_bytes: int, timeout_s: float = TIMEOUT_S) -> TopicSample:
    """Returns about the last ``limit`` messages, evenly from all partitions, of at most ``max_bytes`` in total.

    Joins no group and commits nothing. Returns what was read when the time is over. Raises NotFoundError for a topic that does
    not exist, UnreachableError when no broker answers.
    """
    bootstrap = java["bootstrap.servers"]
    what = f"reading topic {topic}"
    deadline = time.monotonic() + timeout_s
    settings = {key: value for key, value in java.items() if key not in _GROUP_KEYS}
    consumer = make_consumer({**settings, **_FIXED}, log_level="0")
    try:
        partitions = _starts(consumer, topic, limit, deadline)
        consumer.assign(partitions)
        return _read(consumer, len(partitions), limit, max_bytes, deadline, what, bootstrap)
    except KafkaException as e:
        raise kafka_error(e.args[0], what, bootstrap) from e
    finally:
        consumer.close()


def _starts(consumer: Consumer, topic: str, limit: int, deadline: float) -> list[TopicPartition]:
    """The partitions that have records, each at the position from which to read."""
    found = consumer.list_topics(topic, timeout=_left(deadline)).topics[topic]
    if found.error is not None or not found.partitions:
        raise NotFoundError(f"Topic {topic} does not exist, or the worker may not read it")
    ends = []
    for number in found.partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_left(deadline))
        if high > low:
            ends.append((number, low, high))
    share = -(-limit // max(1, len(ends)))
    return [TopicPartition(topic, number, max(low, high - share)) for number, low, high in ends]


def _read(
    consumer: Consumer, partitions: int, limit: int, max_bytes: int, deadline: float, what: str, bootstrap: str
) -> TopicSample:
    messages: list[Message] = []
    at_end: set[int] = set()
    skipped = size = 0
    while len(at_end) < partitions and len(messages) < limit and time.monotonic() < deadline:
        for message in consumer.consume(limit, _POLL_S):
            error = message.error()
            if error is None:
                length = len(message.value() or b"") + len(message.key() or b"")
                if size + length > max_bytes:
                    skipped += 1
                    continue
                size += length
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                at_end.add(message.partition() or 0)
            elif error.fatal() or not error.retriable():
                raise kafka_error(error, what, bootstrap)
    messages.sort(key=lambda one: (one.timestamp()[1], one.partition(), one.offset()))
    return TopicSample(messages[-limit:], skipped)


def _left(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())
