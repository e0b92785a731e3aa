"""Snapshots of all kinds: which tables are still to be read, and the events of their rows.

Each transaction reads rows as of the last change that it sees, and that change is emitted before them. So a snapshot can stop
after any chunk and continue later, in another transaction or after a restart, without rows that are older than the stream.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from connect import crash_points
from connect.errors import ConnectError, RetriableError
from connect.text_records import MixedTextRecords
from connectors.cdc.incremental.requests import SnapshotRequest, matches_collection
from connectors.cdc.schema.column_type import CONVERSION_ERRORS
from connectors.cdc.schema.contracts import SchemaContracts
from connectors.cdc.schema.filters import Filters, name_matches
from connectors.cdc.streaming.offset_extras import OffsetExtras
from connectors.sqlite.config import SqliteConfig
from connectors.sqlite.connection import SqliteConnection
from connectors.sqlite.offsets import JOBS, PAUSED, SNAPSHOT_COMPLETED, SequencePosition, parse_offset
from connectors.sqlite.schema.catalog import MAIN, SqliteTable, TableCapture, read_row_estimates
from connectors.sqlite.schema.table_rows import SqliteTableRows, judge_table
from connectors.sqlite.snapshot.jobs import JobKind, TableJob, dump_jobs, parse_jobs
from connectors.sqlite.snapshot.reader import RowChunk, has_rows, read_chunk
from connectors.sqlite.snapshot.reports import SnapshotReports
from connectors.sqlite.streaming.events import READ, EventBuilder, EventRow, RowTemplates, event_offset, share_values

log = logging.getLogger(__name__)

_CHUNK_ROWS: Final = 4096


class SqliteSnapshot:
    """The tables to read, and their rows. Its state is part of offsets."""

    def __init__(
        self,
        settings: SqliteConfig,
        filters: Filters,
        contracts: SchemaContracts,
        builder: EventBuilder,
        extras: OffsetExtras,
        reports: SnapshotReports,
    ) -> None:
        self._settings = settings
        self._filters = filters
        self._contracts = contracts
        self._builder = builder
        self._extras = extras
        self._jobs: list[TableJob] = []
        self._tables: dict[int, tuple[SqliteTableRows, RowTemplates]] = {}
        self._new_tables: set[str] = set()
        """Tables of which nothing was emitted before their job began: no earlier task has started it."""
        self._is_first = True
        self._paused = False
        self._started = False
        """Whether the jobs of the initial snapshot are known."""
        self.is_completed = False
        """Whether the initial snapshot is complete, or none is required."""
        self.reports = reports

    # --- what is to be read -------------------------------------------------------------------------------------------------

    def load(self, offset: Mapping[str, Any]) -> None:
        """Continues what a stored offset says. Blocking snapshots start over, so that their rows are of one point in time."""
        stored = parse_offset(offset)
        self.is_completed = stored.snapshot_completed
        jobs = parse_jobs(stored.jobs)
        self._jobs = [replace(job, after=None) if job.kind is JobKind.BLOCKING else job for job in jobs]
        self._is_first = not any(job.after is not None for job in jobs)
        self._paused = bool(offset.get(PAUSED))
        self._store()

    def _store(self) -> None:
        if not any(job.kind is JobKind.INITIAL for job in self._jobs) and self._started:
            self.is_completed = True
        members: dict[str, Any] = {SNAPSHOT_COMPLETED: self.is_completed}
        if self._jobs:
            members[JOBS] = dump_jobs(self._jobs)
        if self._paused:
            members[PAUSED] = True
        self._extras.set_offset_extras(self, members)

    def start_initial(self, connection: SqliteConnection, tables: Sequence[SqliteTable], *, is_new: bool) -> None:
        """Plans the initial snapshot of all tables, in place of everything planned before. ``is_new``: no earlier task may have
        emitted some of it."""
        include, order = self._settings.snapshot.include, self._settings.snapshot.order
        chosen = [
            table for table in tables
            if (not include or name_matches(include, str(table))) and not self._filters.is_signal_table(MAIN, table.name)
        ]  # fmt: skip
        estimates = read_row_estimates(connection, chosen)
        if order != "disabled":
            chosen.sort(key=lambda table: estimates[table.name], reverse=order == "descending")
        self._jobs = [TableJob(table.name, JobKind.INITIAL) for table in chosen]
        self._new_tables = {job.table for job in self._jobs} if is_new else set()
        self._is_first, self.is_completed, self._started = True, False, True
        self.reports.started(JobKind.INITIAL, [table.name for table in chosen], sum(estimates.values()))
        self._store()

    def skip_initial(self) -> None:
        """No initial snapshot is required."""
        self.is_completed = True
        self._store()

    def resume(self, current: Mapping[str, TableCapture]) -> None:
        """Continues stored jobs. Tables that no longer exist are left out."""
        self._started = True
        self._jobs = [job for job in self._jobs if job.table in current]
        self._store()

    def add(self, table: str, kind: JobKind, condition: str = "", signal_id: str = "") -> None:
        """Plans to read a table. A table that is planned already with the same condition is read from its beginning."""
        self._jobs = [job for job in self._jobs if (job.table, job.kind, job.condition) != (table, kind, condition)]
        if not any(job.kind is not JobKind.INCREMENTAL for job in self._jobs):
            self._is_first = True
        self._jobs.append(TableJob(table, kind, None, condition, signal_id))
        # Blocking snapshots come before incremental ones, which wait for them.
        self._jobs.sort(key=lambda job: job.kind is JobKind.INCREMENTAL)
        self._store()

    def add_new_table(self, table: str) -> None:
        """Plans to read a table that is captured from now on."""
        self._new_tables.add(table)
        self.add(table, JobKind.INCREMENTAL)

    def reads_later(self, table: str, rowid: int) -> bool:
        """Whether a row, with its changes up to then, is still to be read, and was never emitted. A row without a key would be
        there twice if its changes were emitted before it."""
        if table not in self._new_tables:
            return False
        job = next((job for job in self._jobs if job.table == table), None)
        return job is not None and (job.after is None or rowid > job.after[0])

    def request(self, request: SnapshotRequest, current: Mapping[str, TableCapture]) -> None:
        """Plans what a signal asks for."""
        kind = JobKind.BLOCKING if request.is_blocking else JobKind.INCREMENTAL
        names = [name for name in current if not self._filters.is_signal_table(MAIN, name)]
        found: dict[str, None] = {}
        for pattern in request.collections:
            matching = [name for name in names if matches_collection(pattern, MAIN, name)]
            if not matching:
                log.warning("signal %s: no captured table matches %s", request.signal_id, pattern)
            found |= dict.fromkeys(matching)
        for name in found:
            self.add(name, kind, request.condition(f"{MAIN}.{name}"), request.signal_id)

    def cancel(self, signal_id: str, collections: Sequence[str]) -> None:
        """Ends incremental snapshots of the tables that match; of all without ``collections``."""
        stopped = [
            job for job in self._jobs
            if job.kind is JobKind.INCREMENTAL
            and (not collections or any(matches_collection(pattern, MAIN, job.table) for pattern in collections))
        ]  # fmt: skip
        if not stopped:
            log.warning("signal %s: no incremental snapshot runs", signal_id)
            return
        self._jobs = [job for job in self._jobs if job not in stopped]
        self._paused = self._paused and self._is_incremental
        self.reports.stopped(self._jobs, signal_id, stopped)
        self._store()

    def pause(self) -> None:
        """Pauses incremental snapshots."""
        if self._is_incremental and not self._paused:
            self._paused = True
            self.reports.paused(self._jobs)
            self._store()

    def unpause(self) -> None:
        if self._is_incremental and self._paused:
            self._paused = False
            self.reports.resumed(self._jobs)
            self._store()

    @property
    def _is_incremental(self) -> bool:
        return any(job.kind is JobKind.INCREMENTAL for job in self._jobs)

    def progress(self) -> Mapping[str, Any]:
        """Numbers about snapshots for the status. Callable from any thread."""
        return {**self.reports.details(), **self.reports.incremental_details(self._jobs, is_paused=self._paused)}

    @property
    def next_kind(self) -> JobKind | None:
        """Why the next table is read; None if nothing is to be read now."""
        if not self._jobs or (self._paused and self._jobs[0].kind is JobKind.INCREMENTAL):
            return None
        return self._jobs[0].kind

    # --- reading ------------------------------------------------------------------------------------------------------------

    def read(
        self,
        connection: SqliteConnection,
        current: Mapping[str, TableCapture],
        position: SequencePosition,
        *,
        out: MixedTextRecords,
        is_as_of_start: bool,
    ) -> None:
        """Adds the events of the next rows, as of ``position``, to ``out``. ``is_as_of_start``: nothing was streamed before
        them."""
        job = self._jobs[0]
        self.reports.reading(self._jobs, lambda names: _estimate_rows(connection, names, current))
        capture = current.get(job.table)
        if capture is None:
            self._finish(job, "UNKNOWN_SCHEMA")
            return
        settings = self._settings
        size = settings.incremental.chunk_size if job.kind is JobKind.INCREMENTAL else _CHUNK_ROWS
        override = settings.snapshot.overrides.get(str(capture.table))
        try:
            chunk = read_chunk(connection, capture, job, size, settings.max_batch_bytes, override)
        except RetriableError:
            raise
        except ConnectError as e:
            if not job.condition:
                raise
            log.warning("signal %s: cannot read table %s with its filter: %s", job.signal_id, capture.table, e.message)
            self._finish(job, "SQL_EXCEPTION")
            return
        self._emit(connection, capture, job, chunk, current, position, out=out, is_as_of_start=is_as_of_start)

    def _emit(
        self,
        connection: SqliteConnection,
        capture: TableCapture,
        job: TableJob,
        chunk: RowChunk,
        current: Mapping[str, TableCapture],
        position: SequencePosition,
        *,
        out: MixedTextRecords,
        is_as_of_start: bool,
    ) -> None:
        rows, templates = self._table(capture)
        if chunk.rows:
            with contextlib.suppress(*CONVERSION_ERRORS):  # each row reports it
                self._contracts.capture(rows.judgment)
        before = self._extras.offset_extras
        is_last_of_all = chunk.is_last and not any(
            has_rows(connection, current[other.table]) for other in self._jobs[1:] if other.table in current
        )
        self.reports.rows_read(job.kind, len(chunk.rows))
        if chunk.is_last:
            self._finish(job)
        else:
            self._jobs = [job.read_up_to(chunk.identity(len(chunk.rows) - 1)), *self._jobs[1:]]
            self.reports.chunk_completed(self._jobs)
            self._store()
        after = self._extras.offset_extras
        markers = _Markers(job, chunk, is_first=self._is_first, is_last=is_last_of_all)
        self._is_first = self._is_first and not chunk.rows
        template = templates.of(READ)
        sequence_text = f'[null,"{position.sequence}"]' if is_as_of_start else f'["{position.sequence}","{position.sequence}"]'
        shared, end = share_values("true", before), len(chunk.rows) - 1
        for i, row in enumerate(chunk.rows):
            marker = markers.of(i)
            if marker != shared.marker or i == end:
                shared = share_values(marker, after if i == end else before)
            ms = shared.now_ms
            earlier = position.sequence, position.ts_ms
            place = EventRow(position.sequence, ms, shared.now_us, shared.now_ns, sequence_text, earlier, shared)
            try:
                rows.judgment.raise_error()
                out.add_row(template, (*rows.decode(row, chunk.identity_width), *place))
            except CONVERSION_ERRORS as e:
                values = rows.raw_values(row, chunk.identity_width)
                out.append(self._builder.errant(rows, values, e, event_offset(place, is_last=False)))
        if chunk.rows and not chunk.is_last:
            crash_points.point("sqlite.snapshot")

    def _table(self, capture: TableCapture) -> tuple[SqliteTableRows, RowTemplates]:
        found = self._tables.get(capture.id)
        if found is None:
            judgment = judge_table(self._contracts, capture.table, self._filters)
            rows = SqliteTableRows(capture, self._settings, self._filters, judgment)
            found = self._tables[capture.id] = rows, RowTemplates(rows, self._builder)
        return found

    def _finish(self, job: TableJob, status: str = "") -> None:
        """The first job is done. ``status`` says why its table was skipped."""
        self.reports.table_completed(self._jobs, status)
        self._jobs = self._jobs[1:]
        self._new_tables.discard(job.table)
        if not self._jobs:
            log.info("the snapshot is complete")
        self._paused = self._paused and self._is_incremental
        self._store()


def _estimate_rows(connection: SqliteConnection, names: Sequence[str], current: Mapping[str, TableCapture]) -> int:
    return sum(read_row_estimates(connection, [current[name].table for name in names if name in current]).values())


class _Markers:
    """The marks of rows: ``source.snapshot``."""

    def __init__(self, job: TableJob, chunk: RowChunk, *, is_first: bool, is_last: bool) -> None:
        self._plain = "incremental" if job.kind is JobKind.INCREMENTAL else "true"
        self._marks: dict[int, str] = {}
        if job.kind is not JobKind.INCREMENTAL and chunk.rows:
            if job.after is None:
                self._marks[0] = "first_in_data_collection"
            if chunk.is_last:
                self._marks[len(chunk.rows) - 1] = "last_in_data_collection"
            if is_first:
                self._marks[0] = "first"
            if is_last:
                self._marks[len(chunk.rows) - 1] = "last"

    def of(self, index: int) -> str:
        return self._marks.get(index, self._plain)


class ReadDeadline:
    """When the transaction of a snapshot ends. ``limit_s`` is None for no limit. ``is_as_of_start``: nothing was streamed before
    its rows."""

    def __init__(self, limit_s: float | None, *, is_as_of_start: bool = False) -> None:
        self.is_as_of_start = is_as_of_start
        self._end = None if limit_s is None else time.monotonic() + limit_s

    @property
    def is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end
