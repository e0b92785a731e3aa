"""The sink's task: takes batches, holds them as columns, and commits them to the tables when it is time."""

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
from connectors.spark.config import PARQUET, SparkSinkConfig, parse_config
from connectors.spark.decode.change_batch import DATABASE, PARTITION_ID, SCHEMA, TABLE, Changes
from connectors.spark.decode.raw_buffer import Raw
from connectors.spark.decode.tolerant_decoding import decode_good_raw, decode_good_records
from connectors.spark.decode.topic_decoder import TopicDecoder
from connectors.spark.errant_records import SparkErrantRecords
from connectors.spark.latency import Latency
from connectors.spark.tables.delta import DeltaTable
from connectors.spark.tables.parquet import ParquetTable
from connectors.spark.tables.staging import Staging, list_tables
from connectors.spark.tables.writer import Extents, TableWriter, widen

log = logging.getLogger(__name__)

TASK_KEY = "spark.sink.task"
# Decoding pays by the batch: enough records to spread its fixed cost, few enough that text and columns fit in memory together.
_DECODE_RECORDS = 50_000
_DECODE_BYTES = 32 << 20
_MOST_KEPT_RECORDS = 50_000
"""Decoded records are kept, if they may have to be reported, until they are in a table."""
_LONGEST_WAIT_S = 30.0
"""What is held is committed after this time, however much is still to come."""
_LONGEST_PACE_S = 5.0
_LOOK_AGAIN_S = 0.25


