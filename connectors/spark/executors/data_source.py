"""The Python data sources whose partitions are offset ranges, and whose rows are the results of writing them.

If Spark SQL transforms the records, a data source reads them, and a function writes those that the SQL returns.

Spark shows the names of data sources and functions, and options, in plans and its UI. These have no options: the job is in the
objects that PySpark sends to the processes that plan, read, and write (promise 9). The SQL is in the plan, with constants of the
transformations.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from connectors.spark.executors.job import RangeJob
from connectors.spark.executors.sql_chain import SqlChain, input_types
from connectors.spark.transforms.pipeline import SETTINGS, transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "sluice_ranges"
RECORDS_NAME = "sluice_records"
COLUMN = "result"
_SCHEMA = f"{COLUMN} binary"
_ARROW_TYPES: dict[pa.DataType, str] = {
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
}
_SETTINGS = {
    **SETTINGS,
    # Of a batch for the process that writes: few, because records may be large. With a limit in bytes, Spark computes the size of
    # the batch at each row, which takes longer than all else.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
}


def frame_of(session: SparkSession, job: RangeJob) -> DataFrame:
    """The results of a job: pickled, in the column COLUMN."""
    by_row, in_sql = job.numbers()
    frames: list[DataFrame] = []
    if by_row:
        session.dataSource.register(source_of(job, by_row))
        frames.append(session.read.format(NAME).load())
    if in_sql:
        for key, value in _SETTINGS.items():
            session.conf.set(key, value)
    for topic, numbers in in_sql.items():
        chain = job.chains[topic]
        session.dataSource.register(record_source_of(job, chain, numbers))
        records = transform(session.read.format(RECORDS_NAME).load(), chain.projection)
        frames.append(records.mapInArrow(_writer_of(job, topic), _SCHEMA))
    return functools.reduce(lambda first, second: first.union(second), frames)


def source_of(job: RangeJob, numbers: Sequence[int] | None = None) -> type[DataSource]:
    """A data source for the ranges of a job with these numbers, or all.

    The classes are local, so that PySpark sends them whole and with the job in them: an executor that lacks our packages gets as
    far as to say so, with its host.
    """
    data, chosen = pickle.dumps(job), list(range(len(job.ranges)) if numbers is None else numbers)

    class RangeJobReader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in chosen]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            import socket
            import sys

            try:
                from connectors.spark.executors.range_processor import read_results

                for result in read_results(data, partition.value):
                    yield pa.record_batch([pa.array([result], pa.binary())], [COLUMN])
            except Exception as e:
                e.add_note(f"(on host {socket.gethostname()} with Python {sys.executable})")
                raise

    class RangeSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> str:
            return _SCHEMA

        def reader(self, schema: Any) -> DataSourceReader:
            return RangeJobReader()

    return RangeSource


def record_source_of(job: RangeJob, chain: SqlChain, numbers: Sequence[int]) -> type[DataSource]:
    """A data source whose rows are the records of ranges of one topic, as the SQL of its chain reads them."""
    data, topic, chosen = pickle.dumps(job), chain.topic, list(numbers)
    types = ", ".join(f"{field.name} {_spark_type(field.type)}" for field in input_types(chain))

    class RecordReader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in chosen]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            import socket
            import sys

            try:
                from connectors.spark.executors.sql_reader import read_input

                yield from read_input(data, topic, partition.value)
            except Exception as e:
                e.add_note(f"(on host {socket.gethostname()} with Python {sys.executable})")
                raise

    class RecordSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return RECORDS_NAME

        def schema(self) -> str:
            return types

        def reader(self, schema: Any) -> DataSourceReader:
            return RecordReader()

    return RecordSource


def _writer_of(job: RangeJob, topic: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function that writes the records of ranges of a topic, and returns the results."""
    data = pickle.dumps(job)

    def write_records(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import socket
        import sys

        try:
            from connectors.spark.executors.sql_writer import write_computed

            for result in write_computed(data, topic, batches):
                yield pa.record_batch([pa.array([result], pa.binary())], [COLUMN])
        except Exception as e:
            e.add_note(f"(on host {socket.gethostname()} with Python {sys.executable})")
            raise

    return write_records


def _spark_type(kind: pa.DataType) -> str:
    """The type in Spark's DDL."""
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{field.name}: {_spark_type(field.type)}' for field in kind)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{_spark_type(kind.value_type)}>"
    return _ARROW_TYPES[kind]
