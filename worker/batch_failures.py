"""Batches in which some records fail: the good ones go on, each failed one is known with its reason.

A batch is tried whole, for that is fast. Only where it fails it is halved, and halved again, until few records are left that
are tried one by one; so a bad record in a hundred costs about as much again as the whole batch, and not a pass for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from worker.stages import Attempt, StageError, once

T = TypeVar("T")

_FEW = 8


class BatchFailures:
    """The records of one batch that failed, by their place in it. False while there is none.

    Where failures are not tolerated only the first counts: nothing after it is worth doing.
    """

    __slots__ = ("_found", "_tolerant", "attempt")

    def __init__(self, *, tolerant: bool = False, attempt: Attempt = once) -> None:
        self._found: dict[int, StageError] = {}
        self._tolerant = tolerant
        self.attempt = attempt
        """How a single operation is tried."""

    def __bool__(self) -> bool:
        return bool(self._found)

    def __iter__(self) -> Iterator[tuple[int, StageError]]:
        """The failures to be told of, in the order of the records."""
        found = sorted(self._found.items())
        return iter(found if self._tolerant else found[:1])

    def add(self, place: int, failure: StageError) -> None:
        """This record failed; a stage that it failed in before stays the one."""
        self._found.setdefault(place, failure)

    def good(self, place: int) -> bool:
        """Whether this record is to go on."""
        return place < self.end and place not in self._found

    @property
    def end(self) -> float:
        """The place of the first record that does not count any more."""
        return float("inf") if self._tolerant or not self._found else min(self._found)


def salvage(
    places: Sequence[int],
    whole: Callable[[Sequence[int]], Sequence[T]],
    one: Callable[[int], T],
    failures: BatchFailures,
    missing: T,
) -> list[T]:
    """The results of ``whole`` over these places, although it raised for all of them at once.

    ``one`` gives the result of a single place, or raises StageError, which is noted; ``missing`` then stands in its place.
    """
    if len(places) <= _FEW:
        return [_alone(place, one, failures, missing) for place in places]
    middle = len(places) // 2
    results: list[T] = []
    for part in (places[:middle], places[middle:]):
        try:
            results += whole(part)
        except Exception:
            results += salvage(part, whole, one, failures, missing)
    return results


def _alone(place: int, one: Callable[[int], T], failures: BatchFailures, missing: T) -> T:
    if not failures.good(place):
        return missing
    try:
        return one(place)
    except StageError as e:
        failures.add(place, e)
        return missing
