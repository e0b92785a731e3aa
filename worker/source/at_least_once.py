"""How what a source polls becomes durable: the seam between a source task's loop and its guarantees; and at-least-once.

At-least-once does not track offsets record by record. When a flush is due the task's thread waits until nothing is
unacknowledged and then stores the latest offset of each source partition (promise 1). The wait is a round trip or two, once an
interval.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from connect import crash_points
from connect.errors import ConnectError
from connect.record import SourceRecord
from connect.source import SourceTask, TransactionContext
from worker.error_text import describe
from worker.kafka.record_producer import ProduceCancelled, RecordMetadata
from worker.model import Stopped, TaskId
from worker.source.runtime import FlushTiming, SourceParts
from worker.source.sender import RecordSender, SourceHost
from worker.storage.offset_store import OffsetPair, OffsetStore

log = logging.getLogger(__name__)

_TOPIC_S = 1.0
"""How long a task waits for the acknowledgement of its first record for a topic before it goes on, to tell of it later."""


class Outcome(Enum):
    """How a source task's loop has ended."""

    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    """As it was asked to, with a batch half sent."""
    FAILED = "failed"


class SourceDelivery(Protocol):
    """Used on its task's thread only."""

    context: TransactionContext | None
    """What the task is given to set transaction boundaries with."""
    fruitful: bool
    """Whether anything was made durable."""

    def prepare(self) -> bool:
        """Before the task's plugin starts; False when the task is to end instead. Raises ConnectError when it cannot run."""

    @property
    def disturbed(self) -> bool:
        """Whether a broker was seen to be away since something was made durable last."""

    def may_begin_again(self) -> bool:
        """After the producer or its transaction was lost: whether the task is still to run here; False when it is to end. Waits
        until that can be known. Raises ConnectError when it is somebody else's by now."""

    def begin(self) -> None:
        """The loop begins, or goes on after a pause."""

    def deliver(self, batch: Sequence[SourceRecord] | None) -> None:
        """Sends a batch, or nothing, and makes durable what is due. Raises what is to fail the task."""

    def settle(self) -> None:
        """Makes durable what there is. Called again and again while the task is paused; raises what is to fail it."""

    def finish(self, outcome: Outcome) -> None:
        """The same at the end, as far as possible. Does not raise."""


class AtLeastOnce:
    """Offsets are stored from time to time, once the broker has acknowledged the records before them."""

    def __init__(self, host: SourceHost, parts: SourceParts, store: OffsetStore, timing: FlushTiming) -> None:
        self.context: TransactionContext | None = None
        self._host = host
        self._parts = parts
        self._store = store
        self._timing = timing
        self._sender = RecordSender(host, parts, self._confirm)
        self._next_flush = 0.0
        self._flushed_at = time.monotonic()
        self.fruitful = False

    def prepare(self) -> bool:
        return True

    @property
    def disturbed(self) -> bool:
        return self._parts.producer.disturbed_at > self._flushed_at

    def may_begin_again(self) -> bool:
        return not self._host.control.stopping  # a task that is somebody else's by now is told to end

    def begin(self) -> None:
        self._next_flush = time.monotonic() + self._timing.interval_s

    def deliver(self, batch: Sequence[SourceRecord] | None) -> None:
        if batch:
            self._sender.send(batch)
        else:
            self._parts.producer.serve()
        if self._sender.new_topics and self._parts.producer.drain(_TOPIC_S):
            self._tell_topics()
        if time.monotonic() >= self._next_flush:
            self._flush(self._timing.timeout_s)
            self.begin()

    def settle(self) -> None:
        self._flush(self._timing.timeout_s)

    def finish(self, outcome: Outcome) -> None:
        # After a failure too: what was acknowledged need not be read again.
        if self._host.cancelled:
            return
        try:
            self._flush(self._timing.last_timeout_s)
        except (ConnectError, ProduceCancelled, Stopped) as e:
            log.warning("Offsets of task %s since the last flush are not stored: %s", self._host.id, describe(e))

    def _flush(self, timeout_s: float) -> bool:
        """Stores what is pending, once everything sent is acknowledged. False when it has to be tried again.

        Raises the error of a record that the broker refused; then nothing is stored.
        """
        host, producer, pending = self._host, self._parts.producer, self._sender.pending
        if not pending:
            producer.serve()
            return True
        if not producer.drain(timeout_s):
            log.warning(
                "Offsets of task %s are not stored: %d records were not acknowledged within %d ms (offset.flush.timeout.ms)",
                host.id,
                len(producer),
                int(timeout_s * 1000),
            )
            return False
        self._tell_topics()
        if not self._sender.send_refused(timeout_s) or not self._parts.errors.settle(timeout_s):
            log.warning(
                "Offsets of task %s are not stored: not all records that failed were dealt with within %d ms "
                "(offset.flush.timeout.ms)",
                host.id,
                int(timeout_s * 1000),
            )
            return False
        crash_points.point("source.produced")
        if host.cancelled:
            return False
        # Promise 1: everything up to these offsets has just been acknowledged.
        offsets = pending.take()
        try:
            self._store.put(host.id.connector, offsets)
        except ConnectError as e:
            log.error("Offsets of task %s are not stored: %s. It is tried again", host.id, e.message)
            pending.give_back(offsets)
            return False
        crash_points.point("offsets.written")
        self.fruitful, self._flushed_at = True, time.monotonic()
        tell_source(host.id, self._parts.task, offsets)
        return True

    def _tell_topics(self) -> None:
        if topics := self._sender.take_new_topics():
            self._host.tell_topics(topics)

    def _confirm(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        confirm(self._host.id, self._parts.task, record, metadata)


def confirm(task_id: TaskId, task: SourceTask, record: SourceRecord, metadata: RecordMetadata | None) -> None:
    """Calls ``commit_record``. As in Apache's worker its error is logged: the record is in Kafka, whatever the source makes of
    that."""
    try:
        task.commit_record(record, metadata)
    except Exception:
        log.exception("commit_record() of task %s failed", task_id)


def tell_source(task_id: TaskId, task: SourceTask, offsets: Sequence[OffsetPair]) -> None:
    """Calls ``commit`` with what was stored; its error is logged."""
    stored = [(partition, offset) for partition, offset in offsets if partition is not None and offset is not None]
    try:
        task.commit(stored)
    except Exception as e:
        log.warning("commit() of task %s failed: %s", task_id, describe(e))
