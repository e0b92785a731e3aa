"""The sink task: what the worker calls. Delivery to the tables is in :mod:`connectors.spark.delivery`."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from connect.converters.json.converter import JsonConverter
from connect.errors import ConnectError, RetriableError
from connect.metrics import Metric
from connect.pending_work import PendingWork
from connect.record import RawBatch, SinkRecord, TopicPartition
from connect.sink import Offsets, SinkTask, TopicIdentity
from connectors.spark import session
from connectors.spark.config import SparkSinkConfig, parse_config
from connectors.spark.config_keys import DELTA, PARQUET
from connectors.spark.delivery.commit_threads import CommitThreads
from connectors.spark.delivery.errant_records import SparkErrantRecords
from connectors.spark.delivery.maintenance_thread import MaintenanceThread
from connectors.spark.delivery.metrics import table_metrics, task_metrics
from connectors.spark.delivery.table_delivery import TableDelivery
from connectors.spark.delivery.table_queue import TableQueue
from connectors.spark.executors.engine import ExecutorEngine
from connectors.spark.tables.find_tables import find_tables
from connectors.spark.tables.open_table import make_writer
from connectors.spark.tables.staging import Staging
from connectors.spark.tables.writer import TableProgress, TableWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

TASK_KEY = "spark.sink.task"
_MIN_THREADS, _MAX_THREADS = 4, 32


class SparkSinkTask(SinkTask):
    """Delivers exactly once: the tables are the source of truth for offsets (promise 6), and the consumer group follows them.

    Bad records are handled by :mod:`connectors.spark.delivery.errant_records`; the other records of their batch are written.
    """

    reports_raw = True
    needs_exact_values = True

    def parse(self, config: Mapping[str, str]) -> SparkSinkConfig:
        """Parses the connector's configuration."""
        return parse_config(config)

    def start(self, config: Mapping[str, str]) -> None:
        self._config = self.parse(config)
        self.pending_work = PendingWork()
        owner = f"{self._config.connector}-{config.get(TASK_KEY, '0')}"
        stages = self._config.table_format == DELTA
        self._staging = Staging(self._config.location, owner, self._config.spark.s3) if stages else None
        self._lease = None if self._config.table_format == PARQUET else session.lease(self._config.spark, merges=False)
        self._errant_records = SparkErrantRecords(
            self.context.errant_record_reporter, tolerant=config.get("errors.tolerance") == "all"
        )
        self._identities: dict[str, TopicIdentity] = {}
        limit = min(_MAX_THREADS, max(_MIN_THREADS, 2 * (os.cpu_count() or 1)))
        self.delivery = TableDelivery(
            self._config,
            self.context,
            self._errant_records,
            self._open_writer,
            CommitThreads(f"commit-{owner}", limit),
            time.monotonic,
            self.pending_work,
        )
        self.engine = ExecutorEngine(
            self._config,
            self.context,
            self.delivery,
            self._errant_records,
            self._new_session,
            owner,
            time.monotonic,
            self.pending_work,
        )
        self._maintenance = MaintenanceThread(f"maintenance-{owner}", self._writers)
        self._maintenance.start()
        self._has_read_tables = False
        self._is_stopping = False
        self._received_before = 0
        self._failure: BaseException | None = None
        if self._staging is not None:
            self._staging.clear()

    def _new_session(self) -> SparkSession:
        assert self._lease is not None
        return self._lease.session()

    def _open_writer(self, table: str) -> TableWriter:
        return make_writer(self._config, table, self._lease, self._staging, self._identify)

    def _writers(self) -> list[TableWriter]:
        tables = list(self.delivery.scheduler.tables.values())
        return [table.writer for table in tables if table.writer is not None]

    def _identify(self, topic: str) -> TopicIdentity | None:
        if topic not in self._identities:
            self._identities |= self.context.topic_identities([topic])
        return self._identities.get(topic)

    def wants_raw(self) -> bool:
        """True when JsonConverter reads key and value and no transformation needs decoded records."""
        return bool(self.context.raw_allowed) and all(
            type(c) is JsonConverter for c in (self.context.key_converter, self.context.value_converter)
        )

    # -- partitions ----------------------------------------------------------------------------------------------------

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Seeks each partition to the offset that its table contains (promise 6). Waits for Spark to start."""
        self.engine.interrupt()
        self.delivery.add_partitions(partitions)
        self.engine.add_partitions(partitions)
        # All at once; tables ask for others that they contain.
        self._identities |= self.context.topic_identities({tp.topic for tp in partitions})
        if self._config.names_need_record and not self._has_read_tables:
            self._read_tables()
        # Before the tables are read, and the ends after: meanwhile, another task may write records to them.
        log_starts = self.context.beginning_offsets(partitions)
        by_table: dict[str, list[TopicPartition]] = {}
        for tp in sorted(partitions):
            for table in self.delivery.router.tables_of(tp.topic):
                by_table.setdefault(table, []).append(tp)
        found = self.delivery.load_tables(by_table)
        log_ends = self.context.end_offsets(partitions)
        behind = []
        for table, ends in found.items():
            for tp in by_table[table]:
                if tp in ends:
                    _check_topic_not_recreated(tp, ends[tp], log_ends.get(tp), table)
                    if ends[tp] < log_starts.get(tp, 0):
                        behind.append((tp, ends[tp], table))
        # Promise 2: the group's offset is ahead of no table. What lies between had no rows for a table whose end is older.
        group = self.context.group_offsets({tp for tp, _, _ in behind})
        for tp, end, table in behind:
            _check_no_gap(tp, max(end, group.get(tp, end)), log_starts[tp], table)
            log.warning(
                "Table %s holds %s up to offset %d, and the topic begins at %d. The records between had no rows for the table, "
                "because the consumer group's offset is %d, unless the table was rolled back or restored since: then their rows "
                "are lost",
                table,
                tp,
                end,
                log_starts[tp],
                group[tp],
            )
        # If records name their tables, a table that does not exist yet may need records that another one has. The group's offset
        # is never ahead of any table, and each table skips what it has.
        for tp in () if self._config.names_need_record else partitions:
            of_tables = [found[table].get(tp) for table in self.delivery.router.tables_of(tp.topic)]
            known = [end for end in of_tables if end is not None]
            if known and len(known) == len(of_tables):
                start = max(min(known), log_starts.get(tp, 0))
                self.context.offset({tp: start})
                self.delivery.offsets.seek(tp, start)

    def _read_tables(self) -> None:
        """Finds this connector's tables below the location, and their topics."""
        scheduler = self.delivery.scheduler
        found = self.delivery.load_tables(dict.fromkeys(find_tables(self._config, self._lease), ()))
        for name, ends in found.items():
            topics = {tp.topic for tp in ends}
            for topic in topics:
                self.delivery.router.add_tables(topic, [name])
            if not topics:
                del scheduler.tables[name]
        self._has_read_tables = True

    def close_partitions(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        """Commits buffered records, or discards them when the partitions already have another owner."""
        self.engine.interrupt()
        if lost:
            self.delivery.lose(partitions)
        else:
            self.delivery.revoke(partitions)

    # -- records -------------------------------------------------------------------------------------------------------

    def put_raw(self, batches: Sequence[RawBatch]) -> None:
        self._raise_failure()
        # Records that arrive while executors write are read again: by them, or by the worker from where they stop.
        self.delivery.put_raw(() if self.engine.is_active else batches)
        self.engine.advance()

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._raise_failure()
        self.delivery.put(() if self.engine.is_active else records)
        self.engine.advance()

    def _raise_failure(self) -> None:
        """Raises an error of ``pre_commit``, which does not fail the task by itself."""
        if self._failure is not None:
            raise self._failure

    def flush(self, offsets: Offsets) -> None:
        self.delivery.flush()

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """Promise 2: the offsets up to which every affected table has its records.

        Commits buffered records first when the task stops, or when none have arrived since the worker's last periodic call (the
        connector is paused).
        """
        try:
            if self._is_idle():
                self.delivery.flush()
            else:
                self.delivery.scheduler.collect()
        except RetriableError as e:
            log.warning("Some records cannot be committed to their tables yet: %s", e.message)
        except BaseException as e:
            self._failure = e
            raise
        found = {tp: (self.delivery.offsets.committed(tp), delivered) for tp, delivered in offsets.items()}
        return {tp: min(offset, delivered) for tp, (offset, delivered) in found.items() if offset is not None}

    def _is_idle(self) -> bool:
        if self._is_stopping:
            return True
        if self.delivery.requests.take_answer():
            return False
        before, self._received_before = self._received_before, self.delivery.received
        return before == self._received_before

    # -- status --------------------------------------------------------------------------------------------------------

    def lag(self) -> dict[TopicPartition, int] | None:
        return self.delivery.offsets.lag()

    def progress(self) -> Mapping[str, Any]:
        """``tables``: per table rows written, commits, version, last_commit_ms (since 1970), commit_duration_ms, skipped
        (records that the table already had), dropped (values that a contract left out), pending (records that are not in the
        table yet), and, as p50 and p99 over the recent commits, how long ago a commit's newest record (freshness_ms) and its
        oldest one (oldest_ms) had arrived when they became visible. ``buffered``: records not committed yet. ``refused``: records
        reported or skipped since the task started. ``ignored_tombstones``: tombstones of no table since the task started.
        ``unrouted``: records whose field chose no table. ``latency_ms``: p50 and p99 of the latest changes, from the commit in
        the source to the table commit. ``engine``: who decodes and writes (in_use), and for Spark's executors their jobs,
        records, the lag when it was last looked at (backlog), and parts that the driver had to apply (staged_parts)."""
        delivery = self.delivery
        return {
            "tables": {name: self._table_progress(table) for name, table in list(delivery.scheduler.tables.items())},
            "buffered": delivery.buffered_records(),
            "refused": self._errant_records.count,
            "ignored_tombstones": delivery.router.ignored_tombstones,
            "unrouted": delivery.router.unrouted,
            "latency_ms": delivery.scheduler.latency.quantiles(),
            "engine": self.engine.progress(),
        }

    def metrics(self) -> Sequence[Metric]:
        delivery = self.delivery
        found = list(task_metrics(delivery.buffered_records(), self._errant_records.count, self.engine.progress()))
        for name, table in list(delivery.scheduler.tables.items()):
            progress = TableProgress() if table.writer is None else table.writer.progress
            found += table_metrics(name, progress, table.timing, delivery.pending_records(name))
        return found

    def _table_progress(self, table: TableQueue) -> dict[str, Any]:
        progress = TableProgress() if table.writer is None else table.writer.progress
        return {
            "rows": progress.rows,
            "commits": progress.commits,
            "version": progress.version,
            "last_commit_ms": progress.last_commit_ms,
            "commit_duration_ms": progress.commit_duration_ms,
            "skipped": progress.skipped,
            "dropped": progress.dropped,
            **progress.table,
            "pending": self.delivery.pending_records(table.name),
            "freshness_ms": table.timing.newest_age_ms(),
            "oldest_ms": table.timing.oldest_age_ms(),
        }

    def stop(self) -> None:
        """Has the next ``pre_commit`` commit all records. A running commit finishes, and its records count once either way."""
        self._is_stopping = True

    def close(self) -> None:
        delivery, staging, lease = (getattr(self, name, None) for name in ("delivery", "_staging", "_lease"))
        maintenance: MaintenanceThread | None = getattr(self, "_maintenance", None)
        if maintenance is not None:
            maintenance.close()
        engine: ExecutorEngine | None = getattr(self, "engine", None)
        if engine is not None:
            engine.close()
        if delivery is not None:
            delivery.close()
        if lease is not None:
            lease.release()
        if staging is not None:
            try:
                staging.clear()
            except ConnectError as e:
                log.warning("%s. The next start clears it", e.message)


def _check_topic_not_recreated(tp: TopicPartition, end: int, log_end: int | None, table: str) -> None:
    if log_end is not None and end > log_end:
        raise ConnectError(
            f"table {table} holds {tp} up to offset {end}, but the topic ends at {log_end}: the topic was "
            "deleted and recreated. Stop the connector and reset its offsets over REST (DELETE /connectors/<name>/offsets) "
            "to read the new topic"
        )


def _check_no_gap(tp: TopicPartition, end: int, log_start: int, table: str) -> None:
    if end < log_start:
        raise ConnectError(
            f"table {table} holds {tp} up to offset {end}, but the topic begins at {log_start}: retention deleted "
            f"{log_start - end} records that were not written. To continue without them, stop the connector and set its offset "
            f"of the partition to {log_start} over REST (PATCH /connectors/<name>/offsets), then resume it"
        )
