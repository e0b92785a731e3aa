"""The records of one table that wait for a commit, and the commit that runs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from connect.backoff import Backoff
from connect.errors import DataError
from connect.pending_work import PendingWork
from connect.record import TopicPartition
from connect.tracing import Attributes, Trace
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.delivery.errant_records import settle
from connectors.spark.delivery.segment import Segment, merge_segments
from connectors.spark.delivery.timing import CommitTiming
from connectors.spark.plan.evolution import Columns
from connectors.spark.tables.table import TableState
from connectors.spark.tables.writer import TableProgress, TableWriter

_RETRY_FIRST_S, _RETRY_MAX_S = 0.1, 5.0


@dataclass(slots=True)
class CommitOutcome:
    """How a commit ended: successfully, with an error, or with bad records (then ``good`` has the others)."""

    table: TableQueue
    error: BaseException | None = None
    good: list[ChangeBatch] = field(default_factory=list)
    bad_records: list[BadRecord] = field(default_factory=list)
    started_at: float = 0.0
    """By the task's clock, like ``ended_at``."""
    ended_at: float = 0.0
    visible_ms: float = 0.0
    """Since 1970."""


class TableQueue:
    """One table of a task. There is at most one commit at a time; records that arrive meanwhile form the next one, in order.

    Used on the task's thread, except :meth:`commit`.
    """

    def __init__(
        self,
        name: str,
        timing: CommitTiming,
        open_writer: Callable[[str], TableWriter],
        trace: Trace | None = None,
        pending_work: PendingWork | None = None,
    ) -> None:
        """``open_writer`` may be called from any thread. ``trace`` creates the spans of commits. ``pending_work`` gets the table
        from when a commit is due until it ends; its clock is that of the arrivals."""
        self.name = name
        self.timing = timing
        self.running: Segment | None = None
        self.columns: Columns | None = None
        """The table's columns after the last read or commit."""
        self.writer: TableWriter | None = None
        self._open = open_writer
        self._trace = trace
        self._pending_work = pending_work or PendingWork()
        self._is_loaded = False
        self._waiting: deque[Segment] = deque()
        self._backoff = Backoff(_RETRY_FIRST_S, _RETRY_MAX_S)
        self._retry_at = float("-inf")
        self._was_due_at = self._ended_at = float("-inf")
        self._lost: set[TopicPartition] = set()

    @property
    def waiting(self) -> int:
        """Number of segments that wait."""
        return len(self._waiting)

    @property
    def records(self) -> int:
        """Number of records that wait or are being committed. Callable from any thread."""
        return sum(segment.records for segment in self._all())

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._all())

    @property
    def progress(self) -> TableProgress:
        """Callable from any thread."""
        return TableProgress() if self.writer is None else self.writer.progress

    def _all(self) -> list[Segment]:
        running = self.running
        return [*list(self._waiting), *([running] if running is not None else [])]

    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        """Reads the table's columns and the offsets of these partitions. No commit may be running. Blocks."""
        assert self.running is None
        writer = self.open_writer()
        offsets = writer.committed_offsets(partitions)
        self.columns = writer.columns()
        self._is_loaded = True
        return offsets

    def known_columns(self, partitions: Collection[TopicPartition]) -> Columns | None:
        """Returns the table's columns; None if it does not exist. Reads them the first time."""
        if not self._is_loaded and self.running is None:
            self.load(partitions)
        return self.columns

    def add(self, segment: Segment) -> None:
        self._waiting.append(segment)
        self._note_waiting()

    def due_at(self) -> float | None:
        """Returns when the next commit must start; None without waiting records."""
        if not self._waiting:
            return None
        return max(self._waiting[0].arrival.first + self.timing.wait_s, self._retry_at)

    def is_retrying(self, now: float) -> bool:
        """Whether the last commit failed so recently that the next attempt must wait."""
        return now < self._retry_at

    def start(self, max_records: int, max_bytes: int) -> None:
        """Moves waiting segments into the running commit: at least one, and more as long as they fit."""
        self._was_due_at = self.due_at() or 0.0
        chosen = [self._waiting.popleft()]
        records, size = chosen[0].records, chosen[0].size_bytes
        while self._waiting:
            records += self._waiting[0].records
            size += self._waiting[0].size_bytes
            if records > max_records or size > max_bytes:
                break
            chosen.append(self._waiting.popleft())
        self.running = merge_segments(chosen)

    def commit(self, partitions: Collection[TopicPartition], clock: Callable[[], float]) -> CommitOutcome:
        """Commits the running segment. Blocks; runs on a commit thread. Does not raise."""
        segment = self.running
        assert segment is not None
        if self._trace is None:
            return self._commit(segment, partitions, clock)
        attributes: Attributes = {"sluice.table": self.name, "sluice.records": segment.records}
        with self._trace.span("table commit", attributes, segment.arrival.links, is_root=True) as span:
            outcome = self._commit(segment, partitions, clock)
            if outcome.error is not None:
                span.fail(outcome.error)
            elif outcome.bad_records:
                span.fail(f"{len(outcome.bad_records)} bad records; the others are committed again")
        return outcome

    def _commit(
        self, segment: Segment, partitions: Collection[TopicPartition], clock: Callable[[], float]
    ) -> CommitOutcome:  # fmt: skip
        outcome = CommitOutcome(self, started_at=clock())
        try:
            # Promise 7: the commit covers the offsets of bad records, so their reports must be durable first.
            settle(segment.reports)
            writer = self.open_writer()
            try:
                writer.commit(segment.batches, partitions, segment.excluded)
            except DataError:
                outcome.good, outcome.bad_records = writer.split_bad_records(segment.batches, partitions)
                if not outcome.bad_records:
                    raise
            else:
                self.update_columns(writer)
        except BaseException as e:
            outcome.error = e
        outcome.ended_at = clock()
        outcome.visible_ms = time.time() * 1000
        return outcome

    def open_writer(self) -> TableWriter:
        """Returns the table's writer. No commit may be running, except the caller's own."""
        if self.writer is None:
            self.writer = self._open(self.name)
        return self.writer

    def update_columns(self, writer: TableWriter) -> None:
        """Takes over the table's columns after a commit."""
        self.columns = writer.columns() or self.columns
        self._is_loaded = True

    def finish(self, outcome: CommitOutcome) -> Segment:
        """The running commit succeeded. Returns its segment."""
        segment, self.running = self.running, None
        assert segment is not None
        self._pending_work.end(self._pending_key)
        self._note_waiting()
        self._backoff.reset()
        self._lost.clear()
        ended_at, arrival = outcome.ended_at, segment.arrival
        # A wait for decoding or for a free thread counts: with many tables, the next commit of this one has to start earlier.
        begun_at = min(outcome.started_at, max(self._was_due_at, self._ended_at))
        self._ended_at = ended_at
        self.timing.observe(ended_at - begun_at, ended_at - arrival.last, ended_at - arrival.first)
        return segment

    def find_own(self, bad_records: Sequence[BadRecord]) -> list[BadRecord]:
        """Returns the bad records of partitions that no other task owns by now."""
        return [bad for bad in bad_records if bad.topic_partition not in self._lost]

    def repeat_without(self, good: list[ChangeBatch], bad_records: Sequence[BadRecord], reports: Sequence[Future[None]]) -> None:
        """The running commit failed because of bad records: the others wait again."""
        segment = self.running
        assert segment is not None
        self.running = Segment(segment.holders, segment.arrival, good, segment.excluded, [*segment.reports, *reports])
        self.running.exclude(bad_records)
        self.repeat()

    def repeat(self) -> None:
        """The running commit failed: its records wait again, before all others."""
        segment, self.running = self.running, None
        assert segment is not None
        if self._lost:
            segment = segment.without(self._lost)
            self._lost.clear()
        if segment.batches or segment.excluded:
            self._waiting.appendleft(segment)
        self._note_waiting()

    def retry_later(self, now: float) -> float:
        """Delays the next commit after a failure, longer with each one in a row. Returns the delay in seconds."""
        delay_s = self._backoff.next_delay_s()
        self._retry_at = now + delay_s
        return delay_s

    def discard(self, partitions: Collection[TopicPartition]) -> None:
        """Drops the records of partitions that have another owner; those that are being committed, if the commit fails."""
        kept = [segment.without(partitions) for segment in self._waiting]
        self._waiting = deque(segment for segment in kept if segment.batches or segment.excluded)
        if self.running is not None:
            self._lost |= set(partitions)
        self._note_waiting()

    def _note_waiting(self) -> None:
        """Tells the worker since when a commit is due: ``put`` returns meanwhile, whatever becomes of it."""
        if self._waiting or self.running is not None:
            # Until a commit is due, records wait on purpose.
            since = self._was_due_at if self.running is not None else self.due_at()
            message = f"records for table {self.name} wait for a commit that does not end"
            self._pending_work.begin(self._pending_key, message, since)
        else:
            self._pending_work.end(self._pending_key)

    @property
    def _pending_key(self) -> str:
        return f"table {self.name}"
