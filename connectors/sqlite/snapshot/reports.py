"""What users are told of snapshots: their progress, and notifications."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connectors.cdc.incremental.context import DataCollection, TableScan
from connectors.cdc.incremental.notifications import Notifier
from connectors.cdc.snapshot.progress import SnapshotProgress
from connectors.sqlite.schema.catalog import MAIN
from connectors.sqlite.snapshot.jobs import JobKind, TableJob


@dataclass(frozen=True, slots=True)
class IncrementalJobs:
    """The jobs of incremental snapshots (an IncrementalState)."""

    signal_id: str | None
    collections: Sequence[DataCollection]
    scan: TableScan

    @classmethod
    def of(cls, jobs: Sequence[TableJob]) -> IncrementalJobs:
        """The state of the incremental ones among some jobs."""
        found = [job for job in jobs if job.kind is JobKind.INCREMENTAL]
        end = found[0].after if found else None
        scan = TableScan(end=None if end is None else tuple(None if value is None else str(value) for value in end))
        return cls(found[-1].signal_id or None if found else None, [DataCollection(MAIN, job.table) for job in found], scan)

    @property
    def current(self) -> DataCollection:
        return self.collections[0]


class SnapshotReports:
    """Follows the jobs of snapshots. Jobs that a signal or a start has planned together are one snapshot."""

    def __init__(self, notifier: Notifier) -> None:
        self.notifier = notifier
        self._progress: SnapshotProgress | None = None
        self._kind: JobKind | None = None
        self._tables: tuple[str, ...] = ()
        """Those of the initial or blocking snapshot that runs."""
        self._current: str | None = None
        self._rows = 0
        """Those that are read of the current table."""
        self._is_incremental = False
        """Whether an incremental snapshot runs."""

    def details(self) -> Mapping[str, Any]:
        """The numbers of the initial or blocking snapshot that runs, or has run last."""
        return {} if self._progress is None else self._progress.details()

    def incremental_details(self, jobs: Sequence[TableJob], *, is_paused: bool) -> Mapping[str, Any]:
        """The state of the incremental snapshot, if there is one."""
        state = IncrementalJobs.of(jobs)
        if not state.collections:
            return {}
        details = {
            "tables": [str(collection) for collection in state.collections],
            "rows": self._rows if self._is_incremental else 0,
            "paused": is_paused,
            "last_key": state.scan.end,
            "maximum_key": None,
        }
        return {"incremental_snapshot": details}

    def started(self, kind: JobKind, tables: Sequence[str], rows_estimate: int) -> None:
        """An initial or blocking snapshot begins, or continues."""
        self._kind, self._tables, self._current = kind, tuple(f"{MAIN}.{table}" for table in tables), None
        self._progress = SnapshotProgress(len(tables), 0, rows_estimate)
        if not tables:
            self._progress.completed()
        self._take_steps()

    def reading(self, jobs: Sequence[TableJob], estimate: Callable[[Sequence[str]], int]) -> None:
        """Rows of the first job are read next. ``estimate`` returns how many rows some tables have."""
        job = jobs[0]
        table = f"{MAIN}.{job.table}"
        if job.kind is JobKind.INCREMENTAL:
            if not self._is_incremental:
                self._is_incremental = True
                if job.after is None:  # no earlier task has started it
                    self.notifier.started(IncrementalJobs.of(jobs))
        elif job.kind is not self._kind or table not in self._tables:
            together = [one.table for one in jobs if (one.kind, one.signal_id) == (job.kind, job.signal_id)]
            self.started(job.kind, together, estimate(together))
        if table == self._current:
            return
        self._current, self._rows = table, 0
        if job.kind is not JobKind.INCREMENTAL and self._progress is not None:
            self._progress.table_started(table)
            self._progress.tables = (table,)
            self._take_steps()

    def rows_read(self, kind: JobKind, rows: int) -> None:
        self._rows += rows
        if kind is not JobKind.INCREMENTAL and self._progress is not None:
            self._progress.rows += rows
            self._progress.log_if_due()

    def chunk_completed(self, jobs: Sequence[TableJob]) -> None:
        """The first job has a chunk less to read."""
        if jobs[0].kind is JobKind.INCREMENTAL:
            self.notifier.in_progress(IncrementalJobs.of(jobs))

    def table_completed(self, jobs: Sequence[TableJob], status: str = "") -> None:
        """The first job is done. ``status`` says why its table was skipped."""
        job, rest = jobs[0], jobs[1:]
        if job.kind is JobKind.INCREMENTAL:
            state = IncrementalJobs.of(jobs)
            self.notifier.table_completed(state, self._rows, status or ("SUCCEEDED" if self._rows else "EMPTY"))
            if len(state.collections) == 1:
                self._is_incremental = False
                self.notifier.completed(state.signal_id)
        elif self._progress is not None:
            self._progress.table_completed(f"{MAIN}.{job.table}", self._rows)
            if not any(one.kind is job.kind and f"{MAIN}.{one.table}" in self._tables for one in rest):
                self._progress.tables = ()
                self._progress.completed()
                self._kind = None
            self._take_steps()
        self._current, self._rows = None, 0

    def stopped(self, jobs: Sequence[TableJob], signal_id: str, stopped: Sequence[TableJob]) -> None:
        """A signal has ended incremental snapshots; ``jobs`` are left."""
        tables = [DataCollection(MAIN, job.table) for job in stopped]
        self.notifier.aborted(stopped[-1].signal_id or signal_id, tables)
        self._is_incremental = self._is_incremental and any(job.kind is JobKind.INCREMENTAL for job in jobs)

    def paused(self, jobs: Sequence[TableJob]) -> None:
        self.notifier.paused(IncrementalJobs.of(jobs))

    def resumed(self, jobs: Sequence[TableJob]) -> None:
        self.notifier.resumed(IncrementalJobs.of(jobs))

    def closed(self) -> None:
        """The connection is closed. Snapshots that run begin again, or continue, later."""
        if self._progress is not None:
            self._progress.closed()
            self._take_steps()
        self._kind = None

    def _take_steps(self) -> None:
        if self._progress is not None:
            for step in self._progress.take_steps():
                self.notifier.snapshot_step(step, self._tables)
