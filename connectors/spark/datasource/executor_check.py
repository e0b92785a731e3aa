"""Checks before a query starts that the executors of a cluster reach a spool."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from connect.errors import ConfigError, RetriableError
from connect.spool.locks import LOCATION_KEY
from connectors.spark.datasource.options import parse_options
from connectors.spark.executors.failures import explain_job_failure
from connectors.spark.masters import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_executors(spark: SparkSession, source: Mapping[str, str]) -> None:
    """Checks that executors have Sluice and reach the spool. Raises ConnectError that names executor, host, and remedy.

    ``source`` are the options of the data source. Blocks while a Spark job reads a file back, with a task for each core. Sessions
    on this host need no check: it returns at once. Call it after ``register``.
    """
    context = spark.sparkContext
    if is_local(str(context.master)):
        return
    directory = parse_options(source).spool.location
    probe = directory / f"probe-{secrets.token_hex(8)}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.touch()
    except OSError as e:
        raise ConfigError.invalid(LOCATION_KEY, directory, f"the directory cannot be written to: {e.strerror}") from e
    tasks = context.defaultParallelism
    try:
        spark.range(0, tasks, 1, tasks).mapInArrow(partial(_require, probe), "id long").collect()
    except Exception as e:
        raise explain_job_failure(str(e), f"executors cannot read the spool {directory}") from e
    finally:
        probe.unlink(missing_ok=True)


def _require(probe: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in an executor."""
    if not probe.exists():
        raise RetriableError(
            f"{probe.parent} on host {os.uname().nodename} is not the directory of the driver's host: {LOCATION_KEY} must be a "
            "directory that all hosts mount"
        )
    yield from batches
