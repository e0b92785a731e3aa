"""Writes the records of a stream to tables, as the Spark sink does: one stream fills all tables of a database.

A table commit has the numbers of its rows in the spool, like a commit of the sink has the offsets of its records. So a batch that
Spark repeats changes nothing, even if only some of its tables were committed before (promise 6).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from connect.converters.json.converter import JsonConverter
from connect.errors import ConfigError, ConnectError
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connect.spool.reader import SpoolReader
from connectors.spark.config import SparkSinkConfig, parse_config
from connectors.spark.config_keys import DELTA, PARQUET
from connectors.spark.datasource.executor_check import check_executors
from connectors.spark.datasource.options import parse_options
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


class SpoolTables:
    """Tables that a stream of records fills; :meth:`write` is the function for ``foreachBatch``.

    ::

        records = spark.readStream.format("sluice").options(**source).load()
        with SpoolTables(spark, source, {"table.location": "/data/lake", "write.mode": "upsert"}) as tables:
            records.writeStream.foreachBatch(tables.write).option("checkpointLocation", directory).start().awaitTermination()

    ``source`` are the options of the stream. Each of ``sinks`` is the configuration of a Spark sink
    (``docs/reference/spark-sink.md``), whose ``topics`` or ``topics.regex`` choose its records; without them, it gets all. The
    tables of ``spark`` are written in sessions of their own. One query uses it, from one thread at a time.

    Raises ConfigError for configurations that cannot work, and ConnectError if the executors of a cluster do not reach the spool.
    """

    def __init__(self, spark: SparkSession, source: Mapping[str, str], *sinks: Mapping[str, str]) -> None:
        if getattr(spark, "_jsparkSession", None) is None:
            raise ConfigError("Tables are written through the JVM of a session, which Spark Connect does not reach")
        if not sinks:
            raise ConfigError("Give the configuration of at least one sink, with table.location")
        self._spool = parse_options(source).spool.location
        check_executors(spark, source)
        self._sinks = [_Sink(spark, given, self._identify) for given in sinks]
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

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Writes a batch of records. Blocks; durable on return. A repeated batch changes nothing.

        ``batch`` has the columns of records; its rows are collected in the driver, so limit them with ``maxRowsPerTrigger``.
        Raises DataError that names the record that cannot be written, and ConnectError with cause and table.
        """
        missing = [name for name in _NEEDED if name not in batch.columns]
        if missing:
            raise ConfigError(
                f"The batch has no column {missing[0]}: read records, without the option table, and keep their columns"
            )
        rows = batch.select(*_NEEDED).toArrow()
        if not rows.num_rows:
            return
        if not self._is_maintained:
            self._maintenance.start()
            self._is_maintained = True
        for topic in sorted(pc.unique(rows["topic"]).to_pylist()):
            of_topic = rows.filter(pc.equal(rows["topic"], topic)).sort_by("offset")
            for sink in self._sinks:
                if sink.takes(topic):
                    self._commit(sink, topic, of_topic)
        self._events += rows.num_rows - rows["value"].null_count

    def _commit(self, sink: _Sink, topic: str, rows: pa.Table) -> None:
        by_table: dict[str, list[ChangeBatch]] = {}
        for table, changes in sink.decode(topic, rows):
            by_table.setdefault(table, []).append(changes)
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
            reader = SpoolReader(self._spool)
            if not reader.refresh():
                raise ConnectError(f"there is no spool in {self._spool}: give the options of the stream that reads it")
            self._identity = TopicIdentity("spool", reader.id)
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
        self._decoders = TopicDecoders(self.config, JsonConverter(), JsonConverter(), self._known_columns)
        self._partitions: set[TopicPartition] = set()
        self._sequence = 0

    def session(self) -> SparkSession:
        """Returns a new session of the query's Spark."""
        return open_session(self._spark, self.config.spark)

    def takes(self, topic: str) -> bool:
        """Whether the sink gets the records of a topic."""
        return topic in self._topics if self._topics else self._pattern.fullmatch(topic) is not None

    def decode(self, topic: str, rows: pa.Table) -> Iterator[tuple[str, ChangeBatch]]:
        """Decodes records in the order of their offsets, and yields them with their tables. Raises DataError that names the
        record."""
        decoder = self._decoders.get(topic, topic)
        for start in range(0, rows.num_rows, _DECODE_ROWS):
            raw = _raw_buffer(topic, rows.slice(start, _DECODE_ROWS))
            self._partitions |= {TopicPartition(topic, number) for number in set(raw.partitions)}
            routed, refused = self._router.route(topic, decoder.decode_raw(raw, self._sequence))
            self._sequence += len(raw)
            if refused:
                raise refused[0].reason
            yield from routed

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
    if config.transactions is not None:
        raise ConfigError.invalid("commit.scope", "transaction", "only a Spark sink in a worker supports it; remove the key")
    return config


def _raw_buffer(topic: str, rows: pa.Table) -> RawBuffer:
    headers: list[RawHeaders] | None = None
    if pc.any(pc.greater(pc.list_value_length(rows["headers"]), 0)).as_py():
        headers = [[(one["key"], one["value"]) for one in listed or ()] or None for listed in rows["headers"].to_pylist()]
    partitions, offsets, keys, values = (rows[name].to_pylist() for name in ("partition", "offset", "key", "value"))
    return RawBuffer(topic, partitions, offsets, keys, values, headers)
