"""SQL statements on Delta tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connect.errors import ConfigError
from connectors.spark import config
from connectors.spark.config import WantedLayout
from connectors.spark.plan.evolution import Columns, contains_timestamp_ntz, quote, sql_type
from connectors.spark.plan.sql import ddl, literal, table_at
from connectors.spark.tables.delta.data_files import value_range
from connectors.spark.tables.delta.partition_values import has_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAX_LITERAL_LENGTH = 128
_DEFAULTS = "spark.databricks.delta.properties.defaults."
_PROPERTIES = {
    # A commit that is due for a checkpoint waits for it; the sink writes checkpoints beside its commits.
    "checkpointInterval": "1000",
    # The offsets are in the table's state, so the log may be shorter than 30 days (no less than deleted files stay).
    "logRetentionDuration": "interval 7 days",
}


def create_table(session: SparkSession, path: str, columns: Columns, layout: WantedLayout, *, upserts: bool) -> None:
    """Creates an empty table if there is none. Session defaults for table properties win over those of the sink. Raises
    ConfigError for a layout that does not fit the columns."""
    wanted = {**_PROPERTIES, "enableDeletionVectors": "true"} if upserts else _PROPERTIES
    properties = {f"delta.{name}": session.conf.get(_DEFAULTS + name, None) or value for name, value in wanted.items()}
    listed = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
    clause = layout_clause(columns, layout)
    session.sql(f"CREATE TABLE IF NOT EXISTS {table_at(path)} ({ddl(columns)}) USING delta{clause} TBLPROPERTIES ({listed})")


def layout_clause(columns: Columns, layout: WantedLayout) -> str:
    """The clause of CREATE TABLE for a layout, with a space before it. Raises ConfigError for columns that cannot have it."""
    for key, names in ((config.PARTITION_COLUMNS, layout.partition_columns), (config.CLUSTER_COLUMNS, layout.cluster_columns)):
        for name in names:
            if name not in columns:
                raise ConfigError.invalid(key, name, f"the table would have only the columns {', '.join(columns)}")
            if not has_text(columns[name]):
                raise ConfigError.invalid(key, name, f"the column has the type {sql_type(columns[name])}, which cannot be one")
    if layout.partition_columns and not set(columns) - set(layout.partition_columns):
        raise ConfigError.invalid(config.PARTITION_COLUMNS, ", ".join(layout.partition_columns), "the table has no other column")
    listed = ", ".join(quote(name) for name in layout.partition_columns or layout.cluster_columns)
    if not listed:
        return ""
    return f" PARTITIONED BY ({listed})" if layout.partition_columns else f" CLUSTER BY ({listed})"


def key_bounds(column: pa.ChunkedArray) -> tuple[Any, Any]:
    """The smallest and largest key, as literals that let Delta skip files; None for both if they would not help."""
    type_ = column.type
    if not (pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_string(type_)):
        return None, None
    low, high = value_range(column)
    if isinstance(low, str) and max(len(low), len(high)) > _MAX_LITERAL_LENGTH:
        return None, None
    return low, high


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
