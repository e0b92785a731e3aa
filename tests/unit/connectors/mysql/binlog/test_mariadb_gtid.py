"""Positions of MariaDB: one GTID per domain."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.errors import DataError
from connectors.mysql.binlog import MariaDbGtid, MariaDbGtidPosition

_gtids = st.lists(st.builds(MariaDbGtid, st.integers(0, 3), st.integers(1, 3), st.integers(1, 20)), max_size=10)


def test_position_has_the_last_gtid_of_each_domain() -> None:
    position = MariaDbGtidPosition.parse(" 1-2-7, 0-1-100 ")
    assert str(position) == "0-1-100,1-2-7"
    position.advance(MariaDbGtid.parse("0-9-101"))
    position.advance(MariaDbGtid.parse("5-1-1"))
    assert (str(position), len(position), position[5]) == ("0-9-101,1-2-7,5-1-1", 3, MariaDbGtid(5, 1, 1))


def test_comparison_is_by_sequence_within_a_domain() -> None:
    position = MariaDbGtidPosition.parse("0-1-100")
    assert position.contains(MariaDbGtid(0, 7, 100))
    assert not position.contains(MariaDbGtid(0, 1, 101))
    assert not position.contains(MariaDbGtid(1, 1, 1))
    assert position.is_subset(MariaDbGtidPosition.parse("0-2-100,4-1-1"))
    assert not MariaDbGtidPosition.parse("0-1-1,4-1-1").is_subset(position)
    assert str(MariaDbGtidPosition.parse("0-1-5,1-1-9").subtract(MariaDbGtidPosition.parse("0-1-7,1-1-8"))) == "1-1-9"


@settings(deadline=None, max_examples=100)
@given(_gtids, _gtids)
def test_union_is_the_smallest_position_that_contains_both(ours: list[MariaDbGtid], theirs: list[MariaDbGtid]) -> None:
    left, right = MariaDbGtidPosition.latest(ours), MariaDbGtidPosition.latest(theirs)
    both = left.union(right)
    assert left.is_subset(both)
    assert right.is_subset(both)
    assert all(gtid in [*left, *right] for gtid in both)
    assert all(left.contains(gtid) for gtid in ours)
    assert MariaDbGtidPosition.parse(str(both)) == both
    assert both.subtract(left).is_subset(right)


@pytest.mark.parametrize("text", ["0-1", "a-1-1", "0-1-1-1", "4294967296-1-1", "0-1-18446744073709551616", "0-1-1,0-2-2"])
def test_invalid_texts_are_refused(text: str) -> None:
    with pytest.raises(DataError):
        MariaDbGtidPosition.parse(text)
