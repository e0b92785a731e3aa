"""Writes the records of a stream to tables, as the Spark sink does: one stream fills all tables of a database.

A table commit has the numbers of its rows in the spool, like a commit of the sink has the offsets of its records. So a batch that
Spark repeats changes nothing, even if only some of its tables were committed before (promise 6).
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from connect.converters.json.converter import REPLACE_NULL, JsonConverter
from connect.errors import ConfigError, ConnectError
from connect.record import RawBatch, TopicPartition
from connect.sink import TopicIdentity
from connect.spool.reader import SpoolReader, SpoolSlice
from connect.spool.segments import count_values
from connectors.spark.config import SparkSinkConfig, parse_config
from connectors.spark.config_keys import PARQUET
from connectors.spark.datasource.bounds import BOUNDS, slices_between
from connectors.spark.datasource.options import BOUNDS as BOUNDS_OPTION
from connectors.spark.datasource.options import NAMES, PLACEHOLDER, parse_options
from connectors.spark.datasource.spool_decoder import SpoolDecoder
from connectors.spark.decode.raw_buffer import RawHeaders
from connectors.spark.decode.tolerant_decoding import DecodedTopic
from connectors.spark.delivery.errant_records import SparkErrantRecords
from connectors.spark.delivery.segment import Arrival
from connectors.spark.delivery.sink_tables import SinkTables
from connectors.spark.delivery.timing import quantiles
from connectors.spark.session.attached import open_session
from connectors.spark.sink import TableSink
from connectors.spark.tables.application_ids import Identify, OtherTopicError

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
        properties = [{"name": "spool-tables", PLACEHOLDER: options.unavailable, **given} for given in sinks]
        configs = [_parse_sink(given) for given in properties]
        names = [config.connector for config in configs]
        if len(set(names)) < len(names):
            raise ConfigError(
                f"Each sink needs a name of its own, under which tables store offsets; these are {', '.join(names)}"
            )
        self._identity: TopicIdentity | None = None
        self._events = 0
        self._sinks = [_Sink(spark, config, given, self._identify) for config, given in zip(configs, properties, strict=True)]

    def stream(self) -> DataFrame:
        """Returns the stream to write. Its batches say where their rows are; this process reads them from the spool, with values
        as columns where possible (``docs/spark-data-source.md``)."""
        options = {**self._source, BOUNDS_OPTION: "true", NAMES: "\n".join(self._source)}
        return self._spark.readStream.format("sluice").options(**options).load()

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
        rows = rows.sort_by("offset")
        self._write(pc.unique(rows["topic"]).to_pylist(), lambda sink, topic: sink.receive_records(topic, rows))
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

        def receive(sink: _Sink, topic: str) -> None:
            for first_row, rows in stored:
                sink.receive_rows(topic, rows, first_row, self._reader.schemas)

        self._write({topic for one in slices for topic in one.entry.topics}, receive)
        for _, rows in stored:
            self._events += count_values(rows)

    def _write(self, topics: Iterable[str], receive: Callable[[_Sink, str], None]) -> None:
        """Has each sink receive and commit the records of its topics."""
        topics = sorted(topics)
        for topic in topics[:1]:
            self._identify(topic)  # commits, which need it, run on several threads
        for sink in self._sinks:
            try:
                for topic in filter(sink.takes, topics):
                    receive(sink, topic)
                sink.sink.flush()
            except OtherTopicError as e:
                # Its text begins with the table's name or path.
                table = e.message.partition(" holds ")[0].removeprefix("table ").rpartition("/")[2]
                raise ConnectError(
                    f"table {table} at {sink.config.location} has rows of another spool than {self._spool}, or of Kafka: use "
                    "that spool, or delete the table, or write to another table.location"
                ) from e
            finally:
                sink.sink.lose(sink.partitions)  # Spark repeats a batch that was not committed

    def progress(self) -> dict[str, Any]:
        """Returns figures since this object exists; callable from any thread.

        ``tables``: by name, rows, commits, and version. ``events``: records with a value. ``latency_ms``: p50 and p99 from the
        commit in the source to the table commit; None before the first change.
        """
        tables = {
            name: {figure: table[figure] for figure in ("rows", "commits", "version")}
            for sink in self._sinks
            for name, table in sink.sink.progress()["tables"].items()
        }
        latencies = [latency for sink in self._sinks for latency in sink.sink.latencies_ms()]
        return {"tables": tables, "events": self._events, "latency_ms": quantiles(latencies)}

    def close(self) -> None:
        """Ends the maintenance of the tables. Call it after the query has ended. May be called more than once."""
        for sink in self._sinks:
            sink.sink.close()

    def __enter__(self) -> SpoolTables:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _identify(self, topic: str) -> TopicIdentity:
        """A spool that was deleted and created again counts its rows from 0: its records are those of another topic."""
        if self._identity is None:
            if not self._reader.refresh():
                raise ConnectError(f"there is no spool in {self._spool}: give the options of the stream that reads it")
            self._identity = TopicIdentity("spool", self._reader.id)
        if self._identity.topic_id != self._reader.id:
            raise ConnectError(
                f"the spool in {self._spool} was deleted and created again, so its rows are others: make a new SpoolTables, and "
                "write into new tables"
            )
        return self._identity


class _Sink:
    """The sink of one configuration, and what it gets of the stream."""

    def __init__(self, spark: SparkSession, config: SparkSinkConfig, properties: Mapping[str, str], identify: Identify) -> None:
        self.config = config
        self._spark = spark
        self._topics = frozenset(filter(None, map(str.strip, properties.get("topics", "").split(","))))
        self._pattern = re.compile(properties.get("topics.regex") or ".*")
        values = JsonConverter()
        values.configure({REPLACE_NULL: False}, is_key=False)
        owner = f"{config.connector}-spool"
        tables = SinkTables(config, owner, None if config.table_format == PARQUET else self, identify)
        errant_records = SparkErrantRecords(None, tolerant=False)
        self.sink = TableSink(config, owner, tables, (JsonConverter(), values), errant_records, time.monotonic)
        self._decoders: dict[str, SpoolDecoder] = {}
        self.partitions: set[TopicPartition] = set()

    def session(self) -> SparkSession:
        """Returns a new session of the query's Spark."""
        return open_session(self._spark, self.config.spark)

    def takes(self, topic: str) -> bool:
        """Whether the sink gets the records of a topic."""
        return topic in self._topics if self._topics else self._pattern.fullmatch(topic) is not None

    def receive_records(self, topic: str, rows: pa.Table) -> None:
        """Takes the records of a topic among rows, which are in the order of their offsets. Raises DataError that names the
        record."""
        rows = rows.filter(pc.equal(rows["topic"], topic))
        self._add_partitions(topic, pc.unique(rows["partition"]).to_pylist())
        self.sink.receive_raw(_raw_batches(topic, rows))

    def receive_rows(self, topic: str, rows: pa.Table, first_row: int, schemas: Mapping[str, str]) -> None:
        """The same for rows of the spool (:class:`SpoolDecoder`)."""
        if topic not in self._decoders:
            self._decoders[topic] = SpoolDecoder(self.sink.decoder(topic), with_keys=True)
        for start in range(0, rows.num_rows, _DECODE_ROWS):
            decoded = self._decoders[topic].decode(rows.slice(start, _DECODE_ROWS), first_row + start, schemas)
            self._add_partitions(topic, {number for batch in decoded for number in batch.partitions()})
            now = time.monotonic()
            self.sink.receive_changes([DecodedTopic(topic, decoded)], Arrival(now, now))

    def _add_partitions(self, topic: str, numbers: Iterable[int]) -> None:
        self.partitions |= {TopicPartition(topic, number) for number in numbers}
        self.sink.add_partitions(self.partitions)


def _parse_sink(properties: Mapping[str, str]) -> SparkSinkConfig:
    config = parse_config(properties)
    if config.spark.remote:
        raise ConfigError.invalid("spark.remote", config.spark.remote, "the session of the query writes the tables")
    return config


def _raw_batches(topic: str, rows: pa.Table) -> Iterator[RawBatch]:
    """Consecutive records of one partition together."""
    headers: Sequence[RawHeaders | None] = [None] * rows.num_rows
    if pc.any(pc.greater(pc.list_value_length(rows["headers"]), 0)).as_py():
        headers = [[(one["key"], one["value"]) for one in listed or ()] or None for listed in rows["headers"].to_pylist()]
    columns = (rows[name].to_pylist() for name in ("partition", "offset", "key", "value"))
    for partition, run in itertools.groupby(zip(*columns, headers, strict=True), lambda record: record[0]):
        _, offsets, keys, values, named = map(list, zip(*run, strict=True))
        yield RawBatch(topic, partition, offsets, keys, values, [0] * len(offsets), named if any(named) else None)
