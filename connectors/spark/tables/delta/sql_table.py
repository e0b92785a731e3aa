"""A Delta table that Spark writes: staged rows are appended with DataFrames or applied with MERGE.

For Spark Connect, whose JVM is out of reach, and for tables with features that only Delta's own writer supports. A MERGE can
carry a single transaction identifier, so the offsets are in the commits' user metadata, and all tasks of a connector share one
sequence per table.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from connect import crash_points
from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connectors.spark import config_keys
from connectors.spark.config import WantedLayout
from connectors.spark.config_keys import COLUMN_MAPPING
from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.key_changes import has_moved
from connectors.spark.plan.row_limits import RowLimits
from connectors.spark.plan.sql import (
    DELETE_FLAG,
    KEEP_PREFIX,
    UNAVAILABLE_COUNT,
    ddl,
    key_bounds,
    merge_statement,
    missing_rows_query,
    table_at,
    written_columns,
)
from connectors.spark.tables.application_ids import ids_of_connectors, spark_writer_id
from connectors.spark.tables.committed_offsets import CommittedOffsets, TableCommit, next_sequence
from connectors.spark.tables.delta.checks import check_retention, refuse_padded_keys
from connectors.spark.tables.delta.creation import create_table
from connectors.spark.tables.delta.log import DeltaLog
from connectors.spark.tables.delta.log_state import LogState
from connectors.spark.tables.delta.sql_history import SqlTableHistory
from connectors.spark.tables.delta.statements import add_columns, set_properties, widen_columns
from connectors.spark.tables.key_property import key_properties
from connectors.spark.tables.staging import Staging, local_folder, open_location
from connectors.spark.tables.table import Defaults, OffsetCommit, TableState, Upsert
from connectors.spark.tables.table_lock import commit_lock, creation_lock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

log = logging.getLogger(__name__)

_LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"
_APP_ID = "spark.databricks.delta.write.txnAppId"
_APP_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


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
        self._history = SqlTableHistory(session, path, table, connector, DeltaLog(*open_location(path, staging.s3)))
        self._commit_lock = commit_lock(local_folder(f"{path}/_delta_log"))
        # On Spark Connect, sessions of one user share their temporary views.
        self._source_view = f"sluice_source_{uuid.uuid4().hex}"
        self._committed = CommittedOffsets()
        self._loaded: LogState | None = None
        """The version that the next commit is planned for."""
        self._figures = {"unavailable": 0}

    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        """Raises ConnectError when the connector's offsets no longer say what the table contains."""
        self._loaded = state = self._history.follow()
        self._committed = committed = CommittedOffsets() if state is None else self._history.committed_offsets(state, partitions)
        if state is None:
            return TableState(None)
        check_retention(state.metadata, self._place, self.path)
        feeds, layout = self._history.feeds(state), state.layout
        has_plain_names = (state.metadata.get("configuration") or {}).get(COLUMN_MAPPING, "none") == "none"
        limits = RowLimits(layout.partition_columns, plain_names=has_plain_names)
        return TableState(layout.columns, dict(committed.ends), limits, feeds, keys=state.keys)

    def create(self, columns: Columns, keys: Sequence[str]) -> None:
        layout, s3 = self._wanted_layout, self._staging.s3
        with creation_lock(local_folder(self.path)):
            properties, exists = key_properties(keys), lambda: self._history.read() is not None
            create_table(self._session, self.path, columns, layout, properties, exists, self._place, s3)

    def add_columns(self, added: list[tuple[str, pa.DataType]], columns: Columns, defaults: Defaults) -> None:
        with self._commit_lock.held():
            self._history.follow()
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
            self._history.follow()
            widen_columns(self._session, self.path, widened)

    def set_keys(self, keys: Sequence[str]) -> None:
        with self._commit_lock.held():
            self._history.follow()
            set_properties(self._session, self.path, key_properties(keys))

    def file_target(self) -> None:
        return None

    def append(self, rows: pa.Table, commit: OffsetCommit) -> int | None:
        rows = self._without_computed(rows)
        return self._append(rows, {f.name: f.type for f in rows.schema}, commit, overwrite=False)

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
        if self._history.known is not None:
            refuse_padded_keys(upsert.keys, self._history.known.padded_columns, self._place, self.path)
        upsert, lost = _without_moved(self._left_to_spark(upsert), self._computed_columns())
        self._refuse_unavailable(lost, upsert.changes.keep)
        deletes = not upsert.soft_deletes and bool(pc.any(upsert.changes.deleted).as_py())
        if upsert.truncates:
            rows, missing = _without_unavailable(upsert)
            self._refuse_unavailable(missing, upsert.changes.keep)
            rows = rows.filter(pc.invert(upsert.changes.deleted)) if deletes else rows
            written = self._written(upsert.columns, rows.column_names)
            landed = self._append(rows, written, commit, overwrite=True)
            return self._count_unavailable(landed, missing + lost + upsert.changes.unavailable)
        if not upsert.rows.num_rows:
            return self.append(upsert.rows, commit)
        return self._count_unavailable(self._merge(upsert, commit, deletes=deletes), lost)

    def stored_ends(self) -> Mapping[TopicPartition, int]:
        """Also of a table that :meth:`load` refuses, because new offsets are the way out."""
        state = self._history.read()
        return {} if state is None else self._history.committed_offsets(state, ()).ends

    def move_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        state = self._history.read()
        if not offsets or state is None:
            return
        committed = self._history.committed_offsets(state, list(offsets))
        document = TableCommit(self._connector, next_sequence(committed), {}, {**committed.ends, **offsets})
        # A write without rows, because it takes a sequence number: a task that still runs then fails to commit with the same one.
        columns = {name: type_ for name, type_ in state.layout.columns.items() if name not in state.computed_columns}
        writer = self._writer(self._session.createDataFrame([], ddl(columns)), document)
        with self._commit_lock.held():
            writer.save(self.path)
        if self._session.conf.get(_LAST_COMMIT, None) is None:
            raise RetriableError(f"{self._place}: a task committed at the same time; stop the connector first")

    def maintain(self, is_stopping: Callable[[], bool]) -> None:
        """Does nothing: Delta checkpoints such tables in their commits, and Spark's OPTIMIZE and VACUUM serve them."""

    def progress(self) -> Mapping[str, Any]:
        return dict(self._figures)

    # -- writing -------------------------------------------------------------------------------------------------------

    def _computed_columns(self) -> frozenset[str]:
        return frozenset() if self._history.known is None else self._history.known.computed_columns

    def _without_computed(self, rows: pa.Table) -> pa.Table:
        """Leaves computed columns to Spark, unless a row has a value of its own there. Delta refuses identity columns otherwise,
        even without rows."""
        names = self._computed_columns().intersection(rows.column_names)
        return rows.drop_columns([name for name in names if rows[name].null_count == rows.num_rows])

    def _left_to_spark(self, upsert: Upsert) -> Upsert:
        rows, changes = self._without_computed(upsert.rows), upsert.changes
        keep = {name: mask for name, mask in changes.keep.items() if name in rows.column_names}
        return replace(upsert, rows=rows, changes=replace(changes, keep=keep))

    def _written(self, columns: Columns, present: Collection[str]) -> Columns:
        return {name: columns[name] for name in written_columns(columns, present, self._computed_columns())}

    def _append(self, rows: pa.Table, columns: Columns, commit: OffsetCommit, *, overwrite: bool) -> int | None:
        """Appends rows, or replaces all rows by them. They are null in ``columns`` that they lack."""
        document = self._document(commit)
        with self._staging.write(rows) as staged:
            crash_points.point("spark.staged")
            writer = self._writer(self._read(staged.uri, columns), document, overwrite=overwrite)
            with self._commit_lock.held():
                newest = self._history.follow()
                if commit.is_alone and _writers(newest) != _writers(self._loaded):
                    return None
                writer.save(self.path)
        return self._landed(document)

    def _writer(self, frame: DataFrame, document: TableCommit, *, overwrite: bool = False) -> DataFrameWriter:
        self._clear_last_version()
        return (
            frame.write.format("delta")
            .mode("overwrite" if overwrite else "append")
            # A truncate empties all partitions, also those that get no rows, whatever the session's setting is.
            .option("partitionOverwriteMode", "static")
            .option("txnAppId", self._app_id)
            .option("txnVersion", str(document.sequence))
            .option("userMetadata", document.to_json())
        )

    def _merge(self, upsert: Upsert, commit: OffsetCommit, *, deletes: bool) -> int | None:
        """Always a MERGE, even if no key can be in the table: Delta checks only what a MERGE reads for rows that another writer
        has added since."""
        document = self._document(commit)
        keep = {n: m for n, m in upsert.changes.keep.items() if pc.any(m).as_py()}
        rows, present = upsert.rows, set(upsert.rows.column_names)
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
            list(self._written(upsert.columns, present)),
            present,
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
                    self._history.follow()
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
        # With a given schema, Spark opens no file before it writes, and a column that the file lacks is null.
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


