"""The offsets of a sink task: delivered, committed, and where to restart."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from connect.record import TopicPartition

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Position:
    """Offsets of one partition, each that of the next record to read; None while unknown."""

    delivered: int | None = None
    """After the last successful put: passed to ``pre_commit``."""
    committed: int | None = None
    """The consumer group's offset."""
    restart: int | None = None
    """Where to continue after a failure: the last commit, the offset that the task requested, or where reading started."""
    start: int | None = None
    """Where reading started, for a partition without a group offset."""


class SinkPositions:
    """The offsets of the assigned partitions. Does no I/O."""

    def __init__(self) -> None:
        self.assigned: dict[TopicPartition, Position] = {}
        self.seeks: dict[TopicPartition, int] = {}
        """Offsets that the consumer must still seek to."""

    def add(
        self,
        partitions: Collection[TopicPartition],
        committed: Mapping[TopicPartition, int],
        start_offsets: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Adds assigned partitions. ``start_offsets`` has those of partitions without a committed offset, as far as known."""
        for partition in partitions:
            offset, start = committed.get(partition), (start_offsets or {}).get(partition)
            known = start if offset is None else offset
            self.assigned[partition] = Position(known, offset, known, start)

    def remove(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self.assigned.pop(partition, None)
            self.seeks.pop(partition, None)

    def set_first(self, partition: TopicPartition, offset: int) -> None:
        """Sets the offset of the first record that was read, unless one is known."""
        position = self.assigned.get(partition)
        if position is not None and position.restart is None:
            position.restart = offset

    def set_delivered(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            if partition in self.assigned:
                self.assigned[partition].delivered = offset

    def rewind(self, partition: TopicPartition, offset: int) -> None:
        """The task requested to continue from this offset."""
        position = self.assigned[partition]
        position.delivered = position.restart = offset

    def set_committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            if partition in self.assigned:
                self.assigned[partition].committed = self.assigned[partition].restart = offset

    def are_committed(self) -> bool:
        """Returns whether everything that was delivered is committed."""
        return all(
            one.delivered is None or one.delivered == (one.start if one.committed is None else one.committed)
            for one in self.assigned.values()
        )

    def to_pre_commit(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the delivered offsets of these partitions, the argument of ``pre_commit``."""
        found = {p: self.assigned[p].delivered for p in partitions if p in self.assigned}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def to_commit(
        self, returned: Mapping[TopicPartition, int], delivered: Mapping[TopicPartition, int], task: object
    ) -> dict[TopicPartition, int]:
        """Returns what to commit of the offsets that ``pre_commit`` returned: changed ones, of assigned partitions, up to
        ``delivered``.

        As in Apache's worker, the first change also commits partitions that nothing was read from: otherwise, with
        ``auto.offset.reset=latest``, records that arrive while the worker is down would be skipped.
        """
        changed, untouched = {}, {}
        for partition, offset in returned.items():
            partition = TopicPartition(*partition)
            position = self.assigned.get(partition)
            if position is None:
                log.warning("Task %s: ignoring offset %s for %s: partition is not assigned", task, offset, partition)
            elif offset > delivered.get(partition, offset if position.delivered is None else -1):
                log.warning(
                    "Task %s: ignoring offset %s for %s: it is beyond the last delivered offset %s",
                    task,
                    offset,
                    partition,
                    delivered.get(partition),
                )
            elif position.committed is None and offset == position.start:
                untouched[partition] = offset
            elif offset != position.committed:
                changed[partition] = offset
        return {**untouched, **changed} if changed else {}

    def restart_offsets(self) -> dict[TopicPartition, int]:
        """Returns where to continue after a failed commit."""
        return {partition: position.restart for partition, position in self.assigned.items() if position.restart is not None}
