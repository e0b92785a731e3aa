"""The data source ``sluice`` and its readers (PySpark 4.0's Python data source API).

Spark pickles these objects into several processes. One that ends at once asks for the schema. One per streaming query calls all
methods of the stream reader but ``read``, one at a time: it holds the reader's lock, and starts and stops the spooler. One per
batch read plans it. Executors call ``read``. So a constructor does nothing, and what only executors need is imported in ``read``.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from connect.errors import ConfigError, ConnectError, DataError
from connect.spool.positions import LOADED, PLANNED, START, SpoolPosition, parse_position
from connect.spool.reader import SpoolReader, SpoolSlice, require_reachable
from connect.spool.status import WriterState
from connectors.spark.datasource.bounds import BOUNDS, bounds_row
from connectors.spark.datasource.columns import ADDED_COLUMNS, RECORDS, topic_of_table, unknown_table
from connectors.spark.datasource.options import CONFIRMED, SourceOptions, parse_options
from connectors.spark.datasource.options import START as STARTING_OFFSETS
from connectors.spark.datasource.spooler_process import SpoolerMode, SpoolerProcess
from connectors.spark.python_processes import choose_python
from connectors.spark.zip_finders import forget_zip_finders

NAME = "sluice"
_POLL_S = 0.05
_MIN_PARTITION_BYTES = 1 << 20
"""Less is not worth a task."""
_START_S = 60.0
_STOPPED_S = 10.0
_INITIAL, _BATCH = "initial", "batch"
"""Of offsets: where a query without a checkpoint starts, and the ID of the first batch that ends there."""


def register(spark: Any) -> None:
    """Registers the data source with a session, so that ``format("sluice")`` can be used, and chooses the interpreter of the
    session's Python processes (:func:`choose_python`)."""
    context = getattr(spark, "_sc", None)
    if context is not None:
        choose_python(context)
    spark.dataSource.register(SluiceSource)


