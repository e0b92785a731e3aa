"""The contract between a source task's loop and its delivery guarantee, and what both guarantees share."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from connect.record import SourceRecord
from connect.source import SourceTask, TransactionContext
from worker.error_text import describe
from worker.kafka.record_producer import RecordMetadata
from worker.model import TaskId
from worker.source.pending_offsets import PendingOffsets
from worker.storage.offset_store import OffsetPair

log = logging.getLogger(__name__)


class RunOutcome(Enum):
    """How the loop of a source task ended."""

    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    """TaskStopped while part of a batch was not sent yet."""
    FAILED = "failed"


class SourceDelivery(Protocol):
    """Sends records and stores their offsets. Used on its task's thread only."""

    context: TransactionContext | None
    """Passed to the task so that it can define transaction boundaries."""
    made_progress: bool
    """Whether any offsets were stored."""

    def prepare(self) -> bool:
        """Called before the connector's task starts. Returns False if the task must stop. Raises ConnectError."""

    @property
    def broker_unavailable(self) -> bool:
        """Whether a broker was unreachable at any time since offsets were last stored."""

    def can_restart(self) -> bool:
        """Whether the task may restart here after its producer or transaction was lost. Blocks until that is known.

        Returns False if the task must stop; raises ConnectError if another worker owns the task now.
        """

    def start(self) -> None:
        """Called when the loop starts, and again after each pause."""

    def send(self, batch: Sequence[SourceRecord] | None) -> None:
        """Sends a batch, which may be empty, and flushes offsets if they are due. Raises errors that must fail the task."""

    def flush(self) -> None:
        """Flushes pending offsets. Called periodically while paused; raises errors that must fail the task."""

    def finish(self, outcome: RunOutcome) -> None:
        """Flushes what it can when the loop has ended. Does not raise."""


def confirm_record(task_id: TaskId, task: SourceTask, record: SourceRecord, metadata: RecordMetadata | None) -> None:
    """Calls ``commit_record``. Logs its error, as Apache's worker does: the record is in Kafka in any case."""
    try:
        task.commit_record(record, metadata)
    except Exception:
        log.exception("commit_record() of task %s failed", task_id)


def update_offsets(task_id: TaskId, task: SourceTask, pending: PendingOffsets) -> None:
    """Calls ``update_offsets`` and changes the pending offsets accordingly. Logs its error."""
    offered = [(partition, offset) for partition, offset in pending.pairs if partition is not None and offset is not None]
    try:
        pending.replace(task.update_offsets(offered))
    except Exception as e:
        log.warning("update_offsets() of task %s failed: %s", task_id, describe(e))


def confirm_offsets(task_id: TaskId, task: SourceTask, offsets: Sequence[OffsetPair]) -> None:
    """Calls ``commit`` with the offsets that were stored. Logs its error."""
    stored = [(partition, offset) for partition, offset in offsets if partition is not None and offset is not None]
    try:
        task.commit(stored)
    except Exception as e:
        log.warning("commit() of task %s failed: %s", task_id, describe(e))
