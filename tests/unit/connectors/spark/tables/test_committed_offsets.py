"""Offsets in the metadata of table commits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connect.record import TopicPartition
from connectors.spark.tables.committed_offsets import TableCommit, collect_committed_offsets, parse_commit

TP = TopicPartition("t", 0)


OFFSETS = st.dictionaries(
    st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 9)), st.integers(0, 2**60), max_size=5
)


@given(OFFSETS, st.integers(0, 2**60))
def test_commit_metadata_round_trips(ends: dict[TopicPartition, int], sequence: int) -> None:
    commit = TableCommit("lake", sequence, {tp: (0, end) for tp, end in ends.items()}, ends)
    assert parse_commit(commit.to_json()) == commit


def test_metadata_of_other_writers_is_no_commit() -> None:
    assert [parse_commit(text) for text in (None, "somebody's own words", '{"sluice": 1}')] == [None] * 3


def test_the_newest_commit_of_a_partition_is_authoritative() -> None:
    other = TopicPartition("t", 1)
    history = [
        TableCommit("lake", 9, {}, {TP: 50}),
        TableCommit("elsewhere", 99, {}, {TP: 999}),
        TableCommit("lake", 8, {}, {TP: 40, other: 7}),
    ]
    committed_offsets = collect_committed_offsets(history, "lake")
    assert committed_offsets.sequence == 9
    assert committed_offsets.ends == {TP: 50, other: 7}
    assert committed_offsets.covers([TP, other])
    assert collect_committed_offsets([TableCommit("lake", 10, {}, {TP: None}), *history], "lake").ends == {other: 7}
