"""Decides which tables are committed when, and handles how the commits end."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from connect.errors import RetriableError
from connect.record import TopicPartition
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.delivery.commit_threads import CommitThreads
from connectors.spark.delivery.partition_offsets import PartitionOffsets
from connectors.spark.delivery.segment import Arrival, Segment
from connectors.spark.delivery.sink_tables import MAX_THREADS, SinkTables
from connectors.spark.delivery.table_queue import CommitOutcome, TableQueue
from connectors.spark.delivery.timing import Latency

log = logging.getLogger(__name__)

_BLOCKED_CHECK_S = 0.05
_RUNNING_CHECK_S = 0.25
_WAIT_S = 60.0
_MAX_KEPT_RECORDS = 50_000
"""Decoded records that may have to be reported are kept until they are in a table. They take much memory."""


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """How much a task holds, in all tables together, waiting or being committed; and so how large a commit becomes."""

    records: int
    size_bytes: int

    def share(self, records: int, size_bytes: int, kept_records: int) -> float:
        """Returns which share of a limit is used; the largest, over all limits."""
        return max(records / self.records, size_bytes / self.size_bytes, kept_records / _MAX_KEPT_RECORDS)


class CommitScheduler:
    """Commits the tables of one task in parallel, each with one commit at a time. Used on the task's thread.

    A failed commit is repeated: after a RetriableError with backoff, after a DataError about single records without them. Other
    errors are raised where the outcome is collected, and the records wait again.
    """

    def __init__(
        self,
        owner: str,
        tables: SinkTables,
        offsets: PartitionOffsets,
        limits: BufferLimits,
        refuse: Callable[[Sequence[BadRecord]], list[Future[None]]],
        clock: Callable[[], float],
    ) -> None:
        """``owner`` names the threads. ``refuse`` reports bad records, or raises."""
        self.latency = Latency()
        self.commits = 0
        """Successful ones."""
        self._threads: CommitThreads[CommitOutcome] = CommitThreads(f"commit-{owner}", MAX_THREADS)
        self._tables = tables
        self._offsets = offsets
        self._limits = limits
        self._refuse = refuse
        self._clock = clock
        self._ids = itertools.count()

    @property
    def records(self) -> int:
        """Number of decoded records that wait or are being committed. Callable from any thread."""
        return sum(table.records for table in self._tables.queues())

    @property
    def size_bytes(self) -> int:
        return sum(table.size_bytes for table in self._tables.queues())

    def add(
        self,
        name: str,
        changes: Sequence[ChangeBatch],
        bad_records: Sequence[BadRecord],
        reports: Sequence[Future[None]],
        arrival: Arrival,
    ) -> None:
        """Adds decoded records of one table, and bad records that its commit must skip."""
        segment = Segment([next(self._ids)], arrival, list(changes), {}, list(reports))
        segment.exclude(bad_records)
        self._offsets.hold(segment.holders[0], segment.firsts())
        self._tables.queue(name).add(segment)

    def is_startable(self, name: str, now: float) -> bool:
        """Whether a commit of this table starts now."""
        table = self._tables.queue(name)
        due_at = table.due_at()
        return table.running is None and due_at is not None and due_at <= now and self._threads.is_free

    def start_due(self, *, pressed: bool = False) -> None:
        """Starts commits of tables that are due. ``pressed``: others too, the largest first, to empty the buffer."""
        now = self._clock()
        ready = [table for table in self._tables.queues() if table.running is None and table.waiting]
        for table in sorted(ready, key=lambda table: (table.due_at() or 0.0, table.name)):
            if (table.due_at() or 0.0) <= now and self._threads.is_free:
                self._start(table)
        if pressed:
            for table in sorted(ready, key=lambda table: -table.size_bytes):
                if table.running is None and not table.is_retrying(now) and self._threads.is_free:
                    self._start(table)

    def _start(self, table: TableQueue) -> None:
        table.start(self._limits.records, self._limits.size_bytes)
        self._threads.submit(partial(table.commit, frozenset(self._tables.partitions), self._clock))

    def next_at(self) -> float | None:
        """Returns the time when there is something to do again; None if nothing waits or runs."""
        now = self._clock()
        due = [due_at for table in self._tables.queues() if table.running is None and (due_at := table.due_at()) is not None]
        times = [at if at > now else now + _BLOCKED_CHECK_S for at in due]
        for table in self._tables.queues():
            if table.running is not None:
                # Records may be due that wait for this commit.
                due_at = table.due_at()
                times.append(now + (_BLOCKED_CHECK_S if due_at is not None and due_at <= now else _RUNNING_CHECK_S))
        return min(times, default=None)

    def collect(self, timeout_s: float = 0.0) -> bool:
        """Handles commits that have ended, after waiting for one at most this long. Returns whether there were any.

        Raises the errors that must fail the task.
        """
        return self._apply_all(self._threads.take(timeout_s))[0]

    def _apply_all(self, outcomes: Sequence[CommitOutcome]) -> tuple[bool, dict[str, RetriableError]]:
        errors: list[BaseException] = []
        failed: dict[str, RetriableError] = {}
        for outcome in outcomes:
            try:
                self._apply(outcome)
            except RetriableError as e:
                failed[outcome.table.name] = e
            except BaseException as e:
                errors.append(e)
        if errors:
            raise errors[0]
        return bool(outcomes), failed

    def _apply(self, outcome: CommitOutcome) -> None:
        table, error = outcome.table, outcome.error
        if error is None and not outcome.bad_records:
            segment = table.finish(outcome)
            for holder in segment.holders:
                self._offsets.release(holder)
            if (oldest_ms := self.latency.observe(segment.batches, outcome.visible_ms)) is not None:
                table.timing.observe_freshness(oldest_ms / 1000)
            self.commits += 1
            return
        if error is None:
            bad_records = table.find_own(outcome.bad_records)
            try:
                reports = self._refuse(bad_records)
            except BaseException:
                table.repeat()
                raise
            table.repeat_without(outcome.good, bad_records, reports)
            return
        table.repeat()
        if isinstance(error, RetriableError):
            delay_s = table.retry_later(self._clock())
            log.warning("Table %s will be committed again in %.1f s: %s", table.name, delay_s, error.message)
        raise error

    def flush(self) -> None:
        """Commits everything that waits. Blocks. Raises the first error; a table with a RetriableError is tried once."""
        failed: dict[str, RetriableError] = {}
        while True:
            for table in self._tables.queues():
                if table.running is None and table.waiting and table.name not in failed and self._threads.is_free:
                    self._start(table)
            if not self._threads.running:
                break
            failed |= self._apply_all(self._threads.take(_WAIT_S))[1]
        if failed:
            raise next(iter(failed.values()))

    def wait_for(self, tables: Collection[str]) -> None:
        """Waits until none of these tables is being committed. Raises the errors that must fail the task."""
        while any(table.running is not None for table in self._tables.queues() if table.name in tables):
            self._apply_all(self._threads.take(_WAIT_S))

    def discard(self, partitions: Collection[TopicPartition]) -> None:
        """Drops the records of partitions that have another owner."""
        for table in self._tables.queues():
            table.discard(partitions)

    def close(self, timeout_s: float) -> None:
        """Waits for running commits, at most this long each, and ends the threads."""
        self._threads.close(timeout_s)
