"""Lets changes gather: reading, writing, and sending a batch costs much more than another change in it."""

from __future__ import annotations

import time
from collections.abc import Callable

GATHER_S = 0.002


class ReadPace:
    """Spaces reads of a stream that has changes all the time, but no backlog. A change after a pause is read at once.

    ``clock`` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = 0.0

    def delay_s(self) -> float:
        """How long to wait before the next read."""
        return self._next - self._clock()

    def start(self, *, has_changes: bool, is_full: bool) -> None:
        """Notes the result of a read. A full batch is a backlog, which is read without a delay."""
        self._next = self._clock() + GATHER_S if has_changes and not is_full else 0.0