class SluiceSource(DataSource):
    """Any source connector. The options are the connector's configuration, ``spool.*``, and those in
    :mod:`connectors.spark.datasource.options`."""

    _has_own_schema = False
    """Whether Spark asked for the schema, because the user gave none."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> Any:
        """Returns the columns. Those of a table come from its records, so the connector starts unless the spool has some."""
        options = parse_options(self.options)
        self._has_own_schema = True
        if options.reads_bounds:
            columns = BOUNDS
        else:
            columns = RECORDS if options.table is None else _table_columns(options, options.table)
        return from_arrow_schema(columns, prefer_timestamp_ntz=True)

    def reader(self, schema: Any) -> DataSourceReader:
        return SpoolBatchReader(dict(self.options), schema, self._has_own_schema)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # Spark's name
        return SpoolStreamReader(dict(self.options), schema, self._has_own_schema)


@dataclass(frozen=True)
class SpoolPartition(InputPartition):
    """Rows for one Spark task."""

    directory: str
    spool: str
    """The ID of the spool."""
    slices: tuple[SpoolSlice, ...]
    schemas: Mapping[str, str]
    topic: str | None
    """The topic of the table; None reads records."""
    unavailable: str
    """The placeholder for unavailable values."""


@dataclass(frozen=True)
class BoundsPartition(InputPartition):
    """The only row of a batch."""

    row: Mapping[str, Any]


def _take_lock(reader: SpoolReader) -> None:
    """Takes the reader's lock, before the connector's process is started or replaced. Raises ConfigError. The process of a query
    that was stopped has it for a moment longer."""
    deadline = time.monotonic() + _STOPPED_S
    while not reader.lock.is_free() and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    reader.open()


def _table_columns(options: SourceOptions, table: str) -> pa.Schema:
    """Returns the columns of a table. Raises ConnectError if none of its records arrives in time."""
    reader = SpoolReader(options.spool.location)
    try:
        return _find_columns(options, table, reader)
    finally:
        reader.close()


def _find_columns(options: SourceOptions, table: str, reader: SpoolReader) -> pa.Schema:
    from connectors.spark.datasource.rows import columns_of

    process = SpoolerProcess(options, SpoolerMode.SCHEMA)
    deadline = time.monotonic() + options.schema_timeout_s
    status, is_started = None, False
    while True:
        topics = reader.topics() if reader.refresh() else {}
        topic = topic_of_table(table, list(topics))
        if topic is not None:
            texts = [reader.schemas[str(number)] for number in topics[topic]]
            if not texts:
                raise DataError(
                    f"table {table}: its records have no schema; JsonConverter with schemas.enable=true (the default) writes it"
                )
            return pa.schema([*columns_of(texts), *ADDED_COLUMNS])
        if (status is not None and status.state is WriterState.LOADED) or time.monotonic() > deadline:
            raise unknown_table(table, list(topics))
        if not is_started:
            _take_lock(reader)
            process.ensure_running()
            is_started = True
        status = process.check()
        time.sleep(_POLL_S)


class _SpoolRows:
    """What both readers share: the options, and reading partitions in executors."""

    def __init__(self, given: dict[str, str], schema: Any, has_own_schema: bool) -> None:
        self._given = given
        self._schema = schema
        self._has_own_schema = has_own_schema
        self._topic: str | None = None
        """The topic of the table, once it has records: one for the whole query, whatever topics appear later."""

    def _partitions(self, options: SourceOptions, reader: SpoolReader, slices: list[SpoolSlice]) -> list[InputPartition]:
        """Divides rows into partitions of about the same size."""
        topic = None
        if options.table is not None:
            self._topic = self._topic or topic_of_table(options.table, list(reader.topics()))
            topic = self._topic or options.table
            slices = [one for one in slices if topic in one.entry.topics]
        if not slices:
            return [SpoolPartition(str(reader.directory), reader.id, (), {}, topic, options.unavailable)]
        target = max(_MIN_PARTITION_BYTES, sum(one.size_bytes for one in slices) // options.partitions)
        groups: list[list[SpoolSlice]] = [[]]
        size_bytes = 0
        for one in slices:
            if size_bytes >= target:
                groups.append([])
                size_bytes = 0
            groups[-1].append(one)
            size_bytes += one.size_bytes
        schemas = dict(reader.schemas)
        place = str(reader.directory), reader.id
        return [SpoolPartition(*place, tuple(group), schemas, topic, options.unavailable) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads one partition. Runs in an executor, perhaps again."""
        forget_zip_finders()
        if isinstance(partition, BoundsPartition):
            yield pa.RecordBatch.from_pylist([dict(partition.row)], schema=BOUNDS)
            return
        from connectors.spark.datasource.rows import TypedRows, batches_of, records_of

        assert isinstance(partition, SpoolPartition)
        directory, schemas = Path(partition.directory), partition.schemas
        # Also without rows: the first batch shows whether executors reach the spool, which the driver cannot know.
        require_reachable(directory, partition.spool)
        columns = to_arrow_schema(self._schema)
        rows = None
        if partition.topic is not None:
            ignores_others = not self._has_own_schema
            rows = TypedRows(partition.topic, columns, partition.unavailable, ignores_others=ignores_others)
        is_empty = True
        for one in partition.slices:
            stored, first = one.read(directory), one.entry.first_row + one.first
            if rows is not None:
                found = rows.decode(stored, first, schemas)
            else:
                found = records_of(stored, first, schemas).select(columns.names).cast(columns)
            for batch in batches_of(found):
                is_empty = False
                yield batch
        if is_empty:
            yield pa.RecordBatch.from_pylist([], schema=columns)


