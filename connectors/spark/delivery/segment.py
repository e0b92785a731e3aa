"""Decoded records of one table that are committed together."""

from __future__ import annotations

import functools
from collections.abc import Collection, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from connect.record import TopicPartition
from connect.tracing import SpanLink, join_links
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.decode.change_batch import PARTITION_ID, ChangeBatch
from connectors.spark.tables.offset_ranges import OffsetRanges, find_offset_ranges, include_range


@dataclass(frozen=True, slots=True)
class Arrival:
    """When the first and the last of some records arrived, in seconds of the task's clock."""

    first: float
    last: float
    links: tuple[SpanLink, ...] = ()
    """The spans in which they arrived, if the task is traced."""

    def join(self, other: Arrival) -> Arrival:
        return Arrival(min(self.first, other.first), max(self.last, other.last), join_links(self.links, other.links))


@dataclass(slots=True)
class Segment:
    """What one decoding yields for one table. It is never divided: its batches overlap in their offsets, and a table commit that
    contained only some of them would claim the offsets of the others."""

    holders: list[Hashable]
    """Its holders in :class:`PartitionOffsets`."""
    arrival: Arrival
    batches: list[ChangeBatch] = field(default_factory=list)
    excluded: OffsetRanges = field(default_factory=dict)
    """Bad records, which the commit skips."""
    reports: list[Future[None]] = field(default_factory=list)
    """The reports of bad records. Promise 7: they must be durable before the commit."""
    records: int = field(init=False)
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.records = sum(batch.num_rows for batch in self.batches)
        self.size_bytes = sum(_size_bytes(batch) for batch in self.batches)

    def firsts(self) -> dict[TopicPartition, int]:
        """Returns the first offset of each partition."""
        return {partition: first for partition, (first, _) in find_offset_ranges(self.batches, self.excluded, {}).items()}

    def exclude(self, bad_records: Sequence[BadRecord]) -> None:
        """The commit skips these records."""
        for partition, offset, _ in bad_records:
            include_range(self.excluded, partition, (offset, offset + 1))

    def without(self, partitions: Collection[TopicPartition]) -> Segment:
        """Returns the segment without records of these partitions."""
        kept = []
        for batch in self.batches:
            removed = sorted(tp.partition for tp in partitions if tp.topic == batch.topic)
            if removed:
                batch = batch.filter(pc.invert(pc.is_in(batch.meta[PARTITION_ID], pa.array(removed, pa.int32()))))
            if batch.num_rows:
                kept.append(batch)
        excluded = {tp: one for tp, one in self.excluded.items() if tp not in partitions}
        return Segment(self.holders, self.arrival, kept, excluded, self.reports)


def merge_segments(segments: Sequence[Segment]) -> Segment:
    """Joins segments in their order."""
    excluded: OffsetRanges = {}
    for segment in segments:
        for partition, offset_range in segment.excluded.items():
            include_range(excluded, partition, offset_range)
    return Segment(
        [holder for segment in segments for holder in segment.holders],
        functools.reduce(Arrival.join, [segment.arrival for segment in segments]),
        [batch for segment in segments for batch in segment.batches],
        excluded,
        [report for segment in segments for report in segment.reports],
    )


def _size_bytes(batch: ChangeBatch) -> int:
    keys = 0 if batch.keys is None else batch.keys.nbytes
    return int(batch.image.nbytes + batch.meta.nbytes + keys)
