"""Stops consumption while a task's buffer is full."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from connect.record import TopicPartition
from connect.sink import SinkTaskContext
from connectors.spark.delivery.commit_scheduler import BufferLimits

log = logging.getLogger(__name__)

_MAX_KEPT_RECORDS = 50_000
"""Decoded records that may have to be reported are kept until they are in a table."""


@dataclass(frozen=True, slots=True)
class Buffered:
    """What a task holds: waiting or being committed."""

    records: int
    size_bytes: int
    kept_records: int = 0
    """Decoded records that are kept for reports."""


class BackPressure:
    """Pauses all partitions when the buffer is full, and resumes them when half of it is free. Used on the task's thread.

    Below that, half of the buffer fills while the other half is being committed.
    """

    def __init__(self, context: SinkTaskContext, limits: BufferLimits) -> None:
        self._context = context
        self._limits = limits
        self.is_paused = False

    def is_pressed(self, buffered: Buffered) -> bool:
        """Whether commits must start before they are due."""
        return _share(buffered, self._limits) >= 0.5

    def is_full(self, buffered: Buffered) -> bool:
        return _share(buffered, self._limits) >= 1

    def update(self, buffered: Buffered) -> None:
        """Pauses or resumes consumption."""
        if not self.is_paused and self.is_full(buffered):
            log.debug("The buffer is full; consumption pauses until commits have ended")
            self.is_paused = True
            self._context.pause(*self._context.assignment())
        elif self.is_paused and not self.is_pressed(buffered):
            self.is_paused = False
            self._context.resume(*self._context.assignment())

    def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions were assigned."""
        if self.is_paused:
            self._context.pause(*partitions)


def _share(buffered: Buffered, limits: BufferLimits) -> float:
    """Returns which share of a limit is used; the largest, over all limits."""
    return max(
        buffered.records / limits.records, buffered.size_bytes / limits.size_bytes, buffered.kept_records / _MAX_KEPT_RECORDS
    )
