"""Writes the records of a stream to tables, as the Spark sink does: one stream fills all tables of a database.

A table commit has the numbers of its rows in the spool, like a commit of the sink has the offsets of its records. So a batch that
Spark repeats changes nothing, even if only some of its tables were committed before (promise 6).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from connect.converters.json.converter import REPLACE_NULL, JsonConverter
from connect.errors import ConfigError, ConnectError
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connect.spool.reader import SpoolReader, SpoolSlice
from connect.spool.segments import count_values
from connectors.spark.config import SparkSinkConfig, parse_config
from connectors.spark.config_keys import DELTA, PARQUET
from connectors.spark.datasource.bounds import BOUNDS, slices_between
from connectors.spark.datasource.options import BOUNDS as BOUNDS_OPTION
from connectors.spark.datasource.options import PLACEHOLDER, parse_options
from connectors.spark.datasource.spool_decoder import SpoolDecoder
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.decode.raw_buffer import RawBuffer, RawHeaders
from connectors.spark.delivery.latency import Latency
from connectors.spark.delivery.maintenance_thread import MaintenanceThread
from connectors.spark.delivery.table_router import TableRouter
from connectors.spark.delivery.topic_decoders import TopicDecoders
from connectors.spark.plan.evolution import Columns
from connectors.spark.session.attached import open_session
from connectors.spark.tables.application_ids import Identify, OtherTopicError
from connectors.spark.tables.open_table import make_writer
from connectors.spark.tables.staging import Staging
from connectors.spark.tables.writer import TableWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NEEDED = ("topic", "partition", "offset", "key", "value", "headers")
_DECODE_ROWS = 20_000
"""How many rows of a topic are decoded together: their texts and columns must fit in memory."""
_COMMIT_BYTES = 64 << 20
"""The size of segments from which their rows are committed, whatever the size of the batch."""


class SpoolTables:
    """Tables that a stream of records fills; :meth:`write` is the function for ``foreachBatch``.

    ::

        with SpoolTables(spark, source, {"table.location": "/data/lake", "write.mode": "upsert"}) as tables:
            batches = tables.stream().writeStream.foreachBatch(tables.write)
            batches.option("checkpointLocation", directory).start().awaitTermination()

    ``source`` are the options of the stream. Each of ``sinks`` is the configuration of a Spark sink
    (``docs/reference/spark-sink.md``), whose ``topics`` or ``topics.regex`` choose its records; without them, it gets all. The
    tables of ``spark`` are written in sessions of their own. One query uses it, from one thread at a time.

    Raises ConfigError for configurations that cannot work.
    """

    def __init__(self, spark: SparkSession, source: Mapping[str, str], *sinks: Mapping[str, str]) -> None:
        if getattr(spark, "_jsparkSession", None) is None:
            raise ConfigError("Tables are written through the JVM of a session, which Spark Connect does not reach")
        if not sinks:
            raise ConfigError("Give the configuration of at least one sink, with table.location")
        self._spark = spark
        self._source = source
        options = parse_options(source)
        if options.table is not None:
            raise ConfigError.invalid("table", options.table, "SpoolTables writes all tables; choose them with topics of a sink")
        self._spool = options.spool.location
        self._reader = SpoolReader(self._spool)
        self._sinks = [_Sink(spark, {PLACEHOLDER: options.unavailable, **given}, self._identify) for given in sinks]
        names = [sink.config.connector for sink in self._sinks]
        if len(set(names)) < len(names):
            raise ConfigError(
                f"Each sink needs a name of its own, under which tables store offsets; these are {', '.join(names)}"
            )
        self._identity: TopicIdentity | None = None
        self._events = 0
        self._latency = Latency()
        self._maintenance = MaintenanceThread("spool-tables-maintenance", self._writers)
        self._is_maintained = False

    def stream(self) -> DataFrame:
        """Returns the stream to write. Its batches say where their rows are; this process reads them from the spool, with values
        as columns where possible (``docs/spark-data-source.md``)."""
        return self._spark.readStream.format("sluice").options(**self._source, **{BOUNDS_OPTION: "true"}).load()

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Writes a batch of :meth:`stream`. Blocks; durable on return. A repeated batch changes nothing.

        ``batch`` may also have the columns of records, of a stream that Spark has filtered, for example. Such rows are collected
        in the driver, so limit them with ``maxRowsPerTrigger``. Raises DataError that names the record that cannot be written,
        and ConnectError with cause and table.
        """
        if batch.columns == BOUNDS.names:
            for row in batch.toArrow().to_pylist():
                self._write_slices(slices_between(self._reader, row))
            return
        missing = [name for name in _NEEDED if name not in batch.columns]
        if missing:
            raise ConfigError(
                f"The batch has no column {missing[0]}: write that of SpoolTables.stream(), or records with all their columns"
            )
        self._write_records(batch.select(*_NEEDED).toArrow())

    def _write_records(self, rows: pa.Table) -> None:
        for topic in sorted(pc.unique(rows["topic"]).to_pylist()):
            of_topic = rows.filter(pc.equal(rows["topic"], topic)).sort_by("offset")
            for sink in self._sinks_of(topic):
                self._commit(sink, sink.decode_records(topic, of_topic))
        self._events += rows.num_rows - rows["value"].null_count

    def _write_slices(self, slices: Sequence[SpoolSlice]) -> None:
        """Writes rows of the spool, with a commit to a table for some of its segments."""
        waiting: list[SpoolSlice] = []
        for one in slices:
            waiting.append(one)
            if sum(part.size_bytes for part in waiting) >= _COMMIT_BYTES:
                self._commit_slices(waiting)
                waiting = []
        self._commit_slices(waiting)

    def _commit_slices(self, slices: Sequence[SpoolSlice]) -> None:
        stored = [(one.entry.first_row + one.first, one.read(self._reader.directory)) for one in slices]
        topics = {topic for one in slices for topic in one.entry.topics}
        for topic in sorted(topics):
            for sink in self._sinks_of(topic):
                changes = (
                    routed
                    for first_row, rows in stored
                    for routed in sink.decode_rows(topic, rows, first_row, self._reader.schemas)
                )
                self._commit(sink, changes)
        for _, rows in stored:
            self._events += count_values(rows)

    def _sinks_of(self, topic: str) -> list[_Sink]:
        return [sink for sink in self._sinks if sink.takes(topic)]

    def _commit(self, sink: _Sink, changes: Iterable[tuple[str, ChangeBatch]]) -> None:
        if not self._is_maintained:
            self._maintenance.start()
            self._is_maintained = True
        by_table: dict[str, list[ChangeBatch]] = {}
        for table, batch in changes:
            by_table.setdefault(table, []).append(batch)
        for table, found in by_table.items():
            try:
                sink.commit(table, found)
            except OtherTopicError as e:
                raise ConnectError(
                    f"table {table} at {sink.config.location} has rows of another spool than {self._spool}, or of Kafka: use "
                    "that spool, or delete the table, or write to another table.location"
                ) from e
            self._latency.observe(found, time.time() * 1000)

    def progress(self) -> dict[str, Any]:
        """Returns figures since this object exists; callable from any thread.

        ``tables``: by name, rows, commits, and version. ``events``: records with a value. ``latency_ms``: p50 and p99 from the
        commit in the source to the table commit; None before the first change.
        """
        tables = {
            writer.name: {
                "rows": writer.progress.rows,
                "commits": writer.progress.commits,
                "version": writer.progress.version,
            }
            for writer in self._writers()
        }
        return {"tables": tables, "events": self._events, "latency_ms": self._latency.quantiles()}

    def close(self) -> None:
        """Ends the maintenance of the tables. Call it after the query has ended. May be called more than once."""
        self._maintenance.close()
        for sink in self._sinks:
            sink.close()

    def __enter__(self) -> SpoolTables:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _writers(self) -> list[TableWriter]:
        return [writer for sink in self._sinks for writer in list(sink.writers.values())]

    def _identify(self, topic: str) -> TopicIdentity:
        """A spool that was deleted and created again counts its rows from 0: its records are those of another topic."""
        if self._identity is None:
            if not self._reader.refresh():
                raise ConnectError(f"there is no spool in {self._spool}: give the options of the stream that reads it")
            self._identity = TopicIdentity("spool", self._reader.id)
        return self._identity


