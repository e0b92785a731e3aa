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
from typing import Any

from confluent_kafka import KafkaError, Message

from connect import crash
from connect.errors import ConnectError, RetriableError
from connect.record import SourceRecord
from connect.source import SourceTask, TransactionContext
from worker.chain import TransformChain
from worker.herder import TaskId, TaskProgress
from worker.kafka.record_producer import ProduceCancelled, ProducerRun, RecordMetadata, RecordProducer
from worker.kafka.topics import TopicCreator
from worker.offsets.store import ConnectorOffsetReader, OffsetPair, OffsetStore
from worker.source_batches import Converters, encode, encode_one
from worker.source_offsets import PendingOffsets
from worker.stages import describe
from worker.task import TaskListener, WorkerTask, plugin_details

log = logging.getLogger(__name__)

_IDLE_FIRST_S, _IDLE_MOST_S = 0.001, 0.01
_RETRY_FIRST_S, _RETRY_MOST_S = 0.1, 5.0
_PAUSE_LOOK_S = 1.0


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
        return TaskProgress(self._records, self._bytes, None, details)

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

    def _execute(self) -> None:
        parts = self._parts = self._make_parts(self.control.is_stopping)
        try:
            if self.control.stopping:
                return
            parts.task.initialize(_Context(parts.config, self._offset_reader))
            parts.task.start(parts.config)
            self._started = True
            if self.control.is_stopping():
                parts.task.stop()  # the request came before the task could hear it
            self._listener.on_running(self)
            try:
                self._loop(parts)
            except ProduceCancelled:
                log.info("Task %s stops while the broker takes no records; those not acknowledged will be read again", self.id)
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
        if parts.task.wants_commit_record:
            self._send_with_callbacks(parts, batch)
            return
        records: Sequence[Any] = batch
        try:
            if parts.chain:
                records = [record for record in parts.chain.apply_batch(batch) if record is not None]
            runs = encode(parts.converters, records)
        except Exception:
            self._send_one_by_one(parts, batch)
            return
        whole = len(runs) <= 1 and records is batch
        for run in runs:
            self._ensure_topic(parts, run.topic)
            try:
                parts.producer.send_run(run)
            except (ConnectError, ProduceCancelled):
                if whole:
                    self._pending.track(batch[: parts.producer.sent])
                raise
            self._count(run)
        self._pending.track(batch)
        parts.producer.serve()

    def _send_one_by_one(self, parts: SourceParts, batch: Sequence[SourceRecord]) -> None:
        """The way when a batch failed: every record before the bad one is sent, then its StageError is raised."""
        for record in batch:
            changed = parts.chain.apply(record)
            if changed is not None:
                run = encode_one(parts.converters, changed)
                self._ensure_topic(parts, run.topic)
                parts.producer.send_run(run)
                self._count(run)
            self._pending.track([record])
        parts.producer.serve()

    def _send_with_callbacks(self, parts: SourceParts, batch: Sequence[SourceRecord]) -> None:
        """For tasks that want each record confirmed (``commit_record``)."""
        for record in batch:
            changed = parts.chain.apply(record)
            if changed is None:
                parts.task.commit_record(record, None)
            else:
                run = encode_one(parts.converters, changed)
                self._ensure_topic(parts, run.topic)
                parts.producer.send_one(run, partial(self._on_delivery, parts, record))
                self._count(run)
            self._pending.track([record])
        parts.producer.serve()

    def _on_delivery(self, parts: SourceParts, record: SourceRecord, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            parts.producer.remember(error, message)
            return
        try:
            parts.task.commit_record(
                record,
                RecordMetadata(message.topic() or "", message.partition() or 0, message.offset() or 0, message.timestamp()[1]),
            )
        except Exception:
            # As in Apache's worker: the record is in Kafka, whatever the source makes of that.
            log.exception("commit_record() of task %s failed", self.id)

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
        except ConnectError as e:
            log.warning("Offsets of task %s since the last flush are not stored: %s", self.id, e.message)

    def _close(self, parts: SourceParts) -> None:
        self._offset_reader.close()
        for what in (parts.task, parts.chain, parts.converters, parts.producer):
            try:
                what.close()
            except Exception:
                log.exception("close() of %s failed in task %s", type(what).__name__, self.id)
