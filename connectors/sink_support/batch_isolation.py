"""Finds the bad records of a failed batch by bisection."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from connect.errors import DataError

T = TypeVar("T")

Attempt = Callable[[range], None]
"""Raises DataError when the records at these indexes cannot be delivered together. What it learns from records that can (column
types, for example) applies to later attempts."""


def deliver_in_order(batch: T, attempt: Callable[[T], None], split: Callable[[T], Sequence[T]]) -> Iterator[tuple[T, DataError]]:
    """Delivers a batch in order and yields each record that fails on its own, with its error.

    ``attempt`` delivers a part or raises DataError and leaves nothing of it behind. ``split`` returns the halves of a part, and
    nothing for a single record.
    """
    pending = [batch]
    while pending:
        part = pending.pop()
        try:
            attempt(part)
            continue
        except DataError as e:
            error = e
        smaller = split(part)
        if smaller:
            pending += reversed(smaller)
        else:
            yield part, error


def find_bad_records(parts: Iterable[range], attempt: Attempt) -> dict[int, DataError]:
    """Returns the indexes that ``attempt`` rejects one by one, in order, each with its error.

    The largest parts are tried first, so that ``attempt`` learns from the majority: one bad record at the start does not make all
    others look wrong.
    """
    waiting = [(-len(part), part.start, part) for part in parts if part]
    heapq.heapify(waiting)
    bad: dict[int, DataError] = {}
    while waiting:
        _, start, part = heapq.heappop(waiting)
        try:
            attempt(part)
        except DataError as e:
            if len(part) == 1:
                bad[start] = e
                continue
            for half in halves(part):
                heapq.heappush(waiting, (-len(half), half.start, half))
    return dict(sorted(bad.items()))


def halves(part: range) -> tuple[range, ...]:
    """Both halves of a range; the range itself if it has one index."""
    middle = len(part) // 2
    return (part[:middle], part[middle:]) if middle else (part,)
