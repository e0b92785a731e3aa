"""Puts batches into a sink task, and repeats a put that failed with RetriableError."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

from connect.backoff import Backoff
from connect.errors import RetriableError
from connect.record import TopicPartition
from connect.sink import SinkTask
from connect.tracing import SpanRole
from worker.errors.handler import ErrorHandler
from worker.errors.stages import TaskPutError
from worker.kafka.sink_consumer import ConsumerClosed, MissingOffsetError
from worker.model import TaskStopped
from worker.observability.activity import TaskPhase
from worker.sink.batch import PutBatch
from worker.sink.pauses import ConsumptionPauses
from worker.sink.positions import SinkPositions
from worker.tasks.worker_task import TaskHandle

log = logging.getLogger(__name__)

_RETRY_FIRST_S, _RETRY_MAX_S = 0.1, 5.0
NEVER = float("inf")
_SIZE = "messaging.batch.message_count"


class SinkDelivery:
    """Used on the task's thread only."""

    def __init__(
        self, handle: TaskHandle, task: SinkTask, errors: ErrorHandler, positions: SinkPositions, pauses: ConsumptionPauses
    ) -> None:
        self._task_id = handle.id
        self._activity = handle.activity
        self._task = task
        self._errors = errors
        self._positions = positions
        self._pauses = pauses
        self._meter = handle.meter
        self._trace = handle.trace
        self._unfinished: PutBatch | None = None  # the batch whose put failed with RetriableError
        self._backoff = Backoff(_RETRY_FIRST_S, _RETRY_MAX_S)
        self._retry_delay_s = 0.0
        self._put_by = NEVER
        self.is_raw = False
        """Whether the task takes undecoded batches."""

    @property
    def is_retrying(self) -> bool:
        return self._unfinished is not None

    def request_put(self, by: float) -> None:
        """Plans the next put for ``time.monotonic()`` ``by`` at the latest, with or without records."""
        self._put_by = by

    def is_put_due(self, now: float) -> bool:
        """Whether the task must be called although there are no records."""
        return now >= self._put_by

    def next_put_at(self, now: float) -> float:
        """Returns ``time.monotonic()`` of the next put that does not wait for records."""
        return self._put_by if self._unfinished is None else min(self._put_by, now + self._retry_delay_s)

    def put(self, batch: PutBatch | None) -> bool:
        """Puts a batch together with the unfinished one. Returns True if the task took it.

        Raises TaskPutError, and errors of records that the task reported.
        """
        if self._unfinished is not None:
            if batch is not None:
                self._unfinished.add(batch)
            batch = self._unfinished
        if batch is None:
            return False
        self._put_by = NEVER
        started = time.monotonic()
        self._activity.enter(TaskPhase.PUTTING)
        try:
            if self._trace is None or not (size := len(batch)):
                self._call_put(batch)
            else:
                with self._trace.span("put", {_SIZE: size}, batch.links, role=SpanRole.CONSUMER):
                    self._call_put(batch)
        except RetriableError as e:
            if self._unfinished is None:
                log.warning("put() of task %s failed and will be retried: %s", self._task_id, e.message)
                self._pauses.set_for_retry(True)
                self._backoff.reset()
            self._activity.on_retry(e.message)
            self._retry_delay_s = self._backoff.next_delay_s()
            self._unfinished = batch
            return False
        except (ConsumerClosed, TaskStopped):
            raise
        except Exception as e:
            raise TaskPutError(self._task, batch.describe(), e) from e
        # An error that put() caught, or a dead letter that was rejected meanwhile, is not a failure of put().
        self._errors.check()
        if size := len(batch):
            self._meter.put(size, time.monotonic() - started)
        self._positions.set_delivered(batch.ends)
        self._activity.on_success()
        if batch.ends:
            self._activity.on_records()
        if self._unfinished is not None:
            self._unfinished = None
            self._pauses.set_for_retry(False)
        return True

    def _call_put(self, batch: PutBatch) -> None:
        if self.is_raw:
            self._task.put_raw(batch.raw)
        else:
            self._task.put(batch.records)

    def explain(self, error: MissingOffsetError) -> None:
        """Lets the task say why it cannot get its next record. May raise ConnectError."""
        self._task.explain_missing_offset(error.partition, error.offset)

    def rewind(self, partition: TopicPartition, offset: int) -> None:
        """Continues the partition from an offset: its unfinished records are read again from there."""
        self._positions.seeks[partition] = offset
        self.drop([partition])

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Drops the unfinished records of these partitions."""
        if self._unfinished is not None:
            self._unfinished.drop(partitions)
