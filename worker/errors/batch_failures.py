"""Isolates the records of a batch that fail.

A whole batch is tried first because that is fast. If it fails, a few records are tried at a time, and only the groups in which
one fails are processed record by record. Measured per record, decoding JSON: 1.3 microseconds in a whole batch, 1.7 in groups of
16, 6.7 alone. Bisection would cost more: the records before the bad one would be processed again at each level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from worker.errors.stages import Attempt, StageError, once

T = TypeVar("T")

_GROUP_SIZE = 16


class BatchFailures:
    """The failed records of one batch, by index. False while there is none.

    If failures are not tolerated, the first one counts, and no record after it is processed, unless the source says to skip the
    record.
    """

    __slots__ = ("_end", "_found", "_tolerant", "attempt")

    def __init__(self, *, tolerant: bool = False, attempt: Attempt = once) -> None:
        self._found: dict[int, StageError] = {}
        self._end = float("inf")
        self._tolerant = tolerant
        self.attempt = attempt
        """Runs a single operation, with retries."""

    def __len__(self) -> int:
        """The number of failed records, whether or not they are reported."""
        return len(self._found)

    def __iter__(self) -> Iterator[tuple[int, StageError]]:
        """The failures to report, in the order of the records."""
        found = sorted(self._found.items())
        return iter([(index, failure) for index, failure in found if index <= self._end])

    def add(self, index: int, failure: StageError) -> None:
        """Adds the failure of a record. Its first failure counts."""
        if index not in self._found:
            self._found[index] = failure
            if not self._tolerant and not failure.skips:
                self._end = min(self._end, index)

    def is_good(self, index: int) -> bool:
        """Whether to continue with this record."""
        return index < self.end and index not in self._found

    @property
    def end(self) -> float:
        """The index of the first record that is not processed any more."""
        return self._end

    @property
    def are_tolerated(self) -> bool:
        """Whether the failed records are skipped; otherwise the one at ``end`` fails the task."""
        return self._end == float("inf")


def isolate_failures(
    indexes: Sequence[int],
    process_group: Callable[[Sequence[int]], Sequence[T]],
    process_one: Callable[[int], T],
    failures: BatchFailures,
    missing: T,
) -> list[T]:
    """Returns the results of ``process_group`` for records for which it failed when called for all of them together.

    ``process_one`` returns the result of a single record or raises StageError, which is added to ``failures``; the record's
    result is ``missing`` then.
    """
    results: list[T] = []
    failed_in_a_row = 0
    for start in range(0, len(indexes), _GROUP_SIZE):
        group = indexes[start : start + _GROUP_SIZE]
        failures_before = len(failures)
        if group[0] >= failures.end:
            results += [missing] * len(group)
            continue
        if failed_in_a_row < 2:
            try:
                results += process_group(group)
                failed_in_a_row = 0
                continue
            except Exception:
                failed_in_a_row += 1
        # If one record in ten fails, trying groups does not pay.
        results += [_process_alone(index, process_one, failures, missing) for index in group]
        if len(failures) == failures_before:
            failed_in_a_row = 0
    return results


def _process_alone(index: int, process_one: Callable[[int], T], failures: BatchFailures, missing: T) -> T:
    if not failures.is_good(index):
        return missing
    try:
        return process_one(index)
    except StageError as e:
        failures.add(index, e)
        return missing
