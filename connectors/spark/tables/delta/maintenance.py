"""Takes care of a Delta table beside its commits: checkpoints, compaction, and removal of old files."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyarrow import fs

from connectors.spark.plan.sql import table_at
from connectors.spark.tables.delta.log import DeltaLog
from connectors.spark.tables.delta.transaction import DeltaTransaction, DeltaTransactions
from connectors.spark.tables.staging import local_folder
from connectors.spark.tables.table_lock import TableLock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_CHECKPOINT_COMMITS = 250
_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_VACUUM_LOGGING = "spark.databricks.delta.vacuum.logging.enabled"


class DeltaMaintenance:
    """Maintenance of one table. Used by one thread at a time, which is not the one that commits. ``vacuum_interval_s``: how often
    files that no version needs any more are deleted; 0 turns it off."""

    def __init__(
        self,
        session: SparkSession,
        path: str,
        files: fs.FileSystem,
        folder: str,
        vacuum_interval_s: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._vacuum_interval_s = vacuum_interval_s
        self._session = session
        self._now = now
        self._path = path
        self._transactions = DeltaTransactions(session, path, DeltaLog(files, folder))
        self._files = files
        self._lock = TableLock(local_folder(f"{path}/_delta_log"), ".sluice-maintenance.lock")
        self._last_checkpoint = f"{folder}/_delta_log/_last_checkpoint"
        self._last_vacuum = f"{folder}/_delta_log/_last_vacuum_info"
        self._vacuum_due_at = 0.0

    def run(self, compact: Callable[[], bool], is_stopping: Callable[[], bool]) -> None:
        """Does what is due; ``compact`` merges files once and returns whether there may be more to merge. Does nothing while
        another task takes care of the table."""
        with self._lock.tried() as is_held:
            if not is_held:
                return
            while not is_stopping() and compact():
                pass
            if is_stopping():
                return
            transaction = self._transactions.begin()
            self._checkpoint(transaction)
            if not is_stopping() and self._is_vacuum_due(transaction):
                self._vacuum()

    def _checkpoint(self, transaction: DeltaTransaction) -> None:
        """Writes a checkpoint when the last one is many commits old; Delta removes expired entries of the log with it."""
        if transaction.version - self._checkpoint_version() >= _CHECKPOINT_COMMITS:
            transaction.write_checkpoint()

    def _checkpoint_version(self) -> int:
        with contextlib.suppress(OSError, ValueError, KeyError), self._files.open_input_file(self._last_checkpoint) as file:
            return int(json.loads(file.read())["version"])
        return 0

    def _is_vacuum_due(self, transaction: DeltaTransaction) -> bool:
        """Whether the last VACUUM, of whichever task, or the table's creation is an interval ago. What the table says counts,
        because a task may never run for so long."""
        if not self._vacuum_interval_s or self._now() < self._vacuum_due_at:
            return False
        vacuumed_ns = self._files.get_file_info(self._last_vacuum).mtime_ns
        last_s = transaction.metadata().get("createdTime", 0) / 1000 if vacuumed_ns is None else vacuumed_ns / 1e9
        self._vacuum_due_at = last_s + self._vacuum_interval_s
        return self._now() >= self._vacuum_due_at

    def _vacuum(self) -> None:
        self._vacuum_due_at = self._now() + self._vacuum_interval_s
        # VACUUM would otherwise make two commits to the log, without the lock that guards commits of several processes.
        self._session.conf.set(_VACUUM_LOGGING, "false")
        # It lists files in this many tasks, 10,000 by default, however few files there are.
        tasks = self._session.conf.get("spark.sql.shuffle.partitions")
        assert tasks is not None
        self._session.conf.set(_LISTING_TASKS, tasks)
        # The table's retention (7 days by default) is longer than any reader or uncommitted file of the sink lives.
        self._session.sql(f"VACUUM {table_at(self._path)}")
