"""The sink task: what the worker calls. It drives a :class:`connectors.spark.sink.TableSink`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from connect.backoff import Backoff
from connect.converters.json.converter import JsonConverter
from connect.errors import RetriableError
from connect.metrics import Metric
from connect.pending_work import PendingWork
from connect.record import RawBatch, SinkRecord, TopicPartition
from connect.sink import Offsets, SinkTask, TopicIdentity
from connectors.spark import session
from connectors.spark.config import SparkSinkConfig, parse_config
from connectors.spark.config_keys import PARQUET
from connectors.spark.delivery.errant_records import SparkErrantRecords
from connectors.spark.delivery.metrics import task_metrics
from connectors.spark.delivery.sink_tables import SinkTables
from connectors.spark.delivery.start_offsets import check_positions, find_start_offsets
from connectors.spark.delivery.topic_watch import TopicWatch
from connectors.spark.delivery.worker_requests import BUFFER_IS_FULL, Consumption, OffsetRequests
from connectors.spark.executors.engine import ExecutorEngine
from connectors.spark.sink import TableSink
from connectors.spark.tables.own_tables import find_own_tables

log = logging.getLogger(__name__)

TASK_KEY = "spark.sink.task"
_ROOM_WAIT_S = 0.5
"""How long a put waits for a commit while the buffer is full. A pause makes the consumer drop and fetch again what it has."""
_PAUSED_CHECK_S = 0.05
_OPEN_RETRIES = 5
_OPEN_RETRY_S, _OPEN_RETRY_MAX_S = 0.5, 10.0
_CLOSE_ATTEMPTS = 6
_CLOSE_RETRY_S, _CLOSE_RETRY_MAX_S = 0.1, 2.0


class SparkSinkTask(SinkTask):
    """Delivers exactly once: the tables are the source of truth for offsets (promise 6), and the consumer group follows them.

    Bad records are handled by :mod:`connectors.spark.delivery.errant_records`; the other records of their batch are written.
    """

    reports_raw = True
    needs_exact_values = True
    allows_offset_resets = False

    def parse(self, config: Mapping[str, str]) -> SparkSinkConfig:
        """Parses the connector's configuration."""
        return parse_config(config)

    def start(self, config: Mapping[str, str]) -> None:
        self._config = self.parse(config)
        self.pending_work = PendingWork()
        owner = f"{self._config.connector}-{config.get(TASK_KEY, '0')}"
        self._lease = None if self._config.table_format == PARQUET else session.lease(self._config.spark, merges=False)
        self._identities: dict[str, TopicIdentity] = {}
        errant_records = SparkErrantRecords(self.context.errant_record_reporter, tolerant=config.get("errors.tolerance") == "all")
        self._clock = time.monotonic
        self._consumption = Consumption(self.context)
        self._requests = OffsetRequests(self.context, self._clock)
        tables = SinkTables(self._config, owner, self._lease, self._identify, self.pending_work)
        converters = self.context.key_converter, self.context.value_converter
        self.sink = TableSink(self._config, owner, tables, converters, errant_records, self._clock)
        self.engine = ExecutorEngine(
            self._config,
            self.context,
            self.sink,
            self._consumption,
            self._lease,
            owner,
            self._clock,
            self.pending_work,
            self._check_positions,
        )
        self._watch = TopicWatch(owner, self.context.topic_identities, self._identities, self.sink.positions, self._clock)
        self._has_found_tables = False
        self._is_stopping = False
        self._received_before = 0
        self._passed_over: set[TopicPartition] = set()
        """Partitions of which records came while executors wrote, and none since."""
        self._failure: BaseException | None = None

    def _identify(self, topic: str) -> TopicIdentity | None:
        if topic not in self._identities:
            self._identities |= self.context.topic_identities([topic])
        return self._identities.get(topic)

    def _check_positions(self, positions: Offsets) -> None:
        check_positions(self.context, self._identities, positions)

    def explain_missing_offset(self, partition: TopicPartition, offset: int) -> None:
        position = max(offset, self.sink.position(partition) or 0)
        if offset >= 0:
            self._check_positions({partition: position})

    def wants_raw(self) -> bool:
        """True when JsonConverter reads key and value and no transformation needs decoded records."""
        return bool(self.context.raw_allowed) and all(
            type(c) is JsonConverter for c in (self.context.key_converter, self.context.value_converter)
        )

    # -- partitions ----------------------------------------------------------------------------------------------------

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Seeks each partition to the offset that its table contains (promise 6). Waits for Spark to start."""
        self.engine.interrupt()
        self.sink.add_partitions(partitions)
        self.engine.add_partitions()
        self._consumption.add_partitions(partitions)
        # All at once; tables ask for others that they contain.
        self._identities |= self.context.topic_identities({tp.topic for tp in partitions})
        starts = self._find_start_offsets(partitions)
        self.context.offset(starts)
        self.sink.continue_from(starts)

    def _find_start_offsets(self, partitions: Collection[TopicPartition]) -> Offsets:
        """Reads the tables, again if that may help, for example when Spark's JVM has just ended."""
        backoff = Backoff(_OPEN_RETRY_S, _OPEN_RETRY_MAX_S)
        for _ in range(_OPEN_RETRIES):
            try:
                return self._read_start_offsets(partitions)
            except RetriableError as e:
                log.warning("The tables cannot be read yet, and will be read again: %s", e.message)
                threading.Event().wait(backoff.next_delay_s())
        return self._read_start_offsets(partitions)

    def _read_start_offsets(self, partitions: Collection[TopicPartition]) -> Offsets:
        tables, by_record = self.sink.tables, self._config.names_need_record
        if by_record and not self._has_found_tables:
            tables.keep_own(find_own_tables(self._config, self._lease))
            self._has_found_tables = True
        return find_start_offsets(tables, self.context, partitions, knows_all_tables=not by_record)

    def close_partitions(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        """Commits buffered records, or discards them when the partitions already have another owner."""
        self.engine.interrupt()
        if not lost:
            self._commit_all()
        self.sink.lose(partitions)

    def _commit_all(self) -> None:
        """Commits all records, because partitions go to another task, which reads again what cannot be committed."""
        backoff = Backoff(_CLOSE_RETRY_S, _CLOSE_RETRY_MAX_S)
        for attempt in range(1, _CLOSE_ATTEMPTS + 1):
            try:
                self.sink.flush()
                return
            except RetriableError as e:
                if attempt == _CLOSE_ATTEMPTS:
                    log.warning("Records are not committed before their partitions are closed, and will be read again: %s", e)
                else:
                    threading.Event().wait(backoff.next_delay_s())

    # -- records -------------------------------------------------------------------------------------------------------

    def put_raw(self, batches: Sequence[RawBatch]) -> None:
        self._raise_failure()
        if self._takes(TopicPartition(one.topic, one.partition) for one in batches):
            self.sink.receive_raw(batches)
        self._advance()

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._raise_failure()
        if self._takes(TopicPartition(one.original_topic, one.original_partition) for one in records):
            self.sink.receive(records)
        self._advance()

    def _takes(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether the sink takes records of these partitions. Those that arrive while executors write are read again: by them,
        or by the worker from where they stop."""
        if self.engine.is_active:
            self._passed_over.update(partitions)
        elif self._passed_over:
            self._passed_over.difference_update(partitions)
        return not self.engine.is_active

    def _raise_failure(self) -> None:
        """Raises an error of ``pre_commit``, which does not fail the task by itself."""
        if self._failure is not None:
            raise self._failure

    def _advance(self) -> None:
        """Collects commits that have ended, starts those that are due, and asks for the next call in time."""
        self.sink.advance()
        while not self._consumption.is_paused(BUFFER_IS_FULL) and self.sink.fill >= 1 and self.sink.advance(_ROOM_WAIT_S):
            pass
        self._consumption.limit(self.sink.fill)
        self._requests.send_due(self.sink.moves)
        self.engine.advance()
        progress = self.sink.received, self.sink.moves
        self._watch.advance(progress)
        times = [self.sink.next_at(), self._requests.next_at(self.sink.moves), self.engine.next_at()]
        times.append(self._watch.next_at(progress))
        now = self._clock()
        if self._consumption.is_paused(BUFFER_IS_FULL):
            times.append(now + _PAUSED_CHECK_S)
        next_at = min((at for at in times if at is not None), default=None)
        if next_at is not None:
            self.context.timeout(max(1, int(max(0.0, next_at - now) * 1000)))

    def flush(self, offsets: Offsets) -> None:
        self.sink.flush()

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """Promise 2: the offsets up to which every affected table has its records.

        Commits buffered records first when the task stops, or when none have arrived since the worker's last periodic call (the
        connector is paused).
        """
        try:
            if self._is_idle():
                self.sink.flush()
            else:
                self.sink.collect()
        except RetriableError as e:
            log.warning("Some records cannot be committed to their tables yet: %s", e.message)
        except BaseException as e:
            self._failure = e
            raise
        found = {tp: self._committed(tp, delivered) for tp, delivered in offsets.items()}
        return {tp: offset for tp, offset in found.items() if offset is not None}

    def _committed(self, partition: TopicPartition, delivered: int) -> int | None:
        offset = self.sink.committed(partition)
        has_all = offset == self.sink.position(partition) and not self.engine.is_active
        if has_all and partition not in self._passed_over:
            return delivered  # the tables have all records that came here; the worker has left out those after them
        return None if offset is None else min(offset, delivered)

    def _is_idle(self) -> bool:
        if self._is_stopping:
            return True
        if self._requests.take_answer():
            return False
        before, self._received_before = self._received_before, self.sink.received
        return before == self._received_before

    # -- status --------------------------------------------------------------------------------------------------------

    def lag(self) -> dict[TopicPartition, int] | None:
        return self.sink.lag()

    def progress(self) -> Mapping[str, Any]:
        """``tables``: per table rows written, commits, version, last_commit_ms (since 1970), commit_duration_ms, skipped
        (records that the table already had), dropped (values that a contract left out), pending (records that are not in the
        table yet), and, as p50 and p99 over the recent commits, how long ago a commit's newest record (freshness_ms) and its
        oldest one (oldest_ms) had arrived when they became visible. ``buffered``: records not committed yet. ``refused``: records
        reported or skipped since the task started. ``ignored_tombstones``: tombstones of no table since the task started.
        ``unrouted``: records whose field chose no table. ``latency_ms``: p50 and p99 of the latest changes, from the commit in
        the source to the table commit. ``engine``: who decodes and writes (in_use), and for Spark's executors their jobs,
        records, the lag when it was last looked at (backlog), and parts that the driver had to apply (staged_parts)."""
        return {**self.sink.progress(), "engine": self.engine.progress()}

    def metrics(self) -> Sequence[Metric]:
        progress = self.progress()
        return [*task_metrics(progress["buffered"], progress["refused"], progress["engine"]), *self.sink.metrics()]

    def stop(self) -> None:
        """Has the next ``pre_commit`` commit all records. A running commit finishes, and its records count once either way."""
        self._is_stopping = True

    def close(self) -> None:
        engine, watch, sink, lease = (getattr(self, name, None) for name in ("engine", "_watch", "sink", "_lease"))
        if engine is not None:
            engine.close()
        if watch is not None:
            watch.close()
        if sink is not None:
            sink.close()
        if lease is not None:
            lease.release()
