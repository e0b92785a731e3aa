"""Exponential backoff between retries."""

from __future__ import annotations

from collections.abc import Callable

_MAX_DOUBLINGS = 60
"""Enough for any delay, and few enough for the power to fit a float."""


class Backoff:
    """Delays that start at ``first_s`` seconds and double with each failure in a row, up to ``max_s``. Not thread-safe."""

    __slots__ = ("_failures", "_first_s", "_jitter", "_max_s")

    def __init__(self, first_s: float, max_s: float, jitter: Callable[[], float] | None = None) -> None:
        """``jitter`` returns a number from 0 to below 1. A delay beyond ``max_s`` becomes ``max_s`` times that number, as
        in Apache's ``RetryWithToleranceOperator``; without ``jitter`` it becomes ``max_s``."""
        self._first_s = first_s
        self._max_s = max(0.0, max_s)
        self._jitter = jitter
        self._failures = 0

    def next_delay_s(self) -> float:
        """Counts a failure and returns the seconds to wait before the next attempt."""
        self._failures += 1
        return self.delay_after_s(self._failures)

    def reset(self) -> None:
        """Starts over after a success."""
        self._failures = 0

    def delay_after_s(self, failures: int) -> float:
        """Returns the delay after this many failures in a row (1 or more). Does not change the count."""
        delay_s = self._first_s * 2.0 ** min(failures - 1, _MAX_DOUBLINGS)
        if delay_s <= self._max_s:
            return delay_s
        return self._max_s if self._jitter is None else self._max_s * self._jitter()
