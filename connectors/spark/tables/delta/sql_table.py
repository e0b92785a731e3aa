"""A Delta table that Spark writes: staged rows are appended with DataFrames or applied with MERGE.

For Spark Connect, whose JVM is out of reach, and for tables with features that only Delta's own writer supports. A MERGE can
carry a single transaction identifier, so the offsets are in the commits' user metadata, and all tasks of a connector share one
sequence per table.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from connect import crash_points
from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connectors.spark import config_keys
from connectors.spark.config import WantedLayout
from connectors.spark.errors import error_condition
from connectors.spark.plan.evolution import Columns, arrow_type
from connectors.spark.plan.sql import (
    DELETE_FLAG,
    KEEP_PREFIX,
    UNAVAILABLE_COUNT,
    ddl,
    key_bounds,
    merge_statement,
    missing_rows_query,
    table_at,
)
from connectors.spark.tables.application_ids import StoredOffsets, spark_writer_id
from connectors.spark.tables.committed_offsets import CommittedOffsets, TableCommit, collect_committed_offsets, next_sequence
from connectors.spark.tables.delta.checks import refuse_written_by_worker
from connectors.spark.tables.delta.creation import create_table
from connectors.spark.tables.delta.log import DeltaLog
from connectors.spark.tables.delta.log_files import read_application_versions
from connectors.spark.tables.delta.statements import add_columns, widen_columns
from connectors.spark.tables.staging import Staging, local_folder, open_location
from connectors.spark.tables.table import Defaults, OffsetCommit, TableState, Upsert
from connectors.spark.tables.table_lock import commit_lock, creation_lock

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
_DEPTHS = (50, 2_000, None)


class DeltaSqlTable:
    """Every commit is a compare-and-set: it fails if another commit of this connector took its sequence number since the offsets
    were read (Delta's transaction identifiers ensure this)."""

    def __init__(
        self,
        session: SparkSession,
        path: str,
        table: str,
        connector: str,
        staging: Staging,
        layout: WantedLayout,
        *,
        fail_unavailable: bool,
    ) -> None:
        self._session = session
        self.path = path
        self._connector = connector
        self._staging = staging
        self._wanted_layout = layout
        self._fail_unavailable = fail_unavailable
        self._name = table_at(path)
        self._place = f"table {table} at {path}"
        self._app_id = spark_writer_id(connector, table)
        self._log = DeltaLog(*open_location(path, staging.s3))
        self._commit_lock = commit_lock(local_folder(f"{path}/_delta_log"))
        # On Spark Connect, sessions of one user share their temporary views.
        self._source_view = f"sluice_source_{uuid.uuid4().hex}"
        self._committed = CommittedOffsets()
        self._figures = {"unavailable": 0}

    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        columns = self._columns()
        committed = CommittedOffsets() if columns is None else self._committed_offsets(partitions)
        self._committed = committed
        partitions_of = () if columns is None else self._partition_columns()
        return TableState(columns, dict(committed.ends), partitions_of)

    def create(self, columns: Columns, keys: Sequence[str]) -> None:
        layout, s3 = self._wanted_layout, self._staging.s3
        with creation_lock(local_folder(self.path)):
            create_table(self._session, self.path, columns, layout, {}, lambda: self._columns() is not None, self._place, s3)

    def add_columns(self, added: list[tuple[str, pa.DataType]], columns: Columns, defaults: Defaults) -> None:
        with self._commit_lock.held():
            add_columns(self._session, self.path, added)
        if defaults:
            log.warning(
                "%s: existing rows are null in %s, because added.columns.default=schema needs a table whose files the worker can "
                "write; update the rows with Spark to set the default",
                self._place,
                ", ".join(defaults),
            )

    def widen_columns(self, widened: list[tuple[str, pa.DataType]]) -> None:
        with self._commit_lock.held():
            widen_columns(self._session, self.path, widened)

    def file_target(self) -> None:
        return None

    def append(self, rows: pa.Table, commit: OffsetCommit) -> int | None:
        return self._append(rows, commit, overwrite=False)

    def upsert(self, upsert: Upsert, commit: OffsetCommit) -> int | None:
        for setting, is_used in (
            ("write.mode=scd2", upsert.keeps_versions),
            ("sequence.by=source", upsert.by_source),
            ("a truncate with delete.mode=soft", upsert.update is not None),
        ):
            if is_used:
                raise ConnectError(
                    f"{self._place}: {setting} needs a table whose files the worker can write; it cannot with Spark Connect "
                    "(spark.remote), without deletion vectors, with features that only Delta's own writer supports, or once "
                    "Spark has written rows of this connector"
                )
        deletes = not upsert.soft_deletes and bool(pc.any(upsert.changes.deleted).as_py())
        if upsert.truncates:
            rows, missing = _without_unavailable(upsert)
            self._refuse_unavailable(missing, upsert.changes.keep)
            rows = rows.filter(pc.invert(upsert.changes.deleted)) if deletes else rows
            return self._count_unavailable(self._append(rows, commit, overwrite=True), missing + upsert.changes.unavailable)
        if not upsert.rows.num_rows:
            return self._append(upsert.rows, commit, overwrite=False)
        return self._merge(upsert, commit, deletes=deletes)

    def stored_ends(self) -> Mapping[TopicPartition, int]:
        return self._committed_offsets(()).ends

    def move_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        if not offsets or self._columns() is None:
            return
        committed = self._committed_offsets(list(offsets))
        document = TableCommit(self._connector, next_sequence(committed), {}, {**committed.ends, **offsets})
        self._clear_last_version()
        with self._commit_lock.held(), self._commit_settings(document):
            self._session.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ('sluice.reset' = '{document.sequence}')")
        if self._session.conf.get(_LAST_COMMIT, None) is None:
            raise RetriableError(f"{self._place}: a task committed at the same time; stop the connector first")

    def maintain(self, is_stopping: Callable[[], bool]) -> None:
        """Does nothing: Delta checkpoints such tables in their commits, and Spark's OPTIMIZE and VACUUM serve them."""

    def progress(self) -> Mapping[str, Any]:
        return dict(self._figures)

    # -- reading -------------------------------------------------------------------------------------------------------

    def _columns(self) -> Columns | None:
        """The table's columns, or None when the table does not exist."""
        try:
            schema = self._session.read.format("delta").load(self.path).schema
        except Exception as e:
            if error_condition(e).partition(".")[0] in _ABSENT or "is not a Delta table" in str(e):
                return None
            raise
        return {f["name"]: arrow_type(f["type"]) for f in json.loads(schema.json())["fields"]}

    def _partition_columns(self) -> tuple[str, ...]:
        (row,) = self._session.sql(f"DESCRIBE DETAIL {self._name}").select("partitionColumns").collect()
        return tuple(row[0])

    def _committed_offsets(self, partitions: Collection[TopicPartition]) -> CommittedOffsets:
        """Reads the committed offsets of these partitions from the table's history, newest commits first, as far as needed.

        History covers ``delta.logRetentionDuration`` (30 days). Every commit of a task names all its partitions, so offsets are
        missing only if the connector has not written to the table for that long; then the consumer group's offsets apply. The
        sequence goes on all the same, because the table's state has it. Raises ConnectError for a table that the worker writes.
        """
        versions = read_application_versions(self._log, self._place)
        refuse_written_by_worker(StoredOffsets(versions, self._connector), self._place)
        committed_offsets = CommittedOffsets()
        for depth in _DEPTHS:
            limit = "" if depth is None else f" LIMIT {depth}"
            rows = self._session.sql(f"DESCRIBE HISTORY {self._name}{limit}").select("userMetadata").collect()
            committed_offsets = collect_committed_offsets((row["userMetadata"] for row in rows), self._connector)
            if committed_offsets.covers(partitions) or depth is None or len(rows) < depth:
                break
            if not partitions and depth != _DEPTHS[0]:
                break  # the caller asked only whether this connector writes to the table
        if self._app_id in versions:
            committed_offsets.sequence = max(committed_offsets.sequence or 0, versions[self._app_id])
        return committed_offsets

    # -- writing -------------------------------------------------------------------------------------------------------

    def _append(self, rows: pa.Table, commit: OffsetCommit, *, overwrite: bool) -> int | None:
        """Appends rows, or replaces all rows by them."""
        document = self._document(commit)
        columns = {f.name: f.type for f in rows.schema}
        with self._staging.write(rows) as staged:
            crash_points.point("spark.staged")
            self._clear_last_version()
            writer = (
                self._read(staged.uri, columns)
                .write.format("delta")
                .mode("overwrite" if overwrite else "append")
                .option("txnAppId", self._app_id)
                .option("txnVersion", str(document.sequence))
                .option("userMetadata", document.to_json())
            )
            with self._commit_lock.held():
                writer.save(self.path)
        return self._landed(document)

    def _merge(self, upsert: Upsert, commit: OffsetCommit, *, deletes: bool) -> int | None:
        """Always a MERGE, even if no key can be in the table: Delta checks only what a MERGE reads for rows that another writer
        has added since."""
        document = self._document(commit)
        keep = {n: m for n, m in upsert.changes.keep.items() if pc.any(m).as_py()}
        rows = upsert.rows
        if deletes:
            rows = rows.append_column(DELETE_FLAG, upsert.changes.deleted)
        for column, mask in keep.items():
            rows = rows.append_column(KEEP_PREFIX + column, mask)
        lost = [pc.cast(upsert.changes.unavailable_in(column), pa.int64()) for column in keep]
        count = functools.reduce(pc.add, lost) if lost else pa.chunked_array([pa.nulls(0, pa.int64())])
        has_lost = bool(pc.any(pc.greater(count, 0)).as_py())
        if has_lost:
            rows = rows.append_column(UNAVAILABLE_COUNT, count)
        statement = merge_statement(
            self._name,
            self._source_view,
            upsert.keys,
            list(upsert.columns),
            set(upsert.rows.column_names),
            keep.keys(),
            key_bounds(upsert.rows[upsert.keys[0]]),
            deletes=deletes,
            soft_flag=config_keys.DELETED if upsert.soft_deletes else None,
        )
        missing = 0
        with self._staging.write(rows) as staged:
            crash_points.point("spark.staged")
            self._clear_last_version()
            self._read(staged.uri, {f.name: f.type for f in rows.schema}).createOrReplaceTempView(self._source_view)
            try:
                if has_lost:
                    missing = self._find_missing(upsert)
                    self._refuse_unavailable(missing, keep)
                with self._commit_lock.held(), self._commit_settings(document):
                    self._session.sql(statement)
            finally:
                self._session.catalog.dropTempView(self._source_view)
        return self._count_unavailable(self._landed(document), missing + upsert.changes.unavailable)

    def _find_missing(self, upsert: Upsert) -> int:
        """The number of unavailable values of rows that the table lacks, which the MERGE inserts as null."""
        soft_flag = config_keys.DELETED if upsert.soft_deletes else None
        query = missing_rows_query(self._name, self._source_view, upsert.keys, soft_flag)
        return int(self._session.sql(query).collect()[0][0] or 0)

    def _refuse_unavailable(self, missing: int, kept: Collection[str]) -> None:
        if missing and self._fail_unavailable:
            raise ConnectError(
                f"changes have {missing} unavailable values in columns {', '.join(kept)}, and the table does not have their "
                "rows; set unavailable.value=merge to write null, or REPLICA IDENTITY FULL on the source table to get the values"
            )

    def _count_unavailable(self, landed: int | None, unavailable: int) -> int | None:
        if landed is not None:
            self._figures["unavailable"] += unavailable
        return landed

    def _document(self, commit: OffsetCommit) -> TableCommit:
        ends = {**self._committed.ends, **commit.ends}
        return TableCommit(self._connector, next_sequence(self._committed), commit.ranges, ends)

    def _landed(self, document: TableCommit) -> int | None:
        """The version of the commit; None when its sequence number was taken."""
        version = self._session.conf.get(_LAST_COMMIT, None)
        if version is None:
            return None
        self._committed.sequence = document.sequence
        self._committed.ends.update({tp: end for tp, end in document.ends.items() if end is not None})
        return int(version)

    def _read(self, staged: str, columns: Columns) -> DataFrame:
        # With a given schema, Spark opens no file before it writes.
        return self._session.read.schema(ddl(columns)).parquet(staged)

    @contextlib.contextmanager
    def _commit_settings(self, commit: TableCommit) -> Iterator[None]:
        # MERGE reads them only from the session; no other table uses this session (delta-io/delta#3934).
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


def _without_unavailable(upsert: Upsert) -> tuple[pa.Table, int]:
    """The rows, with null instead of unavailable values, for a table without rows; and the number of those values."""
    rows, count = upsert.rows, 0
    for name, mask in upsert.changes.keep.items():
        mask = pc.and_(mask, pc.invert(upsert.changes.deleted))
        count += pc.sum(pc.and_(mask, upsert.changes.unavailable_in(name))).as_py() or 0
        null = pa.scalar(None, rows[name].type)
        rows = rows.set_column(rows.column_names.index(name), name, pc.if_else(mask, null, rows[name]))
    return rows, count
