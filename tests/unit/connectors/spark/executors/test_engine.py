"""When a task lets Spark's executors write, and what it commits of their work; over tables in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from connect.converters.json.converter import JsonConverter
from connect.errors import ConnectError, DataError, RetriableError
from connect.pending_work import Pending
from connect.record import RawBatch, TopicPartition
from connect.sink import FailedRead, OffsetRange, RangeBatch, RawRecord
from connect.testing import ManualClock
from connect.testing.harness import MemoryReporter, SinkContext
from connectors.sink_support.errant_records import BadRecord
from connectors.spark import task as spark_task
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.delivery import sink_tables
from connectors.spark.executors import engine
from connectors.spark.executors.job import RangeJob
from connectors.spark.executors.job_runner import JobResults
from connectors.spark.executors.range_processor import RangeProcessor
from connectors.spark.plan.rows import PreparedRows
from connectors.spark.tables.executor_files import NewFile, WriteTarget
from connectors.spark.tables.offset_ranges import OffsetRanges
from connectors.spark.task import SparkSinkTask
from tests.support.waiting import eventually
from tests.unit.connectors.spark.delivery.fakes import FakeTables, FakeWriter

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@dataclass(frozen=True)
class Numbers:
    """Records with their offset as ID; ``bad`` ones are no JSON."""

    bad: frozenset[int] = frozenset()

    def converters(self) -> tuple[JsonConverter, JsonConverter]:
        found = JsonConverter(), JsonConverter()
        for converter, is_key in zip(found, (True, False), strict=True):
            converter.configure({"schemas.enable": "false"}, is_key)
        return found

    def read(self, offset_range: OffsetRange) -> Iterator[RangeBatch]:
        (topic, partition), first, end = offset_range
        offsets = list(range(first, max(end - 1, first + 1)))  # the last offset has no record
        values: list[bytes | None] = [b"{" if offset in self.bad else b'{"id":%d}' % offset for offset in offsets]
        raw = RawBatch(topic, partition, offsets, [None] * len(offsets), values, [0] * len(offsets))
        yield RangeBatch(raw, None, (), end)


class Runner:
    """Runs jobs in this process, without Spark."""

    def __init__(self, *_: object) -> None:
        self.jobs: list[list[OffsetRange]] = []
        self.errors: list[Exception] = []
        self.failure: ConnectError | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.cancelled = threading.Event()

    def parallelism(self) -> int:
        return 2

    def run(self, job: RangeJob) -> JobResults:
        self.jobs.append(list(job.ranges))
        while not self.gate.wait(0.01):
            if self.cancelled.is_set():
                raise RetriableError("cancelled")
        if self.errors:
            raise self.errors.pop(0)
        return JobResults([part for one in job.ranges for part in RangeProcessor(job, one).run()], self.failure)

    def cancel(self) -> None:
        self.cancelled.set()


class Writer(FakeWriter):
    """A table that executors cannot write, so that they return its changes."""

    def write_target(self, partitions: Collection[TopicPartition]) -> WriteTarget:
        return WriteTarget(self.known, dict(self.ends))

    def commit(
        self, batches: Sequence[ChangeBatch], partitions: Collection[TopicPartition], excluded: OffsetRanges | None = None
    ) -> None:
        super().commit(batches, partitions, excluded)
        self.known = self.known or {"id": pa.int64()}

    def evolve(self, needed: PreparedRows, partitions: Collection[TopicPartition]) -> None:
        self.known = {**(self.known or {}), **needed.incoming}


class Sink:
    def __init__(self, folder: Path, clock: ManualClock, runner: Runner, **more: str) -> None:
        self.clock, self.runner = clock, runner
        key, value = Numbers().converters()
        config = {
            "name": "lake",
            "topics": "t",
            "table.location": str(folder),
            "spark.master": "spark://host:7077",
            "executors.min.records": "1000",
            "errors.tolerance": "all",
            "metadata.columns": "none",
            **{name.replace("_", "."): text for name, text in more.items()},
        }
        self.reporter = MemoryReporter()
        self.context = SinkContext(config, key, value, raw_allowed=True, reporter=self.reporter)
        self.context.reader = Numbers()
        self.context.beginnings = {P0: 0, P1: 0}
        self.task = SparkSinkTask()
        self.task.initialize(self.context)
        self.task.start(config)
        self.context.assigned = {P0, P1}
        self.task.open([P0, P1])

    def put(self, raw: Sequence[RawBatch] = ()) -> None:
        self.task.put_raw(raw)

    def until(self, claim: Callable[[], bool]) -> None:
        def is_true() -> bool:
            if claim():
                return True
            self.put()
            return False

        eventually(is_true, "the claim", self.task.progress)

    @property
    def engine(self) -> str:
        return str(self.task.progress()["engine"]["in_use"])

    def pending(self) -> Pending | None:
        assert self.task.pending_work is not None
        return self.task.pending_work.oldest()

    def table(self) -> Any:
        return self.task.sink.tables.writer("t")


@pytest.fixture
def create(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Sink]]:
    tables, clock, runner = FakeTables(), ManualClock(), Runner()
    lease = SimpleNamespace(session=lambda: None, release=lambda: None)
    monkeypatch.setattr(spark_task, "session", SimpleNamespace(lease=lambda *_, **__: lease))
    monkeypatch.setattr(sink_tables, "make_writer", lambda config, name, *more: tables.writers.setdefault(name, Writer(name)))
    monkeypatch.setattr(spark_task, "time", SimpleNamespace(monotonic=clock.monotonic))
    monkeypatch.setattr(engine, "JobRunner", lambda *_: runner)
    sinks: list[Sink] = []

    def new(**more: str) -> Sink:
        sinks.append(Sink(tmp_path, clock, runner, **more))
        return sinks[-1]

    yield new
    runner.gate.set()
    for sink in sinks:
        sink.task.close()


def test_auto_uses_executors_while_there_is_a_backlog(create: Callable[..., Sink]) -> None:
    sink = create()
    sink.context.ends = {P0: 900, P1: 99}
    sink.put()
    assert (sink.engine, sink.context.paused, sink.runner.jobs) == ("worker", set(), [])
    sink.context.ends = {P0: 3000, P1: 2000}
    sink.clock.advance(5.0)
    sink.put()
    assert sink.engine == "worker"  # looks only now and then
    sink.clock.advance(5.0)
    sink.put()
    assert (sink.engine, sink.context.paused) == ("executors", {P0, P1})
    # Records that were on their way do not count: they are read again.
    sink.put([RawBatch("t", 0, [0], [None], [b'{"id":0}'], [0])])
    sink.until(lambda: sink.engine == "worker")
    assert sink.context.paused == set()
    assert sink.context.requested_offsets == {P0: 3000, P1: 2000}
    # Nor has the worker read them again yet.
    assert sink.task.pre_commit({P0: 3005, P1: 2000}) == {P0: 3000, P1: 2000}
    # The first job is small: it determines the columns of the table.
    assert sink.runner.jobs[0] == [OffsetRange(P0, 0, 1000)]
    found = sorted(offset for commit in sink.table().commits for offset in commit)
    assert len(found) == 5000 - sum(map(len, sink.runner.jobs))
    assert sink.task.progress()["engine"]["staged_parts"] == sum(map(len, sink.runner.jobs))


def test_auto_stays_with_the_worker_without_a_cluster(create: Callable[..., Sink]) -> None:
    sink = create(spark_master="local[2]")
    sink.context.ends = {P0: 10**9}
    sink.put()
    assert (sink.engine, sink.runner.jobs) == ("worker", [])


def test_executors_continue_when_records_arrive(create: Callable[..., Sink]) -> None:
    sink = create(spark_engine="executors")
    assert sink.context.paused == {P0, P1}
    sink.context.ends = {P0: 10, P1: 0}
    sink.until(lambda: sink.context.requested_offsets == {P0: 10})
    sink.put()
    jobs = len(sink.runner.jobs)
    sink.context.ends = {P0: 15, P1: 0}
    sink.put()
    assert len(sink.runner.jobs) == jobs
    sink.clock.advance(0.5)  # half of freshness.ms
    sink.until(lambda: sink.context.requested_offsets == {P0: 15})
    assert sink.engine == "executors"
    assert [offset for commit in sink.table().commits for offset in commit] == [*range(9), *range(10, 14)]
    # A table's commit has the whole range, though its last offset has no record.
    assert sink.table().excluded[-1] == {P0: (10, 15)}


def test_errant_records_are_reported_once_with_their_bytes(create: Callable[..., Sink]) -> None:
    sink = create(spark_engine="executors")
    sink.context.reader = Numbers(frozenset({3}))
    sink.context.ends = {P0: 10}
    sink.runner.errors = []
    sink.until(lambda: sink.context.requested_offsets == {P0: 10})
    assert [(record.offset, record.value) for record, _ in sink.reporter.reported_raw] == [(3, b"{")]
    assert sink.task.progress()["refused"] == 1


def test_table_passes_errant_records_after_which_it_has_no_rows(create: Callable[..., Sink]) -> None:
    sink = create(spark_engine="executors")
    sink.context.ends = {P0: 10}
    sink.until(lambda: sink.context.requested_offsets == {P0: 10})
    sink.context.reader = Numbers(frozenset({10}))
    sink.context.ends = {P0: 12}
    sink.clock.advance(60.0)
    sink.until(lambda: sink.context.requested_offsets == {P0: 12})
    assert [record.offset for record, _ in sink.reporter.reported_raw] == [10]
    assert (sink.table().commits[-1], sink.table().excluded[-1]) == ([], {P0: (10, 12)})


def test_failed_job_runs_again_later_and_other_errors_fail_the_task(create: Callable[..., Sink]) -> None:
    sink = create(spark_engine="executors")
    sink.context.ends = {P0: 10}
    sink.runner.errors = [RetriableError("an executor was lost")]
    sink.until(lambda: not sink.runner.errors and sink.task.engine._job is None)
    sink.put()
    assert len(sink.runner.jobs) == 1
    waiting = sink.pending()
    assert waiting is not None  # as long as it fails
    assert "a job of Spark's executors" in waiting.message
    sink.clock.advance(60.0)
    sink.until(lambda: sink.context.requested_offsets == {P0: 10})
    assert sink.pending() is None
    sink.runner.errors = [ConnectError("host a lacks a package")]
    sink.context.ends = {P0: 20}
    sink.clock.advance(60.0)
    with pytest.raises(ConnectError, match="host a lacks a package"):
        sink.until(lambda: False)


def test_failed_job_is_no_pending_work_after_the_worker_took_over(create: Callable[..., Sink]) -> None:
    sink = create()
    sink.context.ends = {P0: 3000}
    sink.runner.errors = [RetriableError("an executor was lost")]
    sink.put()
    sink.until(lambda: not sink.runner.errors and sink.task.engine._job is None)
    assert sink.pending() is not None
    sink.context.ends = {P0: 10}
    sink.clock.advance(60.0)
    sink.until(lambda: sink.engine == "worker")
    assert sink.pending() is None


def test_job_is_cancelled_when_partitions_are_taken_away(create: Callable[..., Sink]) -> None:
    sink = create(spark_engine="executors")
    sink.context.ends = {P0: 10}
    sink.runner.gate.clear()
    sink.put()
    sink.put()
    sink.task.close_partitions([P0, P1])
    assert sink.runner.cancelled.is_set()
    assert sink.table().commits == []
    sink.context.assigned = set()
    sink.clock.advance(60.0)
    sink.put()
    assert sink.context.requested_offsets == {}


@dataclass(frozen=True)
class Failing(Numbers):
    """The record at offset 2 cannot be transformed. The first reader ends there, though its range goes on."""

    reads: list[OffsetRange] = field(default_factory=list)

    def read(self, offset_range: OffsetRange) -> Iterator[RangeBatch]:
        self.reads.append(offset_range)
        (topic, partition), first, end = offset_range
        record = RawRecord(topic, partition, 2, None, b"{}", None, ())
        failure = FailedRead(record, "TRANSFORMATION", "plugins:Failing", None, DataError("no field a"))
        end = min(end, 5) if len(self.reads) == 1 else end
        for batch in super().read(OffsetRange(offset_range.partition, first, end)):
            yield replace(batch, failures=[failure] if first <= 2 < end else ())


def test_tolerated_failure_excuses_no_records_after_it(create: Callable[..., Sink]) -> None:
    sink = create(spark_engine="executors")
    sink.context.reader = reader = Failing()
    sink.context.ends = {P0: 10}
    sink.until(lambda: bool(reader.reads) and sink.task.engine._job is None)
    assert sink.context.requested_offsets == {}
    sink.clock.advance(60.0)
    sink.until(lambda: sink.context.requested_offsets == {P0: 10})
    assert [offset for commit in sink.table().commits for offset in commit] == list(range(9))
    assert [failure.record.offset for failure in sink.context.failed_reads] == [2]


def test_failure_that_is_not_tolerated_fails_the_task_with_its_own_error(
    create: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = create(spark_engine="executors")
    sink.context.reader = Failing()
    sink.context.ends = {P0: 10}

    def fail(failure: FailedRead) -> Any:
        raise ConnectError("no field a")

    monkeypatch.setattr(sink.context, "report_failed_read", fail)
    with pytest.raises(ConnectError, match="no field a"):
        sink.until(lambda: False)


def test_record_that_only_a_commit_finds_to_be_bad_is_reported_and_left_out(create: Callable[..., Sink]) -> None:
    sink = create(spark_engine="executors")
    sink.context.ends = {P0: 10}
    sink.until(lambda: sink.context.requested_offsets == {P0: 10})
    writer = sink.table()
    writer.errors = [DataError("a truncate of several partitions")]
    writer.bad_records = [BadRecord.of(P0, 12, DataError("a truncate of several partitions"))]
    sink.context.ends = {P0: 15}
    sink.clock.advance(60.0)
    sink.until(lambda: sink.context.requested_offsets == {P0: 15})
    assert [offset for commit in writer.commits for offset in commit] == [*range(9), 10, 11, 13]
    assert [(record.offset, record.value) for record, _ in sink.reporter.reported_raw] == [(12, b'{"id":12}')]
    assert writer.excluded[-1] == {P0: (10, 15)}
    assert sink.task.progress()["refused"] == 1


class Target:
    """Where executors write files."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.written = 0

    def check(self) -> None: ...

    def write(self, rows: pa.Table) -> list[NewFile]:
        self.written += 1
        self.files.add(path := f"file-{self.written}")
        return [NewFile(path, {}, rows)]

    def find_missing(self, paths: Sequence[str]) -> list[str]:
        return [path for path in paths if path not in self.files]

    def delete(self, paths: Collection[str]) -> None:
        self.files -= set(paths)


