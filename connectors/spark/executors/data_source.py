"""The Python data source whose partitions are the offset ranges of a job, and whose rows are the results of writing them.

Spark shows the names of data sources and their options in plans and its UI. This one has no options: the job is in the objects
that PySpark sends to the processes that plan and read (promise 9).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from connectors.spark.executors.job import RangeJob

NAME = "sluice_ranges"
COLUMN = "result"
_SCHEMA = f"{COLUMN} binary"


def source_of(job: RangeJob) -> type[DataSource]:
    """A data source with a partition for each range of the job. Its rows are pickled results, in the column COLUMN.

    The classes are local, so that PySpark sends them whole and with the job in them: an executor that lacks our packages gets as
    far as to say so, with its host.
    """
    data, count = pickle.dumps(job), len(job.ranges)

    class RangeJobReader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(count)]

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
