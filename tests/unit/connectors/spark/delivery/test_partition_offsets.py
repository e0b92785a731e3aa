"""Promise 2: offsets are committed to the group only when every table has the records below them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connect.record import TopicPartition
from connectors.spark.delivery.partition_offsets import PartitionOffsets

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_the_lowest_offset_that_any_holder_has_is_the_committed_one() -> None:
    offsets = PartitionOffsets()
    assert offsets.committed(P0) is None
    offsets.receive("buffer", P0, 5, 9)
    offsets.receive("buffer", P1, 0, 3)
    assert offsets.committed(P0) == 5
    offsets.hold("a", {P0: 7, P1: 0})
    offsets.hold("b", {P0: 5})
    offsets.release("buffer")
    assert (offsets.committed(P0), offsets.committed(P1)) == (5, 0)
    assert offsets.lag() == {P0: 4, P1: 3}
    offsets.release("b")
    assert offsets.committed(P0) == 7
    offsets.release("a")
    assert (offsets.committed(P0), offsets.committed(P1)) == (9, 3)
    assert offsets.lag() == {P0: 0, P1: 0}


def test_a_partition_that_returns_starts_from_its_new_position() -> None:
    offsets = PartitionOffsets()
    offsets.receive("commit", P0, 0, 10)
    offsets.forget([P0])
    assert offsets.committed(P0) is None
    offsets.seek(P0, 4)
    offsets.receive("later", P0, 4, 6)
    offsets.release("commit")  # of the former assignment
    assert offsets.committed(P0) == 4


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40))
def test_no_offset_above_a_held_one_is_ever_committed(steps: list[tuple[int, bool]]) -> None:
    offsets, position = PartitionOffsets(), 0
    held: dict[int, int] = {}
    for holder, is_release in steps:
        if is_release:
            offsets.release(holder)
            held.pop(holder, None)
        else:
            offsets.receive(holder, P0, position, position + 1)
            held.setdefault(holder, position)
            position += 1
        if position:
            assert offsets.committed(P0) == min(held.values(), default=position)
