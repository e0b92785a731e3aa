"""Calls functions at given times, on one thread that exists only while there are any."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)


class Deadlines:
    """Timeouts: functions to call unless they are canceled first. Safe from any thread."""

    def __init__(self, name: str = "deadlines") -> None:
        self._name = name
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None

    def call_at(self, at: float, call: Callable[[], None]) -> Callable[[], None]:
        """Calls ``call`` when ``time.monotonic()`` is ``at``; it must not block. Returns a function that cancels it."""
        with self._changed:
            number = next(self._numbers)
            heapq.heappush(self._due, (at, number, call))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            else:
                self._changed.notify()
        return lambda: self._cancel(number)

    def _cancel(self, number: int) -> None:
        with self._changed:
            if any(due[1] == number for due in self._due):
                self._due = [due for due in self._due if due[1] != number]
                heapq.heapify(self._due)
                self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._due:
                    self._thread = None
                    return
                wait_s = self._due[0][0] - time.monotonic()
                if wait_s > 0:
                    self._changed.wait(wait_s)
                    continue
                call = heapq.heappop(self._due)[2]
            try:
                call()
            except Exception:
                log.exception("A function called at its deadline failed")
