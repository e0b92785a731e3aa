"""Results of a verification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class DifferenceKind(Enum):
    """How a row of the target differs."""

    MISSING = "missing"
    """The source has the row, the target does not."""
    EXTRA = "extra"
    """The target has the row, the source does not."""
    CHANGED = "changed"
    DUPLICATE = "duplicate"
    """The target has several rows of the key."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A row that differs. ``columns`` maps the name of a column that differs to the expected and the actual value, as texts."""

    kind: DifferenceKind
    key: Mapping[str, str]
    columns: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    source_table: str = ""
    source_key: tuple[str, ...] | None = field(default=None, compare=False)
    """None if the key of the source cannot be derived from the row of the target."""

    def as_json(self, *, with_values: bool) -> dict[str, Any]:
        shown = self.columns.items()
        columns: Any = {name: {"expected": a, "actual": b} for name, (a, b) in shown} if with_values else sorted(self.columns)
        return {"kind": self.kind.value, "key": dict(self.key), "columns": columns}


@dataclass(slots=True)
class TableResult:
    """The result for one table of the target. A table that could not be compared has a ``problem``."""

    sources: tuple[str, ...]
    target: str
    rows: int = 0
    """Rows of the source that were compared."""
    version: str = ""
    columns: int = 0
    differences: list[Difference] = field(default_factory=list)
    unsettled: int = 0
    """Rows that changed at every look, so that nothing is known of them."""
    unavailable: int = 0
    """Rows whose only differences are placeholders of unavailable values."""
    is_truncated: bool = False
    """Whether more rows differ than were examined."""
    rounds: int = 0
    notes: list[str] = field(default_factory=list)
    problem: str | None = None

    @property
    def is_equal(self) -> bool:
        return not self.differences and not self.unsettled and not self.is_truncated and self.problem is None

    def counts(self) -> dict[str, int]:
        """The number of differences by kind."""
        found = dict.fromkeys((kind.value for kind in DifferenceKind), 0)
        for difference in self.differences:
            found[difference.kind.value] += 1
        return found

    def as_json(self, *, with_values: bool, limit: int) -> dict[str, Any]:
        return {
            "source": list(self.sources),
            "target": self.target,
            "equal": self.is_equal,
            "rows": self.rows,
            "columns": self.columns,
            "version": self.version,
            "differences": len(self.differences),
            **self.counts(),
            "unsettled": self.unsettled,
            "unavailable": self.unavailable,
            "truncated": self.is_truncated,
            "rounds": self.rounds,
            "problem": self.problem,
            "notes": self.notes,
            "examples": [one.as_json(with_values=with_values) for one in self.differences[:limit]],
        }


@dataclass(slots=True)
class VerificationResult:
    """The result for a source and a sink."""

    source: str
    sink: str
    position: str
    started_ms: int
    seconds: float = 0.0
    tables: list[TableResult] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        return bool(self.tables) and all(table.is_equal for table in self.tables)

    @property
    def difference_count(self) -> int:
        return sum(len(table.differences) for table in self.tables)

    def as_json(self, *, with_values: bool, limit: int) -> dict[str, Any]:
        return {
            "source": self.source,
            "sink": self.sink,
            "equal": self.is_equal,
            "position": self.position,
            "started_ms": self.started_ms,
            "seconds": round(self.seconds, 3),
            "rows": sum(table.rows for table in self.tables),
            "differences": self.difference_count,
            "unsettled": sum(table.unsettled for table in self.tables),
            "tables": [table.as_json(with_values=with_values, limit=limit) for table in self.tables],
        }
