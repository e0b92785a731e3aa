"""Where a sink task stands in each of its partitions."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from connect.record import TopicPartition

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Position:
    """Offsets of one partition, each the next to be read; None while unknown."""

    delivered: int | None = None
    """After what was put successfully: what ``pre_commit`` is asked about."""
    committed: int | None = None
    """What the group has."""
    restart: int | None = None
    """Where to go on after a failure: the last commit, or where the task asked to read, or where reading began."""
    began: int | None = None
    """Where reading began, of a partition that the group had no offset of."""


class SinkPositions:
    """The positions of the assigned partitions. Pure book-keeping."""

    def __init__(self) -> None:
        self.of: dict[TopicPartition, Position] = {}

    def add(
        self,
        partitions: Collection[TopicPartition],
        committed: Mapping[TopicPartition, int],
        began: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """``began`` tells where reading begins of partitions that the group has no offset of, as far as it is known."""
        for place in partitions:
            offset, start = committed.get(place), (began or {}).get(place)
            known = start if offset is None else offset
            self.of[place] = Position(known, offset, known, start)

    def remove(self, partitions: Collection[TopicPartition]) -> None:
        for place in partitions:
            self.of.pop(place, None)

    def began(self, place: TopicPartition, offset: int) -> None:
        """The first record of the partition has this offset."""
        position = self.of.get(place)
        if position is not None and position.restart is None:
            position.restart = offset

    def delivered(self, offsets: Mapping[TopicPartition, int]) -> None:
        for place, offset in offsets.items():
            if place in self.of:
                self.of[place].delivered = offset

    def rewound(self, place: TopicPartition, offset: int) -> None:
        """The task asked to go on from here."""
        position = self.of[place]
        position.delivered = position.restart = offset

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        for place, offset in offsets.items():
            if place in self.of:
                self.of[place].committed = self.of[place].restart = offset

    def to_pre_commit(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """What the task is asked about: what was put of these partitions so far."""
        return {p: self.of[p].delivered for p in partitions if p in self.of and self.of[p].delivered is not None}  # type: ignore[misc]

    def to_commit(
        self, answered: Mapping[TopicPartition, int], asked: Mapping[TopicPartition, int], task: object
    ) -> dict[TopicPartition, int]:
        """What of the task's answer is committed: partitions it has, offsets that were put, and only changes.

        As in Apache's worker the first change brings those partitions along that nothing has come from: their records are not
        skipped then where ``auto.offset.reset`` is latest and the worker is away.
        """
        result, untouched = {}, {}
        for place, offset in answered.items():
            place = TopicPartition(*place)
            position = self.of.get(place)
            if position is None:
                log.warning("Task %s wants to commit offset %s of %s, which it does not have; ignored", task, offset, place)
            elif offset > asked.get(place, offset if position.delivered is None else -1):
                log.warning(
                    "Task %s wants to commit offset %s of %s, beyond what it was given (%s); ignored",
                    task,
                    offset,
                    place,
                    asked.get(place),
                )
            elif position.committed is None and offset == position.began:
                untouched[place] = offset
            elif offset != position.committed:
                result[place] = offset
        return {**untouched, **result} if result else {}

    def restarts(self) -> dict[TopicPartition, int]:
        """Where to go on after a failed commit."""
        return {place: position.restart for place, position in self.of.items() if position.restart is not None}
