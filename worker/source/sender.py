"""Transforms, converts, and produces what a source task polled, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

from confluent_kafka import KafkaError, Message

from connect import crash_points
from connect.errors import ConnectError
from connect.record import ConnectRecord, ErrantSourceRecord, SourceRecord
from connect.tracing import traced
from worker.errors.batch_failures import BatchFailures
from worker.errors.resend import OnDelivered
from worker.errors.stages import RecordStage, StageError, record_location
from worker.kafka.record_producer import ProduceCancelled, ProducerRun, RecordMetadata, RecordRejectedError, unrecoverable
from worker.observability.activity import TaskPhase
from worker.source.encoding import encode, encode_one
from worker.source.pending_offsets import PendingOffsets
from worker.source.runtime import SourceTaskRuntime
from worker.source.tracing import SourceTracing
from worker.tasks.worker_task import TaskHandle

_RESEND_SLICE_S = 1.0
_UNTRACED: AbstractContextManager[None] = nullcontext()

OnRecordDone = Callable[[SourceRecord, RecordMetadata | None], None]
"""Called when a record was written, or with None when it was skipped."""


class RecordSender:
    """Used on its task's thread only."""

    def __init__(
        self,
        handle: TaskHandle,
        runtime: SourceTaskRuntime,
        on_record_done: OnRecordDone,
        before_send: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_record_done`` is called for tasks that implement ``commit_record``, while the producer is served; ``before_send``
        is called before each run of records."""
        self._handle = handle
        self._task = runtime.task
        self._converters = runtime.converters
        self._chain = runtime.chain
        self._producer = runtime.producer
        self._topic_creator = runtime.topic_creator
        self._errors = runtime.errors
        self._rejected = runtime.rejected
        # In a transaction, one rejected record fails all the others: nothing can be resent.
        self._resends = runtime.errors.tolerant and runtime.transaction is None
        self._on_record_done = on_record_done
        self._before_send = before_send
        self.tracing = None if handle.trace is None else SourceTracing(handle.trace, runtime.converters.header)
        self.pending = PendingOffsets()
        """Offsets of the records that were sent."""
        self.topics: set[str] = set()
        """All topics that were written to."""
        self.new_topics: set[str] = set()

    def send(self, batch: Sequence[SourceRecord]) -> int:
        """Passes a batch to the producer and tracks its offsets. Returns the number of topics that get records.

        Raises errors that must fail the task; ProduceCancelled or TaskStopped if the task must stop first. Part of the batch may
        have been sent then; :attr:`pending` has the offsets of those records that were certainly sent.
        """
        crash_points.point("source.polled")
        self._handle.activity.enter(TaskPhase.TRANSFORMING)
        failures = self._errors.start_batch()
        changed: Sequence[ConnectRecord | None] = batch
        if self._chain:
            with traced(self._handle.trace, "transform"):
                changed = self._chain.apply_batch(batch, failures)
        send = self._send_with_callbacks if self._task.wants_commit_record else self._send_in_runs
        topics = send(batch, changed, failures)
        if not failures.are_tolerated:
            # Records before the failed one are sent; the failed one ends the task.
            self.pending.track(batch[: int(failures.end)])
            self._report(batch, failures)
        self.pending.track(batch)
        self._producer.serve()
        if self._rejected and not self.resend_rejected(None):
            raise ProduceCancelled
        return len(topics)

    def _send_in_runs(
        self,
        batch: Sequence[SourceRecord],
        changed: Sequence[ConnectRecord | None],
        failures: BatchFailures,
    ) -> set[str]:
        with traced(self._handle.trace, "convert"):
            runs = encode(self._converters, changed, failures)
        if failures and failures.are_tolerated:
            self._report(batch, failures)
        self._handle.activity.enter(TaskPhase.SENDING)
        is_whole_batch = len(runs) <= 1 and changed is batch and not failures
        with self._sending(batch) as tracing:
            for run, indexes in runs:
                self._prepare(run.topic)
                try:
                    self._send_run(run if tracing is None else tracing.add_context(run), indexes, batch)
                except (ConnectError, ProduceCancelled):
                    if is_whole_batch:
                        self.pending.track(batch[: self._producer.sent])
                    raise
                self._count(run)
        return {run.topic for run, _ in runs}

    def _sending(self, batch: Sequence[SourceRecord]) -> AbstractContextManager[SourceTracing | None]:
        return _UNTRACED if self.tracing is None else self.tracing.sending(len(batch))

    def _report(self, batch: Sequence[SourceRecord], failures: BatchFailures) -> None:
        for index, failure in failures:
            record = batch[index]
            if isinstance(record, ErrantSourceRecord):  # whatever looked at it first has failed
                failure = StageError(RecordStage.TASK_POLL, self._task, record_location(record), record.error)
            self._errors.handle_failure(failure, record)

    def _send_run(self, run: ProducerRun, indexes: Sequence[int], batch: Sequence[SourceRecord]) -> None:
        errors, producer, rejected = self._errors, self._producer, self._rejected
        if not errors.tolerant or rejected is None:
            try:
                producer.send_run(run)
            except RecordRejectedError as e:
                raise unrecoverable(e) from e
            return
        on_delivery = None
        if self._resends:
            originals = [batch[index] for index in indexes] if errors.settings.reports else None
            on_delivery = rejected.track(run, originals)
        start = 0
        while True:
            try:
                producer.send_run(run.after(start), on_delivery)
                return
            except RecordRejectedError as e:
                start += producer.sent
                rejected.skip(run.topic, e, batch[indexes[start]])
                start += 1
            except ProduceCancelled:
                producer.sent += start
                raise

    def _send_with_callbacks(
        self,
        batch: Sequence[SourceRecord],
        changed: Sequence[ConnectRecord | None],
        failures: BatchFailures,
    ) -> set[str]:
        """Sends one record at a time, for tasks that implement ``commit_record``."""
        self._handle.activity.enter(TaskPhase.SENDING)
        with self._sending(batch) as tracing:
            topics = self._send_each(batch, changed, failures, tracing)
        if failures and failures.are_tolerated:
            self._report(batch, failures)
            # Promise 7: the source may forget a record once it is confirmed.
            self._errors.flush_or_stop()
            for index, _ in failures:
                self._confirm(batch[index], None)
        return topics

    def _send_each(
        self,
        batch: Sequence[SourceRecord],
        changed: Sequence[ConnectRecord | None],
        failures: BatchFailures,
        tracing: SourceTracing | None,
    ) -> set[str]:
        topics = set()
        for index, record in enumerate(changed):
            original = batch[index]
            if index >= failures.end:
                break
            if record is None:
                if failures.is_good(index):
                    self._confirm(original, None)
                continue
            try:
                run = encode_one(self._converters, record, failures.attempt)
            except StageError as e:
                failures.add(index, e)
                continue
            self._prepare(run.topic)
            self._send_confirmed(run if tracing is None else tracing.add_context(run), original)
            topics.add(run.topic)
        return topics

    def _send_confirmed(self, run: ProducerRun, original: SourceRecord) -> None:
        confirm = partial(self._confirm, original)
        tolerant, rejected = self._errors.tolerant, self._rejected
        on_delivery = partial(self._on_delivery, confirm)
        try:
            tracked = rejected.track(run, [original], confirm) if self._resends and rejected is not None else on_delivery
            self._producer.send_one(run, tracked)
        except RecordRejectedError as e:
            if not tolerant or rejected is None:
                raise unrecoverable(e) from e
            rejected.skip(run.topic, e, original, confirm)
            return
        self._count(run)

    def _on_delivery(self, confirm: OnDelivered, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._producer.record_error(error, message)
        else:
            confirm(message)

    def _confirm(self, record: SourceRecord, message: Message | None) -> None:
        metadata = None
        if message is not None:
            location = message.topic() or "", message.partition() or 0, message.offset() or 0
            metadata = RecordMetadata(*location, message.timestamp()[1])
        self._on_record_done(record, metadata)

    def resend_rejected(self, timeout_s: float | None) -> bool:
        """Resends each record that the broker rejected, alone. Returns False if some are left.

        Without a timeout, waits until all are done or the task must stop.
        """
        rejected = self._rejected
        while rejected:
            slice_s = _RESEND_SLICE_S if timeout_s is None else timeout_s
            if self._producer.drain(slice_s) and rejected.resend(slice_s):
                return True
            if timeout_s is not None or self._handle.control.stopping:
                return False
        return True

    def take_new_topics(self) -> frozenset[str]:
        """Returns the topics that were written to for the first time since the last call (KIP-558)."""
        taken, self.new_topics = frozenset(self.new_topics), set()
        return taken

    def _prepare(self, topic: str) -> None:
        if self._topic_creator is not None and not self._topic_creator.ensure(topic, self._handle.control.wait_for_stop):
            raise ProduceCancelled
        if topic not in self.topics:
            self.topics.add(topic)
            self.new_topics.add(topic)
        self._before_send()

    def _count(self, run: ProducerRun) -> None:
        self._handle.count(len(run.values), sum(map(len, filter(None, run.values))))
