"""Moves the offsets that a Delta table stores."""

from __future__ import annotations

from collections.abc import Mapping

from connect.errors import RetriableError
from connect.record import TopicPartition
from connectors.spark.tables.application_ids import StoredOffsets
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.conflicts import CommitConflict
from connectors.spark.tables.delta.transaction import DeltaTransaction, transaction_action


def move_stored_offsets(
    transaction: DeltaTransaction, connector: str, offsets: Mapping[TopicPartition, int | None], place: str
) -> None:
    """Commits new offsets (None deletes one), also those of recreated topics: deleting them accepts the new topic."""
    if transaction.version < 0:
        return
    stored = StoredOffsets(transaction.application_versions(), connector)
    moved = {str(i): end or 0 for tp, end in offsets.items() for i in stored.partition_ids(tp)}
    if not moved:
        return
    document = TableCommit(connector, 0, {}, dict(offsets))
    actions = [transaction_action(identity, end) for identity, end in moved.items()]
    try:
        transaction.commit(actions, document, application_ids=moved)
    except CommitConflict as e:
        raise RetriableError(f"{place}: a task committed at the same time; stop the connector first") from e
