"""SQL statements on Delta tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from connectors.spark import config
from connectors.spark.plan.evolution import Columns, contains_timestamp_ntz, quote, sql_type
from connectors.spark.plan.sql import ddl, literal, table_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = "spark.databricks.delta.properties.defaults."
_PROPERTIES = {
    # A commit that is due for a checkpoint waits for it; the sink writes checkpoints beside its commits.
    "checkpointInterval": "1000",
    # The offsets are in the table's state, so the log may be shorter than 30 days (no less than deleted files stay).
    "logRetentionDuration": "interval 7 days",
}


def create_table(session: SparkSession, path: str, columns: Columns, *, upserts: bool) -> None:
    """Creates an empty table if there is none. Session defaults for table properties win over those of the sink."""
    wanted = {**_PROPERTIES, "enableDeletionVectors": "true"} if upserts else _PROPERTIES
    properties = {f"delta.{name}": session.conf.get(_DEFAULTS + name, None) or value for name, value in wanted.items()}
    listed = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
    session.sql(f"CREATE TABLE IF NOT EXISTS {table_at(path)} ({ddl(columns)}) USING delta TBLPROPERTIES ({listed})")


def add_columns(session: SparkSession, path: str, added: list[tuple[str, pa.DataType]]) -> None:
    """Adds columns (quoted paths) at the end, in a separate commit without records: harmless if no further commit follows."""
    table = table_at(path)
    if any(contains_timestamp_ntz(t) for _, t in added):
        session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')")
    columns = ", ".join(f"{name} {sql_type(t)}" for name, t in added)
    session.sql(f"ALTER TABLE {table} ADD COLUMNS ({columns})")


def mark_all_deleted(session: SparkSession, path: str) -> None:
    """Sets ``__deleted`` in all rows, in a separate commit."""
    deleted = quote(config.DELETED)
    session.sql(f"UPDATE {table_at(path)} SET {deleted} = true WHERE NOT coalesce({deleted}, false)")
