"""Requests for snapshots of some tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A snapshot of the tables that match ``collections``; ``conditions`` are pairs of a regular expression and SQL."""

    signal_id: str
    collections: tuple[str, ...]
    conditions: tuple[tuple[str, str], ...] = ()
    surrogate_key: str = ""
    is_blocking: bool = False

    def condition(self, table: str) -> str:
        """The SQL for a table, empty for none."""
        return next((sql for pattern, sql in self.conditions if re.fullmatch(pattern, table, re.IGNORECASE)), "")


def matches_collection(pattern: str, schema: str, name: str) -> bool:
    """Whether a regular expression of a signal means a table; its name may also be given as it is, or quoted."""
    names = (f"{schema}.{name}", f'"{schema}"."{name}"')
    return re.fullmatch(pattern, names[0]) is not None or pattern in names


def dump_requests(requests: Iterable[SnapshotRequest]) -> str:
    """Requests as they are stored in offsets."""
    return json.dumps([asdict(request) for request in requests], ensure_ascii=False)


def parse_requests(stored: str | None) -> list[SnapshotRequest]:
    """Parses requests that are stored in an offset."""
    return [
        SnapshotRequest(
            entry["signal_id"],
            tuple(entry["collections"]),
            tuple((pattern, sql) for pattern, sql in entry["conditions"]),
            entry["surrogate_key"],
            entry["is_blocking"],
        )
        for entry in json.loads(stored or "[]")
    ]
