"""Runs jobs in Spark's executors, from the driver: as a Python data source whose partitions are the offset ranges of the job, and
whose rows are the results of writing them."""

from __future__ import annotations

import contextlib
import logging
import pickle
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from connect.errors import ConnectError, RetriableError
from connect.tracing import current_trace, traced
from connectors.spark.errors import explain, is_jvm_gone
from connectors.spark.executors.failures import explain_job_failure
from connectors.spark.executors.job import PartResult, RangeFailure, RangeJob
from connectors.spark.tables.open_table import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

log = logging.getLogger(__name__)

NAME = "sluice_ranges"
"""Of the data source. Spark shows the names of data sources and their options in plans and its UI, so it has no options: the job
is in the objects that PySpark sends to the processes that plan and read (promise 9)."""
COLUMN = "result"
_SCHEMA = f"{COLUMN} binary"


class JobResults(NamedTuple):
    """The parts in the order of the ranges, and the error of a range that no repetition mends."""

    parts: list[PartResult]
    failure: ConnectError | None = None


class JobRunner:
    """Runs one job at a time. :meth:`cancel` may be called from another thread."""

    def __init__(self, name: str, sessions: Sessions | None) -> None:
        """Created on the task's thread."""
        self._trace = current_trace()
        self._name = name
        self._sessions = sessions
        self._session: SparkSession | None = None
        self._lock = threading.Lock()
        self._is_cancelled = False

    def parallelism(self) -> int:
        """The number of tasks that Spark runs at once."""
        return int(self._open().sparkContext.defaultParallelism)

    def run(self, job: RangeJob) -> JobResults:
        """Blocks. Raises RetriableError if a later job may succeed, else ConnectError with host and remedy."""
        doing = f"the job of {self._name} in Spark's executors"
        with self._lock:
            self._is_cancelled = False
        try:
            with traced(self._trace, "executors job", {"sluice.ranges": len(job.ranges)}, is_root=True):
                rows = self._collect(job)
        except ConnectError:
            raise
        except Exception as e:
            if is_jvm_gone(e):
                self._session = None
                raise explain(e, doing) from e
            if self._is_cancelled:
                raise RetriableError(f"{doing} was cancelled") from e
            # Spark's exception has the traces of Python and Java; what they mean is in the message.
            raise explain_job_failure(str(e), doing, str(getattr(e, "_stackTrace", ""))) from e
        results: list[PartResult | RangeFailure] = [pickle.loads(row) for row in rows]
        failed = next((one for one in results if isinstance(one, RangeFailure)), None)
        parts = sorted((one for one in results if isinstance(one, PartResult)), key=lambda part: (part.partition, part.first))
        failure = None if failed is None else ConnectError(f"{doing}: on host {failed.host}: {failed.message}")
        return JobResults(parts, failure)

    def _collect(self, job: RangeJob) -> list[bytes]:
        session: Any = self._open()
        session.addTag(self._tag)
        session.sparkContext.setJobDescription(f"sluice: {self._name}, {len(job.ranges)} offset ranges")
        session.dataSource.register(source_of(job))
        rows: list[bytes] = session.read.format(NAME).load().toArrow()[COLUMN].to_pylist()
        return rows

    @property
    def _tag(self) -> str:
        return f"sluice-{self._name}"

    def _open(self) -> SparkSession:
        if self._session is None:
            assert self._sessions is not None
            self._session = self._sessions.session()
        return self._session

    def cancel(self) -> None:
        """Ends the running job, if there is one. Callable from any thread."""
        with self._lock:
            self._is_cancelled = True
        session: Any = self._session
        if session is not None:
            with contextlib.suppress(Exception):
                session.interruptTag(self._tag)


def source_of(job: RangeJob) -> type[DataSource]:
    """A data source with a partition for each range of the job. Its rows are pickled results, in the column COLUMN.

    The classes are local, so that PySpark sends them whole and with the job in them: an executor that lacks our packages gets as
    far as to say so, with its host.
    """
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    data, count = pickle.dumps(job), len(job.ranges)

    class RangeJobReader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(count)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            import socket

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
