"""Opens tables in the configured format."""

from __future__ import annotations

from connectors.spark import session
from connectors.spark.config import SparkSinkConfig
from connectors.spark.tables.delta import DeltaTable
from connectors.spark.tables.parquet import ParquetTable
from connectors.spark.tables.staging import Staging
from connectors.spark.tables.writer import TableWriter


def make_writer(config: SparkSinkConfig, table: str, lease: session.Lease | None, staging: Staging) -> TableWriter:
    """Creates the writer of one table in the configured format. Callable from any thread."""
    path = f"{config.location}/{table}"
    target: DeltaTable | ParquetTable
    if lease is None:
        target = ParquetTable(path, config.connector)
        target.delete_drafts()
    else:
        # A merge reads its commit's settings from the session, and tables are committed in parallel.
        target = DeltaTable(lease.new_session(), path, config.connector, table)
    return TableWriter(table, config.table, config.connector, target, staging)
