"""Takes the records of a task, each once, and holds them until their transactions are complete."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from connect.errors import ConnectError
from connect.record import RawBatch, SinkRecord, TopicPartition
from connectors.sink_support.errant_records import describe_location
from connectors.spark.transaction_settings import SCOPE, SOURCE_KEY, TRANSACTION_SCOPE
from connectors.spark.transactions.events import ValueParser, WithoutTransaction, read_end, read_event
from connectors.spark.transactions.held_records import HeldRecords, slice_batch
from connectors.spark.transactions.order import ConsistentPoint, TransactionOrder


class TransactionIntake:
    """``order`` knows the transactions, ``held`` has the records."""

    def __init__(self, order: TransactionOrder, end_partition: TopicPartition) -> None:
        self.order = order
        self.held = HeldRecords()
        self.end_partition = end_partition
        self.received = 0
        """Number of records since the task started, with those of the transaction topic. Callable from any thread."""
        self.oldest_at: float | None = None
        """When the oldest record that is held arrived; None without any."""
        self._parsers: dict[str, ValueParser] = {}

    def add_raw(self, batch: RawBatch, now: float, now_ms: int) -> None:
        """Takes undecoded records. Raises ConnectError for one that belongs to no transaction and should."""
        tp = TopicPartition(batch.topic, batch.partition)
        position = self.order.position(tp)
        if position is not None and len(batch) and batch.offsets[0] < position:
            first = next((i for i, offset in enumerate(batch.offsets) if offset >= position), len(batch))
            batch = slice_batch(batch, first, len(batch))
        if not len(batch):
            return
        parser = self._parsers.setdefault(batch.topic, ValueParser())
        for offset, value, written_ms in zip(batch.offsets, batch.values, batch.timestamps, strict=True):
            self._add(tp, offset, None if value is None else parser.parse(value), written_ms, now_ms)
        if tp != self.end_partition:
            self.held.add_raw(batch)
            self._hold(now)

    def add(self, records: Sequence[SinkRecord], now: float, now_ms: int) -> None:
        """The same for decoded records."""
        for record in records:
            topic, partition = record.original_topic or record.topic, record.original_partition
            tp = TopicPartition(topic, record.partition if partition is None else partition)
            position = self.order.position(tp)
            if position is not None and record.offset < position:
                continue
            self._add(tp, record.offset, record.value, record.timestamp or 0, now_ms)
            if tp != self.end_partition:
                self.held.add(tp, record)
                self._hold(now)

    def _add(self, tp: TopicPartition, offset: int, value: Any, written_ms: int, now_ms: int) -> None:
        self.received += 1
        if tp == self.end_partition:
            end = read_end(value, offset, max(0, written_ms))
            if end is None:
                self.order.read_to(tp, offset + 1)
            else:
                self.order.add_end(end, now_ms)
            return
        try:
            event = read_event(value)
        except WithoutTransaction as e:
            raise ConnectError(
                f"{describe_location(tp, offset)}: the record {e}, which {SCOPE}={TRANSACTION_SCOPE} needs. Set "
                f"{SOURCE_KEY}=true on the source, and remove transformations that drop the block; read records from before "
                f"with {SCOPE}=table"
            ) from None
        self.order.add(tp, offset, event, max(0, written_ms))

    def _hold(self, now: float) -> None:
        if self.oldest_at is None:
            self.oldest_at = now

    def take(self, point: ConsistentPoint | None, now: float) -> tuple[list[RawBatch], list[SinkRecord]]:
        """Removes and returns the records up to a point; all of them if there is none."""
        found = self.held.take(None if point is None else point.ends)
        self.oldest_at = now if self.held.records else None
        return found

    def discard(self, partitions: Collection[TopicPartition]) -> None:
        """Drops the records of partitions that have another owner."""
        self.held.discard(partitions)
        for tp in partitions:
            self.order.forget(tp)

    def lag(self) -> Mapping[TopicPartition, int]:
        """Number of offsets that were received and are in no completed round. Callable from any thread."""
        found = {}
        for tp in self.order.partitions():
            position, done = self.order.position(tp), self.order.done(tp)
            found[tp] = 0 if position is None else max(0, position - (done or 0))
        return found
