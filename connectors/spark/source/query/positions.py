"""Offsets of a query: up to which value of the cursor column its rows are done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connectors.spark.source.offsets import ORDER, ROW, SNAPSHOT, VERSION, find_member_problem, require_valid

CURSOR = "cursor"
MEMBERS = (VERSION, SNAPSHOT, CURSOR, ROW, ORDER)


@dataclass(frozen=True, slots=True)
class CursorPosition:
    """What a query's feed delivers next (:class:`connectors.spark.source.offsets.StorablePosition`).

    A version is one range of the cursor; its number is the time when it was read, in ms since 1970, so that later events of a key
    have a higher one even when offsets were reset.
    """

    version: int
    snapshot: bool
    cursor: str | None = None
    """All rows up to this value are done; None: no rows."""
    row: int | None = None
    """If set, only so many rows with this value are done, in the order ``order``."""
    order: str | None = None

    def to_offset(self) -> dict[str, Any]:
        """See :class:`connectors.spark.source.offsets.StorablePosition`."""
        offset: dict[str, Any] = {VERSION: self.version, SNAPSHOT: self.snapshot, CURSOR: self.cursor}
        if self.row is not None:
            offset |= {ROW: self.row, ORDER: self.order}
        return offset


def parse_cursor_offset(offset: Mapping[str, Any]) -> CursorPosition:
    """Parses a stored offset. Raises DataError."""
    require_valid(offset, find_cursor_offset_problem)
    cursor = offset.get(CURSOR)
    text = None if cursor is None else str(cursor)
    version, snapshot = offset.get(VERSION) or 0, bool(offset.get(SNAPSHOT))
    return CursorPosition(version, snapshot, text, offset.get(ROW), offset.get(ORDER))


def find_cursor_offset_problem(offset: Mapping[str, Any]) -> str | None:
    """What is wrong with an offset; None if nothing is. Whether the cursor is a value of its column is known to the task."""
    problem = find_member_problem(offset, MEMBERS, integers=(VERSION, ROW), texts=(ORDER,), booleans=(SNAPSHOT,))
    if problem is not None:
        return problem
    if CURSOR not in offset:
        return f"an offset needs {CURSOR}: rows up to this value are done (null: none)"
    cursor = offset[CURSOR]
    if cursor is not None and type(cursor) not in (str, int):
        return f"{CURSOR} must be a text or an integer, not {cursor!r}"
    if cursor is None and offset.get(ROW):
        return f"{ROW} counts the rows of a {CURSOR}, which is null"
    return None
