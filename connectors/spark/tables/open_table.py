"""Opens the tables of a sink."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import SparkSinkConfig
from connectors.spark.tables.application_ids import Identify
from connectors.spark.tables.delta.delta_table import DeltaTable
from connectors.spark.tables.delta.file_table import DeltaFileTable
from connectors.spark.tables.delta.sql_table import DeltaSqlTable
from connectors.spark.tables.parquet import ParquetTable
from connectors.spark.tables.parquet_adapter import ParquetSinkTable
from connectors.spark.tables.staging import Staging
from connectors.spark.tables.table import Table
from connectors.spark.tables.writer import TableWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_writer(
    config: SparkSinkConfig, table: str, lease: session.Lease | None, staging: Staging, identify: Identify, task: str = "0"
) -> TableWriter:
    """The writer of one table in the configured format, for the task of this number. Waits for Spark."""
    return TableWriter(table, config.table, open_table(config, table, lease, staging, identify, task))


def reaches_jvm(spark: SparkSession) -> bool:
    """Whether commits can go to the session's JVM: not with Spark Connect."""
    return getattr(spark, "_jvm", None) is not None


def open_table(
    config: SparkSinkConfig, table: str, lease: session.Lease | None, staging: Staging, identify: Identify, task: str = "0"
) -> Table:
    """The table in the configured format. Waits for Spark."""
    path = f"{config.location}/{table}"
    if lease is None:
        parquet = ParquetTable(path, config.connector, task=task)
        parquet.delete_drafts()
        return ParquetSinkTable(parquet, config.connector)
    spark = lease.session()
    fail = config.table.unavailable_fails
    with_spark = partial(DeltaSqlTable, spark, path, table, config.connector, staging, fail_unavailable=fail)

    def history() -> Mapping[TopicPartition, int]:
        return with_spark().committed_offsets(()).ends

    if not reaches_jvm(spark):
        return DeltaTable(table, None, with_spark)
    files = DeltaFileTable(
        spark,
        path,
        table,
        config.connector,
        identify,
        upserts=config.table.upserts,
        fail_unavailable=fail,
        history=history,
    )
    return DeltaTable(table, files, with_spark)
