"""A Delta table whose files and deletion vectors the worker writes, committed by Delta's transaction in Spark's JVM.

Spark owns the table: its schema, transactions, checkpoints, and conflict rules. The rows do not pass through Spark. An upsert
finds the old rows in a key index, writes the new rows as one file, and marks the old ones in deletion vectors, so its cost
depends on the number of changes and not on the size of the table. The offsets are in the table's state: one transaction
identifier per partition (promise 6).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connect import crash_points
from connect.record import TopicPartition
from connectors.spark.config import WantedLayout
from connectors.spark.plan.evolution import Columns
from connectors.spark.s3_settings import S3Settings
from connectors.spark.tables.application_ids import (
    Identify,
    StoredOffsets,
    feeding_partitions,
    ids_of,
    parse_partition_id,
    spark_writer_id,
)
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.conflicts import CommitConflict
from connectors.spark.tables.delta.added_columns import ColumnAdder, read_table_layout
from connectors.spark.tables.delta.change import TableChange
from connectors.spark.tables.delta.checks import (
    check_not_append_only,
    check_not_replaced,
    check_retention,
    refuse_dropped,
    refuse_obstacles,
    refuse_written_by_both,
)
from connectors.spark.tables.delta.creation import create_table, file_table_properties
from connectors.spark.tables.delta.data_files import APPEND_ROW_GROUP, UPSERT_ROW_GROUP, DataFileWriter
from connectors.spark.tables.delta.file_target import make_file_target
from connectors.spark.tables.delta.key_search import KeySearch
from connectors.spark.tables.delta.known_version import KnownVersion, read_files
from connectors.spark.tables.delta.log import Action, DeltaLog
from connectors.spark.tables.delta.maintenance import DeltaMaintenance, MaintenanceSettings
from connectors.spark.tables.delta.offset_moves import move_stored_offsets
from connectors.spark.tables.delta.statements import widen_columns
from connectors.spark.tables.delta.suitability import UnsuitableTable, find_obstacles
from connectors.spark.tables.delta.transaction import DeltaTransaction, DeltaTransactions, transaction_action
from connectors.spark.tables.delta.upsert import DeltaUpserts
from connectors.spark.tables.executor_files import FileTarget
from connectors.spark.tables.files.compaction import MergedFile, choose_sources, merge_files
from connectors.spark.tables.files.indexed_files import IndexedFiles, has_keys
from connectors.spark.tables.files.live_files import UnreadableFile
from connectors.spark.tables.source_order.order_state import FOLDER, OrderStateFiles
from connectors.spark.tables.source_order.ordering import OrderedUpsert, SourceOrder
from connectors.spark.tables.staging import local_folder, open_location
from connectors.spark.tables.table import Defaults, OffsetCommit, TableState, Upsert
from connectors.spark.tables.table_lock import commit_lock, creation_lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

ORDER_STATE = "sluice.source-order"
"""The transaction identifier whose version names the table's :class:`OrderState`."""


@dataclass(frozen=True, slots=True)
class DeltaTableSettings:
    """How a connector writes a table."""

    table: str
    connector: str
    upserts: bool
    fail_unavailable: bool
    max_index_keys: int
    layout: WantedLayout
    maintenance: MaintenanceSettings
    deleted_retention_ms: int = 0
    s3: S3Settings | None = None


def _stored_versions(checksum: Mapping[str, Any], transaction: DeltaTransaction) -> dict[str, int]:
    """The transaction identifiers of the table, from the checksum file if that lists them."""
    listed = checksum.get("setTransactions")
    return transaction.application_versions() if listed is None else {t["appId"]: int(t["version"]) for t in listed}


