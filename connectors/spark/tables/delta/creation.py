"""Creates Delta tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.sql import ddl, literal, table_at
from connectors.spark.tables.staging import open_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = "spark.databricks.delta.properties.defaults."
_LOG = "_delta_log"
_PROPERTIES = {
    # A commit that is due for a checkpoint waits for it; the sink writes checkpoints beside its commits.
    "checkpointInterval": "1000",
    # The offsets are in the table's state, so the log may be shorter than 30 days (no less than deleted files stay).
    "logRetentionDuration": "interval 7 days",
}


def file_table_properties(session: SparkSession, *, upserts: bool) -> dict[str, str]:
    """Properties of tables whose files the worker writes. Session defaults for table properties win over those of the sink."""
    wanted = {**_PROPERTIES, "enableDeletionVectors": "true"} if upserts else _PROPERTIES
    return {f"delta.{name}": session.conf.get(_DEFAULTS + name, None) or value for name, value in wanted.items()}


def create_table(
    session: SparkSession, path: str, columns: Columns, properties: Mapping[str, str], exists: Callable[[], bool], place: str
) -> None:
    """Creates an empty table if there is none. Raises ConnectError when other files are in its place."""
    listed = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
    options = f" TBLPROPERTIES ({listed})" if listed else ""
    session.sql(f"CREATE TABLE IF NOT EXISTS {table_at(path)} ({ddl(columns)}) USING delta{options}")
    if exists():
        return
    # IF NOT EXISTS ignores every folder that is not empty.
    _refuse_other_files(path, place)
    # A log without a commit: the creation ended early, on a full disk or with its process. A write does not mind, and if
    # another task creates the table right now, it adds nothing.
    empty = session.createDataFrame([], ddl(columns))
    empty.write.format("delta").mode("append").options(**properties).save(path)


def _refuse_other_files(path: str, place: str) -> None:
    files, folder = open_location(path)
    is_folder = files.get_file_info(folder).type != fs.FileType.File
    found = [info.base_name for info in files.get_file_info(fs.FileSelector(folder, allow_not_found=True))] if is_folder else [""]
    others = sorted(name for name in found if name != _LOG)
    if others:
        what = f"there are other files, such as {others[0]}" if others[0] else "it is a file"
        raise ConnectError(
            f"{place} cannot be created, because {what}. Move what is there away, or write into another table (table.location, "
            "table.name.format); then restart the task"
        )
