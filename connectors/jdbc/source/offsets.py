"""Source partitions and offsets in Confluent's format, so that connectors can be migrated in both directions.

A timestamp is stored as ``timestamp`` (ms since 1970 UTC) and ``timestamp_nanos`` (ns within its second); both have the ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.errors import DataError
from connectors.jdbc.table_name import TableName

INCREMENTING, TIMESTAMP, TIMESTAMP_NANOS = "incrementing", "timestamp", "timestamp_nanos"
QUERY_PARTITION: Mapping[str, str] = {"query": "query"}


def table_partition(table: TableName) -> dict[str, str]:
    """Returns the partition of protocol 1, which is written: the full table name, unquoted."""
    return {"protocol": "1", "table": str(table)}


def legacy_table_partition(table: TableName) -> dict[str, str]:
    """Returns the partition of protocol 0, which is still read, and which bulk mode uses: the bare table name."""
    return {"table": table.name}


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """Timestamp (ns since 1970 UTC) and incrementing value up to which all rows were read; None: unknown."""

    timestamp_ns: int | None = None
    incrementing: int | None = None


NO_POSITION = SourcePosition()


def parse_offset(offset: Mapping[str, Any] | None) -> SourcePosition:
    """Parses a stored offset; None is NO_POSITION. Offsets of old versions lack ``timestamp_nanos``. Raises DataError."""
    if not offset:
        return NO_POSITION
    try:
        return _parse_position(offset)
    except (TypeError, ValueError) as e:
        raise DataError(
            f"The stored offset {dict(offset)!r} cannot be read: {INCREMENTING}, {TIMESTAMP} and {TIMESTAMP_NANOS} are integers; "
            "stop the connector and alter or remove it"
        ) from e


def _parse_position(offset: Mapping[str, Any]) -> SourcePosition:
    millis, nanos, number = offset.get(TIMESTAMP), offset.get(TIMESTAMP_NANOS), offset.get(INCREMENTING)
    if millis is None:
        ns = None
    elif nanos is None:
        ns = int(millis) * 1_000_000
    else:
        ns = int(millis) // 1000 * 1_000_000_000 + int(nanos)
    return SourcePosition(ns, None if number is None else int(number))


def timestamp_offset(ns: int) -> dict[str, Any]:
    return {TIMESTAMP: ns // 1_000_000, TIMESTAMP_NANOS: ns % 1_000_000_000}


def build_offset(position: SourcePosition) -> dict[str, Any]:
    """Returns the offset to store for a position."""
    offset: dict[str, Any] = {}
    if position.incrementing is not None:
        offset[INCREMENTING] = position.incrementing
    if position.timestamp_ns is not None:
        offset |= timestamp_offset(position.timestamp_ns)
    return offset


def find_offset_problem(offset: Mapping[str, Any], needed: tuple[str, ...]) -> str | None:
    """Returns what is wrong with an offset that a user wants to set, or None. ``needed``: keys that the mode requires."""
    known = (INCREMENTING, TIMESTAMP, TIMESTAMP_NANOS)
    for name, value in offset.items():
        if name not in known:
            return f"an offset has no {name!r}; it has {', '.join(known)}"
        if value is not None and type(value) is not int:
            return f"{name} must be an integer, not {value!r}"
    nanos = offset.get(TIMESTAMP_NANOS)
    if nanos is not None and not 0 <= nanos < 1_000_000_000:
        return f"timestamp_nanos must be from 0 to 999999999, not {nanos}"
    missing = [name for name in needed if offset.get(name) is None]
    return f"an offset of this mode needs {' and '.join(missing)}" if missing else None
