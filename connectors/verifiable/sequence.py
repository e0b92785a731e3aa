"""Sequence numbers and rate limiting of verifiable sources."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from connect.errors import ConnectError
from connect.source import OffsetReader

SEQNO = "seqno"
MAX_WAIT_S = 1.0
MIN_WAIT_S = 0.01
"""A task that produces records faster than this produces them in batches, to avoid a wake-up per record."""


def next_seqno(reader: OffsetReader, partition: Mapping[str, Any]) -> int:
    """The number after the stored one; 0 if none is stored. Raises ConnectError for an invalid offset."""
    stored = reader.offset(partition)
    if stored is None:
        return 0
    seqno = stored.get(SEQNO)
    if type(seqno) is not int:
        raise ConnectError(f"The stored offset of {dict(partition)} is {stored}, expected an integer '{SEQNO}'")
    return seqno + 1


class RateLimiter:
    """Limits the rate of records. One thread calls it; any thread may stop it."""

    def __init__(self, rate: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        """``rate`` is in records per second from now on; after a pause, it catches up as in Apache Kafka. 0 means no records,
        negative values mean no limit."""
        self._rate = rate
        self._monotonic = monotonic
        self._stopped = threading.Event()
        self._started_s = monotonic()
        self._last_s = self._started_s - MIN_WAIT_S
        self._made = 0

    def wait_for_due(self, max_records: int) -> int:
        """Returns how many records are due, at most ``max_records``. Waits for the first one, at most about a second; 0 if none
        is due then, or if stopped."""
        if self._rate < 0:
            return 0 if self._stopped.is_set() else max_records
        if self._rate == 0:
            self.idle()
            return 0
        due_s = max(self._started_s + self._made / self._rate, self._last_s + MIN_WAIT_S)
        wait_s = due_s - self._monotonic()
        if self._stopped.wait(max(0.0, min(wait_s, MAX_WAIT_S))) or wait_s > MAX_WAIT_S:
            return 0
        self._last_s = self._monotonic()
        behind = int((self._last_s - self._started_s) * self._rate) + 1 - self._made
        number = min(max(behind, 1), max_records)
        self._made += number
        return number

    def idle(self) -> None:
        """Waits about a second, or until stopped."""
        self._stopped.wait(MAX_WAIT_S)

    def stop(self) -> None:
        """Ends all waits, permanently."""
        self._stopped.set()
