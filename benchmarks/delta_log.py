"""Follows the log of a Delta table, to know what became visible when. Shares no code with the product.

A commit is visible from the modification time of its file. The highest number of an event (column ``seq``) comes from the
statistics of its data files, or from the footers of files without statistics.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import pyarrow.compute as pc
import pyarrow.parquet as pq

_SEQUENCE = "seq"


@dataclass(frozen=True, slots=True)
class TableCommit:
    """A commit that changed data."""

    version: int
    visible_ms: float
    """Since 1970."""
    rows: int
    """Rows in added files."""
    last_event: int
    """The highest number of an event in the table after this commit."""


class LakeLog(Protocol):
    """The commits of one lake table, read as they appear."""

    commits: list[TableCommit]

    @property
    def rows(self) -> int:
        """Rows of the newest version that was read."""
        ...

    @property
    def last_event(self) -> int: ...

    def read(self) -> LakeLog:
        """Reads the commits since the last call; returns itself."""
        ...


class TableLog:
    """The commits of one table, read as they appear."""

    def __init__(self, table: Path) -> None:
        self._table = table
        self._next_version = 0
        self._live: dict[str, int] = {}
        self.commits: list[TableCommit] = []

    @property
    def rows(self) -> int:
        """Rows of the newest version that was read."""
        return sum(self._live.values())

    @property
    def last_event(self) -> int:
        return self.commits[-1].last_event if self.commits else 0

    def read(self) -> TableLog:
        """Reads the commits since the last call; returns itself."""
        while True:
            path = self._table / "_delta_log" / f"{self._next_version:020d}.json"
            try:
                visible_ms, text = path.stat().st_mtime_ns / 1e6, path.read_text(encoding="utf-8")
            except FileNotFoundError:
                return self
            self._apply([json.loads(line) for line in text.splitlines()], visible_ms)
            self._next_version += 1

    def _apply(self, actions: Sequence[Mapping[str, Any]], visible_ms: float) -> None:
        # A file's new deletion vector removes the file and adds it again.
        replaced = {action["remove"]["path"] for action in actions if action.get("remove")}
        for path in replaced:
            self._live.pop(path, None)
        added = [action["add"] for action in actions if action.get("add")]
        changed, last = 0, self.last_event
        for add in added:
            statistics = json.loads(add.get("stats") or "{}")
            rows = statistics["numRecords"] if "numRecords" in statistics else self._footer(add).num_rows
            self._live[add["path"]] = rows - (add.get("deletionVector") or {}).get("cardinality", 0)
            if add.get("dataChange", True) and add["path"] not in replaced:
                changed += rows
                last = max(last, self._last_event(add, statistics))
        if changed:
            self.commits.append(TableCommit(self._next_version, visible_ms, changed, last))

    def _last_event(self, add: Mapping[str, Any], statistics: Mapping[str, Any]) -> int:
        found = statistics.get("maxValues", {}).get(_SEQUENCE)
        if found is None:
            column = pq.read_table(self._path(add), columns=[_SEQUENCE])[_SEQUENCE]
            found = pc.max(column).as_py()
        return int(found or 0)

    def _footer(self, add: Mapping[str, Any]) -> Any:
        return pq.read_metadata(self._path(add))

    def _path(self, add: Mapping[str, Any]) -> Path:
        return self._table / unquote(add["path"])


def freshness_ms(commits: Sequence[TableCommit], first: int, times_ms: Sequence[float]) -> list[float]:
    """From each event's time in the source until it was visible. ``times_ms`` belong to the events from number ``first`` on;
    events that are not visible are left out."""
    found: list[float] = []
    at = first
    for commit in commits:
        end = min(commit.last_event, first + len(times_ms) - 1)
        found += [commit.visible_ms - times_ms[number - first] for number in range(at, end + 1)]
        at = max(at, end + 1)
    return found
