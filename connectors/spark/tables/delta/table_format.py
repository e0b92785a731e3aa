"""Delta tables: Spark owns schema, transactions, checkpoints, and conflict rules, and the worker writes the files.

The offsets are in the table's state: one transaction identifier per partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.row_limits import RowLimits
from connectors.spark.s3_settings import S3Settings
from connectors.spark.tables.application_ids import StoredOffsets, spark_writer_id
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.conflicts import UnsuitableTable, refuse_dropped
from connectors.spark.tables.delta.added_columns import ColumnAdder, read_table_layout
from connectors.spark.tables.delta.change import DeltaChange
from connectors.spark.tables.delta.checks import (
    check_not_append_only,
    check_not_replaced,
    check_retention,
    refuse_obstacles,
    refuse_replacement,
    refuse_written_by_both,
)
from connectors.spark.tables.delta.creation import create_table, file_table_properties
from connectors.spark.tables.delta.data_files import DataFileWriter
from connectors.spark.tables.delta.file_target import DeltaFileTarget
from connectors.spark.tables.delta.key_search import KeySearch
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.delta.log import Action, DeltaLog, LoggedCommit
from connectors.spark.tables.delta.maintenance import DeltaMaintenance
from connectors.spark.tables.delta.statements import set_properties, widen_columns
from connectors.spark.tables.delta.suitability import find_obstacles
from connectors.spark.tables.delta.transaction import DeltaTransaction, DeltaTransactions, transaction_action
from connectors.spark.tables.delta.view import DeltaView, read_files
from connectors.spark.tables.executor_files import ExecutorFiles
from connectors.spark.tables.files.compaction import MergedFile, Source
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.files.key_index import Matches
from connectors.spark.tables.files.live_files import UnreadableFile
from connectors.spark.tables.key_property import key_properties, read_key
from connectors.spark.tables.patch import Patch
from connectors.spark.tables.source_order.order_state import FOLDER, OrderStateFiles
from connectors.spark.tables.staging import local_folder, open_location
from connectors.spark.tables.table import Defaults
from connectors.spark.tables.table_format import FileTableSettings, Merging, Moves, Step, Upkeep
from connectors.spark.tables.table_lock import commit_lock, creation_lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDER_STATE = "sluice.source-order"
"""The transaction identifier whose version names the table's :class:`OrderState`."""


