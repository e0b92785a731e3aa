"""Offset ranges of a table commit, by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow.compute as pc

from connect.record import TopicPartition
from connectors.spark.decode.change_batch import OFFSET_ID, PARTITION_ID, ChangeBatch

OffsetRanges = dict[TopicPartition, tuple[int, int]]
"""By partition: the first offset, and the offset after the last."""


def include_range(ranges: OffsetRanges, partition: TopicPartition, offset_range: tuple[int, int]) -> None:
    """Extends the partition's range so that it includes this range."""
    first, end = ranges.get(partition, offset_range)
    ranges[partition] = min(first, offset_range[0]), max(end, offset_range[1])


def of_first_partition(
    changes: Sequence[ChangeBatch], excluded: OffsetRanges
) -> tuple[Sequence[ChangeBatch], OffsetRanges, bool]:
    """The changes and excluded ranges of one partition, and whether there are no others."""
    found = {TopicPartition(batch.topic, number) for batch in changes for number in batch.partitions()} | excluded.keys()
    if len(found) == 1:
        return changes, excluded, True
    first = min(found)
    parts = (batch.filter(pc.equal(batch.meta[PARTITION_ID], first.partition)) for batch in changes if batch.topic == first.topic)
    return [part for part in parts if part.num_rows], {tp: r for tp, r in excluded.items() if tp == first}, False


def find_offset_ranges(
    batches: Sequence[ChangeBatch], excluded: OffsetRanges, ends: Mapping[TopicPartition, int]
) -> OffsetRanges:
    """The ranges of these batches and of excluded records, each continuing from the partition's end in the table."""
    found = {tp: (ends.get(tp, first), end) for tp, (first, end) in excluded.items()}
    for batch in batches:
        grouped = batch.meta.group_by(PARTITION_ID, use_threads=False).aggregate([(OFFSET_ID, "min"), (OFFSET_ID, "max")])
        for row in grouped.to_pylist():
            tp = TopicPartition(batch.topic, row[PARTITION_ID])
            first, end = row[f"{OFFSET_ID}_min"], row[f"{OFFSET_ID}_max"] + 1
            include_range(found, tp, (ends.get(tp, first), end))
    return found
