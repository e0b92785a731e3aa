"""Which records of a batch that failed are to blame: it is taken apart, by halves, down to those that fail alone too."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import NamedTuple

from connect.errors import DataError
from connect.record import TopicPartition

Attempt = Callable[[range], None]
"""Raises DataError when the records at these places cannot be delivered together. What it learns of records that can (types of
columns, say) holds for those after."""


def find_bad_records(parts: Iterable[range], attempt: Attempt) -> dict[int, DataError]:
    """The places that ``attempt`` refuses one by one, in order, each with its reason.

    The largest parts are tried first, so that what is learnt is learnt from the many: one bad record at the beginning does not
    make all others the wrong ones.
    """
    waiting = [(-len(part), part.start, part) for part in parts if part]
    heapq.heapify(waiting)
    refused: dict[int, DataError] = {}
    while waiting:
        _, start, part = heapq.heappop(waiting)
        try:
            attempt(part)
        except DataError as e:
            if len(part) == 1:
                refused[start] = e
                continue
            for half in halves(part):
                heapq.heappush(waiting, (-len(half), half.start, half))
    return dict(sorted(refused.items()))


def halves(part: range) -> tuple[range, ...]:
    """Both halves; the part itself when it is one place."""
    middle = len(part) // 2
    return (part[:middle], part[middle:]) if middle else (part,)


class BadRecord(NamedTuple):
    """A record that cannot go on, and why."""

    topic_partition: TopicPartition
    offset: int
    reason: DataError

    @classmethod
    def of(cls, topic_partition: TopicPartition, offset: int, error: DataError) -> BadRecord:
        """With the record named in the reason, if it does not name it already."""
        where = describe_location(topic_partition, offset)
        if where in error.message:
            return cls(topic_partition, offset, error)
        reason = DataError(f"{where}: {error.message}")
        reason.__cause__ = error
        return cls(topic_partition, offset, reason)


def describe_location(topic_partition: TopicPartition, offset: int) -> str:
    """A record in a message."""
    return f"topic {topic_partition.topic}, partition {topic_partition.partition}, offset {offset}"
