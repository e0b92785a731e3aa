"""When the task connects again after a failure, and when it gives up."""

from __future__ import annotations

import time
from collections.abc import Callable

from connect.backoff import Backoff
from connect.errors import ConnectError

_INITIAL_BACKOFF_S = 0.1
STABLE_S = 60.0
"""A connection that lasted this long ends a series of failures; one that breaks sooner belongs to it, even if it had records."""


class RetrySchedule:
    """Counts failures and plans the next attempt. ``clock`` returns seconds."""

    def __init__(self, max_retries: int, max_backoff_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """``max_retries`` is -1 for no limit."""
        self._max_retries = max_retries
        self._backoff = Backoff(_INITIAL_BACKOFF_S, max_backoff_s)
        self._clock = clock
        self._failures = 0
        self._connected_at: float | None = None
        self._resume_at = 0.0

    def remaining_s(self) -> float:
        """The time until the next attempt; 0 or less if it is due."""
        return self._resume_at - self._clock()

    def wait(self, seconds: float) -> None:
        """Plans the next poll for later."""
        self._resume_at = self._clock() + seconds

    def connected(self) -> None:
        """The stream has started."""
        self._connected_at = self._clock()

    def connection_lost(self, error: ConnectError) -> float:
        """Plans the next attempt and returns the wait in seconds. Raises ConnectError after errors.max.retries attempts."""
        now = self._clock()
        if self._connected_at is not None and now - self._connected_at >= STABLE_S:
            self._failures = 0
        self._connected_at = None
        self._failures += 1
        if 0 <= self._max_retries < self._failures:
            raise ConnectError(f"{error.message} (gave up after errors.max.retries={self._max_retries} retries)") from error
        wait_s = self._backoff.delay_after_s(self._failures)
        self._resume_at = now + wait_s
        return wait_s
