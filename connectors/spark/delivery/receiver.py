"""Buffers records as they arrive and decodes them in large batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from connect.record import RawBatch, SinkRecord, TopicPartition
from connect.tracing import active_links
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.tolerant_decoding import DecodedTopic, decode_raw_tolerantly, decode_renamed
from connectors.spark.delivery.errant_records import SparkErrantRecords
from connectors.spark.delivery.partition_offsets import PartitionOffsets
from connectors.spark.delivery.segment import Arrival
from connectors.spark.delivery.topic_decoders import TopicDecoders

# Large batches spread the fixed cost of decoding; text and columns of one batch must fit in memory together.
_DECODE_RECORDS = 50_000
_DECODE_BYTES = 32 << 20

Deliver = Callable[[Sequence[DecodedTopic], Arrival], None]
"""Takes records that were decoded together, whose offsets overlap in their partitions."""


@dataclass(slots=True)
class _UndecodedTopic:
    """Records of one topic that are not decoded yet."""

    raw: RawBuffer
    arrival: Arrival
    size_bytes: int = 0


class RecordReceiver:
    """Takes each record once, however often it is delivered. Used on the task's thread."""

    def __init__(
        self,
        offsets: PartitionOffsets,
        decoders: TopicDecoders,
        errant_records: SparkErrantRecords,
        deliver: Deliver,
        clock: Callable[[], float],
        max_records: int,
    ) -> None:
        """Decodes at most ``max_records`` together."""
        self._offsets = offsets
        self._decoders = decoders
        self._errant_records = errant_records
        self._deliver = deliver
        self._clock = clock
        self._max_records = min(max_records, _DECODE_RECORDS)
        self._topics: dict[str, _UndecodedTopic] = {}
        self._next_sequence = 0

    @property
    def records(self) -> int:
        """Number of records that are not decoded yet. Callable from any thread."""
        return sum(self.records_by_topic().values())

    @property
    def size_bytes(self) -> int:
        return sum(topic.size_bytes for topic in self._topics.values())

    @property
    def received(self) -> int:
        """Number of records since the task started."""
        return self._next_sequence + self.records

    def records_by_topic(self) -> dict[str, int]:
        """Returns the number of each topic's undecoded records. Callable from any thread."""
        return {topic: len(undecoded.raw) for topic, undecoded in list(self._topics.items())}

    def oldest(self) -> dict[str, float]:
        """Returns, by topic with undecoded records, when the oldest one arrived."""
        return {topic: undecoded.arrival.first for topic, undecoded in self._topics.items()}

    def add_raw(self, batch: RawBatch) -> None:
        """Buffers undecoded records."""
        new = self._without_received(batch)
        if new is not None:
            for start in range(0, len(new), self._max_records):
                self._buffer(_slice(new, start, start + self._max_records))

    def _without_received(self, batch: RawBatch) -> RawBatch | None:
        """Returns the records of a batch that are new: it may be redelivered after an error while the first delivery is
        buffered."""
        position = self._offsets.position(TopicPartition(batch.topic, batch.partition))
        if not len(batch) or position is None or batch.offsets[0] >= position:
            return batch if len(batch) else None
        first = next((i for i, offset in enumerate(batch.offsets) if offset >= position), None)
        return None if first is None else _slice(batch, first, len(batch))

    def _buffer(self, batch: RawBatch) -> None:
        topic, arrival = batch.topic, self._arrival()
        undecoded = self._topics.get(topic)
        if undecoded is not None and len(undecoded.raw) + len(batch) > self._max_records:
            self.decode(topic)
            undecoded = None
        if undecoded is None:
            undecoded = self._topics[topic] = _UndecodedTopic(RawBuffer(topic), arrival)
        raw = undecoded.raw
        raw.add(batch)
        undecoded.arrival = undecoded.arrival.join(arrival)
        undecoded.size_bytes += sum(len(value) for value in batch.values if value is not None)
        self._errant_records.keep_raw(batch)
        self._offsets.receive(
            _holder(topic), TopicPartition(topic, batch.partition), batch.offsets[0], batch.offsets[-1] + 1
        )  # fmt: skip
        if len(raw) >= self._max_records or undecoded.size_bytes >= _DECODE_BYTES:
            self.decode(topic)

    def _arrival(self) -> Arrival:
        now = self._clock()
        return Arrival(now, now, active_links())

    def add_records(self, records: Sequence[SinkRecord]) -> None:
        """Decodes records of the worker's converters at once. After a RetriableError, it has taken none of them."""
        new: list[SinkRecord] = []
        ends: dict[TopicPartition, int] = {}
        for record in records:
            origin = TopicPartition(record.original_topic, record.original_partition)
            position = ends.get(origin) or self._offsets.position(origin)
            if position is None or record.offset >= position:
                ends[origin] = record.offset + 1
                new.append(record)
        arrival = self._arrival()
        parts = [new[start : start + self._max_records] for start in range(0, len(new), self._max_records)]
        decoded = [self._decode_records(part) for part in parts]
        for part in decoded:
            self._deliver(part, arrival)
        for origin, end in ends.items():
            self._offsets.seek(origin, end)

    def _decode_records(self, records: Sequence[SinkRecord]) -> list[DecodedTopic]:
        self._errant_records.keep(records)
        found = decode_renamed(self._decoders.get, records, self._next_sequence)
        self._next_sequence += len(records)
        return found

    def decode(self, topic: str) -> None:
        """Decodes the topic's records, and delivers them."""
        undecoded = self._topics.get(topic)
        if undecoded is None:
            return
        raw = undecoded.raw
        changes, bad_records = decode_raw_tolerantly(self._decoders.get(topic, topic), raw, self._next_sequence)
        self._deliver([DecodedTopic(topic, changes, bad_records)], undecoded.arrival)
        self._next_sequence += len(raw)
        del self._topics[topic]
        self._offsets.release(_holder(topic))

    def decode_all(self) -> None:
        for topic in list(self._topics):
            self.decode(topic)

    def discard(self, partitions: Collection[TopicPartition]) -> None:
        """Drops the records of partitions that have another owner."""
        for topic, undecoded in list(self._topics.items()):
            undecoded.raw = undecoded.raw.without_partitions({tp.partition for tp in partitions if tp.topic == topic})
            undecoded.size_bytes = sum(len(value) for value in undecoded.raw.values if value is not None)
            if not len(undecoded.raw):
                del self._topics[topic]


def _holder(topic: str) -> tuple[str, str]:
    return "undecoded", topic


def _slice(batch: RawBatch, start: int, end: int) -> RawBatch:
    if start == 0 and end >= len(batch):
        return batch
    headers = batch.headers and batch.headers[start:end]
    columns = batch.offsets[start:end], batch.keys[start:end], batch.values[start:end], batch.timestamps[start:end]
    return RawBatch(batch.topic, batch.partition, *columns, headers)
