"""How far a snapshot is: numbers for the status of the task, and for the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple

log = logging.getLogger(__name__)

LOG_INTERVAL_S = 30.0


class StepKind(Enum):
    """What happens in a snapshot."""

    STARTED = "STARTED"
    TABLE_STARTED = "IN_PROGRESS"
    TABLE_COMPLETED = "TABLE_SCAN_COMPLETED"
    COMPLETED = "COMPLETED"
    ABORTED = "ABORTED"


class SnapshotStep(NamedTuple):
    """Something that has happened; ``rows`` are those of the table."""

    kind: StepKind
    table: str = ""
    rows: int = 0


class SnapshotProgress:
    """Counts tables, rows, and bytes. May be read from any thread. ``clock`` returns seconds."""

    def __init__(
        self, tables_total: int, tables_done: int, rows_expected: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``tables_done`` were completed by an earlier attempt; ``rows_expected`` is the estimate for the others."""
        self._tables_total = tables_total
        self._rows_expected = rows_expected
        self._clock = clock
        self._started_at = self._logged_at = clock()
        self.tables_done = tables_done
        self.tables: tuple[str, ...] = ()
        """The tables that are being read."""
        self.rows = 0
        self.bytes = 0
        self._steps = [SnapshotStep(StepKind.STARTED)]
        self._is_over = False

    def table_started(self, table: str) -> None:
        self._steps.append(SnapshotStep(StepKind.TABLE_STARTED, table))

    def table_completed(self, table: str, rows: int) -> None:
        """A table was read; its last row may still have to be emitted."""
        self.tables_done += 1
        self._steps.append(SnapshotStep(StepKind.TABLE_COMPLETED, table, rows))

    def completed(self) -> None:
        self._is_over = True
        self._steps.append(SnapshotStep(StepKind.COMPLETED))

    def closed(self) -> None:
        """The snapshot ends: early, unless it is completed. May be called twice."""
        if not self._is_over:
            self._is_over = True
            self._steps.append(SnapshotStep(StepKind.ABORTED))

    def take_steps(self) -> list[SnapshotStep]:
        """Returns what has happened since the last call. Called on the task's thread."""
        steps, self._steps = self._steps, []
        return steps

    def restart_clock(self) -> None:
        """The first row is read now."""
        self._started_at = self._logged_at = self._clock()

    def details(self) -> Mapping[str, Any]:
        """The numbers by name."""
        rows = self.rows
        rate = rows / max(self._clock() - self._started_at, 0.001)
        expected = max(self._rows_expected, rows)
        return {
            "tables_done": self.tables_done,
            "tables_total": self._tables_total,
            "table": self.tables[0] if self.tables else None,
            "tables": list(self.tables),
            "rows": rows,
            "rows_estimate": expected,
            "bytes": self.bytes,
            "rate": round(rate, 1),
            "seconds_left": round((expected - rows) / rate) if rate else None,
        }

    def log_if_due(self) -> None:
        """Logs the numbers once per interval."""
        now = self._clock()
        if now - self._logged_at < LOG_INTERVAL_S:
            return
        self._logged_at = now
        numbers = self.details()
        log.info(
            "snapshot: %d of %d tables, %d of about %d rows, %.1f MB, %.0f rows/s, about %s s left; reading %s",
            numbers["tables_done"], numbers["tables_total"], numbers["rows"], numbers["rows_estimate"],
            numbers["bytes"] / 1e6, numbers["rate"], numbers["seconds_left"], ", ".join(self.tables) or "no table",
        )  # fmt: skip
