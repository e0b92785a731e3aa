"""The stored position of a replay: an offset and ranges above it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import ConnectError
from worker.dead_letters.positions import MAX_METADATA_BYTES, ReplayPosition

RANGES = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 40)), max_size=30)


@given(st.integers(0, 100), RANGES)
def test_a_position_has_exactly_what_was_added_and_survives_storing(base: int, ranges: list[tuple[int, int]]) -> None:
    position, expected = ReplayPosition(base), set(range(base))
    for first, length in ranges:
        position.add(first, first + length)
        expected |= set(range(first, first + length + 1))
    stored = ReplayPosition.decode(position.base, position.encode())
    for one in (position, stored):
        assert {offset for offset in range(400) if offset in one} == expected
        assert one.base not in one
        assert one.count(50, 200) == len(expected & set(range(50, 200)))


def test_replaying_in_order_needs_no_metadata() -> None:
    position = ReplayPosition(5)
    for offset in range(5, 100):
        position.add(offset, offset)
    assert (position.base, position.encode()) == (100, "")
    position.add(7, 3)
    assert position.base == 100


def test_foreign_metadata_has_no_ranges_and_damaged_metadata_is_an_error() -> None:
    assert 12 not in ReplayPosition.decode(10, "set by an operator")
    assert 9 in ReplayPosition.decode(10, None)
    with pytest.raises(ConnectError, match="The metadata of a replay position cannot be read"):
        ReplayPosition.decode(10, "sluice1:?")


def test_too_many_ranges_are_refused_before_they_are_stored() -> None:
    position = ReplayPosition()
    for offset in range(1, 2800, 2):
        position.add(offset, offset)
    assert len(position.encode()) <= MAX_METADATA_BYTES
    for offset in range(2801, 4000, 2):
        position.add(offset, offset)
    with pytest.raises(ConnectError, match="Replay those in between, from offset 0 on, before others"):
        position.encode()
