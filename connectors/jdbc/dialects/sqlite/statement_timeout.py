"""Cancels SQLite statements that take longer than ``statement.timeout.ms``: SQLite has no such limit."""

from __future__ import annotations

import time
from typing import Any

_STEPS_BETWEEN_LOOKS = 20_000
"""Number of virtual machine instructions between checks; they take less than a millisecond."""


class SqliteStatementTimer:
    """Tracks the deadline of each connection's current driver call. A limit of 0 ms means none."""

    def __init__(self, limit_ms: int) -> None:
        self._limit_s = limit_ms / 1000
        self._deadlines: dict[int, float] = {}

    def watch(self, connection: Any) -> None:
        """Starts checking the deadline of a new connection."""
        number, deadlines, now = id(connection), self._deadlines, time.monotonic
        connection.set_progress_handler(lambda: number in deadlines and now() > deadlines[number], _STEPS_BETWEEN_LOOKS)

    def start(self, connection: Any) -> None:
        """Sets the deadline at the start of a driver call."""
        if self._limit_s:
            self._deadlines[id(connection)] = time.monotonic() + self._limit_s

    def forget(self, connection: Any) -> None:
        """Removes a closed connection."""
        self._deadlines.pop(id(connection), None)
