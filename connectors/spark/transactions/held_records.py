"""Records that wait for the end of their transactions, undecoded or as the worker's converters decoded them."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Mapping

from connect.record import RawBatch, SinkRecord, TopicPartition

_RECORD_BYTES = 1_000
"""A decoded record counts as so many bytes."""


def slice_batch(batch: RawBatch, start: int, end: int) -> RawBatch:
    """The records from position ``start`` to below ``end``."""
    if start == 0 and end >= len(batch):
        return batch
    headers = batch.headers and batch.headers[start:end]
    columns = batch.offsets[start:end], batch.keys[start:end], batch.values[start:end], batch.timestamps[start:end]
    return RawBatch(batch.topic, batch.partition, *columns, headers)


class HeldRecords:
    """By partition, in order."""

    def __init__(self) -> None:
        self._raw: dict[TopicPartition, deque[RawBatch]] = {}
        self._decoded: dict[TopicPartition, deque[SinkRecord]] = {}
        self.records = 0
        """Number of records. Callable from any thread."""
        self.size_bytes = 0

    def add_raw(self, batch: RawBatch) -> None:
        self._raw.setdefault(TopicPartition(batch.topic, batch.partition), deque()).append(batch)
        self._count(len(batch), _size_bytes(batch))

    def add(self, partition: TopicPartition, record: SinkRecord) -> None:
        self._decoded.setdefault(partition, deque()).append(record)
        self._count(1, _RECORD_BYTES)

    def _count(self, records: int, size_bytes: int) -> None:
        self.records += records
        self.size_bytes += size_bytes

    def take(self, ends: Mapping[TopicPartition, int] | None) -> tuple[list[RawBatch], list[SinkRecord]]:
        """Removes and returns the records of each partition below its end; all records if no ends are given."""
        raw: list[RawBatch] = []
        for tp, batches in self._raw.items():
            end = None if ends is None else ends.get(tp, 0)
            while batches and (end is None or batches[0].offsets[0] < end):
                batch = batches.popleft()
                self._count(-len(batch), -_size_bytes(batch))
                at = len(batch) if end is None else bisect_left(batch.offsets, end)
                if at < len(batch):
                    rest = slice_batch(batch, at, len(batch))
                    batches.appendleft(rest)
                    self._count(len(rest), _size_bytes(rest))
                raw.append(slice_batch(batch, 0, at))
        decoded: list[SinkRecord] = []
        for tp, records in self._decoded.items():
            end = None if ends is None else ends.get(tp, 0)
            while records and (end is None or records[0].offset < end):
                decoded.append(records.popleft())
                self._count(-1, -_RECORD_BYTES)
        return raw, decoded

    def has_any(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether there are records below these ends."""
        raw = any(batches and batches[0].offsets[0] < ends.get(tp, 0) for tp, batches in self._raw.items())
        return raw or any(records and records[0].offset < ends.get(tp, 0) for tp, records in self._decoded.items())

    def discard(self, partitions: Collection[TopicPartition]) -> None:
        """Drops the records of these partitions."""
        for tp in partitions:
            for batch in self._raw.pop(tp, ()):
                self._count(-len(batch), -_size_bytes(batch))
            self._count(-len(lost := self._decoded.pop(tp, ())), -_RECORD_BYTES * len(lost))


def _size_bytes(batch: RawBatch) -> int:
    return sum(len(value) for value in batch.values if value is not None)
