"""What a task asks of the worker: to hold records back, and to commit the consumer group's offsets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from connect.record import TopicPartition
from connect.sink import SinkTaskContext

log = logging.getLogger(__name__)

BUFFER_IS_FULL, EXECUTORS_WRITE = "the buffer is full", "Spark's executors write"
"""Why consumption pauses."""
_INTERVAL_S = 1.0


class Consumption:
    """Pauses all partitions of the task while there is a reason, of whatever kind. Used on the task's thread."""

    def __init__(self, context: SinkTaskContext) -> None:
        self._context = context
        self._reasons: set[str] = set()

    def is_paused(self, reason: str) -> bool:
        return reason in self._reasons

    def pause(self, reason: str) -> None:
        if not self._reasons:
            log.debug("Consumption pauses: %s", reason)
            self._context.pause(*self._context.assignment())
        self._reasons.add(reason)

    def resume(self, reason: str) -> None:
        """The reason is gone; consumption resumes if there is no other."""
        if reason in self._reasons:
            self._reasons.remove(reason)
            if not self._reasons:
                self._context.resume(*self._context.assignment())

    def limit(self, fill: float) -> None:
        """Pauses when the buffer is full, and resumes when half of it is free: meanwhile, the other half is being committed."""
        if fill >= 1:
            self.pause(BUFFER_IS_FULL)
        elif fill < 0.5:
            self.resume(BUFFER_IS_FULL)

    def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions were assigned."""
        if self._reasons:
            self._context.pause(*partitions)


class OffsetRequests:
    """Asks the worker to commit offsets after table commits: once per second, however many tables there are. Used on the task's
    thread."""

    def __init__(self, context: SinkTaskContext, clock: Callable[[], float]) -> None:
        self._context = context
        self._clock = clock
        self._requested = 0
        self._last_at = float("-inf")
        self._is_open = False

    def next_at(self, moves: int) -> float | None:
        """When the next request is sent, after this many moves of the offsets; None if there is none to send."""
        return self._last_at + _INTERVAL_S if moves > self._requested else None

    def send_due(self, moves: int) -> None:
        next_at, now = self.next_at(moves), self._clock()
        if next_at is not None and next_at <= now:
            self._context.request_commit()
            self._requested, self._is_open, self._last_at = moves, True, now

    def take_answer(self) -> bool:
        """Returns whether the worker's call of ``pre_commit`` follows a request."""
        was_open, self._is_open = self._is_open, False
        return was_open