class SpoolStreamReader(_SpoolRows, DataSourceStreamReader):
    """Offsets are ``{"spool": ID, "segment": s, "row": r}``, never anything of the source's own. See also
    :meth:`_OpenSpool.batch`."""

    def __init__(self, given: dict[str, str], schema: Any, has_own_schema: bool) -> None:
        super().__init__(given, schema, has_own_schema)
        self._open_spool: _OpenSpool | None = None

    @property
    def _spool(self) -> _OpenSpool:
        if self._open_spool is None:
            self._open_spool = _OpenSpool(parse_options(self._given))
        return self._open_spool

    def initialOffset(self) -> dict[str, Any]:  # Spark's name
        spool = self._spool
        return {**spool.offset(spool.first()), _INITIAL: True}

    def latestOffset(self) -> dict[str, Any]:  # Spark's name
        return self._spool.latest_offset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        spool = self._spool
        slices = spool.batch(start, end)
        if spool.options.reads_bounds:
            return [BoundsPartition(bounds_row(spool.reader.id, slices))]
        return self._partitions(spool.options, spool.reader, slices)

    def commit(self, end: dict[str, Any]) -> None:
        spool = self._spool
        spool.reader.confirm(spool.position(end))

    def stop(self) -> None:
        if self._open_spool is not None:
            self._open_spool.close()


