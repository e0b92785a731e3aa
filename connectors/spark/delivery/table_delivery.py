"""Delivers the records of one task to its tables, in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from connect.backoff import Backoff
from connect.errors import RetriableError
from connect.pending_work import PendingWork
from connect.record import RawBatch, SinkRecord, TopicPartition
from connect.sink import SinkTaskContext
from connect.tracing import current_trace
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.config import SparkSinkConfig
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.decode.tolerant_decoding import DecodedTopic
from connectors.spark.delivery.back_pressure import BackPressure, Buffered
from connectors.spark.delivery.commit_scheduler import BufferLimits, CommitScheduler
from connectors.spark.delivery.commit_threads import CommitThreads
from connectors.spark.delivery.errant_records import SparkErrantRecords
from connectors.spark.delivery.offset_requests import OffsetRequests
from connectors.spark.delivery.partition_offsets import PartitionOffsets
from connectors.spark.delivery.receiver import RecordReceiver
from connectors.spark.delivery.segment import Arrival
from connectors.spark.delivery.table_queue import CommitOutcome, TableQueue
from connectors.spark.delivery.table_router import TableRouter
from connectors.spark.delivery.timing import CommitTiming
from connectors.spark.delivery.topic_decoders import TopicDecoders
from connectors.spark.delivery.unrouted_reports import UnroutedReports
from connectors.spark.plan.evolution import Columns
from connectors.spark.tables.writer import TableWriter

log = logging.getLogger(__name__)

_ROOM_WAIT_S = 0.5
"""How long a put waits for a commit while the buffer is full. A pause makes the consumer drop and fetch again what it has."""
_PAUSED_CHECK_S = 0.05
_CLOSE_ATTEMPTS = 6
_CLOSE_RETRY_S, _CLOSE_RETRY_MAX_S = 0.1, 2.0
_JOIN_S = 60.0


class TableDelivery:
    """Receives records, decodes and routes them, and starts commits when they are due. Used on the task's thread."""

    def __init__(
        self,
        config: SparkSinkConfig,
        context: SinkTaskContext,
        errant_records: SparkErrantRecords,
        open_writer: Callable[[str], TableWriter],
        threads: CommitThreads[CommitOutcome],
        clock: Callable[[], float],
        pending_work: PendingWork | None = None,
    ) -> None:
        """``open_writer`` opens a table; it may be called from any thread. ``pending_work`` gets tables whose records wait."""
        limits = BufferLimits(config.commit_max_records, config.commit_max_bytes)
        trace = current_trace()
        self.offsets = PartitionOffsets()
        self.requests = OffsetRequests(context, clock)
        self.router = TableRouter(config)
        self._config = config
        self._context = context
        self._errant_records = errant_records
        self._clock = clock
        self._threads = threads
        self._decoders = TopicDecoders(config, context.key_converter, context.value_converter, self._known_columns)
        self._receiver = RecordReceiver(
            self.offsets, self._decoders, errant_records, self._deliver, clock, config.commit_max_records
        )
        self.scheduler = CommitScheduler(
            threads,
            lambda name: TableQueue(name, self._timing(name), open_writer, trace, pending_work),
            self.offsets,
            limits,
            self._refuse_at_commit,
            self.requests.add,
            clock,
        )
        self._back_pressure = BackPressure(context, limits)
        self._reports = UnroutedReports(self.offsets)

    def _timing(self, table: str | None) -> CommitTiming:
        config = self._config
        interval_s = None if config.commit_interval_ms is None else config.commit_interval_ms / 1000
        return CommitTiming(interval_s, config.table_freshness_ms.get(table or "", config.freshness_ms) / 1000)

    def _known_columns(self, topic: str) -> tuple[str, Columns] | None:
        tables = self.router.current_tables_of(topic)
        if len(tables) != 1:
            return None
        (name,) = tables
        columns = self.scheduler.table(name).known_columns(self.scheduler.partitions)
        return (name, columns) if columns else None

    # -- receiving records

    def put_raw(self, batches: Sequence[RawBatch]) -> None:
        """Takes undecoded records, and starts commits that are due. May wait a moment for a commit."""
        for batch in batches:
            self._receiver.add_raw(batch)
        self.advance()

    def put(self, records: Sequence[SinkRecord]) -> None:
        """The same for decoded records."""
        self._receiver.add_records(records)
        self.advance()

    @property
    def received(self) -> int:
        """Number of records since the task started."""
        return self._receiver.received

    def _deliver(self, decoded: Sequence[DecodedTopic], arrival: Arrival) -> None:
        by_table: dict[str, list[ChangeBatch]] = {}
        refused: dict[str, tuple[list[BadRecord], list[Future[None]]]] = {}
        for one in decoded:
            routed, unnamed = self.router.route(one.topic, one.changes)
            for table, changes in routed:
                by_table.setdefault(table, []).append(changes)
            bad_records = [*one.bad_records, *unnamed]
            if not bad_records:
                continue
            reports = self._errant_records.refuse(bad_records)
            # The tables' commits cover the offsets of bad records so that they are not reported again.
            tables = self.router.tables_of(one.topic)
            for table in tables:
                of_table = refused.setdefault(table, ([], []))
                of_table[0].extend(bad_records)
                of_table[1].extend(reports)
            if not tables:
                self._reports.add(bad_records, reports)
        for table in sorted(by_table.keys() | refused.keys()):
            self.scheduler.add(table, by_table.get(table, []), *refused.get(table, ([], [])), arrival)

    def _refuse_at_commit(self, bad_records: Sequence[BadRecord]) -> list[Future[None]]:
        reports = self._errant_records.refuse(bad_records)
        # Types inferred from them are dropped too; the table has the types of the others.
        self._decoders.drop({bad.topic_partition.topic for bad in bad_records})
        return reports

    # -- committing

    def advance(self) -> None:
        """Collects commits that have ended, starts those that are due, and asks for the next call in time."""
        self.scheduler.collect()
        self._start_due()
        while not self._back_pressure.is_paused and self._back_pressure.is_full(self.buffered()):
            if not self.scheduler.collect(_ROOM_WAIT_S):
                break
            self._start_due()
        self._back_pressure.update(self.buffered())
        self._reports.release_durable()
        self._errant_records.release(self.offsets.committed)
        self.requests.send_due()
        self._request_next_put()

    def _start_due(self) -> None:
        now = self._clock()
        is_pressed = self._back_pressure.is_pressed(self.buffered())
        for topic, due_at in self._decode_times().items():
            # A commit takes along what has arrived so far.
            if is_pressed or due_at <= now or any(self.scheduler.is_startable(t, now) for t in self.router.tables_of(topic)):
                self._receiver.decode(topic)
        self.scheduler.start_due(pressed=is_pressed)

    def _decode_times(self) -> dict[str, float]:
        """Returns when each topic's records must be decoded, for the commit of one of its tables."""
        found = {}
        for topic, oldest_at in self._receiver.oldest().items():
            timings = [self.scheduler.table(table).timing for table in self.router.tables_of(topic)] or [self._timing(None)]
            found[topic] = oldest_at + min(timing.wait_s for timing in timings)
        return found

    def _request_next_put(self) -> None:
        now = self._clock()
        times = [*self._decode_times().values(), self.scheduler.next_at(), self.requests.next_at, self._reports.next_at(now)]
        if self._back_pressure.is_paused:
            times.append(now + _PAUSED_CHECK_S)
        next_at = min((at for at in times if at is not None), default=None)
        if next_at is not None:
            self._context.timeout(max(1, int((next_at - now) * 1000)))

    def flush(self) -> None:
        """Commits all records. Blocks. Raises RetriableError if a table could not be committed now; its records wait again."""
        self._receiver.decode_all()
        try:
            self.scheduler.flush()
            self._reports.settle()
        finally:
            self._errant_records.release(self.offsets.committed)

    def buffered(self) -> Buffered:
        """Returns what the task holds."""
        errant = self._errant_records
        size_bytes = self._receiver.size_bytes + self.scheduler.size_bytes + errant.kept_bytes
        return Buffered(self.buffered_records(), size_bytes, errant.kept_records)

    def buffered_records(self) -> int:
        """Returns the number of records that are not committed yet. Callable from any thread."""
        return self._receiver.records + self.scheduler.records

    def pending_records(self, table: str) -> int:
        """Returns how many of them belong to a table, as far as known. Callable from any thread."""
        undecoded = sum(
            self._receiver.records_of(topic)
            for topic in self._receiver.topics()
            if table in self.router.tables_of(topic) and len(self.router.current_tables_of(topic)) == 1
        )
        return undecoded + self.scheduler.tables[table].records

    # -- partitions

    def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """The task gets partitions. Waits for running commits of their tables, which can then be read."""
        self.scheduler.wait_for({table for tp in partitions for table in self.router.tables_of(tp.topic)})
        self.scheduler.partitions |= set(partitions)
        self._back_pressure.add_partitions(partitions)

    def load_tables(self, partitions: Mapping[str, Collection[TopicPartition]]) -> dict[str, Mapping[TopicPartition, int]]:
        """Reads tables in parallel; returns, by table, the end offsets of these partitions. None may be running. Blocks."""
        if not partitions:
            return {}
        tables = [self.scheduler.table(name) for name in partitions]
        with ThreadPoolExecutor(min(len(tables), self._threads.limit), "load-table") as pool:
            states = pool.map(lambda table: table.load(partitions[table.name]), tables)
            return {table.name: state.ends for table, state in zip(tables, states, strict=True)}

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Commits all records, because these partitions go to another task, which reads again what cannot be committed."""
        backoff = Backoff(_CLOSE_RETRY_S, _CLOSE_RETRY_MAX_S)
        for attempt in range(1, _CLOSE_ATTEMPTS + 1):
            try:
                self.flush()
                break
            except RetriableError as e:
                if attempt == _CLOSE_ATTEMPTS:
                    log.warning("Records are not committed before their partitions are closed, and will be read again: %s", e)
                else:
                    threading.Event().wait(backoff.next_delay_s())
        self.lose(partitions)

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """Drops the records of partitions that another task has."""
        self._receiver.discard(partitions)
        self.scheduler.discard(partitions)
        self.scheduler.partitions -= set(partitions)
        self._errant_records.forget(partitions)
        self.offsets.forget(partitions)

    def close(self) -> None:
        """Waits for running commits, and ends their threads."""
        self.scheduler.close(_JOIN_S)