@pytest.fixture
def writing(create: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch) -> tuple[Sink, Target]:
    """A sink with records for which executors can write files."""
    sink, target = create(spark_engine="executors"), Target()
    sink.context.ends = {P0: 10}
    sink.until(lambda: sink.context.requested_offsets == {P0: 10})
    described = WriteTarget({"id": pa.int64()}, {P0: 10}, files=target)
    monkeypatch.setattr(sink.table(), "write_target", lambda partitions: described)
    sink.context.ends = {P0: 15}
    sink.clock.advance(60.0)
    return sink, target


def test_files_of_a_job_of_which_one_range_has_failed_are_deleted(writing: tuple[Sink, Target]) -> None:
    sink, target = writing
    sink.runner.failure = ConnectError("on host a: no space left")
    with pytest.raises(ConnectError, match="no space left"):
        sink.until(lambda: False)
    assert target.written > 0
    assert target.files == set()


def test_files_of_a_job_that_ends_while_it_is_interrupted_are_deleted(writing: tuple[Sink, Target]) -> None:
    sink, target = writing
    sink.put()
    eventually(lambda: target.written > 0, "files", sink.task.progress)
    sink.task.close_partitions([P0, P1])
    assert target.files == set()


def test_a_topic_that_is_shorter_than_what_executors_have_read_stops_the_task(create: Callable[..., Sink]) -> None:
    sink = create(spark_engine="executors")
    sink.context.ends = {P0: 3000, P1: 0}
    sink.until(lambda: sink.task.sink.position(P0) == 3000)
    sink.context.ends[P0] = 30
    sink.clock.advance(10)
    with pytest.raises(ConnectError, match=r"read t-0 up to offset 3000, but the topic ends at 30: .* deleted and recreated"):
        sink.put()
