"""Asks the worker to commit the consumer group's offsets after table commits."""

from __future__ import annotations

from collections.abc import Callable

from connect.sink import SinkTaskContext

_INTERVAL_S = 1.0


class OffsetRequests:
    """At most one request per second, however many tables there are. Used on the task's thread."""

    def __init__(self, context: SinkTaskContext, clock: Callable[[], float]) -> None:
        self._context = context
        self._clock = clock
        self._is_due = False
        self._last_at = float("-inf")
        self._is_open = False

    def add(self) -> None:
        """A table was committed."""
        self._is_due = True

    @property
    def next_at(self) -> float | None:
        """When the next request is sent; None if there is none to send."""
        return self._last_at + _INTERVAL_S if self._is_due else None

    def send_due(self) -> None:
        next_at, now = self.next_at, self._clock()
        if next_at is not None and next_at <= now:
            self._context.request_commit()
            self._is_due, self._is_open, self._last_at = False, True, now

    def take_answer(self) -> bool:
        """Returns whether the worker's call of ``pre_commit`` follows a request."""
        was_open, self._is_open = self._is_open, False
        return was_open