class DeltaFileTable:
    """One table, written by one task. ``lock`` is held while the table's files change; maintenance takes it too."""

    def __init__(
        self,
        session: SparkSession,
        path: str,
        settings: DeltaTableSettings,
        identify: Identify,
        search: KeySearch,
    ) -> None:
        self.path = path
        self.lock = threading.RLock()
        self._settings = settings
        self._identify = identify
        self._session = session
        files, folder = open_location(path, settings.s3)
        self._log = DeltaLog(files, folder)
        self._transactions = DeltaTransactions(session, path, self._log)
        self._writer = DataFileWriter(files, folder, UPSERT_ROW_GROUP if settings.upserts else APPEND_ROW_GROUP)
        self._maintenance = DeltaMaintenance(session, path, files, folder, settings.maintenance)
        self._commit_lock = commit_lock(local_folder(f"{path}/_delta_log"))
        self._columns = ColumnAdder(
            session,
            path,
            self._place,
            settings.connector,
            settings.max_index_keys,
            self._transactions,
            self._log,
            self._writer,
            self._commit_lock,
        )
        self._known = KnownVersion()
        order = SourceOrder(settings.deleted_retention_ms, OrderStateFiles(files, f"{folder}/{FOLDER}"))
        self._upserts = DeltaUpserts(search, self._writer, order, fail_unavailable=settings.fail_unavailable)
        self._figures = {"unavailable": 0}

    @property
    def _place(self) -> str:
        return f"table {self._settings.table} at {self.path}"

    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        """Reads the newest version. Raises UnsuitableTable when the rows must be written by Spark, and ConnectError when the
        table's rows were replaced since this connector's last commit."""
        with self.lock:
            transaction = self._transactions.begin()
            if transaction.version < 0:
                if self._known.version >= 0:
                    refuse_dropped(self._place, exists=False)
                return TableState(None)
            checksum = self._log.checksum(transaction.version) or {}
            metadata = checksum.get("metadata") or transaction.metadata()
            protocol = checksum.get("protocol") or transaction.protocol()
            layout = read_table_layout(transaction, metadata, checksum)
            obstacles = find_obstacles(metadata, protocol, layout, upserts=self._settings.upserts)
            versions = _stored_versions(checksum, transaction)
            stored = StoredOffsets(versions, self._settings.connector)
            if self._settings.upserts:
                check_not_append_only(metadata, self._place, self.path)
            refuse_obstacles(obstacles, self._place, self.path, was_written=bool(stored))
            if spark_writer_id(self._settings.connector, self._settings.table) in versions:
                refuse_written_by_both(stored, self._place)
                raise UnsuitableTable("it has written rows before, whose offsets are in the table's history")
            check_retention(metadata, self._place, self.path)
            if stored:  # also if its offsets were set to the start since its last commit
                check_not_replaced(self._log, transaction.version, self._settings.connector, self._place)
            if self._known.version >= 0 and self._known.table_id != str(metadata["id"]):
                refuse_dropped(self._place, exists=True)
            self._known = self._known.successor(transaction.version, str(metadata["id"]), layout, self._log, self._place)
            self._known.order_state = versions.get(ORDER_STATE, 0)
            self._known.ends = dict(versions)
            ends = stored.ends(self._identify, self._settings.table)
            return TableState(layout.columns, ends, layout.partition_columns, feeding_partitions(versions))

    def create(self, columns: Columns, keys: Sequence[str]) -> None:
        layout, s3, exists = self._settings.layout, self._settings.s3, self._transactions.table_exists
        properties = file_table_properties(self._session, upserts=self._settings.upserts)
        with creation_lock(local_folder(self.path)):
            create_table(self._session, self.path, columns, layout, properties, exists, self._place, s3)

    def add_columns(self, added: list[tuple[str, pa.DataType]], columns: Columns, defaults: Defaults) -> None:
        with self.lock:
            self._columns.add(self._known, added, columns, defaults)

    def widen_columns(self, widened: list[tuple[str, pa.DataType]]) -> None:
        with self.lock, self._commit_lock.held():
            widen_columns(self._session, self.path, widened)

    def file_target(self) -> FileTarget | None:
        return make_file_target(self.path, self._settings.s3, self._known, upserts=self._settings.upserts)

    def append(self, rows: pa.Table, commit: OffsetCommit) -> int | None:
        with self.lock:
            transaction = self._begin(rows, commit)
            if transaction is None:
                return None
            change = TableChange(rows, commit.files)
            with change.writing(self._writer):
                change.write_rows(self._writer, self._known.layout)
            crash_points.point("spark.staged")
            return self._commit(transaction, change, commit, reads_table=False)

    def upsert(self, upsert: Upsert, commit: OffsetCommit) -> int | None:
        # A truncate may rewrite all rows: meanwhile, other commits wait.
        with self.lock, self._commit_lock.held() if upsert.truncates else contextlib.nullcontext():
            transaction = self._begin(upsert.rows, commit)
            if transaction is None:
                return None
            try:
                written = self._upserts.write(upsert, self._index(transaction, upsert), self._known, commit.files)
            except UnreadableFile:
                if self._transactions.begin().version == transaction.version:
                    raise
                self._known.indexed = None  # another writer has removed the file from the table, and VACUUM deleted it
                return None
            crash_points.point("spark.staged")
            version = self._commit(
                transaction, written.change, commit, reads_table=True, ordered=written.ordered, is_locked=upsert.truncates
            )
            if version is not None:
                self._figures["unavailable"] += written.unavailable
            return version

    def maintain(self, is_stopping: Callable[[], bool]) -> None:
        if self._known.version >= 0:
            self._maintenance.run(self._compact, is_stopping)
            if self._known.indexed is None:
                self._figures |= self._log.figures(self._known.version)

    def _compact(self) -> bool:
        """Merges files once; returns whether it did."""
        with self.lock:
            known = self._known
            if known.version < 0:
                return False
            if known.indexed is None:
                if self._settings.upserts:
                    return False  # the next commit builds the index
                transaction = self._transactions.begin()
                if not known.follows(transaction, self._log):
                    return False  # the next commit reads the table again
                known.indexed = read_files(transaction, self._log, self._settings.max_index_keys, {})
            indexed, table_id, layout = known.indexed, known.table_id, known.layout
            sources = choose_sources(list(indexed.live.by_path.values()), self._maintenance.settings.compaction)
        if not sources:
            return False
        values = sources[0].file.values

        def write(batches: Iterator[pa.Table]) -> Action | None:
            return self._writer.write_batches(batches, layout, values)

        merged = merge_files(indexed.live, sources, layout.columns, indexed.indexed_keys, write)
        with self.lock:
            return self._commit_merged(merged, indexed, table_id)

    def _commit_merged(self, merged: MergedFile, indexed: IndexedFiles, table_id: str) -> bool:
        change = TableChange.of_merged(merged, self._writer)
        transaction = self._transactions.begin()
        known = self._known
        still_there = all(indexed.live.by_path.get(s.file.path) is s.file for s in merged.sources)
        unchanged = known.indexed is indexed and known.table_id == table_id and known.version == transaction.version
        if not still_there or not unchanged:
            self._writer.delete(change.written)
            return False  # somebody else has changed the table; the next run looks again
        document = TableCommit(self._settings.connector, 0, {}, {})
        try:
            with self._commit_lock.held():
                self._writer.check_exist(change.written, self._place)
                version = transaction.commit(change.actions(), document)
        except CommitConflict:
            self._writer.delete(change.written)
            return False
        if version != known.version + 1:
            known.indexed = None
            return False
        indexed.apply_merged(merged, change.adds, change.removes)
        known.version = version
        self._figures |= indexed.figures()
        return True

    def stored_ends(self) -> Mapping[TopicPartition, int]:
        """Also of a table that :meth:`load` refuses, because new offsets are the way out. Raises UnsuitableTable."""
        with self.lock:
            transaction = self._transactions.begin()
            if transaction.version < 0:
                return {}
            ends = StoredOffsets(transaction.application_versions(), self._settings.connector).all_ends()
            return ends or self.load(()).ends

    def move_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        with self.lock, self._commit_lock.held():
            move_stored_offsets(self._transactions.begin(), self._settings.connector, offsets, self._place)

    def progress(self) -> Mapping[str, Any]:
        """``unavailable``: values that became null because neither the change nor the table had them, or with
        ``unavailable.value=null``. ``files``, ``bytes``, ``deleted_rows`` (in deletion vectors): of the last commit of an upsert
        table, and of the last maintenance of others. For upsert tables also ``index_keys`` and ``index_bytes``; without an index
        ``search_ms``, the time that Spark took to find the rows of the last commit; and with ``sequence.by=source``
        ``outdated``, changes that were ignored, and ``deleted_keys`` whose position is kept."""
        return dict(self._figures)

    # -- the version that is known -------------------------------------------------------------------------------------

    def _begin(self, rows: pa.Table, commit: OffsetCommit) -> DeltaTransaction | None:
        """A transaction on the newest version; None when that differs from the known one in more than rows of others."""
        transaction = self._transactions.begin()
        known = self._known
        if transaction.version < 0 or transaction.table_id() != known.table_id:
            # REPLACE changes the ID too, and keeps the offsets.
            check_not_replaced(self._log, transaction.version, self._settings.connector, self._place)
            refuse_dropped(self._place, exists=transaction.version >= 0)
        identities = ids_of(commit.ends, self._settings.connector, self._identify)
        for version in range(known.version + 1, transaction.version + 1):
            logged = self._log.commit(version)
            if logged is None or logged.alters or ORDER_STATE in logged.transactions:
                return None
            if commit.is_alone and any(map(parse_partition_id, logged.transactions)):
                return None
            known.pass_over(logged, self._place)
        fits = known.layout.has_columns(commit.schema_of(rows))
        return transaction if fits and commit.continues(known.ends, identities) else None

    def _index(self, transaction: DeltaTransaction, upsert: Upsert) -> IndexedFiles:
        """The index of the known version; builds it if there is none."""
        known = self._known
        if known.indexed is None or not has_keys(known.indexed, upsert.keys, upsert.columns):
            started = time.monotonic()
            indexed = read_files(
                transaction, self._log, self._settings.max_index_keys, {name: upsert.columns[name] for name in upsert.keys}
            )
            if indexed.key_count:
                took_s = time.monotonic() - started
                log.info("Indexed %d keys of %s in %.1f s", indexed.key_count, self._place, took_s)
            known.indexed = indexed
        return known.indexed

    def _commit(
        self,
        transaction: DeltaTransaction,
        change: TableChange,
        commit: OffsetCommit,
        *,
        reads_table: bool,
        ordered: OrderedUpsert | None = None,
        is_locked: bool = False,
    ) -> int | None:
        """Returns the version; None after a conflict. ``is_locked``: the caller has the lock."""
        identities = ids_of(commit.ends, self._settings.connector, self._identify)
        actions = [transaction_action(identities[tp], end) for tp, end in commit.ends.items()]
        state = None if ordered is None else ordered.new_state_id
        actions += [] if state is None else [transaction_action(ORDER_STATE, state)]
        read = [*identities.values(), ORDER_STATE] if reads_table else identities.values()
        document = TableCommit(self._settings.connector, 0, commit.ranges, dict(commit.ends))
        try:
            with contextlib.nullcontext() if is_locked else self._commit_lock.held():
                self._writer.check_exist([*change.written, *change.kept], self._place)
                version = transaction.commit(
                    [*actions, *change.actions()], document, application_ids=read, reads_table=reads_table
                )
        except CommitConflict as e:
            log.debug("Committing to %s again after a conflict: %s", self._place, e)
            self._writer.delete(change.written)
            self._upserts.order.abandoned(ordered)
            return None
        ends = {identities[tp]: end for tp, end in commit.ends.items()}
        self._known.follow(version, change, ends, self._log, self._place)
        self._upserts.order.committed(ordered)
        self._known.order_state = state or self._known.order_state
        self._figures |= self._upserts.figures()
        if self._known.indexed is not None:
            self._figures |= self._known.indexed.figures()
        return version
