"""When the task tries again to read from its slot, and when it gives up."""

from __future__ import annotations

import time
from collections.abc import Callable

from connect.errors import ConnectError
from connectors.cdc.retries import RetrySchedule
from connectors.postgres.config import PostgresConfig
from connectors.postgres.errors import SlotInUseError

_MAX_SLOT_POLL_S = 0.5


class SlotRetrySchedule(RetrySchedule):
    """Waits for a slot in use, too."""

    def __init__(self, settings: PostgresConfig, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(settings.max_retries, settings.max_backoff_s, clock)
        self._slot = settings.slot
        self._address = settings.address
        self._slot_in_use_since: float | None = None

    def connected(self) -> None:
        super().connected()
        self._slot_in_use_since = None

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
