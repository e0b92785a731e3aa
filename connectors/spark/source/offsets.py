"""Source partitions and offsets of tables: which change comes next. Offsets of directories and queries are in their packages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from connect.errors import DataError
from connect.suggestions import did_you_mean

TABLE = "table"
ID, VERSION, ROW, SNAPSHOT, ORDER, SNAPSHOT_ID = "id", "version", "row", "snapshot", "order", "snapshot_id"
FEED_MEMBERS = (VERSION, ROW, SNAPSHOT, ID, ORDER, SNAPSHOT_ID)


class StorablePosition(Protocol):
    """What a feed delivers next. Positions never change."""

    def to_offset(self) -> dict[str, Any]:
        """The offset to store."""
        ...


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """The first ``row`` changes of a version are done, and all versions before it; with ``snapshot``, the first ``row`` rows of
    the snapshot at that version.

    ``table_id``, ``order``, and ``snapshot_id`` are None in an offset that a user wrote without them: they are not checked then.
    """

    version: int
    row: int = 0
    snapshot: bool = False
    table_id: str | None = None
    order: str | None = None
    snapshot_id: int | None = None
    """Of an Iceberg table: the snapshot that is read, or the one before the changes that follow."""

    def after_version(self) -> FeedPosition:
        """The start of the next version."""
        return replace(self, version=self.version + 1, row=0, snapshot=False, order=None)

    def to_offset(self) -> dict[str, Any]:
        """See :class:`StorablePosition`."""
        offset: dict[str, Any] = {VERSION: self.version, ROW: self.row, SNAPSHOT: self.snapshot}
        if self.table_id is not None:
            offset[ID] = self.table_id
        if self.order:
            offset[ORDER] = self.order
        if self.snapshot_id is not None:
            offset[SNAPSHOT_ID] = self.snapshot_id
        return offset


def table_partition(location: str) -> dict[str, str]:
    """The source partition of the table at a location."""
    return {TABLE: location}


def parse_offset(offset: Mapping[str, Any]) -> FeedPosition:
    """Parses a stored offset. Raises DataError."""
    require_valid(offset, find_offset_problem)
    row = offset.get(ROW) or 0
    is_snapshot = bool(offset.get(SNAPSHOT))
    return FeedPosition(offset[VERSION], row, is_snapshot, offset.get(ID), offset.get(ORDER), offset.get(SNAPSHOT_ID))


def require_valid(offset: Mapping[str, Any], find_problem: Callable[[Mapping[str, Any]], str | None]) -> None:
    """Raises DataError if a stored offset has a problem."""
    problem = find_problem(offset)
    if problem is not None:
        raise DataError(f"the stored offset {dict(offset)} cannot be read: {problem}; stop the connector and alter or remove it")


def find_offset_problem(offset: Mapping[str, Any]) -> str | None:
    """What is wrong with an offset; None if nothing is."""
    problem = find_member_problem(
        offset, FEED_MEMBERS, integers=(VERSION, ROW, SNAPSHOT_ID), texts=(ID, ORDER), booleans=(SNAPSHOT,)
    )
    if problem is None and offset.get(VERSION) is None:
        return f"an offset needs {VERSION}"
    return problem


def find_member_problem(
    offset: Mapping[str, Any],
    names: Sequence[str],
    *,
    integers: Sequence[str] = (),
    texts: Sequence[str] = (),
    booleans: Sequence[str] = (),
) -> str | None:
    """The first member that an offset does not have, or that has the wrong type; None if there is none. A null counts as
    absent."""
    for name, value in offset.items():
        if name not in names:
            return f"an offset has no {name!r}{did_you_mean(name, names, '; ')}; it has {', '.join(names)}"
        if value is None:
            continue
        if name in integers and (type(value) is not int or value < 0):
            return f"{name} must be an integer of at least 0, not {value!r}"
        if name in booleans and type(value) is not bool:
            return f"{name} must be true or false, not {value!r}"
        if name in texts and type(value) is not str:
            return f"{name} must be a text, not {value!r}"
    return None
