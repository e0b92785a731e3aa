"""Segments: the records of one decoding that go to one table."""

from __future__ import annotations

from connect.errors import DataError
from connect.record import TopicPartition
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.delivery.segment import Arrival, Segment, merge_segments
from tests.unit.connectors.spark.delivery.fakes import changes, offsets_of

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_first_offsets_include_bad_records() -> None:
    segment = Segment([1], Arrival(0, 1), [changes([5, 7]), changes([2], partition=1)])
    segment.exclude([BadRecord(P0, 3, DataError("bad")), BadRecord(P0, 9, DataError("bad"))])
    assert segment.firsts() == {P0: 3, P1: 2}
    assert segment.excluded == {P0: (3, 10)}
    assert segment.records == 3


def test_merged_segments_keep_order_holders_and_arrival() -> None:
    first = Segment([1], Arrival(3, 4), [changes([1, 2])], {P0: (0, 1)})
    second = Segment([2], Arrival(5, 6), [changes([3])], {P0: (4, 5), P1: (8, 9)})
    merged = merge_segments([first, second])
    assert merged.holders == [1, 2]
    assert merged.arrival == Arrival(3, 6)
    assert offsets_of(merged.batches) == [1, 2, 3]
    assert merged.excluded == {P0: (0, 5), P1: (8, 9)}
    assert (merged.records, merged.size_bytes) == (3, first.size_bytes + second.size_bytes)


def test_lost_partitions_are_removed() -> None:
    segment = Segment([1], Arrival(0, 0), [changes([1]), changes([2], partition=1)], {P0: (0, 1), P1: (3, 4)})
    kept = segment.without({P0})
    assert (offsets_of(kept.batches), kept.excluded, kept.records) == ([2], {P1: (3, 4)}, 1)
