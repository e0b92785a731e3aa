"""Exponential backoff between retries."""

from __future__ import annotations

import pytest

from connect.backoff import Backoff


def test_delays_double_up_to_the_maximum() -> None:
    backoff = Backoff(0.1, 0.5)
    assert [backoff.next_delay_s() for _ in range(5)] == [0.1, 0.2, 0.4, 0.5, 0.5]


def test_reset_starts_over() -> None:
    backoff = Backoff(1, 60)
    assert [backoff.next_delay_s(), backoff.next_delay_s()] == [1, 2]
    backoff.reset()
    assert backoff.next_delay_s() == 1


def test_delay_after_a_number_of_failures_does_not_count_one() -> None:
    backoff = Backoff(1, 60)
    assert [backoff.delay_after_s(failures) for failures in (1, 3, 7, 100_000)] == [1, 4, 60, 60]
    assert backoff.next_delay_s() == 1


def test_only_a_delay_beyond_the_maximum_has_jitter() -> None:
    backoff = Backoff(1, 4, lambda: 0.25)
    assert [backoff.next_delay_s() for _ in range(5)] == [1, 2, 4, 1, 1]


@pytest.mark.parametrize("max_s", [0, -1])
def test_without_a_positive_maximum_there_is_no_delay(max_s: float) -> None:
    assert Backoff(1, max_s).next_delay_s() == 0
    assert Backoff(1, max_s, lambda: 0.5).next_delay_s() == 0
