"""Reads topics for tests: all records, or those that are new since the last read."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from tests.support.waiting import WAIT_S, Deadline


@dataclass(frozen=True, slots=True)
class Stored:
    """One record as the broker stores it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def key_text(self) -> str:
        return (self.key or b"").decode()

    @property
    def json(self) -> Any:
        """The parsed value; None for a tombstone."""
        return None if self.value is None else json.loads(self.value)


class TopicReader:
    """Reads topics to their end repeatedly; each call returns the new records. Commits nothing."""

    def __init__(self, bootstrap: str, *, isolation: str = "read_committed") -> None:
        self._positions: dict[tuple[str, int], int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "tests-look",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
                "allow.auto.create.topics": False,
                "topic.metadata.refresh.interval.ms": 1000,
                "fetch.wait.max.ms": 20,
            }
        )

    def close(self) -> None:
        self._consumer.close()

    def new_records(self, topics: Iterable[str]) -> list[Stored]:
        """Returns the new records of the topics by topic, partition, and offset. A missing topic has none.

        Reads at least to the end at the time of the call; other clients may keep writing. With ``read_committed`` the end is
        where the first open transaction starts.
        """
        partitions = [
            TopicPartition(topic, partition, self._positions.get((topic, partition), OFFSET_BEGINNING))
            for topic in topics
            for partition in self._partitions(topic)
        ]
        unfinished = {(one.topic, one.partition) for one in partitions}
        ends = {(one.topic, one.partition): self._end(one) for one in partitions}
        found = []
        self._consumer.assign(partitions)
        deadline = Deadline("the ends of partitions", lambda: sorted(unfinished))
        while unfinished:
            deadline.check()
            for message in self._consumer.consume(1000, 0.1):
                partition = (message.topic(), message.partition())
                if (error := message.error()) is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        self._positions[partition] = max(message.offset(), self._positions.get(partition, 0))
                        unfinished.discard(partition)
                    else:
                        assert error.retriable(), error
                    continue
                self._positions[partition] = message.offset() + 1
                if message.offset() + 1 >= ends[partition]:
                    unfinished.discard(partition)
                timestamp = message.timestamp()[1]
                found.append(Stored(*partition, message.offset(), timestamp, message.key(), message.value()))
        self._consumer.unassign()
        return sorted(found, key=lambda one: (one.topic, one.partition, one.offset))

    def _end(self, partition: TopicPartition) -> int:
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                _, end = self._consumer.get_watermark_offsets(partition, timeout=WAIT_S)
                return int(end)
            except KafkaException:
                # Right after a restart a broker may not lead its partitions yet.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _partitions(self, topic: str) -> list[int]:
        listed = self._consumer.list_topics(topic, timeout=WAIT_S).topics[topic]
        return sorted(listed.partitions)


@contextmanager
def topic_reader(bootstrap: str, *, isolation: str = "read_committed") -> Iterator[TopicReader]:
    reader = TopicReader(bootstrap, isolation=isolation)
    try:
        yield reader
    finally:
        reader.close()


def read_topic(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> list[Stored]:
    """Returns all records of a topic by partition and offset."""
    with topic_reader(bootstrap, isolation=isolation) as reader:
        return reader.new_records([topic])


def latest(records: Iterable[Stored]) -> dict[str, Any]:
    """Returns the last value of each key, parsed, as in a compacted topic. Keys with a tombstone as last record are left out."""
    found: dict[str, Any] = {}
    for record in records:
        found.pop(record.key_text, None)
        if record.value is not None:
            found[record.key_text] = record.json
    return found


def payload(text: bytes | None) -> Any:
    """Parses a value that JsonConverter wrote, with or without schemas."""
    value = None if text is None else json.loads(text)
    return value["payload"] if isinstance(value, Mapping) and value.keys() == {"schema", "payload"} else value
