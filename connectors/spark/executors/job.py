"""A job for Spark's executors: the offset ranges that it reads, and everything that the executors need to know."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connect.record import TopicPartition
from connect.sink import OffsetRange, RangeReader
from connectors.spark.config import SparkSinkConfig
from connectors.spark.delivery.table_router import RouterKnowledge
from connectors.spark.tables.executor_files import WriteTarget

_LEAST_RECORDS = 10_000
"""Of a range: below that, starting to read costs more than it saves."""
_MOST_RECORDS = 500_000
"""Of a range, so that a task of Spark that fails repeats little."""


@dataclass(frozen=True, slots=True)
class RangeJob:
    """Reads ranges and writes their rows for tables as ``targets`` describe them. Travels as task data, because it has secrets
    (promise 9)."""

    config: SparkSinkConfig = field(repr=False)
    reader: RangeReader = field(repr=False)
    ranges: Sequence[OffsetRange]
    targets: Mapping[str, WriteTarget] = field(repr=False)
    knowledge: RouterKnowledge


def plan_ranges(
    positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], max_records: int, parallelism: int
) -> list[OffsetRange]:
    """Contiguous ranges from each position on, at most ``max_records`` in all, ordered by partition and offset.

    All partitions advance by the same share of their lag. Offsets count as records, though some have none.
    """
    lags = {tp: ends[tp] - first for tp, first in sorted(positions.items()) if ends.get(tp, 0) > first}
    total = sum(lags.values())
    if not total:
        return []
    chosen = min(total, max_records)
    size = min(_MOST_RECORDS, max(_LEAST_RECORDS, -(-chosen // max(1, parallelism))))
    found = []
    left = chosen
    for tp, lag in lags.items():
        count = min(lag, left, -(-lag * chosen // total))
        left -= count
        first = positions[tp]
        parts = max(1, round(count / size))
        starts = [first + count * number // parts for number in range(parts + 1)]
        found += [OffsetRange(tp, a, b) for a, b in itertools.pairwise(starts) if b > a]
    return found


def find_gap(ranges: Sequence[OffsetRange], parts: Sequence[OffsetRange]) -> OffsetRange | None:
    """The first records of a range that were not read. ``parts`` are those of all ranges, in order."""
    for one in ranges:
        end = one.first
        for part in parts:
            if part.partition == one.partition and part.first == end < one.end:
                end = part.end
        if end < one.end:
            return OffsetRange(one.partition, end, one.end)
    return None