def _without_moved(upsert: Upsert, computed: Collection[str]) -> tuple[Upsert, int]:
    """The upsert with null instead of values that only the table's row of an old key has, which a MERGE does not see; and how
    many of them are unavailable."""
    moved = has_moved(upsert.changes.meta)
    if not moved.any():
        return upsert, 0
    rows, changes, stays = upsert.rows, upsert.changes, pa.chunked_array([pa.array(~moved)])
    keep = dict(changes.keep)
    if upsert.soft_deletes:  # a deleted row keeps the columns that no change has, if they are its own
        for name in upsert.columns.keys() - {*rows.column_names, *computed}:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, upsert.columns[name]))
            keep[name] = changes.deleted
    count = sum(pc.sum(pc.and_not(changes.unavailable_in(name), stays)).as_py() or 0 for name in changes.keep)
    keep = {name: pc.and_(mask, stays) for name, mask in keep.items()}
    return replace(upsert, rows=rows, changes=replace(changes, keep=keep)), count


def _without_unavailable(upsert: Upsert) -> tuple[pa.Table, int]:
    """The rows, with null instead of unavailable values, for a table without rows; and the number of those values."""
    rows, count = upsert.rows, 0
    for name, mask in upsert.changes.keep.items():
        mask = pc.and_(mask, pc.invert(upsert.changes.deleted))
        count += pc.sum(pc.and_(mask, upsert.changes.unavailable_in(name))).as_py() or 0
        null = pa.scalar(None, rows[name].type)
        rows = rows.set_column(rows.column_names.index(name), name, pc.if_else(mask, null, rows[name]))
    return rows, count


def _writers(state: LogState | None) -> Mapping[str, int]:
    return {} if state is None else ids_of_connectors(state.transactions)
