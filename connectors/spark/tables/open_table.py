"""Opens the tables of a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from connectors.spark.config import SparkConfig, SparkSinkConfig
from connectors.spark.config_keys import ICEBERG
from connectors.spark.tables.application_ids import Identify
from connectors.spark.tables.delta.delta_table import DeltaTable
from connectors.spark.tables.delta.key_search import KeySearch
from connectors.spark.tables.delta.sql_table import DeltaSqlTable
from connectors.spark.tables.delta.table_format import DeltaTableFormat
from connectors.spark.tables.file_table import FileTable
from connectors.spark.tables.files.compaction import CompactionSettings
from connectors.spark.tables.iceberg.library import IcebergName
from connectors.spark.tables.iceberg.table_format import IcebergTableFormat
from connectors.spark.tables.parquet.table import ParquetTable
from connectors.spark.tables.staging import Staging
from connectors.spark.tables.table import Table
from connectors.spark.tables.table_format import FileTableSettings
from connectors.spark.tables.writer import TableWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Sessions(Protocol):
    """Where a table gets its Spark sessions from: the lease of a task, for example."""

    def session(self) -> SparkSession:
        """Returns a new session, which shares no settings and no views with others."""
        ...


def make_writer(
    config: SparkSinkConfig, table: str, lease: Sessions | None, staging: Staging | None, identify: Identify
) -> TableWriter:
    """The writer of one table in the configured format. Waits for Spark."""
    return TableWriter(table, config.of_table(table), open_table(config, table, lease, staging, identify), identify)


def reaches_jvm(spark: SparkConfig) -> bool:
    """Whether commits can go to the session's JVM: not with Spark Connect."""
    return not spark.remote


def open_table(config: SparkSinkConfig, table: str, lease: Sessions | None, staging: Staging | None, identify: Identify) -> Table:
    """The table in the configured format. Waits for Spark."""
    path, of_table = f"{config.location}/{table}", config.of_table(table)
    if lease is None:
        return ParquetTable(path, config.connector, identify, config.spark.s3)
    fail, layout = of_table.unavailable_fails, of_table.layout
    settings = FileTableSettings(
        config.connector,
        of_table.upserts,
        fail,
        of_table.max_index_keys,
        layout,
        CompactionSettings(of_table.compaction_target_bytes, of_table.compaction_min_files),
        of_table.vacuum_interval_ms / 1000,
        of_table.deleted_retention_ms,
    )
    if config.table_format == ICEBERG:
        name = IcebergName.parse(config.catalog, table if config.catalog else path)
        iceberg = IcebergTableFormat(name, settings, lease.session, dict(config.spark.conf), of_table.branch)
        return FileTable(iceberg, settings, identify)
    assert staging is not None

    def with_spark(spark: SparkSession) -> DeltaSqlTable:
        return DeltaSqlTable(spark, path, table, config.connector, staging, layout, fail_unavailable=fail)

    def files(spark: SparkSession) -> Table:
        form = DeltaTableFormat(spark, path, table, settings, KeySearch(spark, path, staging), config.spark.s3)
        return FileTable(form, settings, identify)

    return DeltaTable(table, lease.session, files if reaches_jvm(config.spark) else None, with_spark)
