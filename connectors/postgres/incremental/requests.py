"""Requests for snapshots of some tables."""

from __future__ import annotations

import re
from dataclasses import dataclass


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
