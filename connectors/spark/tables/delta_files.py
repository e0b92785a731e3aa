"""Adds finished Parquet files to a Delta table through Delta's own transaction, without Spark reading and writing the rows.

Spark's append of a staged file decodes it into rows and encodes them again: four fifths of the cost of an append, for the same
file. If the task's Spark runs in this process, and the table has no feature that only Delta's row path supports, the file is
written into the table and committed by name. Everything else uses DataFrames: Spark Connect, partitioned tables, column
mapping, constraints, generated columns. A differential test keeps both ways equal.
"""

from __future__ import annotations

import datetime as dt
import json
import time
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.staging import open_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SUPPORTED_FEATURES = {
    "appendOnly",
    "invariants",
    "timestampNtz",
    "deletionVectors",
    "changeDataFeed",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
_UNSUPPORTED_SETTINGS = (
    "delta.columnMapping.mode",
    "delta.constraints.",
    "delta.enableRowTracking",
    "delta.universalFormat",
    "delta.enableIceberg",
)
# Delta truncates longer strings in its statistics; shorter ones are exact.
_MAX_STATISTICS_TEXT = 32


class FileAppender:
    """Adds files to one table. Needs a session whose JVM is accessible (``local[...]`` or a cluster's driver)."""

    def __init__(self, session: SparkSession, path: str, app_id: str) -> None:
        self._session = session
        self._jvm: Any = session._jvm
        self._path = path
        self._app_id = app_id
        self._files, self._folder = open_location(path)

    @staticmethod
    def supports(session: Any) -> bool:
        """Whether the session's JVM is accessible from this process."""
        return getattr(session, "_jvm", None) is not None

    def append(self, rows: pa.Table, commit: TableCommit) -> int | None:
        """Adds the rows as one file; without rows, only commits. Returns the version, or None when the sequence number was taken.
        Raises UnsuitableTable."""
        name = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
        transaction = self._begin()
        if transaction.txnVersion(self._app_id) >= commit.sequence:
            return None
        identity = {"txn": {"appId": self._app_id, "version": commit.sequence, "lastUpdated": int(time.time() * 1000)}}
        if not rows.num_rows:
            return self._commit(transaction, [identity], commit)
        where = f"{self._folder}/{name}"
        with self._files.open_output_stream(where) as stream:
            pq.write_table(
                rows, stream, compression="zstd", compression_level=1, row_group_size=256 * 1024, write_statistics=True
            )
        size = self._files.get_file_info(where).size
        add = {
            "path": name,
            "partitionValues": {},
            "size": size,
            "modificationTime": int(time.time() * 1000),
            "dataChange": True,
            "stats": json.dumps(file_statistics(rows), separators=(",", ":")),
        }
        # A failed commit leaves the file to VACUUM, as every Delta writer does: the log may contain it.
        return self._commit(transaction, [identity, {"add": add}], commit)

    def _begin(self) -> Any:
        jvm, session = self._jvm, self._session._jsparkSession
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session)
        transaction = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session, self._path).startTransaction()
        metadata = json.loads(transaction.metadata().json())["metaData"]
        protocol = json.loads(transaction.protocol().json())["protocol"]
        reason = find_obstacle(metadata, protocol)
        if reason is not None:
            raise UnsuitableTable(reason)
        return transaction

    def _commit(self, transaction: Any, actions: list[dict[str, Any]], commit: TableCommit) -> int:
        jvm = self._jvm
        parsed = jvm.java.util.ArrayList()
        for action in actions:
            parsed.add(jvm.org.apache.spark.sql.delta.actions.Action.fromJson(json.dumps(action)))
        sequence = jvm.scala.jdk.javaapi.CollectionConverters.asScala(parsed).toSeq()
        nothing = jvm.scala.Option.empty()
        write = getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$Write")
        mode = jvm.org.apache.spark.sql.SaveMode.Append
        told = jvm.scala.Option.apply(commit.to_json())
        operation = write(mode, nothing, nothing, told, nothing, nothing, nothing, nothing, nothing)
        return int(transaction.commit(sequence, operation))


class UnsuitableTable(Exception):
    """The table has a feature that only Delta's own writer supports."""


def find_obstacle(metadata: dict[str, Any], protocol: dict[str, Any]) -> str | None:
    """Why files cannot be added directly to a table with this metadata and protocol; None when they can."""
    if metadata.get("partitionColumns"):
        return "it is partitioned"
    for key in metadata.get("configuration", {}):
        if key.startswith(_UNSUPPORTED_SETTINGS) and metadata["configuration"][key] not in ("none", "false"):
            return f"it has {key}"
    features = set(protocol.get("writerFeatures") or ())
    if not features and int(protocol.get("minWriterVersion", 2)) > 2:
        return f"its writer version is {protocol.get('minWriterVersion')}"
    if features - _SUPPORTED_FEATURES:
        return f"it has the features {', '.join(sorted(features - _SUPPORTED_FEATURES))}"
    for member in json.loads(metadata["schemaString"])["fields"]:
        if set(member.get("metadata", {})) - {"comment"} or not member.get("nullable", True):
            return f"column {member['name']} has a constraint or column metadata"
    return None


def value_range(column: pa.ChunkedArray) -> tuple[Any, Any]:
    """The smallest and largest value; None for both if there is none, or for dates outside the years 1 to 9999."""
    found = pc.min_max(column)
    try:
        return found["min"].as_py(), found["max"].as_py()
    except (OverflowError, ValueError):
        return None, None


def file_statistics(rows: pa.Table) -> dict[str, Any]:
    """Delta's statistics of a file, used to skip it: smallest and largest value of integers, dates, and short strings."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in rows.column_names[:32]:
        column = rows[name]
        type_ = column.type
        if pa.types.is_nested(type_):
            continue
        nulls[name] = column.null_count
        if not (pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_string(type_)):
            continue
        low, high = value_range(column)
        if low is None or (isinstance(low, str) and max(len(low), len(high)) > _MAX_STATISTICS_TEXT):
            continue
        least[name], greatest[name] = (low.isoformat(), high.isoformat()) if isinstance(low, dt.date) else (low, high)
    return {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
