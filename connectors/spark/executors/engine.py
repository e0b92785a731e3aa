"""Has Spark's executors write what a task lags behind. The task is the driver: it plans, commits, and moves its positions."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeVar

from connect.backoff import Backoff
from connect.errors import ConnectError, DataError, RetriableError
from connect.pending_work import PendingWork
from connect.record import TopicPartition
from connect.sink import OffsetRange, Offsets, RangeReader, RawRecord, SinkTaskContext
from connect.tracing import Attributes
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.config import SparkSinkConfig
from connectors.spark.config_keys import EXECUTORS, WORKER
from connectors.spark.delivery.commit_threads import CommitThreads
from connectors.spark.delivery.errant_records import record_at, settle
from connectors.spark.delivery.worker_requests import EXECUTORS_WRITE, Consumption
from connectors.spark.executors.job import PartResult, RangeJob, StagedPart, TablePart, UnknownTable, find_gap, plan_ranges
from connectors.spark.executors.job_runner import JobRunner
from connectors.spark.executors.table_commits import TableCommits, divide_by_table, needed_columns
from connectors.spark.plan.rows import PreparedRows
from connectors.spark.sink import TableSink
from connectors.spark.tables.executor_files import WriteTarget
from connectors.spark.tables.open_table import Sessions

T = TypeVar("T")

log = logging.getLogger(__name__)

_FIRST_RECORDS = 1_000
"""Of a topic without a table: they determine its columns, and the types of values without a schema."""
_LAG_CHECK_S = 10.0
_POLL_MIN_S, _POLL_MAX_S = 0.25, 10.0
_RUNNING_CHECK_S = 0.05
_RETRY_FIRST_S, _RETRY_MAX_S = 0.5, 30.0
_WAIT_S = 60.0
_CANCEL_S = 1.0
_MAX_EVOLUTIONS = 20
_JOB = "executors job"
"""The key of pending work. Those of tables have a prefix."""


@dataclass(slots=True)
class _Job:
    """The job that runs, or whose results are being committed."""

    ranges: Sequence[OffsetRange]
    partitions: frozenset[TopicPartition]
    reader: RangeReader
    evolutions: int = 0
    targets: dict[str, WriteTarget] = field(default_factory=dict)
    parts: list[PartResult] = field(default_factory=list)
    commits: list[TableCommits] = field(default_factory=list)

    def discard(self) -> None:
        """Deletes the files that certainly no commit has."""
        committed = {commits.table for commits in self.commits if commits.may_be_committed}
        for part in self.parts:
            for table, paths in part.paths().items():
                files = self.targets[table].files
                if files is not None and table not in committed:
                    files.delete(paths)
        self.parts = []


@dataclass(slots=True)
class _Schedule:
    """When to look for work again, and what waits until then."""

    pending_work: PendingWork
    next_at: float = float("-inf")
    backoff: Backoff = field(default_factory=lambda: Backoff(_RETRY_FIRST_S, _RETRY_MAX_S))

    def note_job(self) -> None:
        """Tells the worker that a job begins. Jobs that fail and are repeated wait since the first one."""
        self.pending_work.begin(_JOB, "a job of Spark's executors does not end with the commit of its tables")

    def note_nothing_waits(self) -> None:
        self.pending_work.end(_JOB)


@dataclass(slots=True)
class _Figures:
    jobs: int = 0
    records: int = 0
    staged_parts: int = 0
    last_job_ms: int | None = None
    backlog: int | None = None


class ExecutorEngine:
    """Used on the task's thread, except :meth:`progress`. Its own thread runs one step at a time."""

    def __init__(
        self,
        config: SparkSinkConfig,
        context: SinkTaskContext,
        sink: TableSink,
        consumption: Consumption,
        sessions: Sessions | None,
        owner: str,
        clock: Callable[[], float],
        pending_work: PendingWork,
        check_positions: Callable[[Offsets], None],
    ) -> None:
        """``check_positions`` raises ConnectError if partitions cannot be read on from there."""
        self.is_active = False
        self._config = config
        self._context = context
        self._sink = sink
        self._consumption = consumption
        self._clock = clock
        self._check_positions = check_positions
        self._runner = JobRunner(owner, sessions)
        self._threads: CommitThreads[Callable[[], None]] = CommitThreads(f"executors-{owner}", 1)
        self._job: _Job | None = None
        self._schedule = _Schedule(pending_work)
        self._begun: set[str] = set()
        self._figures = _Figures()
        self._failed_reads: dict[tuple[TopicPartition, int], Future[None]] = {}
        self._max_records = self._least_records

    # -- on the task's thread

    def advance(self) -> None:
        """Takes results, and starts what is due. Raises errors that must fail the task."""
        if not self._config.may_use_executors:
            return
        self._take_step()
        now = self._clock()
        if self._job is None and now >= self._schedule.next_at:
            self._look_for_work(now)

    def next_at(self) -> float | None:
        """Returns when to call :meth:`advance` again. None while the worker writes: its puts are enough."""
        if not self.is_active:
            return None
        return self._schedule.next_at if self._job is None else self._clock() + _RUNNING_CHECK_S

    def _take_step(self) -> None:
        for step in self._threads.take():
            try:
                step()
            except RetriableError as e:
                self._abandon()
                delay_s = self._schedule.backoff.next_delay_s()
                self._schedule.next_at = self._clock() + delay_s
                log.warning("Records will be written by Spark's executors again in %.1f s: %s", delay_s, e.message)
            except BaseException:
                self._abandon()
                raise

    def _look_for_work(self, now: float) -> None:
        positions = self._positions()
        ends = self._context.end_offsets(list(positions))
        if behind := {tp: positions[tp] for tp, end in ends.items() if end < positions[tp]}:
            self._check_positions(behind)
        lag = sum(max(0, end - positions[tp]) for tp, end in ends.items())
        self._figures.backlog = lag
        if not self._choose_engine(lag):
            self._schedule.note_nothing_waits()
            self._schedule.next_at = now + (_LAG_CHECK_S if positions else _POLL_MIN_S)
            return
        ranges = self._plan(self._positions(), ends)
        if not ranges:
            self._schedule.note_nothing_waits()
            interval_ms = self._config.commit_interval_ms
            wait_ms = self._config.freshness_ms if interval_ms is None else interval_ms
            self._schedule.next_at = now + min(_POLL_MAX_S, max(_POLL_MIN_S, wait_ms / 2000))
            return
        self._job = _Job(ranges, frozenset(self._context.assignment()), self._context.range_reader())
        self._schedule.note_job()
        self._submit(self._run_job, self._check_results)

    def _positions(self) -> dict[TopicPartition, int]:
        """The offset from which each partition continues."""
        found = self._context.positions()
        known = {tp: self._sink.position(tp) for tp in self._context.assignment()}
        return {**found, **{tp: offset for tp, offset in known.items() if offset is not None}}

    def _choose_engine(self, lag: int) -> bool:
        """Whether the executors write; enters or leaves their mode."""
        least = self._config.executors_min_records
        wanted = self._config.engine == EXECUTORS or lag >= (least // 10 if self.is_active else least)
        if wanted and not self.is_active:
            try:
                self._sink.flush()
            except RetriableError as e:
                log.warning("Spark's executors do not take over yet: %s", e.message)
                return False
            self.is_active = True
            self._consumption.pause(EXECUTORS_WRITE)
            log.info("Spark's executors decode and write from now on; lag: %d records", lag)
        elif not wanted and self.is_active:
            self.is_active = False
            self._context.offset(self._positions())
            self._consumption.resume(EXECUTORS_WRITE)
            log.info("The worker decodes and writes from now on; lag: %d records", lag)
        return wanted

    @property
    def _least_records(self) -> int:
        return min(self._config.commit_max_records, self._config.executors_max_records)

    def _plan(self, positions: Offsets, ends: Offsets) -> list[OffsetRange]:
        first: list[OffsetRange] = []
        others = dict(positions)
        for topic in {tp.topic for tp in positions} - self._begun:
            if self._sink.tables.have_columns(topic):
                self._begun.add(topic)
                continue
            waiting = sorted(tp for tp in positions if tp.topic == topic and ends.get(tp, 0) > positions[tp])
            for tp in [tp for tp in positions if tp.topic == topic]:
                del others[tp]
            first += [OffsetRange(tp, positions[tp], min(ends[tp], positions[tp] + _FIRST_RECORDS)) for tp in waiting[:1]]
        appends = not self._config.table.upserts
        limit = self._config.executors_max_records if appends else self._max_records
        parallelism = self._runner.parallelism() if any(ends.get(tp, 0) > at for tp, at in others.items()) else 1
        return sorted([*first, *plan_ranges(others, ends, limit, parallelism)])

    def _check_results(self, parts: list[PartResult]) -> None:
        job = self._running
        if (gap := find_gap(job.ranges, [OffsetRange(part.partition, part.first, part.end) for part in parts])) is not None:
            self._report_failed_reads(job)  # raises for a failure that has ended its range, because it is not tolerated
            raise RetriableError(f"Spark's executors returned no results for {gap}")
        unfinished: dict[str, list[TablePart]] = {}
        for part in parts:
            self._sink.tables.learn(part.knowledge)
            self._sink.decoders.learn(part.contents)
            for table, of_table in part.tables.items():
                unfinished.setdefault(table, []).append(of_table)
        needed = {table: found for table, those in unfinished.items() if (found := needed_columns(those)) is not None}
        unknown = [table for table, those in unfinished.items() if any(isinstance(one, UnknownTable) for one in those)]
        for table in unknown:
            self._sink.tables.queue(table)  # the next job describes it
        if not needed and not unknown:
            self._report(job)
            return
        job.evolutions += 1
        if job.evolutions > _MAX_EVOLUTIONS:
            tables = ", ".join(sorted({*needed, *unknown}))
            raise ConnectError(
                f"tables {tables} still lack columns that the records have, after {_MAX_EVOLUTIONS} changes; restart the task"
            )
        job.discard()
        self._submit(partial(self._evolve, needed), self._check_results)

    def _report(self, job: _Job) -> None:
        """Promise 7: reports what cannot be written, before the commits."""
        reports = self._report_failed_reads(job)
        for part in job.parts:
            refused = [
                (BadRecord(part.partition, offset, DataError(message)), record) for offset, message, record in part.bad_records
            ]
            reports += self._sink.refuse_read(refused)
        self._submit(partial(self._commit, reports), self._finish)

    def _report_failed_reads(self, job: _Job) -> list[Future[None]]:
        """Reports each failure once, however often its job is repeated. Raises ConnectError unless failures are tolerated."""
        reports = []
        for part in job.parts:
            for failure in part.failed_reads:
                place = part.partition, failure.record.offset
                if place not in self._failed_reads:
                    self._failed_reads[place] = self._context.report_failed_read(failure)
                reports.append(self._failed_reads[place])
        return reports

    def _finish(self, bad_records: Sequence[tuple[BadRecord, RawRecord]]) -> None:
        """All tables have the records of the job, unless a commit has found records that do not fit its table."""
        if bad_records:
            self._submit(partial(self._commit, self._sink.refuse_read(bad_records)), self._finish)
            return
        job, figures = self._running, self._figures
        self._job = None
        self._schedule.note_nothing_waits()
        self._schedule.backoff.reset()
        ends: dict[TopicPartition, int] = {}
        for part in job.parts:
            ends[part.partition] = max(part.end, ends.get(part.partition, 0))
            self._context.count_read(part.partition, part.records, part.size_bytes)
            self._sink.tables.count_unrouted(part.ignored_tombstones, part.unrouted)
            figures.records += part.records
        self._sink.skip_to(ends)
        self._context.offset(ends)
        self._failed_reads.clear()
        self._begun |= {tp.topic for tp in ends}
        staged = sum(isinstance(one, StagedPart) for part in job.parts for one in part.tables.values())
        figures.jobs += 1
        figures.staged_parts += staged
        # What the driver has to apply passes through its memory.
        most = self._config.executors_max_records
        self._max_records = self._least_records if staged else min(most, self._max_records * 2)
        self._schedule.next_at = float("-inf")

    @property
    def _running(self) -> _Job:
        assert self._job is not None
        return self._job

    def _submit(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Does the work on the engine's thread, and then the other on the task's."""

        def run() -> Callable[[], None]:
            try:
                return partial(then, work())
            except BaseException as e:
                return partial(_raise, e)

        self._threads.submit(run)

    def _abandon(self) -> None:
        job, self._job = self._job, None
        if job is not None:
            job.discard()

    # -- on the engine's thread

    def _run_job(self) -> list[PartResult]:
        started = time.monotonic()
        job, tables = self._running, self._sink.tables
        job.targets = {name: tables.writer(name).write_target(job.partitions) for name in tables.names()}
        # Kept at once, because nobody takes the results if a range has failed, or if the job is interrupted now.
        known = tables.knowledge(), self._sink.decoders.contents()
        job.parts, failure = self._runner.run(RangeJob(self._config, job.reader, job.ranges, job.targets, *known))
        self._figures.last_job_ms = int((time.monotonic() - started) * 1000)
        if failure is not None:
            raise failure
        return job.parts

    def _evolve(self, needed: Mapping[str, PreparedRows]) -> list[PartResult]:
        for name, rows in needed.items():
            self._sink.tables.writer(name).evolve(rows, self._running.partitions)
        return self._run_job()

    def _commit(self, reports: Sequence[Future[None]]) -> list[tuple[BadRecord, RawRecord]]:
        """Commits all tables, or up to the first records that do not fit their table, and returns these."""
        settle(reports, _WAIT_S)
        job = self._running
        job.commits = job.commits or divide_by_table(job.parts, job.targets, self._sink.tables.of_topic)
        sequences = _number_parts(job.ranges, job.parts)
        for commits in job.commits:
            if commits.is_done:
                continue
            attributes: Attributes = {"sluice.engine": EXECUTORS, "sluice.parts": commits.parts}
            with self._sink.tables.commit(commits.table, attributes) as writer:
                bad_records = commits.commit(writer, sequences, job.partitions)
            if bad_records:
                return [(bad, _read_again(job.reader, bad)) for bad in bad_records]
        return []

    # -- partitions

    def interrupt(self) -> None:
        """Ends the running job, and drops its results. A commit that has begun ends first; the table knows of it. Blocks."""
        deadline = time.monotonic() + _WAIT_S
        while self._threads.running:
            self._runner.cancel()
            self._threads.take(_CANCEL_S)
            if time.monotonic() > deadline:
                # It may still commit, so its files are left; the table knows how it ends.
                raise ConnectError(f"the job of Spark's executors did not end within {_WAIT_S:g} s after it was cancelled")
        self._abandon()
        self._schedule.note_nothing_waits()

    def add_partitions(self) -> None:
        """The task gets partitions."""
        if not self._config.may_use_executors:
            return
        if self._config.engine == EXECUTORS and not self.is_active:
            self.is_active = True
            self._consumption.pause(EXECUTORS_WRITE)
        self._schedule.next_at = float("-inf")
        self._context.timeout(1)

    def close(self) -> None:
        """Ends the running job, and the engine's thread."""
        try:
            self.interrupt()
        except ConnectError as e:
            log.warning("%s", e.message)
        self._threads.close(_CANCEL_S)

    def progress(self) -> dict[str, Any]:
        """Callable from any thread."""
        figures = self._figures
        found: dict[str, Any] = {"in_use": EXECUTORS if self.is_active else WORKER}
        if self._config.may_use_executors:
            found |= asdict(figures)
        return found


def _number_parts(ranges: Sequence[OffsetRange], parts: Sequence[PartResult]) -> dict[tuple[TopicPartition, int], int]:
    """By part, what is added to the sequence of its changes, which is that in its range."""
    found: dict[tuple[TopicPartition, int], int] = {}
    base = 0
    for offset_range in ranges:
        for part in parts:
            if part.partition == offset_range.partition and offset_range.first <= part.first < offset_range.end:
                found[part.partition, part.first] = base
        base += offset_range.end - offset_range.first
    return found


def _read_again(reader: RangeReader, bad: BadRecord) -> RawRecord:
    """The bytes of a record, of which executors have returned only what they have decoded."""
    for batch in reader.read(OffsetRange(bad.topic_partition, bad.offset, bad.offset + 1)):
        if len(batch.raw):
            return record_at(batch.raw, bad.offset)
    raise RetriableError(f"{bad.reason.message}. The record was removed from its topic meanwhile")


def _raise(error: BaseException) -> None:
    raise error
