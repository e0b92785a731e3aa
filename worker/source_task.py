"""A source task: poll, transform, convert, produce, and store offsets once the broker has acknowledged.

Offsets are not tracked record by record. When a flush is due the task's thread waits until nothing is unacknowledged and
then stores the latest offset of each source partition (promise 1). The wait is a round trip or two, once an interval.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from confluent_kafka import KafkaError, Message

from connect import crash
from connect.errors import ConnectError, RetriableError
from connect.record import ConnectRecord, SourceRecord
from connect.source import SourceTask, TransactionContext
from worker.chain import TransformChain
from worker.herder import ErrorCounts, TaskId, TaskProgress
from worker.kafka.record_producer import (
    ProduceCancelled,
    ProducerRun,
    RecordMetadata,
    RecordProducer,
    RecordRefusedError,
    unrecoverable,
)
from worker.kafka.topics import TopicCreator
from worker.offsets.store import ConnectorOffsetReader, OffsetPair, OffsetStore
from worker.source_batches import Converters, encode, encode_one
from worker.source_offsets import PendingOffsets
from worker.stages import StageError, Stopped, describe
from worker.task import TaskListener, WorkerTask, plugin_details
from worker.tolerance.batch_failures import BatchFailures
from worker.tolerance.handler import ErrorHandler
from worker.tolerance.refused_records import Confirm, RefusedRecords

log = logging.getLogger(__name__)

_IDLE_FIRST_S, _IDLE_MOST_S = 0.001, 0.01
_RETRY_FIRST_S, _RETRY_MOST_S = 0.1, 5.0
_PAUSE_LOOK_S = 1.0
_REFUSED_SLICE_S = 1.0


@dataclass(frozen=True, slots=True)
class SourceParts:
    """What a source task works with. Made on the task's own thread, for plugins are loaded and configured in it."""

    task: SourceTask
    config: Mapping[str, str]
    converters: Converters
    chain: TransformChain
    producer: RecordProducer
    topics: TopicCreator | None
    """None leaves missing topics to the broker."""
    errors: ErrorHandler
    refused: RefusedRecords


@dataclass(frozen=True, slots=True)
class FlushTiming:
    """``offset.flush.interval.ms`` and ``offset.flush.timeout.ms``, in seconds."""

    interval_s: float
    timeout_s: float
    last_timeout_s: float
    """For the flush at the end: it must fit into the time that a stop is given."""


class _Context:
    """What the task is given (:class:`connect.source.SourceTaskContext`)."""

    def __init__(self, config: Mapping[str, str], offset_reader: ConnectorOffsetReader) -> None:
        self._config = config
        self._offset_reader = offset_reader

    def configs(self) -> Mapping[str, str]:
        return self._config

    @property
    def offset_reader(self) -> ConnectorOffsetReader:
        return self._offset_reader

    @property
    def transaction_context(self) -> TransactionContext | None:
        return None


