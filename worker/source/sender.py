"""Sends what a source task polled: transforms, converts and produces, by the batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Protocol

from confluent_kafka import KafkaError, Message

from connect import crash_points
from connect.errors import ConnectError
from connect.record import ConnectRecord, SourceRecord
from worker.errors.batch_failures import BatchFailures
from worker.errors.resend import Confirm
from worker.errors.stages import StageError
from worker.kafka.record_producer import ProduceCancelled, ProducerRun, RecordMetadata, RecordRefusedError, unrecoverable
from worker.model import TaskId
from worker.source.encoding import encode, encode_one
from worker.source.pending_offsets import PendingOffsets
from worker.source.runtime import SourceParts
from worker.tasks.worker_task import TaskControl

_REFUSED_SLICE_S = 1.0

Done = Callable[[SourceRecord, RecordMetadata | None], None]
"""Hears of a record that was written, or (None) that it was left out."""


class SourceHost(Protocol):
    """The task that sending goes on in."""

    id: TaskId
    control: TaskControl
    cancelled: bool

    def count(self, records: int, size_bytes: int) -> None: ...

    def tell_topics(self, topics: Collection[str]) -> None: ...


class RecordSender:
    """Used on its task's thread only."""

    def __init__(self, host: SourceHost, parts: SourceParts, on_done: Done, before: Callable[[], None] = lambda: None) -> None:
        """``on_done`` is called for tasks that want each record confirmed (``commit_record``), while the producer is served;
        ``before`` ahead of each run of records that is sent."""
        self._before = before
        self._host = host
        self._parts = parts
        self._on_done = on_done
        # In a transaction one record that the broker refuses spoils all of it: there is nothing to send again.
        self._resends = parts.errors.tolerant and parts.exactly is None
        self.pending = PendingOffsets()
        """Offsets of what was sent."""
        self.topics: set[str] = set()
        """All that were written to."""
        self.new_topics: set[str] = set()

    def send(self, batch: Sequence[SourceRecord]) -> None:
        """Hands a batch to the producer, and notes the offsets up to which it came.

        Raises what is to fail the task, ProduceCancelled or Stopped when the task is to end first; part of the batch may have
        been sent then, of which :attr:`pending` knows what can be told for certain.
        """
        crash_points.point("source.polled")
        failures = self._parts.errors.batch()
        changed: Sequence[ConnectRecord | None] = self._parts.chain.apply_batch(batch, failures) if self._parts.chain else batch
        if self._parts.task.wants_commit_record:
            self._send_with_callbacks(batch, changed, failures)
        else:
            self._send_in_runs(batch, changed, failures)
        if failures and not self._parts.errors.tolerant:
            # Those before the bad one are sent; it ends the task.
            self.pending.track(batch[: int(failures.end)])
            self._report(batch, failures)
        self.pending.track(batch)
        self._parts.producer.serve()
        if self._parts.refused and not self.send_refused(None):
            raise ProduceCancelled

    def _send_in_runs(
        self,
        batch: Sequence[SourceRecord],
        changed: Sequence[ConnectRecord | None],
        failures: BatchFailures,
    ) -> None:
        runs = encode(self._parts.converters, changed, failures)
        if failures and self._parts.errors.tolerant:
            self._report(batch, failures)
        whole = len(runs) <= 1 and changed is batch and not failures
        for run, places in runs:
            self._prepare(run.topic)
            try:
                self._send_run(run, places, batch)
            except (ConnectError, ProduceCancelled):
                if whole:
                    self.pending.track(batch[: self._parts.producer.sent])
                raise
            self._count(run)

    def _report(self, batch: Sequence[SourceRecord], failures: BatchFailures) -> None:
        for place, failure in failures:
            self._parts.errors.failed(failure, batch[place])

    def _send_run(self, run: ProducerRun, places: Sequence[int], batch: Sequence[SourceRecord]) -> None:
        errors, producer = self._parts.errors, self._parts.producer
        if not errors.tolerant:
            try:
                producer.send_run(run)
            except RecordRefusedError as e:
                raise unrecoverable(e) from e
            return
        watch = None
        if self._resends:
            originals = [batch[place] for place in places] if errors.settings.reports else None
            watch = self._parts.refused.watch(run, originals)
        start = 0
        while True:
            try:
                producer.send_run(run.after(start), watch)
                return
            except RecordRefusedError as e:
                start += producer.sent
                self._parts.refused.skip(run.topic, e, batch[places[start]])
                start += 1
            except ProduceCancelled:
                producer.sent += start
                raise

    def _send_with_callbacks(
        self,
        batch: Sequence[SourceRecord],
        changed: Sequence[ConnectRecord | None],
        failures: BatchFailures,
    ) -> None:
        """The same for tasks that want each record confirmed (``commit_record``)."""
        for place, record in enumerate(changed):
            original = batch[place]
            if place >= failures.end:
                break
            if record is None:
                if failures.good(place):
                    self._confirm(original, None)
                continue
            try:
                run = encode_one(self._parts.converters, record, failures.attempt)
            except StageError as e:
                failures.add(place, e)
                continue
            self._prepare(run.topic)
            self._send_confirmed(run, original)
        if failures and self._parts.errors.tolerant:
            self._report(batch, failures)
            self._parts.errors.settle_now()  # once confirmed, the source may forget it
            for place, _ in failures:
                self._confirm(batch[place], None)

    def _send_confirmed(self, run: ProducerRun, original: SourceRecord) -> None:
        confirm = partial(self._confirm, original)
        tolerant = self._parts.errors.tolerant
        on_delivery = partial(self._on_delivery, confirm)
        try:
            watched = self._parts.refused.watch(run, [original], confirm) if self._resends else on_delivery
            self._parts.producer.send_one(run, watched)
        except RecordRefusedError as e:
            if not tolerant:
                raise unrecoverable(e) from e
            self._parts.refused.skip(run.topic, e, original, confirm)
            return
        self._count(run)

    def _on_delivery(self, confirm: Confirm, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._parts.producer.remember(error, message)
        else:
            confirm(message)

    def _confirm(self, record: SourceRecord, message: Message | None) -> None:
        metadata = None
        if message is not None:
            place = message.topic() or "", message.partition() or 0, message.offset() or 0
            metadata = RecordMetadata(*place, message.timestamp()[1])
        self._on_done(record, metadata)

    def send_refused(self, timeout_s: float | None) -> bool:
        """Sends what the broker refused once more, each record alone; without a limit it waits until that is done, or until the
        task is to stop. False when there is some left."""
        refused = self._parts.refused
        while refused:
            slice_s = _REFUSED_SLICE_S if timeout_s is None else timeout_s
            if self._parts.producer.drain(slice_s) and refused.send_again(slice_s):
                return True
            if timeout_s is not None or self._host.control.stopping:
                return False
        return True

    def take_new_topics(self) -> frozenset[str]:
        """The topics that were written to for the first time since the last call (KIP-558)."""
        taken, self.new_topics = frozenset(self.new_topics), set()
        return taken

    def _prepare(self, topic: str) -> None:
        if self._parts.topics is not None and not self._parts.topics.ensure(topic, self._host.control.wait_for_stop):
            raise ProduceCancelled
        if topic not in self.topics:
            self.topics.add(topic)
            self.new_topics.add(topic)
        self._before()

    def _count(self, run: ProducerRun) -> None:
        self._host.count(len(run.values), sum(map(len, filter(None, run.values))))
