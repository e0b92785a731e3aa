"""Which tables are committed when, and what happens to records whose commit fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future

import pytest

from connect.errors import ConnectError, DataError, RetriableError
from connect.pending_work import Pending, PendingWork
from connect.record import TopicPartition
from connect.testing import ManualClock
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.config import SparkSinkConfig, parse_config
from connectors.spark.delivery import errant_records
from connectors.spark.delivery.commit_scheduler import BufferLimits, CommitScheduler
from connectors.spark.delivery.commit_threads import CommitThreads
from connectors.spark.delivery.partition_offsets import PartitionOffsets
from connectors.spark.delivery.segment import Arrival
from connectors.spark.delivery.sink_tables import SinkTables
from connectors.spark.tables.writer import TableWriter
from tests.support.waiting import WAIT_S
from tests.unit.connectors.spark.delivery.fakes import FakeTables, changes

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class SinkTablesOfFakes(SinkTables):
    """Tables that fake writers write."""

    def __init__(self, config: SparkSinkConfig, tables: FakeTables, pending: PendingWork) -> None:
        super().__init__(config, "lake-0", None, lambda topic: None, pending)
        self._fakes = tables

    def _open(self, name: str) -> TableWriter:
        writer: TableWriter = self._fakes.open(name)
        return writer


class Rig:
    """A scheduler over tables in memory. Records are due 1 s after their arrival."""

    def __init__(self, threads: int = 3, records: int = 100, *, interval_s: float | None = 1.0, freshness_s: float = 1.0) -> None:
        self.clock = ManualClock()
        self.tables = FakeTables()
        self.pending = PendingWork(self.clock.monotonic)
        self.offsets = PartitionOffsets()
        self.refused: list[int] = []
        self.reports: list[Future[None]] = []
        settings = {"name": "lake", "topics": "t", "table.location": "/lake", "table.format": "parquet"}
        interval = {} if interval_s is None else {"commit.interval.ms": str(int(interval_s * 1000))}
        config = parse_config({**settings, **interval, "freshness.ms": str(int(freshness_s * 1000))})
        self.queues = SinkTablesOfFakes(config, self.tables, self.pending)
        self.queues.partitions = {P0, P1}
        limits = BufferLimits(records, 1 << 30)
        self.scheduler = CommitScheduler("lake-0", self.queues, self.offsets, limits, self._refuse, self.clock.monotonic)
        self.threads = self.scheduler._threads = CommitThreads("commit", threads)

    def _refuse(self, bad_records: Sequence[BadRecord]) -> list[Future[None]]:
        self.refused += [bad.offset for bad in bad_records]
        self.reports += [Future() for _ in bad_records]
        return self.reports[-len(bad_records) :] if bad_records else []

    def add(self, table: str, offsets: Sequence[int], partition: int = 0) -> None:
        now = self.clock.monotonic()
        self.offsets.receive("undecoded", TopicPartition("t", partition), offsets[0], offsets[-1] + 1)
        self.scheduler.add(table, [changes(offsets, partition=partition)], [], [], Arrival(now, now))
        self.offsets.release("undecoded")

    def close(self) -> None:
        self.scheduler.close(WAIT_S)
        self.queues.close()

    def collect(self) -> None:
        assert self.scheduler.collect(WAIT_S)


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    for writer in rig.tables.writers.values():
        writer.gate.set()
    rig.close()


def test_tables_are_committed_in_parallel_and_each_one_at_a_time(rig: Rig) -> None:
    for table in ("a", "b"):
        rig.tables[table].gate.clear()
        rig.add(table, [1])
    rig.scheduler.start_due()
    assert rig.threads.running == 0  # nothing is due yet
    rig.clock.advance(1)
    rig.scheduler.start_due()
    for table in ("a", "b"):
        rig.tables[table].wait_until_committing()
    # What arrives during the commit forms the next one, together.
    for offset in (2, 3):
        rig.add("a", [offset])
    rig.clock.advance(5)
    rig.scheduler.start_due()
    rig.scheduler.start_due(pressed=True)
    assert rig.threads.running == 2
    assert rig.queues.queue("a").records == 3
    rig.tables["a"].gate.set()
    rig.collect()
    assert rig.queues.queue("b").running is not None
    rig.scheduler.start_due()
    rig.collect()
    assert rig.tables["a"].commits == [[1], [2, 3]]
    assert rig.tables["a"].partitions == [{P0, P1}] * 2
    assert rig.tables["b"].commits == []
    assert rig.tables["a"].threads.isdisjoint(rig.tables["b"].threads)


def test_group_offsets_follow_the_slowest_table(rig: Rig) -> None:
    rig.tables["slow"].gate.clear()
    rig.add("slow", [0])
    rig.add("fast", [1])
    rig.add("fast", [0], partition=1)
    rig.clock.advance(1)
    rig.scheduler.start_due()
    rig.collect()
    assert (rig.offsets.committed(P0), rig.offsets.committed(P1)) == (0, 1)
    rig.tables["slow"].gate.set()
    rig.collect()
    assert rig.offsets.committed(P0) == 2
    assert rig.scheduler.records == 0


def test_due_tables_wait_for_a_free_thread_the_oldest_first() -> None:
    rig = Rig(threads=1)
    rig.tables["a"].gate.clear()
    rig.add("a", [1])
    rig.clock.advance(1)
    rig.scheduler.start_due()
    rig.add("c", [2])
    rig.clock.advance(0.1)
    rig.add("b", [3])
    rig.clock.advance(1)
    rig.scheduler.start_due()
    assert rig.threads.running == 1
    assert not rig.scheduler.is_startable("b", rig.clock.monotonic())
    rig.tables["a"].gate.set()
    rig.collect()
    rig.scheduler.start_due()
    rig.collect()
    assert (rig.tables["c"].commits, rig.tables["b"].commits) == ([[2]], [])
    rig.close()


def test_a_commit_takes_as_many_records_as_the_limit_allows() -> None:
    rig = Rig(records=4)
    for first in (0, 2, 4, 10):
        rig.add("a", [first, first + 1])
    rig.scheduler.flush()
    assert rig.tables["a"].commits == [[0, 1, 2, 3], [4, 5, 10, 11]]
    rig.add("a", [20, 21, 22, 23, 24])  # one decoding is never divided
    rig.scheduler.flush()
    assert rig.tables["a"].commits[-1] == [20, 21, 22, 23, 24]
    rig.close()


def test_a_pressed_buffer_commits_the_largest_table_before_it_is_due() -> None:
    rig = Rig(threads=1)
    rig.add("small", [1])
    rig.add("large", [2, 3, 4])
    rig.scheduler.start_due(pressed=True)
    rig.collect()
    assert (rig.tables["large"].commits, rig.tables["small"].commits) == ([[2, 3, 4]], [])
    rig.close()


def test_a_retriable_failure_keeps_records_and_order_and_is_retried_with_backoff(rig: Rig) -> None:
    rig.tables["a"].errors = [RetriableError("busy"), RetriableError("busy")]
    rig.add("a", [1])
    rig.clock.advance(1)
    rig.scheduler.start_due()
    rig.add("a", [2])
    rig.collect()
    assert rig.offsets.committed(P0) == 1
    rig.scheduler.start_due()
    rig.scheduler.start_due(pressed=True)
    assert rig.threads.running == 0  # not yet
    assert rig.scheduler.next_at() == pytest.approx(rig.clock.monotonic() + 0.1)
    rig.clock.advance(0.1)
    rig.scheduler.start_due()
    rig.collect()
    rig.clock.advance(0.1)
    rig.scheduler.start_due()
    assert rig.threads.running == 0  # the second delay is longer
    rig.clock.advance(0.1)
    rig.scheduler.start_due()
    rig.collect()
    assert rig.tables["a"].commits == [[1, 2]]
    assert rig.offsets.committed(P0) == 3


def test_another_failure_is_raised_and_keeps_the_records(rig: Rig) -> None:
    rig.tables["a"].errors = [ConnectError("dropped")]
    rig.add("a", [1])
    rig.add("b", [2])
    with pytest.raises(ConnectError, match="dropped"):
        rig.scheduler.flush()
    rig.scheduler.wait_for(["a", "b"])
    assert rig.offsets.committed(P0) == 1
    assert rig.queues.queue("a").records == 1
    rig.scheduler.flush()
    assert rig.tables["a"].commits == [[1]]
    assert rig.offsets.committed(P0) == 3


def test_flush_tries_each_table_once_and_raises_after_the_others_are_committed(rig: Rig) -> None:
    rig.tables["a"].errors = [RetriableError("busy")]
    rig.add("a", [1])
    rig.add("b", [2])
    with pytest.raises(RetriableError, match="busy"):
        rig.scheduler.flush()
    assert (rig.tables["a"].commits, rig.tables["b"].commits) == ([], [[2]])
    rig.scheduler.flush()  # does not wait for the backoff
    assert rig.tables["a"].commits == [[1]]


def test_bad_records_are_reported_before_the_commit_that_skips_them(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errant_records, "_SETTLE_S", 0.01)
    writer = rig.tables["a"]
    writer.errors = [DataError("some record")]
    writer.bad_records = [BadRecord(P0, 2, DataError("bad"))]
    rig.add("a", [1, 2, 3])
    with pytest.raises(RetriableError, match="did not take 1 errant records"):
        rig.scheduler.flush()
    assert rig.refused == [2]
    assert writer.commits == []
    rig.reports[0].set_result(None)
    rig.scheduler.flush()
    assert (writer.commits, writer.excluded) == ([[1, 3]], [{P0: (2, 3)}])
    assert rig.refused == [2]
    assert rig.offsets.committed(P0) == 4


def test_a_failed_report_fails_the_task(rig: Rig) -> None:
    rig.reports = [Future()]
    rig.reports[0].set_exception(ConnectError("refused by the broker"))
    rig.scheduler.add("a", [], [BadRecord(P0, 2, DataError("bad"))], rig.reports, Arrival(0, 0))
    with pytest.raises(ConnectError, match="refused by the broker"):
        rig.scheduler.flush()
    assert rig.tables["a"].commits == []


def test_an_error_without_bad_records_is_not_skipped(rig: Rig) -> None:
    rig.tables["a"].errors = [DataError("the table")]
    rig.add("a", [1])
    with pytest.raises(DataError, match="the table"):
        rig.scheduler.flush()
    assert rig.queues.queue("a").records == 1


def test_a_table_that_waited_for_a_free_thread_starts_earlier_next_time() -> None:
    rig = Rig(threads=1, interval_s=None, freshness_s=10.0)
    rig.tables["a"].gate.clear()
    rig.add("a", [1])
    rig.add("b", [2])
    rig.clock.advance(5)
    rig.scheduler.start_due()
    rig.tables["a"].wait_until_committing()
    rig.clock.advance(2)
    rig.tables["a"].gate.set()
    rig.collect()
    rig.scheduler.start_due()
    rig.collect()
    # Each was visible two seconds after it was due, "b" after a commit that took no time.
    assert [rig.queues.queue(name).timing.wait_s for name in ("a", "b")] == [7.5, 7.5]
    rig.add("b", [3])
    rig.clock.advance(7.5)
    rig.scheduler.start_due()
    rig.collect()
    # It waited for nothing.
    assert rig.queues.queue("b").timing.wait_s == 10.0
    rig.close()


def test_records_of_lost_partitions_are_not_committed_again_after_a_failure(rig: Rig) -> None:
    writer = rig.tables["a"]
    writer.gate.clear()
    writer.errors = [DataError("some record")]
    writer.bad_records = [BadRecord(P0, 1, DataError("bad"))]
    rig.add("a", [1])
    rig.add("a", [5], partition=1)
    rig.clock.advance(1)
    rig.scheduler.start_due()
    writer.wait_until_committing()
    rig.add("a", [2])
    rig.scheduler.discard([P0])
    rig.offsets.forget([P0])
    writer.gate.set()
    rig.collect()
    assert rig.refused == []
    rig.scheduler.flush()
    assert writer.commits == [[5]]


def test_commit_threads_end_with_the_task(rig: Rig) -> None:
    rig.add("a", [1])
    rig.scheduler.flush()
    threads = list(rig.threads._threads)
    assert [thread.is_alive() for thread in threads] == [True]
    rig.close()
    assert not any(thread.is_alive() for thread in threads)


def test_the_next_look_is_when_records_are_due_or_a_commit_may_have_ended(rig: Rig) -> None:
    assert rig.scheduler.next_at() is None
    rig.tables["a"].gate.clear()
    rig.add("a", [1])
    assert rig.scheduler.next_at() == 1.0
    rig.clock.advance(1)
    rig.scheduler.start_due()
    assert rig.scheduler.next_at() == 1.25
    rig.add("a", [2])
    rig.clock.advance(1)
    assert rig.scheduler.next_at() == 2.05  # due records wait for the commit


def test_table_whose_commit_does_not_end_is_pending_work_since_the_commit_was_due(rig: Rig) -> None:
    started = rig.clock.monotonic()
    message = "records for table {} wait for a commit that does not end"
    rig.tables["a"].gate.clear()
    rig.add("a", [1])
    assert rig.pending.oldest() is None
    rig.clock.advance(1)
    rig.scheduler.start_due()
    rig.tables["a"].wait_until_committing()
    rig.clock.advance(1)
    rig.add("b", [5])
    rig.add("a", [2])
    assert rig.pending.oldest() == Pending(started + 1, message.format("a"))
    rig.tables["a"].gate.set()
    rig.collect()
    # The other records wait on purpose, until their commit is due.
    assert rig.pending.oldest() is None
    rig.clock.advance(1)
    assert rig.pending.oldest() == Pending(started + 3, message.format("a"))
    rig.scheduler.discard({P0})
    assert rig.pending.oldest() is None