class _OpenSpool:
    """The spool of a running query, with its lock and its process."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        directory = options.spool.location
        self.process = SpoolerProcess(options, SpoolerMode.STREAM)
        self.reader = SpoolReader(directory)
        self._planned: SpoolPosition | None = None
        try:
            _take_lock(self.reader)
            self.process.ensure_running()
            deadline = time.monotonic() + _START_S
            while not self.reader.refresh():
                self.process.check()
                if time.monotonic() > deadline:
                    raise ConnectError(
                        f"The spool {directory} was not created within {_START_S:g} s; see {self.process.log_file}"
                    )
                time.sleep(_POLL_S)
            self._first_batch = self.reader.first_batch()
            self._own_batch = secrets.token_hex(8) if self._first_batch is None else None
            self._own_end: SpoolPosition | None = None
            self._start = max(self.reader.confirmed(), self.reader.mark(LOADED))
        except BaseException:
            self.reader.close()
            raise

    def offset(self, position: SpoolPosition) -> dict[str, Any]:
        return {"spool": self.reader.id, **position._asdict()}

    def position(self, offset: dict[str, Any]) -> SpoolPosition:
        """Reads an offset of a checkpoint. Raises DataError if it is of another spool."""
        if offset.get("spool") != self.reader.id:
            raise DataError(
                f"the query's checkpoint is of spool {offset.get('spool')}, but {self.reader.directory} has spool "
                f"{self.reader.id}: it was deleted or replaced. Restore that spool, or delete checkpoint and table to load the "
                "source again"
            )
        return parse_position(offset, "the query's checkpoint")

    def first(self) -> SpoolPosition:
        """Where a query without a checkpoint starts. Raises DataError if rows before that were delivered to another one."""
        confirmed = self.reader.confirmed()
        if confirmed > START and not self.options.starts_at_confirmed:
            raise DataError(
                f"the query has no checkpoint, but the spool {self.reader.directory} was committed by a query up to {confirmed}. "
                f"Use the checkpoint of that query; or set {STARTING_OFFSETS}={CONFIRMED} to continue there, where the last "
                "batch may be repeated; or delete spool and table to load the source again"
            )
        return max(confirmed, self.reader.mark(LOADED))

    def latest_offset(self) -> dict[str, Any]:
        """Returns the offset of :meth:`latest`. That of the first batch with rows names the batch. Raises ConnectError."""
        position = self.latest()
        offset = self.offset(position)
        if self._own_batch is not None and position > self._start and self._own_end in (None, position):
            offset[_BATCH] = self._own_batch
        return offset

    def latest(self) -> SpoolPosition:
        """Returns the end of the spool, or of at most as many rows as the options allow. Raises ConnectError if the connector has
        failed and everything that it wrote was read."""
        self.reader.refresh()
        # After a restart, Spark does not say where the query is: not behind what was planned before.
        if self._planned is None:
            reader = self.reader
            self._planned = max(reader.mark(PLANNED), reader.mark(LOADED), reader.confirmed())
        planned = self._planned
        if self.reader.end > planned:
            self.process.made_progress()
        else:
            self.process.check()
        self._plan(self.reader.advance(planned, self.options.max_rows))
        return self._planned

    def _plan(self, position: SpoolPosition) -> None:
        if self._planned is None or position > self._planned:
            self.reader.set_mark(PLANNED, position)
            self._planned = position

    def batch(self, start: dict[str, Any], end: dict[str, Any]) -> list[SpoolSlice]:
        """Returns the rows between two offsets. Raises DataError if the spool does not have them, or if they are those of a query
        that has lost its checkpoint.

        Spark commits a batch when it plans the next one: until then, the spool does not know whether a table has the rows of the
        first batch. So a query that starts at the beginning is given rows only if no query was given any before, or if it repeats
        that first batch. Its end, which Spark stores in the checkpoint before it runs the batch, has the batch's ID. A query that
        was killed earlier, with or without a checkpoint directory, was given nothing, and does not count.
        """
        slices = self._slices(self.position(start), self.position(end))
        if not slices:
            return []
        if self._first_batch is None:
            first = str(end.get(_BATCH, self._own_batch))
            self.reader.set_first_batch(first)
            self._first_batch, self._own_end = first, self.position(end)
        elif start.get(_INITIAL) and end.get(_BATCH) != self._first_batch and not self.options.starts_at_confirmed:
            raise DataError(
                f"the query has no checkpoint, but rows of the spool {self.reader.directory} were given to an earlier query. Use "
                f"the checkpoint of that query; or set {STARTING_OFFSETS}={CONFIRMED} to read the rows again, which are doubled "
                "if the table has them; or delete spool and table to load the source again"
            )
        return slices

    def _slices(self, start: SpoolPosition, end: SpoolPosition) -> list[SpoolSlice]:
        self.reader.refresh()
        self.reader.require_rows_from(start, "the query's checkpoint")
        self.reader.require_rows_from(max(start, end), "the query's batch ends there: it")
        return self.reader.slices(start, end)

    def close(self) -> None:
        try:
            self.process.stop()
        finally:
            self.reader.close()


class SpoolBatchReader(_SpoolRows, DataSourceReader):
    """Loads what exists. The rows stay in the spool until a stream, which continues behind them, has committed."""

    def partitions(self) -> list[InputPartition]:
        options = parse_options(self._given)
        if options.reads_bounds:
            raise ConfigError("Only a stream has batches with bounds: use spark.readStream")
        reader = SpoolReader(options.spool.location)
        process = SpoolerProcess(options, SpoolerMode.LOAD)
        exists = reader.refresh()
        # The index knows only tasks that have begun, so the mark is set once a process has said that all have loaded.
        is_loaded = exists and reader.mark(LOADED) > START
        if exists and not is_loaded and reader.mark(PLANNED) > START:
            raise DataError(
                f"a stream has read the spool {reader.directory}, so that it has changes, too: give the load a spool of its own, "
                "or delete this one"
            )
        if not is_loaded:
            _take_lock(reader)
            try:
                process.ensure_running()
                while (status := process.check()) is None or status.state is not WriterState.LOADED:
                    time.sleep(_POLL_S)
                reader.refresh()
            finally:
                reader.close()
        if reader.confirmed() > START:
            raise DataError(
                f"the load in the spool {reader.directory} was committed up to {reader.confirmed()} by a stream, so that rows "
                "may be gone. Continue with the stream, or delete the spool to load the source again"
            )
        end = reader.load_end() or reader.end
        reader.set_mark(LOADED, end)
        return self._partitions(options, reader, reader.slices(START, end))