class SparkSinkTask(SinkTask):
    """Delivers exactly once: the tables know what they hold (promise 6), the consumer group follows them.

    Records that it has to refuse go the way of :mod:`connectors.spark.errant_records`; the others of their batch go on.
    """

    reports_raw = True

    def start(self, config: Mapping[str, str]) -> None:
        self._config = parse_config(config)
        self._staging = Staging(self._config.location, f"{self._config.connector}-{config.get(TASK_KEY, '0')}")
        self._lease = (
            None if self._config.table_format == PARQUET else session.lease(self._config.spark, merges=self._config.table.upserts)
        )
        self._refusals = SparkErrantRecords(self.context.errant_record_reporter, tolerant=config.get("errors.tolerance") == "all")
        # Where records were refused, until the tables' commits say so; by topic where a record's table cannot be told.
        self._left_out: dict[str, Extents] = {}
        self._left_out_of_topics: dict[str, Extents] = {}
        self._writers: dict[str, TableWriter] = {}
        self._decoders: dict[tuple[str, str], TopicDecoder] = {}
        self._partitions: set[TopicPartition] = set()
        self._raw: dict[str, Raw] = {}
        self._decoded: dict[str, list[Changes]] = {}
        self._records = 0
        self._bytes = 0
        self._raw_bytes = 0
        self._oldest: float | None = None
        self._records_before = 0
        self._commit_took_s = 0.0
        self._latency = Latency()
        self._sequence = 0
        self._position: dict[TopicPartition, int] = {}
        self._durable: dict[TopicPartition, int] = {}
        self._first: dict[TopicPartition, int] = {}
        self._log_ends: dict[TopicPartition, int] = {}
        self._tables_of: dict[str, set[str]] = {}
        self._found: dict[str, set[str]] | None = None
        self._staging.clear()

    def wants_raw(self) -> bool:
        """True when the bytes are JsonConverter's and nothing stands between them and the task."""
        return bool(self.context.raw_allowed) and all(
            type(c) is JsonConverter for c in (self.context.key_converter, self.context.value_converter)
        )

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Asks each partition's table where to go on (promise 6). Waits for Spark to be there."""
        self._partitions |= set(partitions)
        self._log_ends |= self.context.end_offsets(partitions)
        for topic in sorted({tp.topic for tp in partitions}):
            own = [tp for tp in partitions if tp.topic == topic]
            for table in sorted(self._tables_for(topic)):
                ends = self._writer(table).ledger(own).ends
                for tp in own:
                    if tp in ends:
                        self._refuse_topic_made_anew(tp, ends[tp], table)
                        # Where records name their tables, one that is not there yet may be owed what this one has. The group's
                        # offset is never ahead of any of them, and each skips what it has.
                        if not self._config.names_need_source:
                            self._continue_at(tp, ends[tp])

    def _tables_for(self, topic: str) -> set[str]:
        """The tables of a topic as far as they can be told: from its name, or from what lies below the location."""
        if not self._config.names_need_source:
            return {self._config.table_name(topic, None, None, None)}
        if self._found is None:
            self._found = {}
            for name in list_tables(self._config.location):
                for tp in self._writer(name).ledger(()).ends:
                    self._found.setdefault(tp.topic, set()).add(name)
            self._tables_of |= self._found
        return self._found.get(topic, set())

    def _refuse_topic_made_anew(self, tp: TopicPartition, end: int, table: str) -> None:
        log_end = self._log_ends.get(tp)
        if log_end is not None and end > log_end:
            raise ConnectError(
                f"table {table} holds {tp} up to offset {end}, but the topic ends at {log_end}: it was made anew. Stop the "
                "connector and reset its offsets over REST (DELETE /connectors/<name>/offsets) to read the new topic"
            )

    def _continue_at(self, tp: TopicPartition, end: int) -> None:
        self.context.offset({tp: end})
        self._position[tp] = end
        self._durable[tp] = end

    # -- taking records --------------------------------------------------------------------------------------------------

    def put_raw(self, batches: Sequence[RawBatch]) -> None:
        for batch in batches:
            self._take(batch)
        self._flush_if_due()

    def put(self, records: Sequence[SinkRecord]) -> None:
        by_topic: dict[tuple[str, str], list[SinkRecord]] = {}
        for record in records:
            tp = TopicPartition(record.original_topic, record.original_partition)
            position = self._position.get(tp)
            if position is not None and record.offset < position:
                continue  # held already, or in the table
            self._first.setdefault(tp, record.offset)
            self._position[tp] = record.offset + 1
            # A router may have renamed the topic: its name is the table's, but offsets are of where the record lay.
            by_topic.setdefault((record.original_topic, record.topic), []).append(record)
        for (origin, topic), chosen in by_topic.items():
            self._refusals.keep(chosen)
            decoded, refused = decode_good_records(self._decoder(origin, topic), chosen, self._sequence)
            self._refuse(topic, refused)
            self._sequence += len(chosen)
            self._hold(topic, decoded)
            self._count(len(chosen))
        self._flush_if_due()

    def _take(self, batch: RawBatch) -> None:
        if not len(batch):
            return
        tp = TopicPartition(batch.topic, batch.partition)
        offsets, keys, values = batch.offsets, batch.keys, batch.values
        position = self._position.get(tp)
        if position is not None and offsets[0] < position:
            # Given again after a retriable error, while what was given before is still held.
            first = next((i for i, o in enumerate(offsets) if o >= position), len(offsets))
            if first == len(offsets):
                return
            offsets, keys, values = offsets[first:], keys[first:], values[first:]
            headers = batch.headers and batch.headers[first:]
            batch = RawBatch(tp.topic, tp.partition, offsets, keys, values, batch.timestamps[first:], headers)
        self._first.setdefault(tp, offsets[0])
        self._position[tp] = offsets[-1] + 1
        raw = self._raw.get(batch.topic)
        if raw is None:
            raw = self._raw[batch.topic] = Raw(batch.topic)
        raw.partitions += [batch.partition] * len(offsets)
        raw.offsets += offsets
        raw.keys += keys
        raw.values += values
        self._count(len(offsets))
        size = sum(len(v) for v in values if v is not None)
        self._raw_bytes += size
        if self._refusals.keep_raw(batch):
            self._bytes += size
        if len(raw) >= _DECODE_RECORDS or self._raw_bytes >= _DECODE_BYTES:
            self._decode_held()

    def _count(self, records: int) -> None:
        self._records += records
        if self._oldest is None and records:
            self._oldest = time.monotonic()

    def _decode_held(self) -> None:
        for topic, raw in list(self._raw.items()):
            if len(raw):
                decoded, refused = decode_good_raw(self._decoder(topic, topic), raw, self._sequence)
                self._refuse(topic, refused)
                self._sequence += len(raw)
                self._hold(topic, decoded)
            del self._raw[topic]
        self._raw_bytes = 0

    def _refuse(self, topic: str, refused: Sequence[BadRecord]) -> None:
        """Reports records of a topic, or raises. They are done with when their reports are (promise 7)."""
        if self._config.names_need_source:
            extents = self._left_out_of_topics.setdefault(topic, {})
        else:
            extents = self._left_out.setdefault(self._config.table_name(topic, None, None, None), {})
        self._refuse_in(extents, refused)

    def _refuse_in(self, extents: Extents, refused: Sequence[BadRecord]) -> None:
        for place, offset, reason in refused:
            self._refusals.refuse(place, offset, reason)
            widen(extents, place, (offset, offset + 1))

    def _hold(self, topic: str, decoded: Sequence[Changes]) -> None:
        for changes in decoded:
            for table, part in self._by_table(topic, changes):
                self._decoded.setdefault(table, []).append(part)
            self._bytes += changes.image.nbytes + changes.meta.nbytes

    def _by_table(self, topic: str, changes: Changes) -> list[tuple[str, Changes]]:
        if not self._config.names_need_source:
            return [(self._config.table_name(topic, None, None, None), changes)]
        sources = changes.meta.group_by([DATABASE, SCHEMA, TABLE], use_threads=False).aggregate([]).to_pylist()
        found = []
        for source in sources:
            part = changes if len(sources) == 1 else changes.filter(_has_source(changes, source))
            try:
                name = self._name_of(topic, source)
            except ConfigError as e:
                self._refuse(topic, [BadRecord.of(*part.place(i), DataError(e.message)) for i in range(part.num_rows)])
                continue
            if name:
                found.append((name, part))
        return found

    def _name_of(self, topic: str, source: Mapping[str, str | None]) -> str | None:
        """The table of a source block. A record without one (a tombstone) belongs to its topic's only table, if it has one."""
        tables = self._tables_of.setdefault(topic, set())
        if all(value is None for value in source.values()) and tables:
            return next(iter(tables)) if len(tables) == 1 else None
        name = self._config.table_name(topic, source[DATABASE], source[SCHEMA], source[TABLE])
        tables.add(name)
        return name

    # -- committing ------------------------------------------------------------------------------------------------------

    def _flush_if_due(self) -> None:
        if self._oldest is None:
            return
        wait_s = self._wait_s()
        if wait_s > 0:
            self.context.timeout(max(1, int(wait_s * 1000)))
            return
        self._commit_held()
        self.context.request_commit()

    def _wait_s(self) -> float:
        """How long to go on collecting; 0 when it is time to commit."""
        config = self._config
        if self._refusals.kept_records >= _MOST_KEPT_RECORDS:
            return 0.0
        if self._records >= config.commit_max_records or self._bytes + self._raw_bytes >= config.commit_max_bytes:
            return 0.0
        age_s = time.monotonic() - (self._oldest or 0.0)
        # Commits must not take all the time there is, or the backlog grows.
        wait_s = max(config.commit_interval_ms / 1000, min(self._commit_took_s / 2, _LONGEST_PACE_S)) - age_s
        if wait_s > 0 or age_s >= _LONGEST_WAIT_S:
            return max(0.0, wait_s)
        # With more still to come than is held, freshness cannot be had anyway, and a larger commit costs hardly more.
        return _LOOK_AGAIN_S if self._behind() > self._records else 0.0

    def _behind(self) -> int:
        """Records in the topics that were not given to this task yet."""
        self._log_ends |= self.context.end_offsets(self._partitions)
        return sum(max(0, self._log_ends.get(tp, 0) - at) for tp, at in self._position.items())

    def _commit_held(self) -> None:
        """Brings everything held into the tables, each by its own commit. What fails stays held, and is tried again."""
        self._decode_held()
        began = time.monotonic()
        for table in dict.fromkeys([*self._decoded, *self._left_out, *self._tables_of_topics(self._left_out_of_topics)]):
            self._commit_table(table)
            # One table may be ahead of the next until the end of the loop; after a crash here each skips what it has.
            self._latency.observe(self._decoded.pop(table, ()), time.time() * 1000)
        self._refusals.settle()  # of topics that have no table yet
        self._refusals.release()
        self._left_out.clear()
        self._left_out_of_topics.clear()
        self._records = self._bytes = 0
        self._oldest = None
        self._commit_took_s = time.monotonic() - began
        self._durable.update(self._position)

    def _commit_table(self, table: str) -> None:
        writer = self._writer(table)
        while True:
            # Promise 7: the commit says that refused records are done with, so their reports come first.
            self._refusals.settle()
            held = self._decoded.get(table, [])
            try:
                writer.commit(held, self._partitions, self._left_out_of(table))
                return
            except DataError:
                kept, refused = writer.without_refused(held, self._partitions)
                if not refused:
                    raise
                self._refuse_in(self._left_out.setdefault(table, {}), refused)
                self._decoded[table] = kept
                # What they taught of types is forgotten with them; the table knows the rest.
                topics = {record.topic_partition.topic for record in refused}
                self._decoders = {key: d for key, d in self._decoders.items() if key[0] not in topics}

    def _tables_of_topics(self, topics: Collection[str]) -> set[str]:
        """The tables of these topics, as far as the records have named them."""
        return {table for topic in topics for table in self._tables_of.get(topic, ())}

    def _left_out_of(self, table: str) -> Extents:
        """The ranges of the table's topics in which records were refused."""
        found = dict(self._left_out.get(table, {}))
        for topic, extents in self._left_out_of_topics.items():
            if table in self._tables_of.get(topic, ()):
                for place, extent in extents.items():
                    widen(found, place, extent)
        return found

    def flush(self, offsets: Offsets) -> None:
        self._commit_held()

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """Promise 2: offsets up to which every table concerned has its records.

        Commits what is held when nothing more comes (the connector is paused, or ends); otherwise tables keep their own time.
        """
        if self._oldest is not None and self._records == self._records_before:
            self._commit_held()
        self._records_before = self._records
        return {tp: self._durable[tp] for tp in offsets if tp in self._durable}

    def close_partitions(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        """Commits what is held, or forgets it when the partitions have another owner already."""
        if lost:
            self._forget(set(partitions))
        else:
            self._commit_held()
        for tp in partitions:
            self._partitions.discard(tp)
            for known in (self._position, self._durable, self._first, self._log_ends):
                known.pop(tp, None)

    def _forget(self, lost: set[TopicPartition]) -> None:
        self._refusals.forget(lost)
        for topic, raw in self._raw.items():
            self._raw[topic] = raw.without_partitions({tp.partition for tp in lost if tp.topic == topic})
        for extents in (*self._left_out.values(), *self._left_out_of_topics.values()):
            for tp in lost:
                extents.pop(tp, None)
        for table, held in list(self._decoded.items()):
            kept = []
            for changes in held:
                gone = {tp.partition for tp in lost if tp.topic == changes.topic}
                mask = pc.invert(pc.is_in(changes.meta[PARTITION_ID], pa.array(sorted(gone), pa.int32())))
                kept.append(changes.filter(mask))
            self._decoded[table] = [c for c in kept if c.num_rows]
            if not self._decoded[table]:
                del self._decoded[table]

    # -- telling ---------------------------------------------------------------------------------------------------------

    def lag(self) -> dict[TopicPartition, int] | None:
        return {tp: max(0, at - self._durable.get(tp, self._first.get(tp, at))) for tp, at in list(self._position.items())}

    def progress(self) -> Mapping[str, Any]:
        """``tables``: per table rows written, commits, version, last_commit_ms (since 1970), commit_duration_ms, skipped
        (records that the table had already). ``buffered``: records held and not committed yet. ``refused``: records reported or
        left out since the task started. ``latency_ms``: p50 and p99 of the latest changes, from their commit in the source to
        the table's."""
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
            "refused": self._refusals.count,
            "latency_ms": self._latency.quantiles(),
        }

    def stop(self) -> None:
        """Nothing to do: a commit that runs is finished, for what it writes is exactly once anyway."""

    def close(self) -> None:
        staging, lease = getattr(self, "_staging", None), getattr(self, "_lease", None)
        if staging is not None:
            staging.clear()
        if lease is not None:
            lease.release()

    # -- parts -----------------------------------------------------------------------------------------------------------

    def _writer(self, table: str) -> TableWriter:
        writer = self._writers.get(table)
        if writer is None:
            writer = self._writers[table] = make_writer(self._config, table, self._lease, self._staging)
        return writer

    def _decoder(self, origin: str, topic: str) -> TopicDecoder:
        """The decoder of the records that lie in ``origin`` and go by the name of ``topic``."""
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
                names_wanted=config.names_need_source,
                keys_wanted=config.table.upserts,
            )
            tables = self._tables_for(topic)
            if len(tables) == 1:
                # A table that is there already says what its columns are; values without schema are read as that.
                known = self._writer(next(iter(tables))).columns()
                if known:
                    decoder.value_shape.pin({n: t for n, t in known.items() if n not in config.table.metadata_columns})
        return decoder


