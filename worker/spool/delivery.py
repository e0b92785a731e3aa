"""Exactly-once delivery into a spool: a segment has records together with the source offset behind them."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import partial

from connect.errors import ConfigError, ConnectError
from connect.record import SourceRecord
from connect.source import SourceTask, TransactionContext
from worker.error_text import describe
from worker.kafka.record_producer import ProduceCancelled
from worker.model import TaskStopped
from worker.source.delivery import RunOutcome, confirm_offsets, confirm_record, update_offsets
from worker.source.runtime import FlushTiming, SourceTaskRuntime
from worker.source.sender import RecordSender
from worker.spool.offset_store import decode_offsets, encode_offsets
from worker.spool.output import SpoolMode, SpoolOutput
from worker.spool.producer import SpoolProducer
from worker.tasks.worker_task import TaskHandle

log = logging.getLogger(__name__)

_WAIT_S = 0.05


class SpoolDelivery:
    """Implements :class:`worker.source.delivery.SourceDelivery`.

    A batch that was sent in part is discarded, and read again by the next run. The source is told of offsets when the reader of
    the spool has committed them, not when they are in the spool: it keeps its log until the records are in a table.
    """

    broker_unavailable = False

    def __init__(
        self,
        handle: TaskHandle,
        runtime: SourceTaskRuntime,
        producer: SpoolProducer,
        output: SpoolOutput,
        timing: FlushTiming,
    ) -> None:
        self.context: TransactionContext | None = None
        self.made_progress = False
        self._handle = handle
        self._task: SourceTask = runtime.task
        self._producer = producer
        self._output = output
        self._timing = timing
        self._sender = RecordSender(handle, runtime, partial(confirm_record, handle.id, runtime.task))
        self._next_offsets = 0.0

    def prepare(self) -> bool:
        self._producer.start()
        return True

    def can_restart(self) -> bool:
        return not self._handle.control.stopping

    def start(self) -> None:
        self._next_offsets = time.monotonic() + self._timing.interval_s

    def send(self, batch: Sequence[SourceRecord] | None) -> None:
        if batch:
            self._send(batch)
        if self._output.mode is not SpoolMode.STREAM:
            self._end_load_when_complete()
        elif time.monotonic() >= self._next_offsets:
            self._add_positions()
            self.start()
        self._serve()
        control, output = self._handle.control, self._output
        while not control.stopping and (output.is_full or not self._producer.wait_for_space(_WAIT_S)):
            if output.is_full:
                control.wait_for_stop(_WAIT_S)
            self._serve()

    def _send(self, batch: Sequence[SourceRecord]) -> None:
        offsets = None
        pending = self._sender.pending
        self._producer.begin_batch()
        try:
            self._sender.send(batch)
            update_offsets(self._handle.id, self._task, pending)
            offsets = encode_offsets(self._handle.id.connector, pending.take())
        finally:
            # Promise 5: of a batch that failed or was interrupted, neither records nor offsets are stored.
            pending.take()
            self._producer.end_batch(offsets)
        if topics := self._sender.take_new_topics():
            self._handle.report_topics(topics)

    def _add_positions(self) -> None:
        """Stores the positions of a source that has read on without records."""
        pending = self._sender.pending
        update_offsets(self._handle.id, self._task, pending)
        if pending:
            self._producer.begin_batch()
            self._producer.end_batch(encode_offsets(self._handle.id.connector, pending.take()))

    def _end_load_when_complete(self) -> None:
        loaded = self._task.is_loaded()
        if loaded is None and self._output.mode is SpoolMode.LOAD:
            raise ConfigError(
                f"{type(self._task).__name__} cannot tell when it has read all that exists: use spark.readStream, not spark.read"
            )
        if loaded:
            self._add_positions()
            self._producer.finish_load()
            while not self._producer.drain(_WAIT_S) and not self._handle.control.stopping:
                pass
            # No change is read until a stream continues here.
            while not self._handle.control.wait_for_stop(_WAIT_S):
                self._serve()

    def _serve(self) -> None:
        self._producer.serve()
        task = self._handle.id.task
        if offsets := self._output.take_confirmed(task):
            # Promise 1: the reader has committed every record up to these offsets.
            confirm_offsets(self._handle.id, self._task, decode_offsets(offsets))
            self._output.confirmed(task, offsets)
            self.made_progress = True

    def flush(self) -> None:
        self._producer.send_now()
        self._serve()

    def finish(self, outcome: RunOutcome) -> None:
        if self._handle.cancelled:
            return
        try:
            self._add_positions()
            if not self._producer.drain(self._timing.last_timeout_s):
                log.warning("Task %s stops before its last segment is written; its records will be read again", self._handle.id)
            self._serve()
        except (ConnectError, ProduceCancelled, TaskStopped) as e:
            log.warning("The last segment of task %s is not written: %s", self._handle.id, describe(e))
