"""When the task connects again after a failure, and when it gives up."""

from __future__ import annotations

import time
from collections.abc import Callable

from connect.backoff import Backoff
from connect.errors import ConnectError
from connectors.postgres.config import PostgresConfig
from connectors.postgres.errors import SlotInUseError

_INITIAL_BACKOFF_S = 0.1
_MAX_SLOT_POLL_S = 0.5
STABLE_S = 60.0
"""A connection that lasted this long ends a series of failures; one that breaks sooner belongs to it, even if it had records."""


class RetrySchedule:
    """Counts failures and plans the next attempt. ``clock`` returns seconds."""

    def __init__(self, settings: PostgresConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_retries = settings.max_retries
        self._backoff = Backoff(_INITIAL_BACKOFF_S, settings.max_backoff_s)
        self._slot = settings.slot
        self._address = settings.address
        self._clock = clock
        self._failures = 0
        self._connected_at: float | None = None
        self._slot_in_use_since: float | None = None
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
        self._slot_in_use_since = None

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

    def slot_in_use(self, error: SlotInUseError) -> bool:
        """Plans the next attempt; returns whether this is the first one. The server may take a moment to notice that the previous
        reader has disconnected. Raises ConnectError when slot.max.retries are used up."""
        slot, now = self._slot, self._clock()
        self._connected_at = None
        first = self._slot_in_use_since is None
        if self._slot_in_use_since is None:
            self._slot_in_use_since = now
        if now - self._slot_in_use_since >= slot.max_retries * slot.retry_delay_s:
            raise ConnectError(f"replication slot {slot.name} on PostgreSQL at {self._address}: {error.message}") from error
        self._resume_at = now + min(slot.retry_delay_s, _MAX_SLOT_POLL_S)
        return first
