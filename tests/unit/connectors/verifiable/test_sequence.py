"""Rate limiting, with a manual clock."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.verifiable.sequence import MIN_WAIT_S, RateLimiter
from tests.support.waiting import WAIT_S


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_without_a_limit_every_poll_is_a_whole_batch() -> None:
    limiter = RateLimiter(-1)
    assert [limiter.wait_for_due(500) for _ in range(3)] == [500, 500, 500]


def test_the_first_record_is_due_immediately() -> None:
    assert RateLimiter(2, Clock()).wait_for_due(500) == 1


def test_records_delayed_by_a_pause_are_produced_afterwards() -> None:
    # As in Apache's: recording exactly_once, 13 records at once after a pause at two a second.
    clock = Clock()
    limiter = RateLimiter(2, clock)
    assert limiter.wait_for_due(500) == 1
    clock.now_s += 6.6
    assert limiter.wait_for_due(500) == 13
    clock.now_s += 100
    assert (limiter.wait_for_due(150), limiter.wait_for_due(150)) == (150, 50)


@given(st.integers(1, 100_000), st.lists(st.floats(0.02, 3.0), min_size=1, max_size=40))
def test_the_rate_does_not_depend_on_the_time_of_calls(rate: int, steps: list[float]) -> None:
    clock = Clock()
    limiter = RateLimiter(rate, clock)
    made = limiter.wait_for_due(10**9)
    for step in steps:
        clock.now_s += max(step, 1.1 / rate)
        made += limiter.wait_for_due(10**9)
        assert abs(made - (clock.now_s - 1000.0) * rate) <= 1.001


class Waits(threading.Event):
    """The event that ends a limiter's waits. Keeps their lengths, by which the clock advances."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.lengths_s: list[float] = []
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.lengths_s.append(timeout)
        self._clock.now_s += timeout
        return False


def limited(rate: int) -> tuple[RateLimiter, Waits]:
    clock = Clock()
    limiter, waits = RateLimiter(rate, clock), Waits(clock)
    limiter._stopped = waits
    return limiter, waits


def test_it_waits_for_the_next_record() -> None:
    limiter, waits = limited(20)
    assert [limiter.wait_for_due(500) for _ in range(3)] == [1, 1, 1]
    assert waits.lengths_s == pytest.approx([0, 0.05, 0.05])


def test_high_rates_produce_records_in_batches() -> None:
    limiter, waits = limited(100_000)
    limiter.wait_for_due(500)
    assert limiter.wait_for_due(10**6) == pytest.approx(100_000 * MIN_WAIT_S, abs=1)
    assert waits.lengths_s == pytest.approx([0, MIN_WAIT_S])


def test_a_rate_of_zero_produces_no_records_and_stop_ends_the_wait() -> None:
    limiter = RateLimiter(0)
    found: list[int] = []
    waiting = threading.Thread(target=lambda: found.append(limiter.wait_for_due(500)), name="waiting")
    waiting.start()
    limiter.stop()
    waiting.join(WAIT_S)
    assert found == [0]
    assert RateLimiter(-1).wait_for_due(5) == 5
    assert limiter.wait_for_due(5) == 0
