"""Finds dead letters whose topic has a newer record of the same key: a replay would put an older row over a newer one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping

from connect.errors import ConnectError
from connect.record import TopicPartition
from worker.dead_letters.letters import REPLAYED, DeadLetter
from worker.kafka.dead_letter_topic import RecordToWrite
from worker.kafka.stored_records import KafkaRecord, read_stored, topic_ranges

_Key = tuple[TopicPartition, bytes]


class NewerRecords:
    """The newest record of each key of dead letters, in the topics they came from.

    Records that are dead letters themselves do not count: neither the original ones nor those that a replay has written.
    """

    def __init__(self) -> None:
        self._oldest: dict[TopicPartition, int] = {}
        self._keys: set[_Key] = set()
        self._dead: set[bytes] = set()
        self._newest: dict[_Key, int] = {}

    def add(self, letters: Iterable[DeadLetter]) -> None:
        """Adds dead letters that will be asked about, or may be found in the topics."""
        for letter in letters:
            origin, key = letter.origin, letter.stored.key
            if origin is None or key is None:
                continue
            partition = TopicPartition(origin[0], origin[1])
            self._oldest[partition] = min(origin[2], self._oldest.get(partition, origin[2]))
            self._keys.add((partition, _digest(key)))
            self._dead.add(_content(letter.stored))

    def read(self, java: Mapping[str, str], is_over: Callable[[], bool], on_progress: Callable[[int, int], None]) -> None:
        """Reads the topics from the oldest dead letter on. Raises ConnectError, also if the time is over before the end."""
        if not self._oldest:
            return
        ranges = topic_ranges(java, sorted({partition.topic for partition in self._oldest}))
        parts = {one: (max(first, ranges[one][0]), ranges[one][1]) for one, first in self._oldest.items() if one in ranges}
        total, done = sum(end - first for first, end in parts.values()), 0
        for partition, (first, end) in parts.items():
            at = first
            for records in read_stored(java, partition, first, end):
                for record in records:
                    self._note(partition, record)
                done, at = done + records[-1].offset + 1 - at, records[-1].offset + 1
                on_progress(done, total)
                if is_over():
                    raise ConnectError(
                        f"Looking for newer records of the same keys takes too long for one request: {done} of {total} are read. "
                        "Use sluice dlq replay --bootstrap-server, or replay without looking (include_superseded)"
                    )

    def _note(self, partition: TopicPartition, record: KafkaRecord) -> None:
        if record.key is None or any(name == REPLAYED for name, _ in record.headers):
            return
        key = partition, _digest(record.key)
        if key in self._keys and _content(record) not in self._dead:
            self._newest[key] = record.offset

    def supersedes(self, letter: DeadLetter) -> bool:
        """Whether there is a newer record of the letter's key."""
        origin, key = letter.origin, letter.stored.key
        if origin is None or key is None:
            return False
        newest = self._newest.get((TopicPartition(origin[0], origin[1]), _digest(key)))
        return newest is not None and newest > origin[2]


def mark_replayed(record: RecordToWrite, letter: DeadLetter) -> RecordToWrite:
    """Returns the record to write, with a header if its contents no longer say that it was this dead letter."""
    stored = letter.stored
    is_same = (record.key, record.value, record.timestamp_ms) == (stored.key, stored.value, stored.timestamp_ms)
    if letter.origin is None or is_same or any(name == REPLAYED for name, _ in record.headers):
        return record
    return record._replace(headers=(*record.headers, (REPLAYED, None)))


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _content(record: KafkaRecord) -> bytes:
    value = b"\0" if record.value is None else b"\1" + record.value
    head = f"{record.timestamp_ms}\0{len(record.key or b'')}\0".encode()
    return _digest(head + (record.key or b"") + value)
