"""A Delta table whose files and deletion vectors the worker writes, committed by Delta's transaction in Spark's JVM.

Spark owns the table: its schema, transactions, checkpoints, and conflict rules. The rows do not pass through Spark. An upsert
finds the old rows in a key index, writes the new rows as one file, and marks the old ones in deletion vectors, so its cost
depends on the number of changes and not on the size of the table. The offsets are in the table's state: one transaction
identifier per partition (promise 6).
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connect import crash_points
from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connectors.spark.plan.evolution import Columns, arrow_type
from connectors.spark.plan.sql import table_at
from connectors.spark.tables.application_ids import Identify, StoredOffsets, ids_of
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.delta.commit_lock import CommitLock
from connectors.spark.tables.delta.data_files import APPEND_ROW_GROUP, UPSERT_ROW_GROUP, DataFileWriter
from connectors.spark.tables.delta.deletion_vectors import Rows, encode_vector_file, vector_file_name
from connectors.spark.tables.delta.indexed_files import IndexedFiles, has_keys
from connectors.spark.tables.delta.key_index import Matches
from connectors.spark.tables.delta.live_files import LiveFile, LiveFiles
from connectors.spark.tables.delta.log import Action, DeltaLog, LoggedCommit
from connectors.spark.tables.delta.statements import add_columns, create_table, mark_all_deleted
from connectors.spark.tables.delta.suitability import UnsuitableTable, find_obstacle
from connectors.spark.tables.delta.transaction import CommitConflict, DeltaTransaction, DeltaTransactions, transaction_action
from connectors.spark.tables.delta.upsert import plan_upsert
from connectors.spark.tables.staging import local_folder, open_location
from connectors.spark.tables.table import OffsetCommit, TableState, Upsert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

History = Callable[[], Mapping[TopicPartition, int]]
"""Reads the offsets that an earlier release left in the table's history."""


@dataclass(slots=True)
class _KnownVersion:
    """The version of the table that the next commit is planned on."""

    version: int = -1
    table_id: str = ""
    columns: Columns = field(default_factory=dict)
    indexed: IndexedFiles | None = None


@dataclass(slots=True)
class _Change:
    """Actions of a commit, and the files that were written for it."""

    rows: pa.Table
    adds: list[Action] = field(default_factory=list)
    removes: list[Action] = field(default_factory=list)
    written: list[str] = field(default_factory=list)

    def write_rows(self, writer: DataFileWriter) -> None:
        """Writes the new rows, if there are any."""
        if self.rows.num_rows:
            add = writer.write(self.rows)
            self.adds.append(add)
            self.written.append(add["path"])

    def delete_rows(self, deleted: Mapping[int, Rows], live: LiveFiles, writer: DataFileWriter) -> None:
        """Marks rows of live files as deleted, and removes files without any other rows."""
        now_ms = int(time.time() * 1000)
        remaining: list[tuple[LiveFile, Rows]] = []
        for number, rows in deleted.items():
            file = live.at(number)
            self.removes.append(file.remove_action(now_ms))
            all_deleted = file.with_deleted(rows)
            if len(all_deleted) < file.rows:
                remaining.append((file, all_deleted))
        if not remaining:
            return
        data, identity, descriptors = encode_vector_file([rows for _, rows in remaining])
        writer.write_bytes(vector_file_name(identity), data)
        self.written.append(vector_file_name(identity))
        self.adds += [file.add_action(descriptor) for (file, _), descriptor in zip(remaining, descriptors, strict=True)]

    def remove_all(self, live: LiveFiles) -> None:
        """Removes all files of the table."""
        now_ms = int(time.time() * 1000)
        self.removes += [file.remove_action(now_ms) for file in live.by_path.values()]

    def actions(self) -> list[Action]:
        return [*({"remove": action} for action in self.removes), *({"add": action} for action in self.adds)]


def _stored_versions(checksum: Mapping[str, Any]) -> dict[str, int] | None:
    """The transaction identifiers in a checksum file; None when it does not list them."""
    listed = checksum.get("setTransactions")
    return None if listed is None else {t["appId"]: int(t["version"]) for t in listed}


