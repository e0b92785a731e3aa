"""Verifies a pair of connectors: plans, compares, and settles all tables."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from connect.connector import SinkConnector, SourceConnector
from connect.errors import ConfigError, NotFoundError
from connect.plugins import Plugins
from connect.verification import (
    ColumnType,
    EventTable,
    KeyFilter,
    PartitionEvents,
    SourceSnapshot,
    SourceTable,
    TargetRows,
    TargetTable,
    VerifiableSink,
    VerifiableSource,
)
from sluice.verify.full_comparison import MOST_CANDIDATES, find_candidates
from sluice.verify.model import Difference, DifferenceKind, TableResult, VerificationResult
from sluice.verify.pairs import ConnectorPair, reads_topic
from sluice.verify.pipeline_reader import PipelineReader
from sluice.verify.positions import CatchUpTimeoutError, Offsets, PipelineProgress
from sluice.verify.record_path import RecordPath
from sluice.verify.row_history import read_history
from sluice.verify.settlement import Settlement
from sluice.verify.table_rows import FormKey, TablePlan, TableReader, columns_of, merge_plans, plan_table
from worker.observability.verifications import ABSENT_TABLE
from worker.progress_reports import OnProgress, ignore_progress

_LISTED_COLUMNS = 5
_HISTORY_AFTER_ROUNDS = 3
"""Rows that change in more rounds than that are settled by their versions in the topics."""


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What to verify, and for how long. ``tables`` are regular expressions of source tables; empty for all."""

    tables: tuple[str, ...] = ()
    sample: int | None = None
    """Rows of each table to compare; None for all."""
    timeout_s: float = 600.0
    max_differences: int = MOST_CANDIDATES
    """After so many differences in a table, the others are not settled."""
    ignored_columns: tuple[str, ...] = ()
    kafka: Mapping[str, str] = field(default_factory=dict)
    """Client properties."""


class _AbsentTable:
    """Stands for a table that the target does not have: it has no rows."""

    version = ABSENT_TABLE
    estimated_rows = 0

    def __init__(self, plan: TablePlan) -> None:
        self.columns = dict.fromkeys(plan.columns, ColumnType.ANY)

    def rows(self, columns: Sequence[str], only: KeyFilter | None = None) -> Iterator[TargetRows]:
        yield from ()

    def close(self) -> None:
        """Does nothing."""


@dataclass(slots=True)
class _TableJob:
    plan: TablePlan
    result: TableResult
    reader: TableReader | None = None
    settlement: Settlement | None = None


