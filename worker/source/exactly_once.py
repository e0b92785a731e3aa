"""Exactly-once delivery (KIP-618): records and their source offsets are written in one transaction.

A reader of committed records sees each record once, whichever process dies at whatever time (promise 5): records and offsets
become visible together, or neither does and the records are read from their source again. A task that was replaced is fenced by
the next one that initializes its transactional id (promise 4). If a transaction is lost because brokers were unavailable,
TransactionLostError ends the delivery and the task restarts from its last committed offsets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from connect import crash_points
from connect.errors import ConnectError, UnreachableError
from connect.record import SourceRecord
from connect.source import SourceTask, TransactionContext
from worker.error_text import describe
from worker.errors.handler import ErrorHandler
from worker.executor import WorkerServices
from worker.kafka.record_producer import ProduceCancelled, ProducerRun, RecordMetadata
from worker.kafka.transactions import TransactionLostError, Transactions
from worker.model import TaskStopped
from worker.observability.activity import TaskPhase
from worker.source.delivery import RunOutcome, confirm_offsets, confirm_record, update_offsets
from worker.source.pending_offsets import PendingOffsets
from worker.source.producer import SourceProducer
from worker.source.runtime import SourceTaskRuntime
from worker.source.sender import RecordSender
from worker.source.transaction_boundary import TransactionBoundaries, TransactionEnd
from worker.storage.offset_store import OffsetPair, OffsetRecord
from worker.tasks.worker_task import TaskHandle

log = logging.getLogger(__name__)

_CONFIRM_RETRY_S = 1.0
_OWN_TOPIC = "Source tasks may not produce to their own offsets topics when exactly-once support is enabled"


class TransactionRecords:
    """The records of the open transaction and where they were written, for tasks that implement ``commit_record``."""

    def __init__(self) -> None:
        self._records: list[SourceRecord] = []
        self._metadata: dict[int, RecordMetadata | None] = {}

    def add(self, records: Sequence[SourceRecord]) -> None:
        self._records += records

    def set_metadata(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        self._metadata[id(record)] = metadata

    def on_abort(self) -> None:
        """None of the records was written."""
        self._metadata.clear()

    def take(self) -> list[tuple[SourceRecord, RecordMetadata | None]]:
        """Returns the records in order, each with its metadata or None, and removes them."""
        records, metadata = self._records, self._metadata
        self._records, self._metadata = [], {}
        return [(record, metadata.get(id(record))) for record in records]


class ExactlyOnceDelivery:
    """Sends records in transactions (:class:`worker.source.delivery.SourceDelivery`)."""

    def __init__(
        self,
        handle: TaskHandle,
        runtime: SourceTaskRuntime,
        transactions: Transactions,
        boundaries: TransactionBoundaries,
        services: WorkerServices,
        start_id: int,
    ) -> None:
        """``run`` is the worker's start ID of the task."""
        self.context: TransactionContext | None = boundaries.requested
        self.made_progress = False
        self._handle = handle
        self._task: SourceTask = runtime.task
        self._producer: SourceProducer = runtime.producer
        self._errors: ErrorHandler = runtime.errors
        self._transactions = transactions
        self._boundaries = boundaries
        self._services = services
        self._start_id = start_id
        self._records = TransactionRecords()
        # The first record opens a transaction: a batch whose records are all dropped needs none.
        self._sender = RecordSender(handle, runtime, self._records.set_metadata, transactions.begin)
        self._is_partial = False  # whether the transaction has records whose offset is not tracked
        self._transaction_size = 0

    def prepare(self) -> bool:
        # Promise 4: this fences whoever ran the task before. If this worker is the outdated one, the task ends here.
        return self._transactions.init() and self._confirm_ownership(with_coordinator=False)

    @property
    def broker_unavailable(self) -> bool:
        return self._transactions.broker_unavailable

    def can_restart(self) -> bool:
        # Promise 4: checked before there is another producer, which would fence that of the task's new owner.
        return self._confirm_ownership(with_coordinator=True)

    def _confirm_ownership(self, *, with_coordinator: bool) -> bool:
        warned = False
        while not self._handle.control.stopping:
            try:
                self._services.confirm_task(self._start_id, self._handle.id, with_coordinator=with_coordinator)
            except UnreachableError as e:
                if not warned:
                    log.warning("Task %s waits to learn whether it still belongs to this worker: %s", self._handle.id, e.message)
                    warned = True
                self._handle.control.wait_for_stop(_CONFIRM_RETRY_S)
            else:
                return True
        return False

    def start(self) -> None:
        self._boundaries.start_interval()

    def send(self, batch: Sequence[SourceRecord] | None) -> None:
        try:
            for records, end in self._boundaries.split(batch):
                self._send(records)
                self._end_transaction(end)
            end = self._boundaries.end_after_batch(is_open=self._transactions.open, has_more=self._task.has_more())
            self._end_transaction(end)
            self._producer.serve()
        except ConnectError as e:
            raise self._transactions.explain(e) from e

    def flush(self) -> None:
        # So that no transaction expires during a pause.
        try:
            self._end_transaction(self._boundaries.end_without_batch())
            self._producer.serve()
        except ConnectError as e:
            raise self._transactions.explain(e) from e

    def finish(self, outcome: RunOutcome) -> None:
        if self._handle.cancelled:
            return
        if outcome is RunOutcome.STOPPED and not self._is_partial:
            try:
                self._end_transaction(self._boundaries.end_without_batch())
            except (ConnectError, ProduceCancelled, TaskStopped) as e:
                log.error("The last transaction of task %s is not committed: %s", self._handle.id, describe(e))
        if self._transactions.open:
            self._transactions.give_up()

    def _end_transaction(self, end: TransactionEnd) -> None:
        if end is TransactionEnd.NONE:
            return
        if end is TransactionEnd.ABORT:
            self._transactions.abort()
            self._records.on_abort()
            self._transaction_size = 0
        # After an abort too: storing the offsets keeps the task from reading the aborted records again.
        self._commit()

    def _send(self, records: Sequence[SourceRecord]) -> None:
        self._is_partial = True
        self._transaction_size += len(records)
        if self._task.wants_commit_record:
            self._records.add(records)
        self._sender.send(records)
        self._is_partial = False

    def _commit(self) -> None:
        self._boundaries.start_interval()
        pending, transactions, activity = self._sender.pending, self._transactions, self._handle.activity
        activity.enter(TaskPhase.FLUSHING)
        update_offsets(self._handle.id, self._task, pending)
        if not pending and not transactions.open:
            activity.on_nothing_to_commit()
            return
        started, committed = time.monotonic(), False
        try:
            if (tracing := self._sender.tracing) is None:
                self._commit_transaction(pending)
            else:
                with tracing.storing_offsets("commit transaction") as span:
                    span.set_attribute("messaging.batch.message_count", self._transaction_size)
                    self._commit_transaction(pending)
                tracing.links = ()
            committed = True
        finally:
            self._handle.meter.committed(time.monotonic() - started, successful=committed)

    def _commit_transaction(self, pending: PendingOffsets) -> None:
        transactions, activity = self._transactions, self._handle.activity
        # Promise 7: a skipped record is in the dead letter queue before its offset is committed.
        self._errors.flush_or_stop()
        offsets = pending.take()
        transactions.begin()
        if offsets:
            try:
                self._write_offsets(offsets)
            except UnreachableError as e:
                raise TransactionLostError(e.message) from e
        if self._task.wants_commit_record:
            transactions.wait_until_sent()  # so that the metadata of each record is known
        crash_points.point("source.produced")
        # Promises 1 and 5: the offsets become visible with the records, not before.
        transactions.commit()
        crash_points.point("offsets.written")
        self.made_progress = True
        self._handle.meter.transaction_ended(self._transaction_size)
        self._transaction_size = 0
        if topics := self._sender.take_new_topics():
            self._handle.report_topics(topics)
        if offsets:
            try:
                self._services.offsets_committed(self._handle.id.connector, offsets)
            except UnreachableError as e:
                raise TransactionLostError(e.message) from e
        activity.on_commit()
        activity.enter(TaskPhase.CONFIRMING)
        for record, metadata in self._records.take():
            confirm_record(self._handle.id, self._task, record, metadata)
        if offsets:
            confirm_offsets(self._handle.id, self._task, offsets)

    def _write_offsets(self, offsets: Sequence[OffsetPair]) -> None:
        connector = self._handle.id.connector
        records = self._services.offset_records(connector, offsets)
        for topic in {record.topic for record in records}:
            if topic in self._sender.topics:
                raise ConnectError(f"{_OWN_TOPIC}: {topic}")
        if any(offset is None for _, offset in offsets):
            self._services.before_commit(connector, offsets)
        if self._handle.control.stopping:
            self._transactions.wait_until_sent()  # a stopping task must not wait for space in a full queue
        for run in _group_by_topic(records):
            self._producer.send_run(run)


def _group_by_topic(records: Sequence[OffsetRecord]) -> list[ProducerRun]:
    """Returns offset records as one run per topic; a tombstone has the value None."""
    by_topic: dict[str, list[OffsetRecord]] = {}
    for record in records:
        by_topic.setdefault(record.topic, []).append(record)
    return [
        ProducerRun(topic, [r.key for r in found], [r.value for r in found], [r.partition for r in found])
        for topic, found in by_topic.items()
    ]
