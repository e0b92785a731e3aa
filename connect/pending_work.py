"""Work that waits inside a task although its methods return, such as a table commit or a replication slot that does not advance.

A task that has such work creates one :class:`PendingWork` as its attribute ``pending_work``. The worker looks at it every few
seconds, without running code of the task, and reports work that waits too long as a stall: ``stalled`` in the status.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple


class Pending(NamedTuple):
    """One piece of work that waits."""

    since: float
    """By ``time.monotonic``."""
    message: str


class PendingWork:
    """What a task waits for, by key. Methods may be called from any thread, and never block."""

    __slots__ = ("_clock", "_found")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: dict[str, Pending] = {}

    def begin(self, key: str, message: str) -> None:
        """Work begins to wait, unless it waits already. ``message`` says for people what does not move; without secrets."""
        # An operation on a dict is atomic.
        self._found.setdefault(key, Pending(self._clock(), message))

    def end(self, key: str) -> None:
        """The work is done, or has moved; it may begin to wait again."""
        self._found.pop(key, None)

    def oldest(self) -> Pending | None:
        """Returns what has been waiting longest; None if nothing waits."""
        return min(list(self._found.values()), default=None)


__all__ = ["Pending", "PendingWork"]
