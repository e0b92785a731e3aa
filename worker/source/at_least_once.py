"""At-least-once delivery: offsets are stored periodically, after the broker has acknowledged the records before them.

Offsets are not tracked record by record. When a flush is due, the task's thread waits until no record is unacknowledged and then
stores the latest offset of each source partition. The wait takes a round trip or two, once per interval.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from connect import crash_points
from connect.errors import ConnectError
from connect.record import SourceRecord
from connect.source import SourceTask, TransactionContext
from connect.tracing import traced
from worker.error_text import describe
from worker.errors.handler import ErrorHandler
from worker.kafka.record_producer import ProduceCancelled
from worker.model import TaskStopped
from worker.observability.activity import TaskPhase
from worker.source.delivery import RunOutcome, confirm_offsets, update_offsets
from worker.source.producer import SourceProducer
from worker.source.runtime import FlushTiming
from worker.source.sender import RecordSender
from worker.storage.offset_store import OffsetStore
from worker.tasks.worker_task import TaskHandle

log = logging.getLogger(__name__)

_NEW_TOPIC_TIMEOUT_S = 1.0
"""How long to wait for the acknowledgment of the first record for a topic before the topic is reported later."""
_MOST_HURRIED_TOPICS = 8
"""Records of more topics wait for the producer's ``linger.ms`` in any case: each partition needs a request."""


class AtLeastOnceDelivery:
    """Stores offsets every ``offset.flush.interval.ms`` (:class:`worker.source.delivery.SourceDelivery`)."""

    def __init__(
        self,
        handle: TaskHandle,
        task: SourceTask,
        sender: RecordSender,
        producer: SourceProducer,
        errors: ErrorHandler,
        store: OffsetStore,
        timing: FlushTiming,
        *,
        lingers_for_backlog: bool = False,
    ) -> None:
        self.context: TransactionContext | None = None
        self.made_progress = False
        self._handle = handle
        self._task = task
        self._sender = sender
        self._producer = producer
        self._errors = errors
        self._store = store
        self._timing = timing
        self._lingers_for_backlog = lingers_for_backlog
        self._next_flush = 0.0
        self._flushed_at = time.monotonic()

    def prepare(self) -> bool:
        return True

    @property
    def broker_unavailable(self) -> bool:
        return self._producer.unavailable_at > self._flushed_at

    def can_restart(self) -> bool:
        return not self._handle.control.stopping  # a task that was assigned to another worker is asked to stop

    def start(self) -> None:
        self._next_flush = time.monotonic() + self._timing.interval_s

    def send(self, batch: Sequence[SourceRecord] | None) -> None:
        if batch:
            topics = self._sender.send(batch)
            if self._lingers_for_backlog and topics <= _MOST_HURRIED_TOPICS and not self._task.has_more():
                self._producer.send_now()
        else:
            self._producer.serve()
        if self._sender.new_topics and self._producer.drain(_NEW_TOPIC_TIMEOUT_S):
            self._report_topics()
        if time.monotonic() >= self._next_flush:
            self._flush(self._timing.timeout_s)
            self.start()

    def flush(self) -> None:
        self._flush(self._timing.timeout_s)

    def finish(self, outcome: RunOutcome) -> None:
        # After a failure too: acknowledged records need not be read again.
        if self._handle.cancelled:
            return
        try:
            self._flush(self._timing.last_timeout_s)
        except (ConnectError, ProduceCancelled, TaskStopped) as e:
            log.warning("Offsets of task %s since the last flush are not stored: %s", self._handle.id, describe(e))

    def _flush(self, timeout_s: float) -> bool:
        """Stores pending offsets once every sent record is acknowledged. Returns False if it must be retried.

        Raises the error of a record that the broker rejected; no offset is stored then.
        """
        self._handle.activity.enter(TaskPhase.FLUSHING)
        update_offsets(self._handle.id, self._task, self._sender.pending)
        if not self._sender.pending:
            self._producer.serve()
            self._handle.activity.on_nothing_to_commit()
            return True
        started, stored = time.monotonic(), False
        try:
            stored = self._store_offsets(timeout_s) if self._sender.tracing is None else self._store_traced(timeout_s)
        finally:
            self._handle.meter.committed(time.monotonic() - started, successful=stored)
        return stored

    def _store_traced(self, timeout_s: float) -> bool:
        tracing = self._sender.tracing
        assert tracing is not None
        with tracing.storing_offsets("flush offsets") as span:
            stored = self._store_offsets(timeout_s)
            if stored:
                tracing.links = ()
            else:
                span.fail("The offsets were not stored; the next flush retries")
        return stored

    def _store_offsets(self, timeout_s: float) -> bool:
        handle, producer, pending = self._handle, self._producer, self._sender.pending
        # Promise 1: `pending` has nothing beyond what was sent, and every sent record is acknowledged before it is taken.
        with traced(handle.trace, "wait for acknowledgments"):
            is_acknowledged = producer.drain(timeout_s)
        if not is_acknowledged:
            log.warning(
                "Offsets of task %s are not stored: %d records were not acknowledged within %d ms (offset.flush.timeout.ms)",
                handle.id,
                len(producer),
                int(timeout_s * 1000),
            )
            return False
        self._report_topics()
        # Promise 7: rejected records are resent or in the dead letter queue before their offsets are stored.
        if not self._sender.resend_rejected(timeout_s) or not self._errors.flush(timeout_s):
            log.warning(
                "Offsets of task %s are not stored: failed records were not all resent or reported within %d ms "
                "(offset.flush.timeout.ms)",
                handle.id,
                int(timeout_s * 1000),
            )
            return False
        crash_points.point("source.produced")
        # Promise 4: a task that was cut off stores nothing more.
        if handle.cancelled:
            return False
        offsets = pending.take()
        try:
            self._store.put(handle.id.connector, offsets)
        except ConnectError as e:
            log.error("Offsets of task %s are not stored and will be retried: %s", handle.id, e.message)
            pending.give_back(offsets)
            return False
        crash_points.point("offsets.written")
        self.made_progress, self._flushed_at = True, time.monotonic()
        handle.activity.on_commit()
        handle.activity.enter(TaskPhase.CONFIRMING)
        confirm_offsets(handle.id, self._task, offsets)
        return True

    def _report_topics(self) -> None:
        if topics := self._sender.take_new_topics():
            self._handle.report_topics(topics)
