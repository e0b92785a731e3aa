"""Bisection of failed batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connect.errors import DataError
from connectors.sink_support.batch_isolation import deliver_in_order, halves


def split(part: range) -> tuple[range, ...]:
    return halves(part) if len(part) > 1 else ()


@given(st.integers(1, 200), st.sets(st.integers(0, 199)))
def test_good_records_are_delivered_in_order_and_bad_ones_are_found(size: int, bad: set[int]) -> None:
    delivered: list[int] = []

    def attempt(part: range) -> None:
        if wrong := bad.intersection(part):
            raise DataError(str(min(wrong)))
        delivered.extend(part)

    found = [(part[0], error.message) for part, error in deliver_in_order(range(size), attempt, split)]
    assert found == [(at, str(at)) for at in sorted(bad) if at < size]
    assert delivered == [at for at in range(size) if at not in bad]


def test_delivery_stops_if_the_caller_stops_at_a_bad_record() -> None:
    tried: list[range] = []

    def attempt(part: range) -> None:
        tried.append(part)
        if 1 in part:
            raise DataError("bad")

    part, _ = next(deliver_in_order(range(4), attempt, split))
    assert part == range(1, 2)
    assert tried == [range(4), range(2), range(1), range(1, 2)]
