"""The Python data source whose partitions are offset ranges, and whose rows are the results of writing them.

Spark shows the name of a data source and its options in plans and its UI. This one has no options: the job is in the object that
PySpark sends to the processes that plan and read (promise 9).
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from connect.errors import ConnectError, RetriableError
from connectors.spark.executors.job import RangeJob
from connectors.spark.executors.range_processor import RangeProcessor
from connectors.spark.executors.results import RangeFailure

NAME = "sluice_ranges"
COLUMN = "result"
_SCHEMA = f"{COLUMN} binary"


def source_of(job: RangeJob) -> type[DataSource]:
    """A data source for one job. The class is local, so that PySpark sends it with the job in it."""

    class RangeSource(DataSource):  # type: ignore[misc]  # PySpark has no types
        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> str:
            return _SCHEMA

        def reader(self, schema: Any) -> DataSourceReader:
            return RangeJobReader(job)

    return RangeSource


class RangeJobReader(DataSourceReader):  # type: ignore[misc]  # PySpark has no types
    """Reads one range per partition. Created in the driver, used in an executor."""

    def __init__(self, job: RangeJob) -> None:
        self._job = job

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(len(self._job.ranges))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields a row for each part, as it is finished. Errors that may pass fail the task, which Spark repeats."""
        try:
            for part in RangeProcessor(self._job, self._job.ranges[partition.value]).run():
                yield _row(part)
        except RetriableError:
            raise
        except ConnectError as e:
            yield _row(RangeFailure(e.message, socket.gethostname()))


def _row(result: object) -> pa.RecordBatch:
    return pa.record_batch([pa.array([pickle.dumps(result)], pa.binary())], [COLUMN])
