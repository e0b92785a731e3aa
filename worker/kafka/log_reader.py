"""The consumers of a topic log: one that reads existing records fast, one that follows the log at little cost.

Measured with librdkafka 2.16: an assignment that starts at a logical offset takes half a second to deliver its first record, one
at a real offset 10 ms, so real offsets are looked up first. The end of a partition whose last record is a transaction marker is
reported only when a fetch returns empty, after ``fetch.max.wait.ms``: 10 ms for the initial read. An idle consumer costs CPU per
empty fetch: one per second is 0.06 % of a core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from worker.kafka.clients import make_consumer

_BATCH = 1000

_LOADING = {
    "fetch.max.wait.ms": "10",
    "fetch.max.bytes": "8388608",
    "queued.max.messages.kbytes": "16384",
    "fetch.queue.backoff.ms": "10",
}
_FOLLOWING = {
    "fetch.max.bytes": "4194304",
    "queued.max.messages.kbytes": "1024",
    "queued.min.messages": "1000",
    "fetch.queue.backoff.ms": "50",
}


class PartitionEnd(NamedTuple):
    """The end of a partition: records up to this offset were read, or it follows transaction markers."""

    partition: int
    offset: int


class LogReader:
    """Reads all partitions of a topic. For one thread."""

    def __init__(
        self,
        java: Mapping[str, str],
        topic: str,
        *,
        loading: bool,
        on_error: Callable[[KafkaError], Any],
    ) -> None:
        self._topic = topic
        # With transactions, a follower fetches twice as often: this is how long the end after a marker takes to be reported.
        wait_ms = "500" if java.get("isolation.level") == "read_committed" else "1000"
        fixed = {
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            "enable.auto.offset.store": "false",
            "allow.auto.create.topics": "false",
        }
        own = _LOADING if loading else {"fetch.max.wait.ms": wait_ms, **_FOLLOWING}
        self._on_error = on_error
        self._consumer: Consumer = make_consumer({**java, **own, **fixed}, error_cb=on_error, log_level="0")

    def assign(self, positions: Mapping[int, int]) -> None:
        """Starts reading at these offsets."""
        self._consumer.assign([TopicPartition(self._topic, number, offset) for number, offset in positions.items()])

    def read(self, timeout_s: float) -> Iterator[Message | PartitionEnd]:
        """Yields new records and ends in order; waits at most this long for the first."""
        first = self._consumer.poll(timeout_s)
        if first is None:
            return
        for message in (first, *self._consumer.consume(_BATCH, 0)):
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                yield PartitionEnd(message.partition(), message.offset())
            else:
                self._on_error(error)

    def close(self) -> None:
        self._consumer.close()
