"""Which offset each row carries. One object a table: it knows the position after the last row that it has stamped.

Promise 1 and 5: whatever row is the last whose offset is stored, a query that begins at it reads all that came after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

from connect.errors import ConnectError
from connectors.jdbc.source.offsets import NO_POSITION, TIMESTAMP, TIMESTAMP_NANOS, SourcePosition, timestamp_offset

ExactValues = Sequence[tuple[int | None, ...]]
RowOffsets = list[dict[str, Any] | None]

_MOST = 2**63 - 1


class OffsetTracker(Protocol):
    """``exact`` has, by row, the number (in modes that have one), then the times."""

    position: SourcePosition
    needs_next_row: bool
    """Whether a row's offset depends on the row after it."""

    def offsets(self, exact: ExactValues, *, last: bool) -> RowOffsets:
        """The offset of each row, and with ``last`` False, for stamps that hold back, of each but the last."""


class NoOffsets:
    """Bulk mode: rows have no offset."""

    needs_next_row = False

    def __init__(self) -> None:
        self.position = NO_POSITION

    def offsets(self, exact: ExactValues, *, last: bool) -> RowOffsets:
        return [None] * len(exact)


class IncrementingOffsets:
    """Each row has its own number."""

    needs_next_row = False

    def __init__(self, position: SourcePosition, label: str) -> None:
        self.position = position
        self._label = label

    def offsets(self, exact: ExactValues, *, last: bool) -> RowOffsets:
        numbers = _numbers(exact, self._label)
        if numbers:
            self.position = SourcePosition(None, numbers[-1])
        return [{"incrementing": number} for number in numbers]


class TimestampIncrementingOffsets:
    """Each row has its own time and number, which together are unique."""

    needs_next_row = False

    def __init__(self, position: SourcePosition, label: str) -> None:
        self.position = position
        self._label = label

    def offsets(self, exact: ExactValues, *, last: bool) -> RowOffsets:
        numbers = _numbers(exact, self._label)
        times = _times(exact, 1, self._label)
        if numbers:
            self.position = SourcePosition(times[-1], numbers[-1])
        return [
            {"incrementing": number, TIMESTAMP: ns // 1_000_000, TIMESTAMP_NANOS: ns % 1_000_000_000}
            for number, ns in zip(numbers, times, strict=True)
        ]


class TimestampOffsets:
    """A time counts only when a later one follows or there are no more rows: rows of one time are never cut in two by a
    restart. Until then rows carry the time before it."""

    needs_next_row = True

    def __init__(self, position: SourcePosition, label: str, *, unread: bool = False) -> None:
        """``unread``: of the time that it begins at no row was read, so it counts like any that follows."""
        self.position = position
        self._label = label
        self._unread = position if unread else None

    def offsets(self, exact: ExactValues, *, last: bool) -> RowOffsets:
        times = _times(exact, 0, self._label)
        following: list[int | None] = [*times[1:], None] if last else [*times[1:]]
        known = self.position.timestamp_ns
        offset = None if known is None or self.position is self._unread else timestamp_offset(known)
        found: RowOffsets = []
        for ns, next_ns in zip(times, following, strict=False):
            if ns != next_ns:
                offset = timestamp_offset(ns)
                self.position = SourcePosition(ns)
            found.append(offset)
        return found


def _numbers(exact: ExactValues, label: str) -> list[int]:
    numbers = [row[0] for row in exact]
    if None in numbers:
        raise ConnectError(f"A row of {label} has null in the incrementing column; rows must have a number there")
    found = cast("list[int]", numbers)
    if found and max(found) > _MOST:
        raise ConnectError(f"The incrementing column of {label} holds {max(found)}, which does not fit into 64 bits")
    return found


def _times(exact: ExactValues, first: int, label: str) -> list[int]:
    times = [row[first] for row in exact]
    if None in times:
        times = [next((ns for ns in row[first:] if ns is not None), None) for row in exact]
        if None in times:
            raise ConnectError(f"A row of {label} has null in all of its timestamp columns; rows must have a time")
    return cast("list[int]", times)
