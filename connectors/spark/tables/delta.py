"""Reads and commits one Delta table through the task's Spark session."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connect.record import TopicPartition
from connectors.spark.errors import error_condition
from connectors.spark.plan.evolution import Columns, arrow_type, contains_timestamp_ntz, sql_type
from connectors.spark.plan.sql import ddl, table_at
from connectors.spark.tables.committed_offsets import CommittedOffsets, TableCommit, parse_commit
from connectors.spark.tables.delta_files import FileAppender, UnsuitableTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"
_APP_ID = "spark.databricks.delta.write.txnAppId"
_APP_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_ABSENT = (
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_MISSING_DELTA_TABLE",
    "PATH_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_SCHEMA_NOT_SET",
)
_SOURCE_VIEW = "sluice_source"
_DEPTHS = (50, 2_000, None)


class DeltaTable:
    """One Delta table. Every commit is a compare-and-set: it fails if another commit of this connector took its sequence number
    since the committed offsets were read (Delta's transaction identifiers ensure this). So the offsets are still valid when the
    rows arrive, and two tasks that both believe they own a partition cannot both add its records."""

    def __init__(self, session: SparkSession, path: str, connector: str, table: str) -> None:
        self._session = session
        self.path = path
        self._connector = connector
        self._name = table_at(path)
        self._app_id = f"sluice:{connector}:{table}"
        self._appender = FileAppender(session, path, self._app_id) if FileAppender.supports(session) else None

    def columns(self) -> Columns | None:
        """The table's columns, or None when the table does not exist."""
        try:
            schema = self._session.read.format("delta").load(self.path).schema
        except Exception as e:
            if error_condition(e).partition(".")[0] in _ABSENT or "is not a Delta table" in str(e):
                return None
            raise
        return {f["name"]: arrow_type(f["type"]) for f in json.loads(schema.json())["fields"]}

    def committed_offsets(self, partitions: Collection[TopicPartition]) -> CommittedOffsets:
        """Reads the committed offsets of these partitions from the table's history, newest commits first, as far as needed.

        History covers ``delta.logRetentionDuration`` (30 days). Every commit of a task names all its partitions, so offsets are
        missing only if the connector has not written to the table for that long; then the consumer group's offsets apply.
        """
        committed_offsets = CommittedOffsets()
        for depth in _DEPTHS:
            limit = "" if depth is None else f" LIMIT {depth}"
            rows = self._session.sql(f"DESCRIBE HISTORY {self._name}{limit}").select("version", "userMetadata").collect()
            committed_offsets = CommittedOffsets()
            for row in rows:
                commit = parse_commit(row["userMetadata"])
                if commit is not None and commit.connector == self._connector:
                    committed_offsets.add_older_commit(commit)
            if committed_offsets.covers(partitions) or depth is None or len(rows) < depth:
                break
            if not partitions and depth != _DEPTHS[0]:
                break  # the caller asked only whether this connector writes to the table
        return committed_offsets

    def add_columns(self, added: list[tuple[str, pa.DataType]]) -> None:
        """Adds columns (quoted paths) at the end, in a separate commit without records: harmless if no further commit follows."""
        if any(contains_timestamp_ntz(t) for _, t in added):
            self._session.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')")
        columns = ", ".join(f"{path} {sql_type(t)}" for path, t in added)
        self._session.sql(f"ALTER TABLE {self._name} ADD COLUMNS ({columns})")

    def create(self, columns: Columns) -> None:
        """Creates the table, empty, if it does not exist."""
        self._session.sql(f"CREATE TABLE IF NOT EXISTS {self._name} ({ddl(columns)}) USING delta")

    @property
    def accepts_files(self) -> bool:
        """Whether :meth:`append_file` may be called."""
        return self._appender is not None

    def append_file(self, rows: pa.Table, commit: TableCommit) -> int | None:
        """Like :meth:`append`, but writes the file without Spark. Raises UnsuitableTable; later calls are not allowed then."""
        assert self._appender is not None
        try:
            return self._appender.append(rows, commit)
        except UnsuitableTable as e:
            log.info("Appending to table %s at %s with DataFrames because %s", self._app_id, self.path, e)
            self._appender = None
            raise

    def append(self, staged: str, columns: Columns, commit: TableCommit, *, overwrite: bool = False) -> int | None:
        """Appends staged rows, or replaces all rows by them; creates the table if needed. Returns the version, or None when
        the commit failed because its sequence number was taken."""
        self._clear_last_version()
        writer = (
            self._read(staged, columns)
            .write.format("delta")
            .mode("overwrite" if overwrite else "append")
            .option("txnAppId", self._app_id)
            .option("txnVersion", str(commit.sequence))
            .option("userMetadata", commit.to_json())
        )
        writer.save(self.path)
        return self._last_version()

    def merge(self, staged: str, columns: Columns, statement: str, commit: TableCommit) -> int | None:
        """Runs a MERGE whose source is the staged rows. Returns the same as :meth:`append`."""
        self._clear_last_version()
        self._read(staged, columns).createOrReplaceTempView(_SOURCE_VIEW)
        try:
            with self._commit_settings(commit):
                self._session.sql(statement)
        finally:
            self._session.catalog.dropTempView(_SOURCE_VIEW)
        return self._last_version()

    def run_statement(self, statement: str) -> None:
        """Runs a statement that commits no offsets."""
        self._session.sql(statement)

    def commit_metadata(self, commit: TableCommit) -> int | None:
        """Commits only offsets, without rows (a reset over REST)."""
        self._clear_last_version()
        with self._commit_settings(commit):
            self._session.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ('sluice.reset' = '{commit.sequence}')")
        return self._last_version()

    def bounds(self, column: str) -> tuple[Any, Any] | None:
        """Smallest and largest value of a column, usually from the log's statistics, without reading data. None when Python
        cannot represent them (dates outside the years 1 to 9999)."""
        from pyspark.sql import functions as f

        # A DataFrame, so that the column name is not subject to SQL's quoting rules.
        frame = self._session.read.format("delta").load(self.path)
        quoted = "`" + column.replace("`", "``") + "`"
        try:
            row = frame.select(f.min(f.col(quoted)), f.max(f.col(quoted))).collect()[0]
        except (OverflowError, ValueError):
            return None
        return row[0], row[1]

    @property
    def source_view(self) -> str:
        return _SOURCE_VIEW

    @property
    def sql_name(self) -> str:
        return self._name

    def _read(self, staged: str, columns: Columns) -> DataFrame:
        # With a given schema, Spark opens no file before it writes.
        return self._session.read.schema(ddl(columns)).parquet(staged)

    @contextlib.contextmanager
    def _commit_settings(self, commit: TableCommit) -> Iterator[None]:
        # MERGE reads them only from the session; no other task uses this session (delta-io/delta#3934).
        settings = {_APP_ID: self._app_id, _APP_VERSION: str(commit.sequence), _USER_METADATA: commit.to_json()}
        for key, value in settings.items():
            self._session.conf.set(key, value)
        try:
            yield
        finally:
            for key in settings:
                self._session.conf.unset(key)

    def _clear_last_version(self) -> None:
        self._session.conf.unset(_LAST_COMMIT)

    def _last_version(self) -> int | None:
        version = self._session.conf.get(_LAST_COMMIT, None)
        return None if version is None else int(version)
