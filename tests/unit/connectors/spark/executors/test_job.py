"""How the records that a task lags behind become offset ranges."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connect.record import TopicPartition
from connect.sink import OffsetRange
from connectors.spark.executors.job import find_gap, plan_ranges

PARTITIONS = st.integers(0, 4).map(lambda number: TopicPartition("t", number))
SPANS = st.dictionaries(PARTITIONS, st.tuples(st.integers(0, 10**7), st.integers(-5, 3 * 10**6)), max_size=5)


@given(SPANS, st.integers(1, 10**6), st.integers(1, 64))
def test_ranges_continue_from_each_position_within_the_limit(
    spans: dict[TopicPartition, tuple[int, int]], limit: int, parallelism: int
) -> None:
    positions = {tp: first for tp, (first, _) in spans.items()}
    ends = {tp: first + lag for tp, (first, lag) in spans.items()}
    found = plan_ranges(positions, ends, limit, parallelism)
    assert found == sorted(found)
    for tp, position in positions.items():
        for part in (part for part in found if part.partition == tp):
            assert part.first == position < part.end <= ends[tp]
            position = part.end
    total = sum(part.end - part.first for part in found)
    assert total == min(limit, sum(max(0, ends[tp] - positions[tp]) for tp in positions))


def test_small_backlog_is_one_range_and_large_one_uses_all_cores() -> None:
    tp = TopicPartition("t", 0)
    assert plan_ranges({tp: 7}, {tp: 5_007}, 10**6, 8) == [OffsetRange(tp, 7, 5_007)]
    assert len(plan_ranges({tp: 0}, {tp: 800_000}, 10**6, 8)) == 8
    assert plan_ranges({tp: 5}, {tp: 5}, 10**6, 8) == []
    assert plan_ranges({tp: 5}, {}, 10**6, 8) == []


def test_partitions_advance_by_the_same_share_of_their_lag() -> None:
    a, b = TopicPartition("t", 0), TopicPartition("t", 1)
    found = plan_ranges({a: 0, b: 0}, {a: 900_000, b: 100_000}, 100_000, 1)
    assert found == [OffsetRange(a, 0, 90_000), OffsetRange(b, 0, 10_000)]


def test_records_that_nobody_has_read_are_found() -> None:
    a, b = TopicPartition("t", 0), TopicPartition("t", 1)
    ranges = [OffsetRange(a, 0, 10), OffsetRange(a, 10, 20), OffsetRange(b, 5, 9)]
    parts = [*(OffsetRange(a, *p) for p in ((0, 4), (4, 10), (10, 20))), OffsetRange(b, 5, 9)]
    assert find_gap(ranges, parts) is None
    assert find_gap(ranges, parts[:-1]) == OffsetRange(b, 5, 9)
    assert find_gap(ranges, [*parts[:1], *parts[2:]]) == OffsetRange(a, 4, 10)
    assert find_gap(ranges, [*parts[:2], parts[3]]) == OffsetRange(a, 10, 20)
    assert find_gap(ranges, parts[1:]) == OffsetRange(a, 0, 10)
