"""Rate limiting, with a manual clock."""

from __future__ import annotations

import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from connectors.verifiable.sequence import MIN_WAIT_S, RateLimiter


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


def test_it_waits_for_the_next_record() -> None:
    began = time.monotonic()
    limiter = RateLimiter(20)
    made = [limiter.wait_for_due(500) for _ in range(3)]
    assert min(made) >= 1
    # As many as there was time for: a machine that wakes it late has it make up for that.
    assert sum(made) <= (time.monotonic() - began) * 20 + 1


def test_high_rates_produce_records_in_batches() -> None:
    began = time.monotonic()
    limiter = RateLimiter(100_000)
    limiter.wait_for_due(500)
    assert limiter.wait_for_due(10**6) >= 100_000 * MIN_WAIT_S * 0.8
    assert time.monotonic() - began >= MIN_WAIT_S * 0.8


def test_a_rate_of_zero_produces_no_records_and_stop_ends_the_wait() -> None:
    limiter = RateLimiter(0)
    found: list[int] = []
    waiting = threading.Thread(target=lambda: found.append(limiter.wait_for_due(500)), name="waiting")
    waiting.start()
    limiter.stop()
    waiting.join(30)
    assert found == [0]
    assert RateLimiter(-1).wait_for_due(5) == 5
    assert limiter.wait_for_due(5) == 0