class Verification:
    """Verifies one pair. Use as a context manager, on one thread."""

    def __init__(
        self,
        pair: ConnectorPair,
        worker: Mapping[str, str] | None,
        client: PipelineReader,
        plugins: Plugins,
        options: VerifyOptions,
        on_progress: OnProgress = ignore_progress,
        notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Raises ConfigError if a connector cannot be verified."""
        self._pair = pair
        self._options = options
        self._on_progress = on_progress
        self._notice = notice
        self._client = client
        self._stack = ExitStack()
        assert isinstance(pair.source.connector, SourceConnector)
        assert isinstance(pair.sink.connector, SinkConnector)
        source = pair.source.connector.verification(pair.source.config)
        if source is None:
            raise ConfigError(f"{pair.source.name} cannot be verified: sluice verify supports the PostgreSQL source")
        self.source: VerifiableSource = source
        self._stack.callback(source.close)
        try:
            sink = pair.sink.connector.verification(pair.sink.config)
            if sink is None:
                raise ConfigError(
                    f"{pair.sink.name} cannot be verified: sluice verify supports the Spark, Iceberg, and JDBC sinks"
                )
            self.sink: VerifiableSink = sink
            self._stack.callback(sink.close)
            self.path = RecordPath(pair.source.config, pair.sink.config, worker, plugins)
            self._stack.callback(self.path.close)
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Verification:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def run(self) -> VerificationResult:
        """Compares all tables. Raises ConnectError if a side cannot be read, or the sink does not catch up in time."""
        options, started = self._options, time.monotonic()
        deadline = started + options.timeout_s
        jobs = self._plan()
        pair = self._pair
        result = VerificationResult(pair.source.name, pair.sink.name, "", time.time_ns() // 1_000_000)
        result.tables = [job.result for job in jobs]
        planned = [job for job in jobs if job.result.problem is None]
        if planned:
            position = PipelineProgress(
                self._client,
                pair.source.name,
                pair.sink.name,
                self.source,
                self.sink,
                self.path.read_value,
                options.kafka,
                deadline,
                self._notice,
            )
            position.watch({job.plan.target: job.plan.topics for job in planned})
            with ExitStack() as stack:
                ends = position.ends()
                snapshot = self.source.snapshot()
                stack.callback(snapshot.close)
                result.position = self.source.describe_position(snapshot.position)
                position.wait(snapshot.position, ends)
                for job in planned:
                    self._compare(job, snapshot)
            self._settle([job for job in planned if job.settlement is not None], position, deadline)
        result.seconds = time.monotonic() - started
        return result

    # --- plan

    def _plan(self) -> list[_TableJob]:
        plans: list[TablePlan] = []
        jobs: list[_TableJob] = []
        tables = self.source.tables()
        chosen = [table for table in tables if self._is_wanted(table)]
        if not chosen:
            source = self._pair.source.name
            if not tables:
                raise ConfigError(
                    f"{source} captures no table that its database has: check its table.include.list, and whether tables were "
                    "dropped or renamed"
                )
            names = ", ".join(table.name for table in tables[:10]) + (", ..." if len(tables) > 10 else "")
            raise ConfigError(
                f"No table that {source} captures matches {', '.join(self._options.tables)} (--tables, or verify.tables of a "
                f"schedule); it captures {names}"
            )
        for table in chosen:
            found = plan_table(table, self.source, self.path, self.sink)
            if isinstance(found, str):
                plan = TablePlan([table], "", (), 0, {}, set(), frozenset())
                jobs.append(_TableJob(plan, TableResult((table.name,), "", problem=found)))
            elif any(reads_topic(self._pair.sink.config, topic) for topic in found.topics):
                plans.append(found)
        for plan in merge_plans(plans):
            plan.columns = tuple(name for name in plan.columns if name not in self._options.ignored_columns)
            sources = tuple(table.name for table in plan.sources)
            jobs.append(_TableJob(plan, TableResult(sources, plan.target, notes=list(plan.notes))))
        if not jobs:
            raise ConfigError(f"{self._pair.sink.name} reads no topic of a captured table of {self._pair.source.name}")
        return jobs

    def _is_wanted(self, table: SourceTable) -> bool:
        patterns = self._options.tables
        return not patterns or any(re.fullmatch(pattern, table.name, re.IGNORECASE) for pattern in patterns)

    def _open(self, plan: TablePlan) -> TargetTable:
        try:
            return self.sink.open(plan.target, plan.columns[: plan.key_size])
        except NotFoundError:
            return _AbsentTable(plan)

    # --- compare

    def _compare(self, job: _TableJob, snapshot: SourceSnapshot) -> None:
        plan, result = job.plan, job.result
        target = self._open(plan)
        reader = job.reader = TableReader(plan, self.path, self.sink, target)
        result.version, result.columns = target.version, len(reader.columns)
        result.notes += reader.notes
        if target.version == ABSENT_TABLE:
            result.notes.append("the target has no such table")
        elif others := columns_of(target.columns, plan):
            shown = ", ".join(others[:_LISTED_COLUMNS]) + (", ..." if len(others) > _LISTED_COLUMNS else "")
            result.notes.append(f"columns that the source does not write are not compared: {shown}")
        if missing := [name for name in reader.key_names if name not in target.columns]:
            result.problem = f"the target's table has no key column {missing[0]}"
            return
        keys = self._sample(job, snapshot) if self._options.sample is not None else self._find(job, snapshot, target)
        if reader.elsewhere:
            result.notes.append(f"{reader.elsewhere} rows go to other tables, and are not compared")
        if reader.dropped:
            result.notes.append(f"{reader.dropped} rows are not written by design: transformations or the sink drop them")
        if reader.failed:
            result.notes.append(f"{reader.failed} rows fail on their way, and are not compared: {reader.first_failure}")
        job.settlement = Settlement(reader, keys.items(), self.source.placeholders)
        if isinstance(target, EventTable):
            _count_events(job, target.partition_events())
        target.close()

    def _find(
        self, job: _TableJob, snapshot: SourceSnapshot, target: TargetTable
    ) -> dict[FormKey, tuple[str, tuple[str, ...]] | None]:
        assert job.reader is not None
        estimate = sum(max(table.estimated_rows, 0) for table in job.plan.sources)
        total = estimate + max(target.estimated_rows, estimate)
        done = 0

        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            self._on_progress(min(done, total), total, job.plan.target)

        found = find_candidates(job.reader, snapshot, estimate, advance)
        self._on_progress(total, total, job.plan.target)
        job.result.rows, job.result.is_truncated = found.rows, found.is_truncated
        return found.keys

    def _sample(self, job: _TableJob, snapshot: SourceSnapshot) -> dict[FormKey, tuple[str, tuple[str, ...]] | None]:
        """Keys of rows from random places of both sides."""
        import random

        reader, count = job.reader, self._options.sample
        assert reader is not None
        assert count is not None
        size = job.plan.key_size
        found: dict[FormKey, tuple[str, tuple[str, ...]] | None] = {}
        for table in job.plan.sources:
            for batch in reader.expected(table, snapshot.sample(table.name, count)):
                for place, key in enumerate(zip(*batch.forms[:size], strict=True)):
                    found[key] = table.name, batch.source_keys[place]
        job.result.rows = len(found)
        chosen: list[FormKey] = []
        seen = 0
        for batch in reader.actual():
            for key in zip(*batch.forms[:size], strict=True):
                seen += 1
                if len(chosen) < count:
                    chosen.append(key)
                elif (place := random.randrange(seen)) < count:
                    chosen[place] = key
        return {**dict.fromkeys(chosen), **found}

    # --- settle

    def _settle(self, jobs: Sequence[_TableJob], position: PipelineProgress, deadline: float) -> None:
        if not any(job.settlement is not None and job.settlement.open for job in jobs):
            return
        starts = [position.ends()]
        reason = "they changed again and again until --timeout"
        snapshot = self.source.snapshot()
        try:
            for job in jobs:
                _settlement(job).read_before(snapshot)
            while True:
                reached = snapshot.position
                snapshot.close()
                # Tables whose rows are all settled need not reach it.
                position.wait(reached, starts[-1], [job.plan.target for job in jobs if _settlement(job).open])
                for job in jobs:
                    self._read_target(job)
                if not self._open_rows(jobs):
                    break
                starts.append(position.ends())
                snapshot = self.source.snapshot()
                for job in jobs:
                    found = _settlement(job).read_after(snapshot)
                    self._note(job, found.differences, found.unavailable)
                if len(starts) > _HISTORY_AFTER_ROUNDS and self.path.reads_messages and self._open_rows(jobs):
                    # From a round earlier on: versions that were not visible yet are among them.
                    tables = [job.plan.target for job in jobs if _settlement(job).open]
                    self._explain(jobs, starts[-3], position.wait_for_source(snapshot.position, starts[-1], tables))
                if not self._open_rows(jobs) or time.monotonic() >= deadline:
                    break
        except CatchUpTimeoutError as e:
            reason = e.message
        finally:
            snapshot.close()
        for job in jobs:
            job.result.unsettled = len(_settlement(job).open)
            if job.result.unsettled:
                job.result.notes.append(f"{job.result.unsettled} rows are not settled: {reason}")

    def _explain(self, jobs: Sequence[_TableJob], starts: Offsets, ends: Offsets) -> None:
        """Settles rows that change at every look by their versions in the topics."""
        for job in jobs:
            settlement = _settlement(job)
            if not settlement.open:
                continue
            assert job.reader is not None
            changing = [key for key, one in settlement.open.items() if one.seen is None]
            versions = read_history(self.path, job.reader, self._options.kafka, starts, ends, set(changing))
            found = settlement.explain(versions)
            self._note(job, found.differences, found.unavailable)

    def _read_target(self, job: _TableJob) -> None:
        settlement = _settlement(job)
        if not settlement.open:
            return
        assert job.reader is not None
        target = self._open(job.plan)
        try:
            job.reader.use(target)
            settlement.read_target()
            settlement.close_equal()
        finally:
            target.close()
        job.result.version = target.version
        job.result.rounds += 1

    def _note(self, job: _TableJob, differences: Sequence[Difference], unavailable: int) -> None:
        result = job.result
        result.unavailable += unavailable
        for one in differences:
            if one.kind is not DifferenceKind.EXTRA or not self.sink.keeps_deleted_rows:
                result.differences.append(one)
        if len(result.differences) >= self._options.max_differences and _settlement(job).open:
            _settlement(job).open.clear()
            result.is_truncated = True

    @staticmethod
    def _open_rows(jobs: Sequence[_TableJob]) -> int:
        return sum(len(_settlement(job).open) for job in jobs)


def _count_events(job: _TableJob, partitions: Sequence[PartitionEvents]) -> None:
    """Compares the number of events with that of their offsets: only the newest event of each key is compared itself."""
    result = job.result
    events, offsets = sum(one.events for one in partitions), sum(one.offsets for one in partitions)
    absent = sum(one.last - one.first + 1 for one in partitions) - offsets
    text = f"the newest event of each key is compared, of {events} events"
    if absent > 0:
        text += f"; {absent} offsets between them have none: of tombstones, other tables, marks of transactions, or lost events"
    result.notes.append(text)
    if any(one.topic is None for one in partitions) and len(job.plan.topics) > 1:
        result.notes.append("whether events are there twice is not known, because the table has no column __topic")
        return
    source = job.plan.sources[0].name
    for one in partitions:
        for offset in one.repeated:
            place = {"__partition": str(one.partition), "__offset": str(offset)}
            key = place if one.topic is None else {"__topic": one.topic, **place}
            result.differences.append(Difference(DifferenceKind.DUPLICATE, key, {}, source))


def _settlement(job: _TableJob) -> Settlement:
    assert job.settlement is not None
    return job.settlement