class SourceWorkerTask(WorkerTask):
    """Runs one source task."""

    def __init__(
        self,
        task_id: TaskId,
        listener: TaskListener,
        make_parts: Callable[[Callable[[], bool]], SourceParts],
        store: OffsetStore,
        timing: FlushTiming,
        *,
        version: str | None = None,
        paused: bool = False,
    ) -> None:
        """``make_parts`` is called on the task's thread, with what its producer asks whether to give up."""
        super().__init__(task_id, listener, version=version, paused=paused)
        self._make_parts = make_parts
        self._store = store
        self._timing = timing
        self._offset_reader = ConnectorOffsetReader(store, task_id.connector)
        self._pending = PendingOffsets()
        self._parts: SourceParts | None = None
        self._started = False

    def progress(self) -> TaskProgress:
        parts = self._parts
        details = plugin_details(parts.task) if parts is not None and self._started else {}
        counts = ErrorCounts() if parts is None else parts.errors.counts
        return TaskProgress(self._records, self._bytes, None, details, counts)

    def _stop_plugin(self) -> None:
        if self._parts is not None:
            try:
                self._parts.task.stop()
            except Exception:
                log.exception("stop() of task %s failed", self.id)

    def _cut_off(self) -> None:
        self._offset_reader.close()
        if self._parts is not None:
            self._parts.producer.cancel()
            self._parts.errors.cancel()

    def _execute(self) -> None:
        parts = self._parts = self._make_parts(self.control.is_stopping)
        try:
            if not parts.errors.open(self.control.wait_for_stop) or self.control.stopping:
                return
            parts.task.initialize(_Context(parts.config, self._offset_reader))
            parts.task.start(parts.config)
            self._started = True
            if self.control.is_stopping():
                parts.task.stop()  # the request came before the task could hear it
            self._listener.on_running(self)
            try:
                self._loop(parts)
            except (ProduceCancelled, Stopped):
                log.info("Task %s stops with records that the broker did not take; they will be read again", self.id)
            finally:
                self._last_flush(parts)
        finally:
            self._close(parts)

    def _loop(self, parts: SourceParts) -> None:
        control, timing = self.control, self._timing
        next_flush = time.monotonic() + timing.interval_s
        idle_s, retry_s = _IDLE_FIRST_S, _RETRY_FIRST_S
        while not control.stopping:
            if control.paused:
                self._stay_paused(parts)
                next_flush = time.monotonic() + timing.interval_s
                continue
            began = time.monotonic()
            try:
                batch = parts.task.poll()
                retry_s = _RETRY_FIRST_S
            except RetriableError as e:
                log.warning("poll() failed and is called again in %.1f s: %s", retry_s, e.message)
                batch = None
                control.wait_for_stop(retry_s)
                retry_s = min(retry_s * 2, _RETRY_MOST_S)
            parts.errors.check()
            if batch:
                self._send(parts, batch)
                idle_s = _IDLE_FIRST_S
            else:
                parts.producer.serve()
                # A task that answers "nothing" at once would keep a core busy asking.
                if time.monotonic() - began < _IDLE_FIRST_S:
                    control.wait_for_stop(idle_s)
                    idle_s = min(idle_s * 2, _IDLE_MOST_S)
            if time.monotonic() >= next_flush:
                self._flush(parts)
                next_flush = time.monotonic() + timing.interval_s

    def _stay_paused(self, parts: SourceParts) -> None:
        self._listener.on_paused(self)
        flushed = self._flush(parts)
        while not self.control.wait_while_paused(_PAUSE_LOOK_S):
            parts.producer.serve()
            if not flushed:
                flushed = self._flush(parts)
        if not self.control.stopping:
            self._listener.on_running(self)

    def _send(self, parts: SourceParts, batch: Sequence[SourceRecord]) -> None:
        crash.point("source.polled")
        failures = parts.errors.batch()
        changed: Sequence[ConnectRecord | None] = parts.chain.apply_batch(batch, failures) if parts.chain else batch
        if parts.task.wants_commit_record:
            self._send_with_callbacks(parts, batch, changed, failures)
        else:
            self._send_in_runs(parts, batch, changed, failures)
        if failures and not parts.errors.tolerant:
            # Those before the bad one are sent; it ends the task.
            self._pending.track(batch[: int(failures.end)])
            self._report(parts, batch, failures)
        self._pending.track(batch)
        parts.producer.serve()
        if parts.refused and not self._send_refused(parts, None):
            raise ProduceCancelled

    def _send_in_runs(
        self,
        parts: SourceParts,
        batch: Sequence[SourceRecord],
        changed: Sequence[ConnectRecord | None],
        failures: BatchFailures,
    ) -> None:
        runs = encode(parts.converters, changed, failures)
        if failures and parts.errors.tolerant:
            self._report(parts, batch, failures)
        whole = len(runs) <= 1 and changed is batch and not failures
        for run, places in runs:
            self._ensure_topic(parts, run.topic)
            try:
                self._send_run(parts, run, places, batch)
            except (ConnectError, ProduceCancelled):
                if whole:
                    self._pending.track(batch[: parts.producer.sent])
                raise
            self._count(run)

    def _report(self, parts: SourceParts, batch: Sequence[SourceRecord], failures: BatchFailures) -> None:
        for place, failure in failures:
            parts.errors.failed(failure, batch[place])

    def _send_run(self, parts: SourceParts, run: ProducerRun, places: Sequence[int], batch: Sequence[SourceRecord]) -> None:
        errors, producer = parts.errors, parts.producer
        if not errors.tolerant:
            try:
                producer.send_run(run)
            except RecordRefusedError as e:
                raise unrecoverable(e) from e
            return
        originals = [batch[place] for place in places] if errors.settings.reports else None
        watch = parts.refused.watch(run, originals)
        start = 0
        while True:
            try:
                producer.send_run(run.after(start), watch)
                return
            except RecordRefusedError as e:
                start += producer.sent
                parts.refused.skip(run.topic, e, batch[places[start]])
                start += 1
            except ProduceCancelled:
                producer.sent += start
                raise

    def _send_with_callbacks(
        self,
        parts: SourceParts,
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
                    self._confirm(parts, original, None)
                continue
            try:
                run = encode_one(parts.converters, record, failures.attempt)
            except StageError as e:
                failures.add(place, e)
                continue
            self._ensure_topic(parts, run.topic)
            self._send_confirmed(parts, run, original)
        if failures and parts.errors.tolerant:
            self._report(parts, batch, failures)
            parts.errors.settle_now()  # once confirmed, the source may forget it
            for place, _ in failures:
                self._confirm(parts, batch[place], None)

    def _send_confirmed(self, parts: SourceParts, run: ProducerRun, original: SourceRecord) -> None:
        confirm = partial(self._confirm, parts, original)
        tolerant = parts.errors.tolerant
        on_delivery = partial(self._on_delivery, parts, confirm)
        try:
            parts.producer.send_one(run, parts.refused.watch(run, [original], confirm) if tolerant else on_delivery)
        except RecordRefusedError as e:
            if not tolerant:
                raise unrecoverable(e) from e
            parts.refused.skip(run.topic, e, original, confirm)
            return
        self._count(run)

    def _on_delivery(self, parts: SourceParts, confirm: Confirm, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            parts.producer.remember(error, message)
        else:
            confirm(message)

    def _confirm(self, parts: SourceParts, record: SourceRecord, message: Message | None) -> None:
        metadata = None
        if message is not None:
            place = message.topic() or "", message.partition() or 0, message.offset() or 0
            metadata = RecordMetadata(*place, message.timestamp()[1])
        try:
            parts.task.commit_record(record, metadata)
        except Exception:
            # As in Apache's worker: the record is in Kafka, whatever the source makes of that.
            log.exception("commit_record() of task %s failed", self.id)

    def _send_refused(self, parts: SourceParts, timeout_s: float | None) -> bool:
        """Sends what the broker refused once more, each record alone; without a limit it waits until that is done, or until the
        task is to stop. False when there is some left."""
        while parts.refused:
            slice_s = _REFUSED_SLICE_S if timeout_s is None else timeout_s
            if parts.producer.drain(slice_s) and parts.refused.send_again(slice_s):
                return True
            if timeout_s is not None or self.control.stopping:
                return False
        return True

    def _ensure_topic(self, parts: SourceParts, topic: str) -> None:
        if parts.topics is not None and not parts.topics.ensure(topic, self.control.wait_for_stop):
            raise ProduceCancelled

    def _count(self, run: ProducerRun) -> None:
        self._records += len(run.values)
        self._bytes += sum(map(len, filter(None, run.values)))

    def _flush(self, parts: SourceParts, timeout_s: float | None = None) -> bool:
        """Stores what is pending, once everything sent is acknowledged. False when it has to be tried again.

        Raises the error of a record that the broker refused; then nothing is stored.
        """
        if not self._pending:
            parts.producer.serve()
            return True
        timeout_s = self._timing.timeout_s if timeout_s is None else timeout_s
        if not parts.producer.drain(timeout_s):
            log.warning(
                "Offsets of task %s are not stored: %d records were not acknowledged within %d ms (offset.flush.timeout.ms)",
                self.id,
                len(parts.producer),
                int(timeout_s * 1000),
            )
            return False
        if not self._send_refused(parts, timeout_s) or not parts.errors.settle(timeout_s):
            log.warning(
                "Offsets of task %s are not stored: not all records that failed were dealt with within %d ms "
                "(offset.flush.timeout.ms)",
                self.id,
                int(timeout_s * 1000),
            )
            return False
        crash.point("source.produced")
        if self.cancelled:
            return False
        # Promise 1: everything up to these offsets has just been acknowledged.
        offsets = self._pending.take()
        try:
            self._store.put(self.id.connector, offsets)
        except ConnectError as e:
            log.error("Offsets of task %s are not stored: %s. It is tried again", self.id, e.message)
            self._pending.give_back(offsets)
            return False
        crash.point("offsets.written")
        self._tell_source(parts, offsets)
        return True

    def _tell_source(self, parts: SourceParts, offsets: Sequence[OffsetPair]) -> None:
        stored = [(partition, offset) for partition, offset in offsets if partition is not None and offset is not None]
        try:
            parts.task.commit(stored)
        except Exception as e:
            log.warning("commit() of task %s failed: %s", self.id, describe(e))

    def _last_flush(self, parts: SourceParts) -> None:
        """At the end, after a failure too: what was acknowledged need not be read again."""
        if self.cancelled:
            return
        try:
            self._flush(parts, self._timing.last_timeout_s)
        except (ConnectError, ProduceCancelled, Stopped) as e:
            log.warning("Offsets of task %s since the last flush are not stored: %s", self.id, describe(e))

    def _close(self, parts: SourceParts) -> None:
        self._offset_reader.close()
        # A task that was asked to end has waited for its reports in the last flush already.
        parts.errors.close(0.0 if self.cancelled or self.control.stopping else self._timing.last_timeout_s)
        for what in (parts.task, parts.chain, parts.converters, parts.producer):
            try:
                what.close()
            except Exception:
                log.exception("close() of %s failed in task %s", type(what).__name__, self.id)
