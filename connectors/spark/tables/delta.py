"""One Delta table, through a Spark session of the task's own."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connect.record import TopicPartition
from connectors.spark.errors import condition_of
from connectors.spark.plan.evolution import Columns, arrow_type, holds_wall_clock, sql_type
from connectors.spark.plan.sql import ddl, table_at
from connectors.spark.tables.committed_offsets import Commit, Ledger, read_commit
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
    """Reads and commits one table. Every commit is compare-and-set: it lands only if no other commit of this connector took
    its sequence number since the ledger was read (Delta's transaction identifiers see to it), so what a ledger said still
    holds when the rows arrive, and two tasks that both believe to own a partition cannot both add its records."""

    def __init__(self, session: SparkSession, path: str, connector: str, table: str) -> None:
        self._session = session
        self.path = path
        self._connector = connector
        self._name = table_at(path)
        self._app_id = f"sluice:{connector}:{table}"
        self._appender = FileAppender(session, path, self._app_id) if FileAppender.serves(session) else None

    def columns(self) -> Columns | None:
        """The table's columns, or None when there is no table."""
        try:
            schema = self._session.read.format("delta").load(self.path).schema
        except Exception as e:
            if condition_of(e).partition(".")[0] in _ABSENT or "is not a Delta table" in str(e):
                return None
            raise
        return {f["name"]: arrow_type(f["type"]) for f in json.loads(schema.json())["fields"]}

    def ledger(self, partitions: Collection[TopicPartition]) -> Ledger:
        """What the table's own history says of these partitions: newest commits first, further back only if it must.

        History reaches as far as ``delta.logRetentionDuration`` (30 days). Every commit of a task names all its partitions,
        so only a table that the connector has not touched for so long has none; then the consumer group's offset counts.
        """
        ledger = Ledger()
        for depth in _DEPTHS:
            limit = "" if depth is None else f" LIMIT {depth}"
            rows = self._session.sql(f"DESCRIBE HISTORY {self._name}{limit}").select("version", "userMetadata").collect()
            ledger = Ledger()
            for row in rows:
                commit = read_commit(row["userMetadata"])
                if commit is not None and commit.connector == self._connector:
                    ledger.read_back(commit)
            if ledger.knows(partitions) or depth is None or len(rows) < depth:
                break
            if not partitions and depth != _DEPTHS[0]:
                break  # only whether the table is ours at all was asked
        return ledger

    def add_columns(self, added: list[tuple[str, pa.DataType]]) -> None:
        """Adds columns (quoted paths) at the end. A commit of its own, without records: harmless when nothing follows it."""
        if any(holds_wall_clock(t) for _, t in added):
            self._session.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')")
        columns = ", ".join(f"{path} {sql_type(t)}" for path, t in added)
        self._session.sql(f"ALTER TABLE {self._name} ADD COLUMNS ({columns})")

    def create(self, columns: Columns) -> None:
        """Makes the table, empty, if there is none."""
        self._session.sql(f"CREATE TABLE IF NOT EXISTS {self._name} ({ddl(columns)}) USING delta")

    @property
    def takes_files(self) -> bool:
        """Whether :meth:`append_file` may be tried."""
        return self._appender is not None

    def append_file(self, rows: pa.Table, commit: Commit) -> int | None:
        """As :meth:`append`, without Spark between the rows and the file. Raises UnsuitableTable, once and for all."""
        assert self._appender is not None
        try:
            return self._appender.append(rows, commit)
        except UnsuitableTable as e:
            log.info("Table %s at %s is appended to by DataFrames, for %s", self._app_id, self.path, e)
            self._appender = None
            raise

    def append(self, staged: str, columns: Columns, commit: Commit, *, overwrite: bool = False) -> int | None:
        """Adds staged rows, or puts them in place of all rows; makes the table if there is none. The version, or None when
        the commit did not land because its sequence number was taken."""
        self._forget_last()
        writer = (
            self._read(staged, columns)
            .write.format("delta")
            .mode("overwrite" if overwrite else "append")
            .option("txnAppId", self._app_id)
            .option("txnVersion", str(commit.sequence))
            .option("userMetadata", commit.to_json())
        )
        writer.save(self.path)
        return self._landed()

    def execute(self, staged: str, columns: Columns, statement: str, commit: Commit) -> int | None:
        """Runs a MERGE whose source is the staged rows; see :meth:`append` for the answer."""
        self._forget_last()
        self._read(staged, columns).createOrReplaceTempView(_SOURCE_VIEW)
        try:
            with self._commit_settings(commit):
                self._session.sql(statement)
        finally:
            self._session.catalog.dropTempView(_SOURCE_VIEW)
        return self._landed()

    def run(self, statement: str) -> None:
        """Runs a statement that commits no records."""
        self._session.sql(statement)

    def note(self, commit: Commit) -> int | None:
        """A commit that changes no row, only what is said of offsets (a reset over REST)."""
        self._forget_last()
        with self._commit_settings(commit):
            self._session.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ('sluice.reset' = '{commit.sequence}')")
        return self._landed()

    def bounds(self, column: str) -> tuple[Any, Any] | None:
        """Least and greatest value of a column: from the log's statistics as a rule, without reading data. None when Python
        cannot hold them, as dates outside of the years 1 to 9999."""
        from pyspark.sql import functions as f

        # By DataFrame, so that the column's name needs no quoting rules of another language.
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
        # With the schema given Spark opens no file before it writes.
        return self._session.read.schema(ddl(columns)).parquet(staged)

    @contextlib.contextmanager
    def _commit_settings(self, commit: Commit) -> Iterator[None]:
        # MERGE takes them from the session only; the session is this task's alone (delta-io/delta#3934).
        settings = {_APP_ID: self._app_id, _APP_VERSION: str(commit.sequence), _USER_METADATA: commit.to_json()}
        for key, value in settings.items():
            self._session.conf.set(key, value)
        try:
            yield
        finally:
            for key in settings:
                self._session.conf.unset(key)

    def _forget_last(self) -> None:
        self._session.conf.unset(_LAST_COMMIT)

    def _landed(self) -> int | None:
        version = self._session.conf.get(_LAST_COMMIT, None)
        return None if version is None else int(version)