class _Sink:
    """The tables of one configuration."""

    def __init__(self, spark: SparkSession, given: Mapping[str, str], identify: Identify) -> None:
        properties = {"name": "spool-tables", **given}
        self.config = _parse_sink(properties)
        self.writers: dict[str, TableWriter] = {}
        self._spark = spark
        self._identify = identify
        self._topics = frozenset(filter(None, map(str.strip, properties.get("topics", "").split(","))))
        self._pattern = re.compile(properties.get("topics.regex") or ".*")
        self._staging: Staging | None = None
        if self.config.table_format == DELTA:
            self._staging = Staging(self.config.location, f"{self.config.connector}-spool", self.config.spark.s3)
            self._staging.clear()
        self._router = TableRouter(self.config)
        values = JsonConverter()
        values.configure({REPLACE_NULL: False}, is_key=False)
        self._decoders = TopicDecoders(self.config, JsonConverter(), values, self._known_columns)
        self._spool_decoders: dict[str, SpoolDecoder] = {}
        self._partitions: set[TopicPartition] = set()
        self._sequence = 0

    def session(self) -> SparkSession:
        """Returns a new session of the query's Spark."""
        return open_session(self._spark, self.config.spark)

    def takes(self, topic: str) -> bool:
        """Whether the sink gets the records of a topic."""
        return topic in self._topics if self._topics else self._pattern.fullmatch(topic) is not None

    def decode_records(self, topic: str, rows: pa.Table) -> Iterator[tuple[str, ChangeBatch]]:
        """Decodes records in the order of their offsets, and yields them with their tables. Raises DataError that names the
        record."""
        decoder = self._decoders.get(topic, topic)
        for start in range(0, rows.num_rows, _DECODE_ROWS):
            raw = _raw_buffer(topic, rows.slice(start, _DECODE_ROWS))
            yield from self._route(topic, decoder.decode_raw(raw, self._sequence))
            self._sequence += len(raw)

    def decode_rows(
        self, topic: str, rows: pa.Table, first_row: int, schemas: Mapping[str, str]
    ) -> Iterator[tuple[str, ChangeBatch]]:
        """Like :meth:`decode_records`, for rows of the spool (:class:`SpoolDecoder`)."""
        if topic not in self._spool_decoders:
            self._spool_decoders[topic] = SpoolDecoder(self._decoders.get(topic, topic), with_keys=True)
        decoder = self._spool_decoders[topic]
        for start in range(0, rows.num_rows, _DECODE_ROWS):
            decoded = decoder.decode(rows.slice(start, _DECODE_ROWS), first_row + start, schemas)
            yield from self._route(topic, decoded)

    def _route(self, topic: str, decoded: Sequence[ChangeBatch]) -> list[tuple[str, ChangeBatch]]:
        self._partitions |= {TopicPartition(topic, number) for batch in decoded for number in batch.partitions()}
        routed, refused = self._router.route(topic, decoded)
        if refused:
            raise refused[0].reason
        return routed

    def commit(self, table: str, changes: Sequence[ChangeBatch]) -> None:
        """Writes the changes that the table does not have. Durable on return. Raises ConnectError."""
        if table not in self.writers:
            sessions = None if self.config.table_format == PARQUET else self
            self.writers[table] = make_writer(self.config, table, sessions, self._staging, self._identify)
        self.writers[table].commit(changes, self._partitions)

    def close(self) -> None:
        """Removes staged files."""
        if self._staging is not None:
            self._staging.clear()

    def _known_columns(self, topic: str) -> tuple[str, Columns] | None:
        names = self._router.current_tables_of(topic)
        found = [(name, columns) for name in names if name in self.writers and (columns := self.writers[name].columns())]
        return found[0] if len(names) == 1 and found else None


def _parse_sink(properties: Mapping[str, str]) -> SparkSinkConfig:
    config = parse_config(properties)
    if config.spark.remote:
        raise ConfigError.invalid("spark.remote", config.spark.remote, "the session of the query writes the tables")
    return config


def _raw_buffer(topic: str, rows: pa.Table) -> RawBuffer:
    headers: list[RawHeaders] | None = None
    if pc.any(pc.greater(pc.list_value_length(rows["headers"]), 0)).as_py():
        headers = [[(one["key"], one["value"]) for one in listed or ()] or None for listed in rows["headers"].to_pylist()]
    partitions, offsets, keys, values = (rows[name].to_pylist() for name in ("partition", "offset", "key", "value"))
    return RawBuffer(topic, partitions, offsets, keys, values, headers)
