"""What the log and the history of a Delta table say that Spark writes: its state, the offsets in it, and who feeds it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from connect.record import TopicPartition
from connectors.spark.plan.sql import table_at
from connectors.spark.tables.application_ids import (
    StoredOffsets,
    feeding_partitions,
    ids_of_connectors,
    spark_writer_id,
    spark_writer_ids,
)
from connectors.spark.tables.committed_offsets import CommittedOffsets, collect_committed_offsets, collect_feeds, parse_commit
from connectors.spark.tables.conflicts import refuse_dropped
from connectors.spark.tables.delta.checks import check_not_replaced, refuse_replacement, refuse_written_by_worker
from connectors.spark.tables.delta.log import DeltaLog
from connectors.spark.tables.delta.log_state import LogState, read_newest_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEPTHS = (50, 2_000, None)


class SqlTableHistory:
    """Of the table ``table`` at ``path``, for one connector."""

    def __init__(self, session: SparkSession, path: str, table: str, connector: str, log: DeltaLog) -> None:
        self.known: LogState | None = None
        """The newest version whose history is that of the task's offsets; None before there is a table."""
        self._session = session
        self._name = table_at(path)
        self._table = table
        self._place = f"table {table} at {path}"
        self._connector = connector
        self._app_id = spark_writer_id(connector, table)
        self._log = log
        self._feeds: dict[str, frozenset[TopicPartition]] = {}
        """By identifier of a connector for which Spark writes the table: the partitions whose records it has there."""

    def read(self) -> LogState | None:
        """The newest version, whatever became of the table; None if there is none."""
        return read_newest_state(self._log, self._place)

    def follow(self) -> LogState | None:
        """Moves on to the newest version. Raises HistoryMoved, and then each time, if the rows were replaced or dropped since
        the connector's last commit."""
        before, newest = self.known, self.read()
        if before is None:
            if newest is not None and self._app_id in newest.transactions:
                check_not_replaced(self._log, newest.version, self._connector, self._place)
        elif newest is None:
            refuse_dropped(self._place, exists=False)
        else:
            # The task's own commits are among them: another one may have come between what was read and such a commit.
            for version in range(before.version + 1, newest.version + 1):
                if (logged := self._log.commit(version)) is not None:
                    refuse_replacement(logged, self._place)
            if newest.table_id != before.table_id:
                refuse_dropped(self._place, exists=True)
        self.known = newest
        return newest

    def committed_offsets(self, state: LogState, partitions: Collection[TopicPartition]) -> CommittedOffsets:
        """Reads the committed offsets of these partitions, and those that feed the table for each connector, from the table's
        history, newest commits first, as far as needed.

        History covers ``delta.logRetentionDuration`` (30 days). Every commit of a task names all its partitions, so offsets are
        missing only if the connector has not written to the table for that long; then the consumer group's offsets apply. The
        sequence goes on all the same, because the table's state has it. Raises ConnectError for a table that the worker writes.
        """
        refuse_written_by_worker(StoredOffsets(state.transactions, self._connector), self._place)
        committed_offsets = CommittedOffsets()
        feeds: dict[str, frozenset[TopicPartition]] = {}
        writers = spark_writer_ids(state.transactions)
        for depth in _DEPTHS:
            limit = "" if depth is None else f" LIMIT {depth}"
            rows = self._session.sql(f"DESCRIBE HISTORY {self._name}{limit}").select("userMetadata").collect()
            commits = [commit for row in rows if (commit := parse_commit(row["userMetadata"])) is not None]
            committed_offsets = collect_committed_offsets(commits, self._connector)
            found = collect_feeds(commits)
            feeds = {text: found[name] for name in found if (text := spark_writer_id(name, self._table)) in writers}
            if depth is None or len(rows) < depth:
                break
            # Without partitions, the caller asks only whether this connector writes to the table.
            is_enough = committed_offsets.covers(partitions) or (not partitions and depth != _DEPTHS[0])
            if is_enough and writers <= feeds.keys() | self._feeds.keys():
                break
        expired = {text: feeding_partitions({text: 1}) for text in writers}
        self._feeds = {**expired, **self._feeds, **feeds}
        if self._app_id in state.transactions:
            committed_offsets.sequence = max(committed_offsets.sequence or 0, state.transactions[self._app_id])
        return committed_offsets

    def feeds(self, state: LogState) -> frozenset[TopicPartition]:
        """All partitions of other connectors that feed the table, and those of this one for which the worker writes, after
        :meth:`committed_offsets` of this version."""
        by_worker = {text: end for text, end in ids_of_connectors(state.transactions).items() if text not in self._feeds}
        by_spark = (found for text, found in self._feeds.items() if text != self._app_id)
        return feeding_partitions(by_worker).union(*by_spark)
