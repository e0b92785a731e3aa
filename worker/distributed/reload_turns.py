"""Turns: one worker of a cluster at a time restarts what uses a changed value of a config provider."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_LEASE_S = 90.0
"""How long a turn lasts unless the worker asks again: a worker that dies holds up the others no longer."""


class ReloadTurns:
    """The leader's record of whose turn it is. Any thread.

    A new leader knows of no turn, so that after a change two workers may restart at once.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._holder: str | None = None
        self._until = 0.0

    def take(self, worker: str) -> bool:
        """Gives the turn to a worker, or extends it. Returns False while another worker has it."""
        with self._lock:
            now = self._clock()
            if self._holder not in (None, worker) and now < self._until:
                return False
            self._holder, self._until = worker, now + _LEASE_S
            return True

    def end(self, worker: str) -> None:
        """Ends the turn of a worker, if it has one."""
        with self._lock:
            if self._holder == worker:
                self._holder = None
