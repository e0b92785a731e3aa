"""Creates Delta tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyarrow import fs

from connect.errors import ConfigError, ConnectError
from connectors.spark import config_keys
from connectors.spark.config import WantedLayout
from connectors.spark.partition_terms import PARTITION_COLUMNS
from connectors.spark.plan.evolution import Columns, quote, sql_type
from connectors.spark.plan.sql import ddl, literal, table_at
from connectors.spark.s3_settings import S3Settings
from connectors.spark.tables.delta.suitability import find_property_obstacles
from connectors.spark.tables.files.partition_values import has_text
from connectors.spark.tables.staging import open_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = "spark.databricks.delta.properties.defaults."
_LOG = "_delta_log"
_PROPERTIES = {
    # A commit that is due for a checkpoint waits for it; the sink writes checkpoints beside its commits.
    "checkpointInterval": "1000",
    # The offsets are in the table's state, so the log may be shorter than 30 days, Delta's default (no less than deleted files
    # stay).
    "logRetentionDuration": "interval 7 days",
}


def file_table_properties(session: SparkSession, given: Mapping[str, str], *, upserts: bool) -> dict[str, str]:
    """Properties of new tables whose files the worker writes, besides those that are given. Session defaults for table properties
    win over those of the sink."""
    wanted = {**_PROPERTIES, "enableDeletionVectors": "true"} if upserts else _PROPERTIES
    found = {f"delta.{name}": session.conf.get(_DEFAULTS + name, None) or value for name, value in wanted.items()}
    # The offsets of tables that Spark writes are in their log only.
    return {} if any(find_property_obstacles({**found, **given}, upserts=upserts)) else found


def create_table(
    session: SparkSession,
    path: str,
    columns: Columns,
    layout: WantedLayout,
    properties: Mapping[str, str],
    exists: Callable[[], bool],
    place: str,
    s3: S3Settings | None = None,
) -> None:
    """Creates an empty table if there is none. Raises ConfigError for a layout that does not fit the columns, and ConnectError
    when other files are in its place."""
    properties = {**properties, **dict(layout.properties)}
    listed = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
    options = f" TBLPROPERTIES ({listed})" if listed else ""
    clause = layout_clause(columns, layout)
    try:
        session.sql(f"CREATE TABLE IF NOT EXISTS {table_at(path)} ({ddl(columns)}) USING delta{clause}{options}")
    except Exception:
        # Without a lock, as on S3, another process may have created it in the meantime.
        if not exists():
            raise
    if exists():
        return
    # IF NOT EXISTS ignores every folder that is not empty.
    _refuse_other_files(path, place, s3)
    # A log without a commit: the creation ended early, on a full disk or with its process. A write does not mind, and if
    # another task creates the table right now, it adds nothing.
    writer = session.createDataFrame([], ddl(columns)).write.format("delta").mode("append").options(**properties)
    if layout.partition_columns:
        writer = writer.partitionBy(*layout.partition_columns)
    elif layout.cluster_columns:
        writer = writer.clusterBy(*layout.cluster_columns)
    writer.save(path)


def layout_clause(columns: Columns, layout: WantedLayout) -> str:
    """The clause of CREATE TABLE for a layout, with a space before it. Raises ConfigError for columns that cannot have it."""
    for key, names in ((PARTITION_COLUMNS, layout.partition_columns), (config_keys.CLUSTER_COLUMNS, layout.cluster_columns)):
        for name in names:
            if name not in columns:
                raise ConfigError.invalid(key, name, f"the table would have only the columns {', '.join(columns)}")
            if not has_text(columns[name]):
                raise ConfigError.invalid(key, name, f"the column has the type {sql_type(columns[name])}, which cannot be one")
    if layout.partition_columns and not set(columns) - set(layout.partition_columns):
        raise ConfigError.invalid(PARTITION_COLUMNS, ", ".join(layout.partition_columns), "the table has no other column")
    listed = ", ".join(quote(name) for name in layout.partition_columns or layout.cluster_columns)
    if not listed:
        return ""
    return f" PARTITIONED BY ({listed})" if layout.partition_columns else f" CLUSTER BY ({listed})"


def _refuse_other_files(path: str, place: str, s3: S3Settings | None) -> None:
    files, folder = open_location(path, s3)
    is_folder = files.get_file_info(folder).type != fs.FileType.File
    found = [info.base_name for info in files.get_file_info(fs.FileSelector(folder, allow_not_found=True))] if is_folder else [""]
    others = sorted(name for name in found if name != _LOG)
    if others:
        what = f"there are other files, such as {others[0]}" if others[0] else "it is a file"
        raise ConnectError(
            f"{place} cannot be created, because {what}. Move what is there away, or write into another table (table.location, "
            "table.name.format); then restart the task"
        )