class DeltaFileTable:
    """One table, written by one task. ``lock`` is held while the table's files change; maintenance takes it too."""

    def __init__(
        self,
        session: SparkSession,
        path: str,
        table: str,
        connector: str,
        identify: Identify,
        *,
        upserts: bool,
        fail_unavailable: bool,
        history: History,
    ) -> None:
        self.path = path
        self.lock = threading.RLock()
        self._table = table
        self._connector = connector
        self._identify = identify
        self._upserts = upserts
        self._fail_unavailable = fail_unavailable
        self._history = history
        self._session = session
        self._transactions = DeltaTransactions(session, path)
        files, folder = open_location(path)
        self._log = DeltaLog(files, folder)
        self._writer = DataFileWriter(files, folder, UPSERT_ROW_GROUP if upserts else APPEND_ROW_GROUP)
        self._commit_lock = CommitLock(local_folder(path))
        self._known = _KnownVersion()
        self._figures = {"unavailable": 0}

    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        """Reads the newest version. Raises UnsuitableTable when the rows must be written by Spark, and ConnectError when the
        table's rows were replaced since this connector's last commit."""
        with self.lock:
            transaction = self._transactions.begin()
            if transaction.version < 0:
                self._known = _KnownVersion()
                return TableState(None)
            checksum = self._log.checksum(transaction.version) or {}
            metadata = checksum.get("metadata") or transaction.metadata()
            reason = find_obstacle(metadata, checksum.get("protocol") or transaction.protocol(), upserts=self._upserts)
            versions = _stored_versions(checksum)
            if versions is None:
                versions = transaction.application_versions()
            stored = StoredOffsets(versions, self._connector)
            if reason is not None and stored:
                raise ConnectError(
                    f"table {self._table} at {self.path} was altered in a way that the connector does not support: {reason}. "
                    "Undo the change, or write into another table (table.name.format)"
                )
            if reason is not None:
                raise UnsuitableTable(reason)
            self._check_retention(metadata)
            if stored:
                self._check_not_replaced(transaction.version)
            columns = {f["name"]: arrow_type(f["type"]) for f in json.loads(metadata["schemaString"])["fields"]}
            self._catch_up(transaction.version, str(metadata["id"]), columns)
            if not stored and f"sluice:{self._connector}:{self._table}" in versions:
                return self._migrate(columns)
            return TableState(columns, stored.ends(self._identify, self._table), self._known.version)

    def create(self, columns: Columns, keys: Sequence[str]) -> None:
        create_table(self._session, self.path, columns, upserts=self._upserts)

    def add_columns(self, added: list[tuple[str, pa.DataType]], columns: Columns) -> None:
        add_columns(self._session, self.path, added)

    def append(self, rows: pa.Table, commit: OffsetCommit) -> int | None:
        with self.lock:
            transaction = self._begin(rows, commit)
            if transaction is None:
                return None
            change = _Change(rows)
            change.write_rows(self._writer)
            crash_points.point("spark.staged")
            return self._commit(transaction, change, commit, reads_table=False)

    def upsert(self, upsert: Upsert, commit: OffsetCommit) -> int | None:
        with self.lock:
            if upsert.changes.truncated and upsert.soft_deletes:
                # A commit of its own before the rest; repeating it after a crash changes nothing.
                mark_all_deleted(self._session, self.path)
            transaction = self._begin(upsert.rows, commit)
            if transaction is None:
                return None
            indexed = self._index(transaction, upsert)
            truncates = upsert.changes.truncated and not upsert.soft_deletes
            matches = Matches.empty() if truncates else indexed.find(upsert.rows)
            plan = plan_upsert(upsert, matches, indexed.live, fail_unavailable=self._fail_unavailable)
            change = _Change(plan.rows)
            if truncates:
                change.remove_all(indexed.live)
            else:
                change.delete_rows(plan.deleted, indexed.live, self._writer)
            change.write_rows(self._writer)
            crash_points.point("spark.staged")
            version = self._commit(transaction, change, commit, reads_table=True)
            if version is not None:
                self._figures["unavailable"] += plan.unavailable
            return version

    def stored_ends(self) -> Mapping[TopicPartition, int]:
        with self.lock:
            transaction = self._transactions.begin()
            if transaction.version < 0:
                return {}
            return StoredOffsets(transaction.application_versions(), self._connector).all_ends()

    def move_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Also moves the offsets of partitions that were recreated: deleting them accepts the new topic."""
        with self.lock:
            transaction = self._transactions.begin()
            if transaction.version < 0:
                return
            stored = StoredOffsets(transaction.application_versions(), self._connector)
            moved = {str(i): end or 0 for tp, end in offsets.items() for i in stored.partition_ids(tp)}
            if not moved:
                return
            document = TableCommit(self._connector, 0, {}, dict(offsets)).to_json()
            actions = [transaction_action(identity, end) for identity, end in moved.items()]
            try:
                with self._commit_lock.held():
                    transaction.commit(actions, document, application_ids=moved)
            except CommitConflict as e:
                raise RetriableError(f"table {self._table}: a task committed at the same time; stop the connector first") from e

    def progress(self) -> Mapping[str, Any]:
        """``unavailable``: values that became null because neither the change nor the table had them. For upsert tables also
        ``files``, ``bytes``, ``deleted_rows`` (in deletion vectors), ``index_keys``, and ``index_bytes``."""
        return dict(self._figures)

    # -- the version that is known -------------------------------------------------------------------------------------

    def _begin(self, rows: pa.Table, commit: OffsetCommit) -> DeltaTransaction | None:
        """A transaction on the newest version; None when that differs from the known one in more than rows of others."""
        transaction = self._transactions.begin()
        known = self._known
        if transaction.version < 0 or transaction.table_id() != known.table_id:
            raise ConnectError(
                f"table {self._table} at {self.path} was dropped{'' if transaction.version < 0 else ' and created again'} while "
                "the connector was writing it, and its rows are gone. Restart the task to continue with new records, or reset "
                "the connector's offsets over REST (DELETE /connectors/<name>/offsets) to load the table again"
            )
        moved = set(ids_of(commit.ends, self._connector, self._identify).values())
        for version in range(known.version + 1, transaction.version + 1):
            logged = self._log.commit(version)
            if logged is None or logged.changes_metadata or not moved.isdisjoint(logged.transactions):
                return None
            self._refuse_replacement(logged)
            if known.indexed is not None:
                known.indexed.apply(logged.adds, logged.removes)
            known.version = version
        for member in rows.schema:
            # Files of another schema would make the table unreadable.
            if known.columns.get(member.name) != member.type:
                return None
        return transaction

    def _catch_up(self, version: int, table_id: str, columns: Columns) -> None:
        """Makes this version the known one; keeps the index if the log says how the version came about."""
        known, self._known = self._known, _KnownVersion(version, table_id, columns)
        if known.indexed is None or known.table_id != table_id or known.version > version:
            return
        for between in range(known.version + 1, version + 1):
            logged = self._log.commit(between)
            if logged is None:
                return
            known.indexed.apply(logged.adds, logged.removes)
        self._known.indexed = known.indexed

    def _index(self, transaction: DeltaTransaction, upsert: Upsert) -> IndexedFiles:
        """The index of the known version; builds it if there is none."""
        known = self._known
        if known.indexed is None or not has_keys(known.indexed, upsert.keys, upsert.columns):
            indexed = IndexedFiles(*open_location(self.path), {name: upsert.columns[name] for name in upsert.keys})
            checksum = self._log.checksum(transaction.version) or {}
            listed = checksum.get("allFiles")
            if listed is None and checksum.get("numFiles") == 0:
                listed = []
            started = time.monotonic()
            indexed.apply(transaction.files() if listed is None else listed, ())
            if indexed.key_count:
                log.info("Indexed %d keys of table %s in %.1f s", indexed.key_count, self._table, time.monotonic() - started)
            known.indexed = indexed
        return known.indexed

    def _commit(self, transaction: DeltaTransaction, change: _Change, commit: OffsetCommit, *, reads_table: bool) -> int | None:
        identities = ids_of(commit.ends, self._connector, self._identify)
        actions = [transaction_action(identities[tp], end) for tp, end in commit.ends.items()]
        document = TableCommit(self._connector, 0, commit.ranges, dict(commit.ends)).to_json()
        try:
            with self._commit_lock.held():
                version = transaction.commit(
                    [*actions, *change.actions()], document, application_ids=identities.values(), reads_table=reads_table
                )
        except CommitConflict as e:
            log.debug("Committing to table %s again after a conflict: %s", self._table, e)
            self._writer.delete(change.written)
            return None
        self._follow(version, change)
        return version

    def _follow(self, version: int, change: _Change) -> None:
        """Moves the known version on to an own commit, and over commits of others just before it."""
        known = self._known
        for between in range(known.version + 1, version):
            logged = self._log.commit(between)
            if logged is None:
                known.indexed = None
                break
            self._refuse_replacement(logged)
            if known.indexed is not None:
                known.indexed.apply(logged.adds, logged.removes)
        known.version = version
        if known.indexed is not None:
            known.indexed.apply_own(change.adds, change.removes, change.rows)
            self._figures |= known.indexed.figures()

    # -- offsets -------------------------------------------------------------------------------------------------------

    def _check_retention(self, metadata: Mapping[str, Any]) -> None:
        key = "delta.setTransactionRetentionDuration"
        if key in (metadata.get("configuration") or {}):
            raise ConnectError(
                f"table {self._table} at {self.path} has the property {key}, which removes the connector's offsets from the "
                f"table; remove it: ALTER TABLE {table_at(self.path)} UNSET TBLPROPERTIES ('{key}')"
            )

    def _check_not_replaced(self, version: int) -> None:
        """Raises ConnectError when somebody replaced the rows after this connector's last commit."""
        for logged in self._log.backwards(version):
            own = logged.user_metadata
            if own is not None and own.connector == self._connector:
                return
            self._refuse_replacement(logged)

    def _refuse_replacement(self, logged: LoggedCommit) -> None:
        if logged.replaces_rows:
            raise ConnectError(
                f"table {self._table} at {self.path}: {logged.operation} replaced the table's rows in version {logged.version}, "
                "so the connector's offsets no longer say what the table contains. Stop the connector, set its offsets over REST "
                "to what the table contains (PATCH /connectors/<name>/offsets) or delete them to load all records again, and "
                "resume it"
            )

    def _migrate(self, columns: Columns) -> TableState:
        """Stores the offsets that an earlier release left in the history in the table's state, once."""
        ends = dict(self._history())
        if not ends:
            return TableState(columns, {}, self._known.version)
        identities = ids_of(ends, self._connector, self._identify)
        transaction = self._transactions.begin()
        document = TableCommit(self._connector, 0, {}, dict(ends)).to_json()
        with self._commit_lock.held():
            actions = [transaction_action(identities[tp], end) for tp, end in ends.items()]
            transaction.commit(actions, document, application_ids=identities.values())
        log.info("Moved the offsets of table %s from its history into its state", self._table)
        return self.load(ends)
