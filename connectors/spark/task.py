"""The sink task: buffers batches as columns and commits them to the tables."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connect.converters.api import Converter
from connect.converters.json.converter import JsonConverter
from connect.data.schema import Schema
from connect.errors import ConfigError, ConnectError, DataError
from connect.record import RawBatch, SinkRecord, TopicPartition
from connect.sink import Offsets, SinkTask
from connectors.sink_support.errant_records import BadRecord
from connectors.spark import session
from connectors.spark.config import PARQUET, SEQ, SparkSinkConfig, parse_config
from connectors.spark.decode.change_batch import DATABASE, PARTITION_ID, SCHEMA, TABLE, ChangeBatch
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.tolerant_decoding import decode_raw_tolerantly, decode_records_tolerantly
from connectors.spark.decode.topic_decoder import TopicDecoder
from connectors.spark.errant_records import SparkErrantRecords
from connectors.spark.latency import Latency
from connectors.spark.tables.delta import DeltaTable
from connectors.spark.tables.offset_ranges import OffsetRanges, include_range
from connectors.spark.tables.parquet import ParquetTable
from connectors.spark.tables.staging import Staging, list_tables
from connectors.spark.tables.writer import TableWriter

log = logging.getLogger(__name__)

TASK_KEY = "spark.sink.task"
# Large batches spread the fixed cost of decoding; text and columns of one batch must fit in memory together.
_DECODE_RECORDS = 50_000
_DECODE_BYTES = 32 << 20
_MAX_RETAINED_RECORDS = 50_000
"""Decoded records that may have to be reported are retained until they are in a table."""
_MAX_WAIT_S = 30.0
"""Buffered records are committed after this time, however large the backlog is."""
_MAX_PACE_S = 5.0
_RECHECK_INTERVAL_S = 0.25


# Large class: it is split into buffering, routing and committing when the sink is redesigned.
class SparkSinkTask(SinkTask):
    """Delivers exactly once: the tables are the source of truth for offsets (promise 6), and the consumer group follows them.

    Bad records are handled by :mod:`connectors.spark.errant_records`; the other records of their batch are written.
    """

    reports_raw = True

    def start(self, config: Mapping[str, str]) -> None:
        self._config = parse_config(config)
        self._staging = Staging(self._config.location, f"{self._config.connector}-{config.get(TASK_KEY, '0')}")
        self._lease = (
            None if self._config.table_format == PARQUET else session.lease(self._config.spark, merges=self._config.table.upserts)
        )
        self._errant_records = SparkErrantRecords(
            self.context.errant_record_reporter, tolerant=config.get("errors.tolerance") == "all"
        )
        # Offsets of bad records that no table commit includes yet, by table; by topic if the record's table is unknown.
        self._excluded: dict[str, OffsetRanges] = {}
        self._excluded_by_topic: dict[str, OffsetRanges] = {}
        self._writers: dict[str, TableWriter] = {}
        self._decoders: dict[tuple[str, str], TopicDecoder] = {}
        self._partitions: set[TopicPartition] = set()
        self._raw_buffers: dict[str, RawBuffer] = {}
        self._decoded: dict[str, list[ChangeBatch]] = {}
        self._records = 0
        self._bytes = 0
        self._raw_bytes = 0
        self._oldest_at: float | None = None
        self._records_before = 0
        self._commit_took_s = 0.0
        self._latency = Latency()
        self._next_sequence = 0
        self._positions: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._first_offsets: dict[TopicPartition, int] = {}
        self._log_ends: dict[TopicPartition, int] = {}
        self._tables_by_topic: dict[str, set[str]] = {}
        self._tables_on_disk: dict[str, set[str]] | None = None
        self._staging.clear()

    def wants_raw(self) -> bool:
        """True when JsonConverter reads key and value and no transformation needs decoded records."""
        return bool(self.context.raw_allowed) and all(
            type(c) is JsonConverter for c in (self.context.key_converter, self.context.value_converter)
        )

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Seeks each partition to the offset that its table contains (promise 6). Waits for Spark to start."""
        self._partitions |= set(partitions)
        self._log_ends |= self.context.end_offsets(partitions)
        for topic in sorted({tp.topic for tp in partitions}):
            own = [tp for tp in partitions if tp.topic == topic]
            for table in sorted(self._tables_for(topic)):
                ends = self._writer(table).committed_offsets(own).ends
                for tp in own:
                    if tp in ends:
                        self._check_topic_not_recreated(tp, ends[tp], table)
                        # If records name their tables, a table that does not exist yet may need records that this one has.
                        # The group's offset is never ahead of any table, and each table skips what it has.
                        if not self._config.names_need_source:
                            self._seek(tp, ends[tp])

    def _tables_for(self, topic: str) -> set[str]:
        """The known tables of a topic: from its name, or from the tables below the location."""
        if not self._config.names_need_source:
            return {self._config.table_name(topic, None, None, None)}
        if self._tables_on_disk is None:
            self._tables_on_disk = {}
            for name in list_tables(self._config.location):
                for tp in self._writer(name).committed_offsets(()).ends:
                    self._tables_on_disk.setdefault(tp.topic, set()).add(name)
            self._tables_by_topic |= self._tables_on_disk
        return self._tables_on_disk.get(topic, set())

    def _check_topic_not_recreated(self, tp: TopicPartition, end: int, table: str) -> None:
        log_end = self._log_ends.get(tp)
        if log_end is not None and end > log_end:
            raise ConnectError(
                f"table {table} holds {tp} up to offset {end}, but the topic ends at {log_end}: the topic was "
                "deleted and recreated. Stop the connector and reset its offsets over REST (DELETE /connectors/<name>/offsets) "
                "to read the new topic"
            )

    def _seek(self, tp: TopicPartition, end: int) -> None:
        self.context.offset({tp: end})
        self._positions[tp] = end
        self._committed[tp] = end

    # -- receiving records ---------------------------------------------------------------------------------------------

    def put_raw(self, batches: Sequence[RawBatch]) -> None:
        for batch in batches:
            self._add_batch(batch)
        self._flush_if_due()

    def put(self, records: Sequence[SinkRecord]) -> None:
        by_topic: dict[tuple[str, str], list[SinkRecord]] = {}
        for record in records:
            tp = TopicPartition(record.original_topic, record.original_partition)
            position = self._positions.get(tp)
            if position is not None and record.offset < position:
                continue  # already buffered or in the table
            self._first_offsets.setdefault(tp, record.offset)
            self._positions[tp] = record.offset + 1
            # A router may have renamed the topic: the new name names the table, but offsets belong to the original topic.
            by_topic.setdefault((record.original_topic, record.topic), []).append(record)
        for (origin, topic), chosen in by_topic.items():
            self._errant_records.keep(chosen)
            decoded, bad_records = decode_records_tolerantly(self._decoder(origin, topic), chosen, self._next_sequence)
            self._report_bad_records(topic, bad_records)
            self._next_sequence += len(chosen)
            self._buffer_decoded(topic, decoded)
            self._count_buffered(len(chosen))
        self._flush_if_due()

    def _add_batch(self, batch: RawBatch) -> None:
        if not len(batch):
            return
        tp = TopicPartition(batch.topic, batch.partition)
        offsets, keys, values = batch.offsets, batch.keys, batch.values
        position = self._positions.get(tp)
        if position is not None and offsets[0] < position:
            # Redelivered after a retriable error while the first delivery is still buffered.
            first = next((i for i, o in enumerate(offsets) if o >= position), len(offsets))
            if first == len(offsets):
                return
            offsets, keys, values = offsets[first:], keys[first:], values[first:]
            headers = batch.headers and batch.headers[first:]
            batch = RawBatch(tp.topic, tp.partition, offsets, keys, values, batch.timestamps[first:], headers)
        self._first_offsets.setdefault(tp, offsets[0])
        self._positions[tp] = offsets[-1] + 1
        raw = self._raw_buffers.get(batch.topic)
        if raw is None:
            raw = self._raw_buffers[batch.topic] = RawBuffer(batch.topic)
        raw.partitions += [batch.partition] * len(offsets)
        raw.offsets += offsets
        raw.keys += keys
        raw.values += values
        self._count_buffered(len(offsets))
        size = sum(len(v) for v in values if v is not None)
        self._raw_bytes += size
        if self._errant_records.keep_raw(batch):
            self._bytes += size
        if len(raw) >= _DECODE_RECORDS or self._raw_bytes >= _DECODE_BYTES:
            self._decode_buffered()

    def _count_buffered(self, records: int) -> None:
        self._records += records
        if self._oldest_at is None and records:
            self._oldest_at = time.monotonic()

    def _decode_buffered(self) -> None:
        for topic, raw in list(self._raw_buffers.items()):
            if len(raw):
                decoded, bad_records = decode_raw_tolerantly(self._decoder(topic, topic), raw, self._next_sequence)
                self._report_bad_records(topic, bad_records)
                self._next_sequence += len(raw)
                self._buffer_decoded(topic, decoded)
            del self._raw_buffers[topic]
        self._raw_bytes = 0

    def _report_bad_records(self, topic: str, bad_records: Sequence[BadRecord]) -> None:
        """Reports bad records of a topic, or raises. Their offsets may be committed after the reports are durable (promise 7)."""
        if self._config.names_need_source:
            ranges = self._excluded_by_topic.setdefault(topic, {})
        else:
            ranges = self._excluded.setdefault(self._config.table_name(topic, None, None, None), {})
        self._report_and_exclude(ranges, bad_records)

    def _report_and_exclude(self, ranges: OffsetRanges, bad_records: Sequence[BadRecord]) -> None:
        for topic_partition, offset, reason in bad_records:
            self._errant_records.refuse(topic_partition, offset, reason)
            include_range(ranges, topic_partition, (offset, offset + 1))

    def _buffer_decoded(self, topic: str, decoded: Sequence[ChangeBatch]) -> None:
        for changes in decoded:
            for table, part in self._split_by_table(topic, changes):
                self._decoded.setdefault(table, []).append(part)
            self._bytes += changes.image.nbytes + changes.meta.nbytes

    def _split_by_table(self, topic: str, changes: ChangeBatch) -> list[tuple[str, ChangeBatch]]:
        if not self._config.names_need_source:
            return [(self._config.table_name(topic, None, None, None), changes)]
        sources = changes.meta.group_by([DATABASE, SCHEMA, TABLE], use_threads=False).aggregate([]).to_pylist()
        found = []
        for source in sources:
            part = changes if len(sources) == 1 else changes.filter(_has_source(changes, source))
            try:
                name = self._table_name_for(topic, source)
            except ConfigError as e:
                self._report_bad_records(
                    topic, [BadRecord.of(*part.location(i), DataError(e.message)) for i in range(part.num_rows)]
                )
                continue
            if name:
                found.append((name, part))
        return found

    def _table_name_for(self, topic: str, source: Mapping[str, str | None]) -> str | None:
        """The table name for a source block. A record without one (a tombstone) belongs to its topic's only table."""
        tables = self._tables_by_topic.setdefault(topic, set())
        if all(value is None for value in source.values()) and tables:
            return next(iter(tables)) if len(tables) == 1 else None
        name = self._config.table_name(topic, source[DATABASE], source[SCHEMA], source[TABLE])
        tables.add(name)
        return name

    # -- committing ----------------------------------------------------------------------------------------------------

    def _flush_if_due(self) -> None:
        if self._oldest_at is None:
            return
        wait_s = self._wait_s()
        if wait_s > 0:
            self.context.timeout(max(1, int(wait_s * 1000)))
            return
        self._commit_buffered()
        self.context.request_commit()

    def _wait_s(self) -> float:
        """How long to keep buffering; 0 when a commit is due."""
        config = self._config
        if self._errant_records.kept_records >= _MAX_RETAINED_RECORDS:
            return 0.0
        if self._records >= config.commit_max_records or self._bytes + self._raw_bytes >= config.commit_max_bytes:
            return 0.0
        age_s = time.monotonic() - (self._oldest_at or 0.0)
        # If commits took all the time, the backlog would grow.
        wait_s = max(config.commit_interval_ms / 1000, min(self._commit_took_s / 2, _MAX_PACE_S)) - age_s
        if wait_s > 0 or age_s >= _MAX_WAIT_S:
            return max(0.0, wait_s)
        # With a backlog larger than the buffer, freshness is lost anyway, and a larger commit costs hardly more.
        return _RECHECK_INTERVAL_S if self._records_behind() > self._records else 0.0

    def _records_behind(self) -> int:
        """Number of records in the topics that this task has not received yet."""
        self._log_ends |= self.context.end_offsets(self._partitions)
        return sum(max(0, self._log_ends.get(tp, 0) - at) for tp, at in self._positions.items())

    def _commit_buffered(self) -> None:
        """Writes all buffered records, one commit per table. After a failure they stay buffered and are retried."""
        self._decode_buffered()
        started_at = time.monotonic()
        for table in dict.fromkeys([*self._decoded, *self._excluded, *self._tables_of_topics(self._excluded_by_topic)]):
            self._commit_table(table)
            # Until the loop ends, some tables are ahead of others; after a crash here, each skips what it has.
            self._latency.observe(self._decoded.pop(table, ()), time.time() * 1000)
        self._errant_records.settle()  # reports of topics that have no table yet
        self._errant_records.release()
        self._excluded.clear()
        self._excluded_by_topic.clear()
        self._records = self._bytes = 0
        self._oldest_at = None
        self._commit_took_s = time.monotonic() - started_at
        self._committed.update(self._positions)

    def _commit_table(self, table: str) -> None:
        writer = self._writer(table)
        while True:
            # Promise 7: the commit covers the offsets of bad records, so their reports must be durable first.
            self._errant_records.settle()
            batches = self._decoded.get(table, [])
            try:
                writer.commit(batches, self._partitions, self._excluded_ranges(table))
                return
            except DataError:
                good, bad_records = writer.split_bad_records(batches, self._partitions)
                if not bad_records:
                    raise
                self._report_and_exclude(self._excluded.setdefault(table, {}), bad_records)
                self._decoded[table] = good
                # Types inferred from them are dropped too; the table has the types of the others.
                topics = {record.topic_partition.topic for record in bad_records}
                self._decoders = {key: d for key, d in self._decoders.items() if key[0] not in topics}

    def _tables_of_topics(self, topics: Collection[str]) -> set[str]:
        """The tables that records of these topics have named so far."""
        return {table for topic in topics for table in self._tables_by_topic.get(topic, ())}

    def _excluded_ranges(self, table: str) -> OffsetRanges:
        """The offset ranges of bad records in the table's topics."""
        found = dict(self._excluded.get(table, {}))
        for topic, ranges in self._excluded_by_topic.items():
            if table in self._tables_by_topic.get(topic, ()):
                for topic_partition, offset_range in ranges.items():
                    include_range(found, topic_partition, offset_range)
        return found

    def flush(self, offsets: Offsets) -> None:
        self._commit_buffered()

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """Promise 2: the offsets up to which every affected table has its records.

        Commits buffered records when none have arrived since the last call (the connector is paused or stopping); otherwise
        the tables' commit interval applies.
        """
        if self._oldest_at is not None and self._records == self._records_before:
            self._commit_buffered()
        self._records_before = self._records
        return {tp: self._committed[tp] for tp in offsets if tp in self._committed}

    def close_partitions(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        """Commits buffered records, or discards them when the partitions already have another owner."""
        if lost:
            self._discard(set(partitions))
        else:
            self._commit_buffered()
        for tp in partitions:
            self._partitions.discard(tp)
            for known in (self._positions, self._committed, self._first_offsets, self._log_ends):
                known.pop(tp, None)

    def _discard(self, lost: set[TopicPartition]) -> None:
        self._errant_records.forget(lost)
        for topic, raw in self._raw_buffers.items():
            self._raw_buffers[topic] = raw.without_partitions({tp.partition for tp in lost if tp.topic == topic})
        for ranges in (*self._excluded.values(), *self._excluded_by_topic.values()):
            for tp in lost:
                ranges.pop(tp, None)
        for table, batches in list(self._decoded.items()):
            good = []
            for changes in batches:
                removed = {tp.partition for tp in lost if tp.topic == changes.topic}
                mask = pc.invert(pc.is_in(changes.meta[PARTITION_ID], pa.array(sorted(removed), pa.int32())))
                good.append(changes.filter(mask))
            self._decoded[table] = [c for c in good if c.num_rows]
            if not self._decoded[table]:
                del self._decoded[table]

    # -- status --------------------------------------------------------------------------------------------------------

    def lag(self) -> dict[TopicPartition, int] | None:
        return {
            tp: max(0, at - self._committed.get(tp, self._first_offsets.get(tp, at))) for tp, at in list(self._positions.items())
        }

    def progress(self) -> Mapping[str, Any]:
        """``tables``: per table rows written, commits, version, last_commit_ms (since 1970), commit_duration_ms, skipped
        (records that the table already had). ``buffered``: records not committed yet. ``refused``: records reported or skipped
        since the task started. ``latency_ms``: p50 and p99 of the latest changes, from the commit in the source to the table
        commit."""
        tables = {
            name: {
                "rows": w.progress.rows,
                "commits": w.progress.commits,
                "version": w.progress.version,
                "last_commit_ms": w.progress.last_commit_ms,
                "commit_duration_ms": w.progress.commit_duration_ms,
                "skipped": w.progress.skipped,
            }
            for name, w in list(self._writers.items())
        }
        return {
            "tables": tables,
            "buffered": self._records,
            "refused": self._errant_records.count,
            "latency_ms": self._latency.quantiles(),
        }

    def stop(self) -> None:
        """Does nothing: a running commit finishes, and its records count once either way."""

    def close(self) -> None:
        staging, lease = getattr(self, "_staging", None), getattr(self, "_lease", None)
        if staging is not None:
            staging.clear()
        if lease is not None:
            lease.release()

    # -- writers and decoders ------------------------------------------------------------------------------------------

    def _writer(self, table: str) -> TableWriter:
        writer = self._writers.get(table)
        if writer is None:
            writer = self._writers[table] = make_writer(self._config, table, self._lease, self._staging)
        return writer

    def _decoder(self, origin: str, topic: str) -> TopicDecoder:
        """The decoder of records from topic ``origin`` that a transformation may have renamed to ``topic``."""
        decoder = self._decoders.get((origin, topic))
        if decoder is None:
            config = self._config
            keys = config.table.key_columns
            decoder = self._decoders[origin, topic] = TopicDecoder(
                origin,
                self.context.key_converter,
                self.context.value_converter,
                key_schemas=_has_schemas(self.context.key_converter),
                value_schemas=_has_schemas(self.context.value_converter),
                fill_defaults=_fills_defaults(self.context.value_converter),
                key_name=keys[0] if len(keys) == 1 else None,
                needs_names=config.names_need_source,
                needs_keys=config.table.upserts,
                needs_position=config.table.upserts or SEQ in config.table.metadata_columns,
            )
            tables = self._tables_for(topic)
            if len(tables) == 1:
                # Values without a schema are read with the types of the existing table.
                known = self._writer(next(iter(tables))).columns()
                if known:
                    decoder.inferred_value_schema.set_types(
                        {n: t for n, t in known.items() if n not in config.table.metadata_columns}
                    )
        return decoder


def _has_source(changes: ChangeBatch, source: Mapping[str, str | None]) -> pa.ChunkedArray:
    """Mask of the changes whose source block has these values."""
    mask = None
    for column, value in source.items():
        same = pc.is_null(changes.meta[column]) if value is None else pc.equal(changes.meta[column], pa.scalar(value))
        mask = pc.fill_null(same, False) if mask is None else pc.and_(mask, pc.fill_null(same, False))
    return mask


def make_writer(config: SparkSinkConfig, table: str, lease: session.Lease | None, staging: Staging) -> TableWriter:
    """Creates the writer of one table in the configured format."""
    path = f"{config.location}/{table}"
    target: DeltaTable | ParquetTable
    if lease is None:
        target = ParquetTable(path, config.connector)
        target.delete_drafts()
    else:
        target = DeltaTable(lease.session(), path, config.connector, table)
    return TableWriter(table, config.table, config.connector, target, staging)


_PROBE = b'{"schema":{"type":"int32","optional":true,"default":1},"payload":null}'


def _has_schemas(converter: Converter) -> bool:
    """Whether the converter's messages are ``{"schema":...,"payload":...}``; found out from a message, as it has no property."""
    return (converter.from_connect_data("probe", Schema.STRING, "") or b"").startswith(b'{"schema":')


def _fills_defaults(converter: Converter) -> bool:
    """Whether the converter replaces a null by the field's default (``replace.null.with.default``)."""
    return _has_schemas(converter) and converter.to_connect_data("probe", _PROBE).value is not None