def _has_source(changes: Changes, source: Mapping[str, str | None]) -> pa.ChunkedArray:
    """Which changes have these members in their source block."""
    mask = None
    for column, value in source.items():
        same = pc.is_null(changes.meta[column]) if value is None else pc.equal(changes.meta[column], pa.scalar(value))
        mask = pc.fill_null(same, False) if mask is None else pc.and_(mask, pc.fill_null(same, False))
    return mask


def make_writer(config: SparkSinkConfig, table: str, lease: session.Lease | None, staging: Staging) -> TableWriter:
    """The writer of one table, by the configured format."""
    path = f"{config.location}/{table}"
    target: DeltaTable | ParquetTable
    if lease is None:
        target = ParquetTable(path, config.connector)
        target.clear_drafts()
    else:
        target = DeltaTable(lease.session(), path, config.connector, table)
    return TableWriter(table, config.table, config.connector, target, staging)


_PROBE = b'{"schema":{"type":"int32","optional":true,"default":1},"payload":null}'


def _has_schemas(converter: Converter) -> bool:
    """Whether the converter's messages are ``{"schema":...,"payload":...}``: seen from one, for it has no word for it."""
    return (converter.from_connect_data("probe", Schema.STRING, "") or b"").startswith(b'{"schema":')


def _fills_defaults(converter: Converter) -> bool:
    """Whether a null becomes its field's default when it is read (``replace.null.with.default``)."""
    return _has_schemas(converter) and converter.to_connect_data("probe", _PROBE).value is not None
