"""Runs jobs in Spark's executors, from the driver."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import sys
import threading
from typing import TYPE_CHECKING, Any

from connect.errors import ConnectError, RetriableError
from connect.tracing import current_trace, traced
from connectors.spark.config import SparkConfig
from connectors.spark.errors import explain, is_jvm_gone
from connectors.spark.executors.failures import explain_job_failure
from connectors.spark.executors.job import PartResult, RangeFailure, RangeJob
from connectors.spark.tables.open_table import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_PYTHON = "spark.pyspark.python"


class JobRunner:
    """Runs one job at a time. :meth:`cancel` may be called from another thread."""

    def __init__(self, name: str, spark: SparkConfig, sessions: Sessions | None) -> None:
        """Created on the task's thread."""
        self._trace = current_trace()
        self._name = name
        self._spark = spark
        self._sessions = sessions
        self._session: SparkSession | None = None
        self._lock = threading.Lock()
        self._is_cancelled = False

    def parallelism(self) -> int:
        """The number of tasks that Spark runs at once."""
        return int(self._open().sparkContext.defaultParallelism)

    def run(self, job: RangeJob) -> list[PartResult]:
        """Returns the parts in the order of the ranges. Blocks. Raises RetriableError if a later job may succeed, else
        ConnectError with host and remedy."""
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
        found: list[PartResult] = []
        for row in rows:
            result = pickle.loads(row)
            if isinstance(result, RangeFailure):
                raise ConnectError(f"{doing}: on host {result.host}: {result.message}")
            found.append(result)
        return sorted(found, key=lambda part: (part.partition, part.first))

    def _collect(self, job: RangeJob) -> list[bytes]:
        from connectors.spark.executors.data_source import COLUMN, NAME, source_of

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
            session: Any = self._sessions.session()
            context = session.sparkContext
            conf = context.getConf()
            is_local = self._spark.master.startswith("local")
            # PySpark's default is the python3 of the PATH.
            context.pythonExec = conf.get(_PYTHON) or os.environ.get("PYSPARK_PYTHON") or sys.executable
            if is_local:
                context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
            self._session = session
        return self._session

    def cancel(self) -> None:
        """Ends the running job, if there is one. Callable from any thread."""
        with self._lock:
            self._is_cancelled = True
        session: Any = self._session
        if session is not None:
            with contextlib.suppress(Exception):
                session.interruptTag(self._tag)
