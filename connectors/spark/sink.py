"""The sink: records come in, and become rows of tables, each once.

receive
    Records wait undecoded for others (``receiver``) and are decoded together into change batches, the only form from here on
    (:mod:`connectors.spark.decode`). Their tables are found (``table_router``). Those that cannot be decoded, or that name no
    table, are reported (``errant_records``).
queue
    Each table has a queue (``table_queue``). Its next commit starts when its oldest record is due (``timing``) and a thread is
    free (``commit_scheduler``). A table has one commit at a time.
commit
    :class:`~connectors.spark.tables.writer.TableWriter` plans the changes against what the table has
    (:mod:`connectors.spark.plan`), and writes rows and offsets in one commit (:mod:`connectors.spark.tables`). A commit that
    fails is repeated; if records do not fit the table, without them.
offsets
    The table knows which records it has, so a record that comes again is skipped (promise 6). The consumer group follows up to
    the first record that some table lacks (``partition_offsets``, promise 2).

The modules are in :mod:`connectors.spark.delivery`. Three drivers use the sink, each by its public methods: the worker's task
(:mod:`connectors.spark.task`), the jobs of Spark's executors, which write files instead of queueing records
(:mod:`connectors.spark.executors.engine`), and a stream from a spool (:mod:`connectors.spark.datasource.tables`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

from connect.converters.api import Converter
from connect.metrics import Metric
from connect.record import RawBatch, SinkRecord, TopicPartition
from connect.sink import Offsets, RawRecord
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.config import SparkSinkConfig
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.decode.tolerant_decoding import DecodedTopic
from connectors.spark.decode.topic_decoder import TopicDecoder
from connectors.spark.delivery.commit_scheduler import BufferLimits, CommitScheduler
from connectors.spark.delivery.errant_records import SparkErrantRecords, UnroutedReports
from connectors.spark.delivery.metrics import table_metrics, table_progress
from connectors.spark.delivery.partition_offsets import PartitionOffsets
from connectors.spark.delivery.receiver import RecordReceiver
from connectors.spark.delivery.segment import Arrival
from connectors.spark.delivery.sink_tables import SinkTables
from connectors.spark.delivery.table_queue import TableQueue
from connectors.spark.delivery.timing import quantiles
from connectors.spark.delivery.topic_decoders import TopicDecoders

_JOIN_S = 60.0


class TableSink:
    """Used on one thread, except where a method says otherwise."""

    def __init__(
        self,
        config: SparkSinkConfig,
        owner: str,
        tables: SinkTables,
        converters: tuple[Converter, Converter],
        errant_records: SparkErrantRecords,
        clock: Callable[[], float],
    ) -> None:
        """``owner`` names the threads."""
        self.tables = tables
        self._clock = clock
        self._errant_records = errant_records
        self._limits = BufferLimits(config.commit_max_records, config.commit_max_bytes)
        self._offsets = PartitionOffsets()
        self.decoders = TopicDecoders(config, *converters, tables.columns_of_topic)
        self._reports = UnroutedReports(self._offsets)
        self._receiver = RecordReceiver(
            self._offsets, self.decoders, errant_records, self.receive_changes, clock, config.commit_max_records
        )
        self._scheduler = CommitScheduler(owner, tables, self._offsets, self._limits, self._refuse, clock)
        self._skips = 0

    # -- receive

    def receive_raw(self, batches: Iterable[RawBatch]) -> None:
        """Takes undecoded records, each of a partition."""
        for batch in batches:
            self._receiver.add_raw(batch)

    def receive(self, records: Sequence[SinkRecord]) -> None:
        """Takes records of the worker's converters. After a RetriableError, it has taken none of them."""
        self._receiver.add_records(records)

    def receive_changes(self, decoded: Sequence[DecodedTopic], arrival: Arrival) -> None:
        """Takes records that were decoded together, and those that could not be decoded: finds their tables, and queues them.
        What goes to one table is committed together, because its offsets overlap."""
        by_table: dict[str, list[ChangeBatch]] = {}
        refused: dict[str, tuple[list[BadRecord], list[Future[None]]]] = {}
        for one in decoded:
            routed, unnamed = self.tables.router.route(one.topic, one.changes)
            for table, changes in routed:
                by_table.setdefault(table, []).append(changes)
            bad_records = [*one.bad_records, *unnamed]
            if not bad_records:
                continue
            reports = [*self._errant_records.refuse(one.bad_records), *self._refuse(unnamed)]
            # The tables' commits cover the offsets of bad records so that they are not reported again.
            tables = self.tables.of_topic(one.topic)
            for table in tables:
                of_table = refused.setdefault(table, ([], []))
                of_table[0].extend(bad_records)
                of_table[1].extend(reports)
            if not tables:
                self._reports.add(bad_records, reports)
        for table in sorted(by_table.keys() | refused.keys()):
            self._scheduler.add(table, by_table.get(table, []), *refused.get(table, ([], [])), arrival)

    def decoder(self, topic: str) -> TopicDecoder:
        """Returns the decoder of a topic, for :meth:`receive_changes` of a driver that decodes in a way of its own."""
        return self.decoders.get(topic, topic)

    @property
    def received(self) -> int:
        """The number of records since the sink exists."""
        return self._receiver.received

    # -- queue

    @property
    def fill(self) -> float:
        """Which share of its buffer the sink uses, with what waits and what is being committed."""
        errant = self._errant_records
        size_bytes = self._receiver.size_bytes + self._scheduler.size_bytes + errant.kept_bytes
        return self._limits.share(self.buffered_records(), size_bytes, errant.kept_records)

    def advance(self, wait_s: float = 0.0) -> bool:
        """Does :meth:`collect`, and starts the commits that are due; if half of the buffer is used, others too."""
        has_collected = self.collect(wait_s)
        now, is_pressed = self._clock(), self.fill >= 0.5
        for topic, due_at in self._decode_times().items():
            # A commit takes along what has arrived so far.
            if is_pressed or due_at <= now or any(self._scheduler.is_startable(t, now) for t in self.tables.of_topic(topic)):
                self._receiver.decode(topic)
        self._scheduler.start_due(pressed=is_pressed)
        self._reports.release_durable()
        self._errant_records.release(self.committed)
        return has_collected

    def next_at(self) -> float | None:
        """Returns when to call :meth:`advance` again; None if nothing waits."""
        times = [*self._decode_times().values(), self._scheduler.next_at(), self._reports.next_at(self._clock())]
        return min((at for at in times if at is not None), default=None)

    def _decode_times(self) -> dict[str, float]:
        """When each topic's records must be decoded, for the commit of one of its tables."""
        return {topic: oldest_at + self.tables.wait_s(topic) for topic, oldest_at in self._receiver.oldest().items()}

    # -- commit

    def collect(self, wait_s: float = 0.0) -> bool:
        """Handles the commits that have ended, after waiting for one at most this long; returns whether there were any. Raises
        the errors that must fail the task."""
        return self._scheduler.collect(wait_s)

    def flush(self) -> None:
        """Commits all records. Blocks. Raises RetriableError if a table could not be committed now; its records wait again."""
        self._receiver.decode_all()
        try:
            self._scheduler.flush()
            self._reports.settle()
        finally:
            self._errant_records.release(self.committed)

    def _refuse(self, bad_records: Sequence[BadRecord]) -> list[Future[None]]:
        """Reports records that do not fit their table."""
        reports = self._errant_records.refuse(bad_records)
        # Types inferred from them are dropped too; the table has the types of the others.
        self.decoders.drop({bad.topic_partition.topic for bad in bad_records})
        return reports

    def refuse_read(self, records: Sequence[tuple[BadRecord, RawRecord]]) -> list[Future[None]]:
        """Reports records that the driver has read by itself; it waits for the reports before it commits (promise 7)."""
        return self._errant_records.refuse_read(records)

    # -- offsets

    def committed(self, partition: TopicPartition) -> int | None:
        """Promise 2: returns the offset up to which every table has its records; None before the first."""
        return self._offsets.committed(partition)

    def position(self, partition: TopicPartition) -> int | None:
        """Returns the offset after the last received record; None before the first."""
        return self._offsets.position(partition)

    def positions(self) -> Offsets:
        """Returns those of all partitions that have one."""
        return self._offsets.positions()

    def continue_from(self, offsets: Offsets) -> None:
        """Records are received from these offsets on; their tables have those below."""
        for partition, offset in offsets.items():
            self._offsets.seek(partition, offset)

    def skip_to(self, offsets: Offsets) -> None:
        """The driver has committed the records below these offsets by itself."""
        self.continue_from(offsets)
        self._errant_records.release(self.committed)
        self._skips += 1

    @property
    def moves(self) -> int:
        """How often :meth:`committed` may have moved."""
        return self._scheduler.commits + self._skips

    # -- partitions

    def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """The sink gets partitions. Waits for running commits of their tables, which can then be read."""
        self._scheduler.wait_for({table for tp in partitions for table in self.tables.of_topic(tp.topic)})
        self.tables.partitions |= set(partitions)

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """Drops the records of partitions that another task has."""
        self._receiver.discard(partitions)
        self._scheduler.discard(partitions)
        self.tables.partitions -= set(partitions)
        self._errant_records.forget(partitions)
        self._offsets.forget(partitions)

    # -- status, callable from any thread

    def buffered_records(self) -> int:
        """Returns the number of records that are not committed yet."""
        return self._receiver.records + self._scheduler.records

    def lag(self) -> dict[TopicPartition, int]:
        """Returns the number of received offsets that are not in all tables."""
        return self._offsets.lag()

    def latencies_ms(self) -> list[float]:
        """Returns those of the latest changes, from the commit in the source to the table commit."""
        return self._scheduler.latency.values()

    def progress(self) -> dict[str, Any]:
        """:meth:`connectors.spark.task.SparkSinkTask.progress` describes it."""
        return {
            "tables": {table.name: table_progress(table, self._pending_records(table)) for table in self.tables.queues()},
            "buffered": self.buffered_records(),
            "refused": self._errant_records.count,
            "ignored_tombstones": self.tables.router.ignored_tombstones,
            "unrouted": self.tables.router.unrouted,
            "latency_ms": quantiles(self.latencies_ms()),
        }

    def metrics(self) -> list[Metric]:
        """Returns those of the tables."""
        found: list[Metric] = []
        for table in self.tables.queues():
            found += table_metrics(table.name, table.progress, table.timing, self._pending_records(table))
        return found

    def _pending_records(self, table: TableQueue) -> int:
        """How many buffered records belong to a table, as far as known."""
        undecoded = self._receiver.records_by_topic().items()
        return table.records + sum(count for topic, count in undecoded if self.tables.is_only_table(table.name, topic))

    def close(self) -> None:
        """Waits for running commits, and ends all threads."""
        self._scheduler.close(_JOIN_S)
        self.tables.close()
