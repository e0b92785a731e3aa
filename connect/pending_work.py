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

    def begin(self, key: str, message: str, since: float | None = None) -> None:
        """Work begins to wait, now or at ``since``, which may be later. If it waits already, only the message is replaced.

        ``message`` says for people what does not move, and why; without secrets. One thread at a time calls this for a key.
        """
        # Operations on a dict are atomic.
        before = self._found.get(key)
        if before is not None:
            since = before.since
        self._found[key] = Pending(self._clock() if since is None else since, message)

    def end(self, key: str) -> None:
        """The work is done, or has moved; it may begin to wait again."""
        self._found.pop(key, None)

    def oldest(self) -> Pending | None:
        """Returns what has been waiting longest; None if nothing waits by now."""
        now = self._clock()
        return min((one for one in list(self._found.values()) if one.since <= now), default=None)


__all__ = ["Pending", "PendingWork"]
