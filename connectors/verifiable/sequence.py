"""Numbers that count up at a wished rate, and go on where they stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from connect.errors import ConnectError
from connect.source import OffsetReader

SEQNO = "seqno"
LONGEST_WAIT_S = 1.0
SHORTEST_WAIT_S = 0.01
"""A task that makes more than a record in this time makes them in batches: a wake-up for each would be all that it does."""


def next_seqno(reader: OffsetReader, partition: Mapping[str, Any]) -> int:
    """The number after the stored one; 0 when none is stored. Raises ConnectError for an offset that is none of ours."""
    stored = reader.offset(partition)
    if stored is None:
        return 0
    seqno = stored.get(SEQNO)
    if type(seqno) is not int:
        raise ConnectError(f"The stored offset of {dict(partition)} is {stored}, expected an integer '{SEQNO}'")
    return seqno + 1


class Pace:
    """How many records are to be made when. One thread asks; any may stop it."""

    def __init__(self, rate: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        """``rate`` is records a second, counted from now: what a pause held up is made up for, as in Apache's. 0 is none at
        all, below that it is as fast as it goes."""
        self._rate = rate
        self._monotonic = monotonic
        self._stopped = threading.Event()
        self._started_s = monotonic()
        self._last_s = self._started_s - SHORTEST_WAIT_S
        self._made = 0

    def due(self, most: int) -> int:
        """How many records to make now, at most ``most``. Waits for the first of them, not longer than about a second; 0 when
        none is due then, or it is stopped."""
        if self._rate < 0:
            return 0 if self._stopped.is_set() else most
        if self._rate == 0:
            self.idle()
            return 0
        due_s = max(self._started_s + self._made / self._rate, self._last_s + SHORTEST_WAIT_S)
        wait_s = due_s - self._monotonic()
        if self._stopped.wait(max(0.0, min(wait_s, LONGEST_WAIT_S))) or wait_s > LONGEST_WAIT_S:
            return 0
        self._last_s = self._monotonic()
        behind = int((self._last_s - self._started_s) * self._rate) + 1 - self._made
        number = min(max(behind, 1), most)
        self._made += number
        return number

    def idle(self) -> None:
        """Waits about a second, or until it is stopped."""
        self._stopped.wait(LONGEST_WAIT_S)

    def stop(self) -> None:
        """Ends every wait, for good."""
        self._stopped.set()
