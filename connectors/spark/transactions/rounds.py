"""Commits the tables in rounds: each takes whole transactions of the source and ends with a row in the table of transactions.

A table may be ahead of the newest row: after a crash within a round, and while a transaction is larger than the buffer. Each
table has the offsets of its records (promise 6), so that is known, and the next row comes only when all tables are at one
point. A row names the versions that the tables have at that moment; nothing is committed to them between that and the next round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect import crash_points
from connect.backoff import Backoff
from connect.errors import ConnectError, RetriableError
from connect.record import RawBatch, SinkRecord, TopicPartition
from connect.sink import Offsets, SinkTaskContext
from connectors.spark.config import SparkSinkConfig
from connectors.spark.config_keys import ICEBERG
from connectors.spark.delivery.table_delivery import TableDelivery
from connectors.spark.delivery.timing import CommitTiming
from connectors.spark.tables.writer import TableWriter
from connectors.spark.transaction_settings import TABLE, find_transaction_topic
from connectors.spark.transactions.atomic_rounds import AtomicRounds
from connectors.spark.transactions.intake import TransactionIntake
from connectors.spark.transactions.marker_table import StoredRounds, TransactionsTable
from connectors.spark.transactions.order import ConsistentPoint, TransactionOrder
from connectors.spark.transactions.reports import TransactionReports

log = logging.getLogger(__name__)

_LOOK_AGAIN_S = 0.1
_RETRY_FIRST_S, _RETRY_MAX_S = 0.1, 5.0
_EMPTY_ROUND_S = 60.0
"""How often a row is written for transactions that changed none of the tables."""
_MAX_VERSION_AGE_S = 300.0
"""Maintenance and other writers create versions, too. The one that a row names was the newest at most so long ago."""


@dataclass(slots=True)
class _Status:
    """``is_open``: records were passed on, and are not known to be in their tables; up to ``point``, if that is one."""

    is_open: bool = False
    point: ConsistentPoint | None = None
    begun_at: float = 0.0
    oldest_at: float = 0.0
    retry_at: float = float("-inf")
    ended_at: float = float("-inf")
    has_put: bool = False
    backoff: Backoff = field(default_factory=lambda: Backoff(_RETRY_FIRST_S, _RETRY_MAX_S))


class TransactionRounds:
    """Receives the records of a task and passes them on in rounds. Used on the task's thread."""

    def __init__(
        self,
        config: SparkSinkConfig,
        context: SinkTaskContext,
        delivery: TableDelivery,
        open_marker: Callable[[], TableWriter],
        read_rounds: Callable[[], StoredRounds],
        clock: Callable[[], float],
        now_ms: Callable[[], int],
    ) -> None:
        """``open_marker`` opens the table of transactions; ``read_rounds`` reads it if it exists."""
        assert config.transactions is not None
        self._config = config
        self._settings = config.transactions
        self._context = context
        self._delivery = delivery
        self._open_marker = open_marker
        self._read_rounds = read_rounds
        self._clock = clock
        self._now_ms = now_ms
        interval_s = None if config.commit_interval_ms is None else config.commit_interval_ms / 1000
        self._timing = CommitTiming(interval_s, config.freshness_ms / 1000)
        self._marker: TransactionsTable | None = None
        self._intake: TransactionIntake | None = None
        self._status = _Status()
        self._reports = TransactionReports(self._settings.timeout_ms)
        self._atomic = AtomicRounds()

    # -- partitions

    def data_partitions(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """These partitions without that of the transaction topic. Raises ConfigError when that topic cannot be found."""
        topic = self._find_topic(partitions)
        return {tp for tp in partitions if tp.topic != topic}

    def _find_topic(self, partitions: Collection[TopicPartition]) -> str:
        if self._settings.topic:
            return self._settings.topic
        return find_transaction_topic(sorted({tp.topic for tp in [*self._context.assignment(), *partitions]}))

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The task gets partitions, whose tables were read. Returns the offsets of the newest consistent point, where they must
        continue. Raises ConnectError."""
        topic = self._find_topic(partitions)
        own = sorted(tp for tp in partitions if tp.topic == topic)
        if len(own) > 1 or (not own and self._intake is None):
            raise ConnectError(
                f"topic {topic} has {len(own)} partitions that the task reads; its events need the order that only one "
                "partition has: create the topic with one partition, and give all topics to one task"
            )
        if own:
            self._marker = TransactionsTable(self._open_marker(), own[0], self._settings.retention_ms)
        assert self._marker is not None
        ends = self._marker.load(partitions)
        if own:
            self._start(own[0], partitions, ends)
        assert self._intake is not None
        beginnings = self._context.beginning_offsets(self._intake.order.data_partitions() | self.data_partitions(partitions))
        for tp in partitions:
            offset = (ends or {}).get(tp)
            begins_at, known_until = beginnings.get(tp, 0), max(offset or 0, self._released(tp))
            if offset is not None and known_until < begins_at:
                raise ConnectError(
                    f"{self._settings.table} holds {tp} up to offset {known_until}, but the topic begins at {begins_at}: "
                    f"retention deleted {begins_at - known_until} records that were not written. To continue without them, stop "
                    f"the connector and set its offset of the partition to {begins_at} over REST (PATCH "
                    "/connectors/<name>/offsets), then resume it"
                )
            start = self._delivery.offsets.position(tp) if offset is None else offset
            self._intake.order.assign(tp, start, self._released(tp))
        return {} if ends is None else {tp: ends[tp] for tp in partitions if tp in ends}

    def _start(
        self, end_partition: TopicPartition, partitions: Collection[TopicPartition], ends: Mapping[TopicPartition, int] | None
    ) -> None:
        assert self._marker is not None
        stored = StoredRounds({}) if ends is None else self._read_rounds()
        self._marker.set_stored(stored.committed_ms)
        tables = self._delivery.scheduler.tables
        if self._config.names_need_record:
            # Tables without offsets, which were reset over REST, are not known as those of the connector.
            self._delivery.load_tables({name: () for name in stored.tables if name not in tables})
        for name in stored.tables:
            table = tables.get(name)
            if table is not None and table.writer is not None and table.columns is None:
                raise ConnectError(
                    f"table {name} does not exist, but {self._settings.table} ({TABLE}) names a version of it. Restore it; or, "
                    f"to start over, remove {self._settings.table} too, and reset the consumer group"
                )
        is_aligned = ends is not None and set(partitions) <= ends.keys()
        order = TransactionOrder(
            end_partition, self._settings.timeout_ms, newest_lsn=stored.newest_lsn, is_aligned=is_aligned
        )  # fmt: skip
        self._intake = TransactionIntake(order, end_partition)
        self._status = _Status(ended_at=self._clock())

    def _released(self, partition: TopicPartition) -> int:
        """The offset up to which some table has the partition's records."""
        writers = [table.writer for table in self._delivery.scheduler.tables.values() if table.writer is not None]
        states = [writer.state(self._delivery.scheduler.partitions, float("inf")) for writer in writers]
        return max((state.ends.get(partition, 0) for state in states), default=0)

    def close(self, partitions: Collection[TopicPartition], *, lost: bool) -> None:
        """Commits complete transactions, unless the partitions already have another owner, and drops the rest."""
        intake = self._intake
        if intake is None:
            return
        if not lost:
            self.flush()
        intake.discard(partitions)
        if intake.end_partition in partitions:
            self._intake = None

    # -- records

    def put_raw(self, batches: Sequence[RawBatch]) -> None:
        """Takes undecoded records, and commits a round that is due. Blocks for that."""
        assert self._intake is not None
        for batch in batches:
            self._intake.add_raw(batch, self._clock(), self._now_ms())
        self._advance(is_flush=False)

    def put(self, records: Sequence[SinkRecord]) -> None:
        """The same for decoded records."""
        assert self._intake is not None
        self._intake.add(records, self._clock(), self._now_ms())
        self._advance(is_flush=False)

    def flush(self) -> None:
        """Commits all transactions that are complete. Blocks."""
        if self._intake is None:
            return
        was_open = self._status.is_open
        self._advance(is_flush=True)
        if was_open and not self._status.is_open:
            self._advance(is_flush=True)

    def offsets(self, delivered: Offsets) -> Offsets:
        """Promise 2: the offsets up to which completed rounds have all records, given those that were delivered."""
        intake = self._intake
        if intake is None:
            return {}
        found = {}
        for tp, end in delivered.items():
            if self._status.has_put:
                intake.order.read_to(tp, end)
            done = intake.order.done(tp)
            if done is not None:
                found[tp] = min(done, end)
        return found

    # -- rounds

    def _advance(self, *, is_flush: bool) -> None:
        status = self._status
        status.has_put = status.has_put or not is_flush
        if not status.is_open:
            self._begin(is_flush=is_flush)
        if status.is_open and (is_flush or self._clock() >= status.retry_at):
            self._commit()
        self._delivery.advance(starts_commits=False)  # a table is not committed without the others of its round
        self._request_next_put()

    def _is_full(self) -> bool:
        """Whether the records that are held fill half of the task's buffer; the other half is for their round."""
        assert self._intake is not None
        held, config = self._intake.held, self._config
        return held.records >= config.commit_max_records / 2 or held.size_bytes >= config.commit_max_bytes / 2

    def _due_at(self) -> float | None:
        """When the next round begins, if there is a point to which it can go; None if nothing waits."""
        assert self._intake is not None
        if self._intake.oldest_at is not None:
            return self._intake.oldest_at + self._timing.wait_s
        if self._intake.order.is_ahead:
            return self._status.ended_at
        return self._status.ended_at + _EMPTY_ROUND_S if self._intake.order.waiting else None

    def _begin(self, *, is_flush: bool) -> None:
        """Passes on the records up to a consistent point, if a round is due; all, if there is none and the buffer is full."""
        intake, now, now_ms = self._intake, self._clock(), self._now_ms()
        assert intake is not None
        due_at, is_full = self._due_at(), self._is_full()
        if due_at is None or not (is_flush or is_full or due_at <= now):
            return
        if intake.order.wants_log_ends(now_ms):
            intake.order.set_log_ends(self._context.end_offsets(intake.order.partitions()), now_ms)
        point, incomplete = intake.order.find_point(now_ms)
        self._reports.report_incomplete(incomplete, now)
        is_empty = point is not None and not intake.held.has_any(point.ends) and not intake.order.is_ahead
        if is_empty and now < self._status.ended_at + _EMPTY_ROUND_S:
            point = None
        if point is None and not is_full:
            self._reports.report_stuck(intake, now)
            return
        status = self._status
        status.is_open, status.point, status.begun_at = True, point, now
        status.oldest_at = now if intake.oldest_at is None else intake.oldest_at
        if point is None:
            intake.order.release_all()
        raw, records = intake.take(point, now)
        self._delivery.receive_raw(raw)
        self._delivery.receive(records)

    def _commit(self) -> None:
        """Commits what was passed on, and then the row of the round. After a RetriableError, a later call continues."""
        status, intake = self._status, self._intake
        assert intake is not None
        try:
            if status.point is not None:
                self._atomic.group(self._delivery.prepare_flush())
            self._delivery.flush()
            crash_points.point("transactions.committed")
            if status.point is not None and status.point.last is not None:
                self._write_row(status.point)
        except RetriableError as e:
            delay_s = status.backoff.next_delay_s()
            status.retry_at = self._clock() + delay_s
            log.warning("A round of table commits will be continued in %.1f s: %s", delay_s, e.message)
            return
        if status.point is not None:
            intake.order.advance(status.point)
        now = self._clock()
        self._timing.observe(now - status.begun_at, now - status.begun_at, now - status.oldest_at)
        status.backoff.reset()
        status.is_open, status.point, status.ended_at, status.retry_at = False, None, now, float("-inf")
        self._delivery.requests.add()

    def _write_row(self, point: ConsistentPoint) -> None:
        assert self._marker is not None
        partitions, is_iceberg = frozenset(point.ends), self._config.table_format == ICEBERG
        versions = {}
        for table in self._delivery.scheduler.tables.values():
            if table.writer is None:
                continue
            state = table.writer.state(self._delivery.scheduler.partitions, _MAX_VERSION_AGE_S)
            ahead = [tp for tp, end in state.ends.items() if end > point.ends.get(tp, end)]
            if ahead:
                raise ConnectError(
                    f"table {table.name} has records of {ahead[0]} up to offset {state.ends[ahead[0]]}, which this task did not "
                    "write: another task of the connector wrote them. Restart the task after the other one has stopped"
                )
            # An Iceberg table without snapshots has no version to read.
            if state.columns is not None and state.version is not None and (state.version or not is_iceberg):
                versions[table.name] = state.version
        self._marker.write(point, versions, partitions, self._now_ms())

    def _request_next_put(self) -> None:
        now, due_at = self._clock(), self._due_at()
        times = [self._delivery.requests.next_at]
        if self._status.is_open:
            times.append(self._status.retry_at)
        elif due_at is not None:
            times.append(due_at if due_at > now else now + _LOOK_AGAIN_S)
        next_at = min((at for at in times if at is not None), default=None)
        if next_at is not None:
            self._context.timeout(max(1, int((next_at - now) * 1000)))

    # -- status

    @property
    def received(self) -> int:
        """Number of records since the partitions were opened. Callable from any thread."""
        intake = self._intake
        return 0 if intake is None else intake.received

    @property
    def writers(self) -> list[TableWriter]:
        """The writer of the table of transactions, for its maintenance. Callable from any thread."""
        marker = self._marker
        return [] if marker is None else [marker.writer]

    def lag(self) -> dict[TopicPartition, int]:
        """See :meth:`connect.sink.SinkTask.lag`. Callable from any thread."""
        intake = self._intake
        return {} if intake is None else dict(intake.lag())

    def progress(self) -> Mapping[str, Any]:
        """``round``: the newest one. ``waiting``: transactions that have ended in the source and are in no round. ``held``:
        records that wait for the end of their transaction. ``atomic``: whether the catalog commits the tables of a round at once.
        ``incomplete``: transactions that lacked events. ``freshness_ms``: how old the oldest record of a round was when it was
        visible, as p50 and p99. Callable from any thread."""
        intake, marker = self._intake, self._marker
        return {
            "round": 0 if marker is None else marker.round,
            "waiting": 0 if intake is None else intake.order.waiting,
            "held": 0 if intake is None else intake.held.records,
            "atomic": self._atomic.is_active,
            "incomplete": self._reports.incomplete,
            "freshness_ms": self._timing.oldest_age_ms(),
        }