class DeltaTableFormat:
    """The table ``name`` at ``path``."""

    def __init__(
        self,
        session: SparkSession,
        path: str,
        name: str,
        settings: FileTableSettings,
        search: KeySearch,
        s3: S3Settings | None = None,
    ) -> None:
        self.name = name
        self.path = path
        self.place = f"table {name} at {path}"
        self._settings = settings
        self._s3 = s3
        self._session = session
        self._files, folder = open_location(path, s3)
        self._log = DeltaLog(self._files, folder)
        self._transactions = DeltaTransactions(session, path, self._log)
        self._writer = DataFileWriter(self._files, folder, settings.row_group)
        self._lock = commit_lock(local_folder(f"{path}/_delta_log"))
        self._search = search
        self._maintenance = DeltaMaintenance(session, path, self._files, folder, settings.upkeep_interval_s)
        self._order_files = OrderStateFiles(self._files, f"{folder}/{FOLDER}")

    # -- versions ------------------------------------------------------------------------------------------------------

    def read(self, before: DeltaView | None) -> Step[DeltaView] | None:
        """Raises UnsuitableTable when the rows must be written by Spark, and ConnectError when it was altered so since the
        connector's last commit."""
        transaction = self._transactions.begin()
        if transaction.version < 0:
            if before is not None:
                refuse_dropped(self.place, exists=False)
            return None
        commits = None
        if before is not None and transaction.version >= before.version and transaction.table_id() == before.table_id:
            commits = self._commits(before.version + 1, transaction.version)
        adds, removes = (None, []) if commits is None else _join(commits)
        if before is None or commits is None or any(map(self._needs_check, commits)):
            return Step(self._check(transaction, before), adds, removes)
        ends = dict(before.ends)
        for logged in commits:
            ends |= logged.transactions
        view = replace(before, version=transaction.version, ends=ends, order_state=ends.get(ORDER_STATE, 0))
        view.transaction = transaction
        return Step(view, adds, removes)

    def _commits(self, first: int, last: int) -> list[LoggedCommit] | None:
        """Commits of others; None if one has expired, or is not there yet. Raises HistoryMoved if one replaced the rows."""
        commits = [self._log.commit(version) for version in range(first, last + 1)]
        known = [logged for logged in commits if logged is not None]
        for logged in known:
            refuse_replacement(logged, self.place)
        return known if len(known) == len(commits) else None

    def _needs_check(self, logged: LoggedCommit) -> bool:
        return logged.alters or spark_writer_id(self._settings.connector, self.name) in logged.transactions

    def _check(self, transaction: DeltaTransaction, before: DeltaView | None) -> DeltaView:
        """The version of a transaction, unless it must not be written."""
        checksum = self._log.checksum(transaction.version) or {}
        metadata = checksum.get("metadata") or transaction.metadata()
        protocol = checksum.get("protocol") or transaction.protocol()
        layout = read_table_layout(transaction, metadata, checksum)
        obstacles = find_obstacles(metadata, protocol, layout, upserts=self._settings.upserts)
        versions = _stored_versions(checksum, transaction)
        stored = StoredOffsets(versions, self._settings.connector)
        if before is not None and before.table_id != str(metadata["id"]):
            check_not_replaced(self._log, transaction.version, self._settings.connector, self.place)  # it changes the ID, too
            refuse_dropped(self.place, exists=True)
        if self._settings.upserts:
            check_not_append_only(metadata, self.place, self.path)
        refuse_obstacles(obstacles, self.place, self.path, was_written=bool(stored))
        self._check_not_of_spark(versions, stored)
        check_retention(metadata, self.place, self.path)
        if stored:  # also if its offsets were set to the start since its last commit
            check_not_replaced(self._log, transaction.version, self._settings.connector, self.place)
        keys = read_key(metadata.get("configuration") or {})
        return self._view(transaction, str(metadata["id"]), layout, versions, keys)

    def _check_not_of_spark(self, versions: Mapping[str, int], stored: StoredOffsets) -> None:
        if spark_writer_id(self._settings.connector, self.name) in versions:
            refuse_written_by_both(stored, self.place)
            raise UnsuitableTable("it has written rows before, whose offsets are in the table's history")

    def _view(
        self,
        transaction: DeltaTransaction,
        table_id: str,
        layout: TableLayout,
        versions: Mapping[str, int],
        keys: tuple[str, ...] = (),
    ) -> DeltaView:
        return DeltaView(
            version=transaction.version,
            table_id=table_id,
            columns=layout.columns,
            limits=RowLimits(layout.partition_columns, plain_names=True),
            shape=layout,
            ends=versions,
            order_state=versions.get(ORDER_STATE, 0),
            order_files=self._order_files,
            lock=self._lock,
            keys=keys,
            layout=layout,
            transaction=transaction,
        )

    def peek(self) -> DeltaView | None:
        """Raises UnsuitableTable."""
        transaction = self._transactions.begin()
        if transaction.version < 0:
            return None
        versions = transaction.application_versions()
        stored = StoredOffsets(versions, self._settings.connector)
        if not stored.all_ends():
            self._check_not_of_spark(versions, stored)
        if not stored:
            self._check(transaction, None)
        return self._view(transaction, transaction.table_id(), TableLayout(), versions)

    def forget(self, view: DeltaView) -> None:
        """Does nothing: the ends are all that it knows."""

    # -- schema --------------------------------------------------------------------------------------------------------

    def create(self, columns: Columns, keys: Sequence[str]) -> None:
        layout, exists = self._settings.layout, self._transactions.table_exists
        properties = file_table_properties(self._session, dict(layout.properties), upserts=self._settings.upserts)
        properties |= key_properties(keys)
        with creation_lock(local_folder(self.path)):
            create_table(self._session, self.path, columns, layout, properties, exists, self.place, self._s3)

    def add_columns(
        self, view: DeltaView, added: list[tuple[str, pa.DataType]], columns: Columns, defaults: Defaults
    ) -> None:  # fmt: skip
        adder = ColumnAdder(
            self._session, self.path, self.place, self._settings.connector, self._transactions, self._log, self._writer
        )
        adder.add(view, added, columns, defaults)

    def widen_columns(self, view: DeltaView, widened: list[tuple[str, pa.DataType]]) -> None:
        with view.lock.held():
            widen_columns(self._session, self.path, widened)

    def set_keys(self, view: DeltaView, keys: Sequence[str]) -> None:
        with view.lock.held():
            set_properties(self._session, self.path, key_properties(keys))

    # -- files ---------------------------------------------------------------------------------------------------------

    def file_target(self, view: DeltaView) -> DeltaFileTarget:
        return DeltaFileTarget(self.path, self._s3, view.layout, view.version, self._settings.row_group)

    def read_files(self, view: DeltaView, keys: Mapping[str, pa.DataType]) -> IndexedFiles:
        return read_files(view.transaction, self._log, keys, self._settings.max_index_keys)

    def search(self, view: DeltaView, rows: pa.Table) -> Matches:
        assert view.files is not None
        return self._search.find(rows, view.files.keys, view.version, view.files.live)

    def is_gone(self, view: DeltaView, error: Exception) -> bool:
        """Another writer has removed the file from the table, and VACUUM deleted it."""
        return isinstance(error, UnreadableFile) and self._transactions.begin().version != view.version

    def write(self, view: DeltaView, patch: Patch, files: ExecutorFiles | None) -> DeltaChange:
        change = DeltaChange(self._writer, view.layout, patch.rows, files, reads_table=not patch.is_blind)
        with change.writing():
            if view.files is not None and not patch.is_blind:
                change.write(patch, view.files.live)
            else:
                change.write_rows()
        return change

    def merging(self, view: DeltaView, sources: Sequence[Source]) -> Merging:
        values, layout = sources[0].file.values, view.layout

        def write(batches: Iterator[pa.Table]) -> Action | None:
            return self._writer.write_batches(batches, layout, values)

        return Merging(layout.columns, write)

    def write_merged(self, view: DeltaView, merged: MergedFile) -> DeltaChange:
        return DeltaChange.of_merged(merged, self._writer, view.layout)

    # -- commits -------------------------------------------------------------------------------------------------------

    def commit(self, view: DeltaView, change: DeltaChange, moves: Moves) -> Step[DeltaView]:
        """One transaction identifier per partition is compared and moved: another commit of one is a conflict."""
        moved = dict(moves.ends) if moves.order_state is None else {**moves.ends, ORDER_STATE: moves.order_state}
        read = {*moves.ends, ORDER_STATE} if change.reads_table else moves.ends.keys()
        actions = [*(transaction_action(identity, end) for identity, end in moved.items()), *change.actions()]
        document = TableCommit(self._settings.connector, 0, moves.ranges, dict(moves.offsets))
        self._writer.check_exist([*change.written, *change.kept], self.place)
        version = view.transaction.commit(actions, document, application_ids=read, reads_table=change.reads_table)
        between = self._commits(view.version + 1, version - 1)
        ends = dict(view.ends)
        for logged in between or ():
            ends |= logged.transactions
        ends |= moved
        if between is None:
            ends |= self._transactions.begin().application_versions()
        after = replace(view, version=version, ends=ends, order_state=ends.get(ORDER_STATE, 0))
        sizes = {"search_ms": self._search.last_ms} if change.reads_table and _is_searched(view.files) else {}
        if between is None:
            return Step(after, sizes=sizes)
        adds, removes = _join([*between, LoggedCommit(version, adds=change.adds, removes=change.removes)])
        return Step(after, adds, removes, sizes)

    def maintain(self, table: Upkeep, is_stopping: Callable[[], bool]) -> Mapping[str, int]:
        self._maintenance.run(table.compact, is_stopping)
        view = table.view
        return self._log.figures(view.version) if view is not None and view.files is None else {}


def _stored_versions(checksum: Mapping[str, Any], transaction: DeltaTransaction) -> dict[str, int]:
    """The transaction identifiers of the table, from the checksum file if that lists them."""
    listed = checksum.get("setTransactions")
    return transaction.application_versions() if listed is None else {t["appId"]: int(t["version"]) for t in listed}


def _is_searched(files: IndexedFiles | None) -> bool:
    return files is not None and not files.has_index


def _join(commits: Sequence[LoggedCommit]) -> tuple[list[Action], list[Action]]:
    """What several commits add and remove together."""
    adds: dict[str, Action] = {}
    removes: dict[str, Action] = {}
    for logged in commits:
        for action in logged.removes:
            adds.pop(action["path"], None)
            removes[action["path"]] = action
        adds |= {action["path"]: action for action in logged.adds}
    return list(adds.values()), list(removes.values())
