"""The version of a Delta table that the next commit is planned on, kept in step with the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from connectors.spark.tables.delta.change import TableChange
from connectors.spark.tables.delta.checks import refuse_replacement
from connectors.spark.tables.delta.file_format import DeltaFormat
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.delta.log import Action, DeltaLog, LoggedCommit
from connectors.spark.tables.delta.transaction import DeltaTransaction
from connectors.spark.tables.effects import Effect
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.files.live_files import UnreadableFile


@dataclass(slots=True)
class KnownVersion:
    """``version`` is -1 before the table has been read. Without ``indexed`` its files must be read before they can be changed."""

    version: int = -1
    table_id: str = ""
    layout: TableLayout = field(default_factory=TableLayout)
    indexed: IndexedFiles | None = None
    order_state: int = 0
    """Names what the table knows of the order of changes; 0 for nothing."""
    ends: dict[str, int] = field(default_factory=dict)
    """By transaction identifier: its version."""

    def pass_over(self, logged: LoggedCommit, place: str) -> None:
        """Moves on by the next commit, which another writer made. Raises ConnectError when it replaced the table's rows."""
        refuse_replacement(logged, place)
        self._apply(logged)
        self.version = logged.version
        self.ends.update(logged.transactions)

    def follow(self, version: int, change: TableChange, ends: Mapping[str, int], log: DeltaLog, place: str) -> None:
        """Moves on to an own commit, and over commits of others just before it."""
        for between in range(self.version + 1, version):
            logged = log.commit(between)
            if logged is None:
                self.indexed = None
                break
            self.pass_over(logged, place)
        if self.indexed is not None:
            self.indexed.apply_own(change.adds, change.removes, change.new_rows)
        self.version = version
        self.ends.update(ends)

    def successor(self, version: int, table_id: str, layout: TableLayout, log: DeltaLog, place: str) -> KnownVersion:
        """This version of the table, with the index if the log says how the version came about. What fails leaves this one as it
        was. Raises ConnectError when a commit since this version has replaced the table's rows."""
        new = KnownVersion(version, table_id, layout)
        if self.table_id != table_id or not 0 <= self.version <= version:
            return new
        commits = [log.commit(between) for between in range(self.version + 1, version + 1)]
        known = [logged for logged in commits if logged is not None]
        for logged in known:
            refuse_replacement(logged, place)
        if len(known) == len(commits):
            self._apply(*known)
            new.indexed = self.indexed
        return new

    def follows(self, transaction: DeltaTransaction, log: DeltaLog) -> bool:
        """Moves on to the version of a transaction, without an index. Returns False, and stays, if other writers have done more
        since than add and remove rows."""
        if transaction.table_id() != self.table_id or transaction.version < self.version:
            return False
        ends: dict[str, int] = {}
        for version in range(self.version + 1, transaction.version + 1):
            logged = log.commit(version)
            if logged is None or logged.effect & (Effect.ALTERS | Effect.MOVES_HISTORY):
                return False
            ends |= logged.transactions
        self.version = transaction.version
        self.ends.update(ends)
        return True

    def _apply(self, *commits: LoggedCommit) -> None:
        """Moves the index on by commits of other writers, all at once. Drops it when a file of them is gone, which a later commit
        may have removed and VACUUM deleted. An index that is built anew needs only files of the newest version."""
        if self.indexed is None:
            return
        adds: dict[str, Action] = {}
        removes: dict[str, Action] = {}
        for logged in commits:
            for action in logged.removes:
                adds.pop(action["path"], None)
                removes[action["path"]] = action
            adds |= {action["path"]: action for action in logged.adds}
        try:
            self.indexed.apply(adds.values(), removes.values())
        except UnreadableFile:
            self.indexed = None


def read_files(transaction: DeltaTransaction, log: DeltaLog, max_keys: int, keys: Mapping[str, pa.DataType]) -> IndexedFiles:
    listed = log.listed_files(transaction.version)
    indexed = IndexedFiles(log.files, DeltaFormat(log.table_folder), keys, max_keys)
    indexed.apply(transaction.files() if listed is None else listed, ())
    return indexed
