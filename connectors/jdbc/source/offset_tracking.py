"""Assigns an offset to each row. There is one tracker per table; it knows the position after the last row.

Promises 1 and 5: a query that starts at any stored offset reads all rows after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

from connect.errors import ConnectError
from connectors.jdbc.source.offsets import NO_POSITION, TIMESTAMP, TIMESTAMP_NANOS, SourcePosition, timestamp_offset

ExactValues = Sequence[tuple[int | None, ...]]
RowOffsets = list[dict[str, Any] | None]

_MAX_INT64 = 2**63 - 1


class OffsetTracker(Protocol):
    """Assigns offsets to rows. ``exact`` has per row the incrementing value (if the mode has one), then the timestamps."""

    position: SourcePosition
    needs_next_row: bool
    """Whether a row's offset depends on the next row."""

    def offsets(self, exact: ExactValues, *, last: bool) -> RowOffsets:
        """Returns an offset per row. If ``needs_next_row`` and not ``last``, the last row gets none yet."""


class NoOffsets:
    """Bulk mode: rows have no offsets."""

    needs_next_row = False

    def __init__(self) -> None:
        self.position = NO_POSITION

    def offsets(self, exact: ExactValues, *, last: bool) -> RowOffsets:
        return [None] * len(exact)


class IncrementingOffsets:
    """Incrementing mode: each row has its own value."""

    needs_next_row = False

    def __init__(self, position: SourcePosition, label: str) -> None:
        self.position = position
        self._label = label

    def offsets(self, exact: ExactValues, *, last: bool) -> RowOffsets:
        values = _incrementing_values(exact, self._label)
        if values:
            self.position = SourcePosition(None, values[-1])
        return [{"incrementing": value} for value in values]


class TimestampIncrementingOffsets:
    """Timestamp+incrementing mode: each row has its own pair of timestamp and value."""

    needs_next_row = False

    def __init__(self, position: SourcePosition, label: str) -> None:
        self.position = position
        self._label = label

    def offsets(self, exact: ExactValues, *, last: bool) -> RowOffsets:
        values = _incrementing_values(exact, self._label)
        timestamps = _timestamps(exact, 1, self._label)
        if values:
            self.position = SourcePosition(timestamps[-1], values[-1])
        return [
            {"incrementing": value, TIMESTAMP: ns // 1_000_000, TIMESTAMP_NANOS: ns % 1_000_000_000}
            for value, ns in zip(values, timestamps, strict=True)
        ]


class TimestampOffsets:
    """Timestamp mode: a timestamp becomes the offset when the next row has another one, or there is no next row.

    Until then rows have the previous timestamp as offset, so a restart never skips rows with the same timestamp.
    """

    needs_next_row = True

    def __init__(self, position: SourcePosition, label: str, *, unread: bool = False) -> None:
        """``unread``: no row with the timestamp of ``position`` has been read, so it is no offset yet."""
        self.position = position
        self._label = label
        self._unread = position if unread else None

    def offsets(self, exact: ExactValues, *, last: bool) -> RowOffsets:
        timestamps = _timestamps(exact, 0, self._label)
        following: list[int | None] = [*timestamps[1:], None] if last else [*timestamps[1:]]
        known = self.position.timestamp_ns
        offset = None if known is None or self.position is self._unread else timestamp_offset(known)
        found: RowOffsets = []
        for ns, next_ns in zip(timestamps, following, strict=False):
            if ns != next_ns:
                offset = timestamp_offset(ns)
                self.position = SourcePosition(ns)
            found.append(offset)
        return found


def _incrementing_values(exact: ExactValues, label: str) -> list[int]:
    values = [row[0] for row in exact]
    if None in values:
        raise ConnectError(f"A row of {label} has null in the incrementing column; every row must have a value there")
    found = cast("list[int]", values)
    if found and max(found) > _MAX_INT64:
        raise ConnectError(f"The incrementing column of {label} holds {max(found)}, which does not fit into 64 bits")
    return found


def _timestamps(exact: ExactValues, first: int, label: str) -> list[int]:
    timestamps = [row[first] for row in exact]
    if None in timestamps:
        timestamps = [next((ns for ns in row[first:] if ns is not None), None) for row in exact]
        if None in timestamps:
            raise ConnectError(f"A row of {label} has null in all of its timestamp columns; every row must have a timestamp")
    return cast("list[int]", timestamps)
