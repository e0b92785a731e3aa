"""Source partitions and offsets of tables: which change comes next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from connect.errors import DataError
from connect.suggestions import did_you_mean

TABLE = "table"
ID, VERSION, ROW, SNAPSHOT, ORDER, SNAPSHOT_ID = "id", "version", "row", "snapshot", "order", "snapshot_id"
_KEYS = (VERSION, ROW, SNAPSHOT, ID, ORDER, SNAPSHOT_ID)


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


def table_partition(location: str) -> dict[str, str]:
    """The source partition of the table at a location."""
    return {TABLE: location}


def build_offset(position: FeedPosition) -> dict[str, Any]:
    """The offset to store for a position."""
    offset: dict[str, Any] = {VERSION: position.version, ROW: position.row, SNAPSHOT: position.snapshot}
    if position.table_id is not None:
        offset[ID] = position.table_id
    if position.order:
        offset[ORDER] = position.order
    if position.snapshot_id is not None:
        offset[SNAPSHOT_ID] = position.snapshot_id
    return offset


def parse_offset(offset: Mapping[str, Any]) -> FeedPosition:
    """Parses a stored offset. Raises DataError."""
    problem = find_offset_problem(offset)
    if problem is not None:
        raise DataError(f"the stored offset {dict(offset)} cannot be read: {problem}; stop the connector and alter or remove it")
    row = offset.get(ROW) or 0
    is_snapshot = bool(offset.get(SNAPSHOT))
    return FeedPosition(offset[VERSION], row, is_snapshot, offset.get(ID), offset.get(ORDER), offset.get(SNAPSHOT_ID))


def find_offset_problem(offset: Mapping[str, Any]) -> str | None:
    """What is wrong with an offset; None if nothing is."""
    for name, value in offset.items():
        if name not in _KEYS:
            return f"an offset has no {name!r}{did_you_mean(name, _KEYS, '; ')}; it has {', '.join(_KEYS)}"
        if name in (VERSION, ROW, SNAPSHOT_ID) and value is not None and (type(value) is not int or value < 0):
            return f"{name} must be an integer of at least 0, not {value!r}"
        if name == SNAPSHOT and value is not None and type(value) is not bool:
            return f"{name} must be true or false, not {value!r}"
        if name in (ID, ORDER) and value is not None and type(value) is not str:
            return f"{name} must be a text, not {value!r}"
    return f"an offset needs {VERSION}" if offset.get(VERSION) is None else None
