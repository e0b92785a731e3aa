"""Commits the offsets of a sink task: periodically, on request, and before partitions are given up."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from connect import crash_points
from connect.errors import ConnectError
from connect.record import TopicPartition
from connect.sink import SinkTask
from connect.tracing import traced
from worker.error_text import describe
from worker.errors.handler import ErrorHandler
from worker.kafka.sink_consumer import SinkConsumer
from worker.observability.activity import TaskPhase
from worker.sink.positions import SinkPositions
from worker.tasks.worker_task import TaskHandle

if TYPE_CHECKING:
    from worker.observability.tracing.task_trace import TaskSpan, TaskTrace

log = logging.getLogger(__name__)

_ANSWER_DELAY_S = 0.25
"""The time for the answer to a commit to be taken in after a long put."""


class SinkCommits:
    """Calls ``pre_commit`` and commits what it returns. Used on the task's thread only, callbacks included."""

    def __init__(
        self,
        handle: TaskHandle,
        task: SinkTask,
        consumer: SinkConsumer,
        errors: ErrorHandler,
        positions: SinkPositions,
        rewind: Callable[[TopicPartition, int], None],
        interval_s: float,
        timeout_s: float,
    ) -> None:
        """``rewind`` continues a partition from an offset. ``interval_s`` and ``timeout_s`` are ``offset.flush.interval.ms`` and
        ``offset.flush.timeout.ms``."""
        self._task_id = handle.id
        self._activity = handle.activity
        self._task = task
        self._consumer = consumer
        self._errors = errors
        self._positions = positions
        self._rewind = rewind
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._meter = handle.meter
        self._trace = handle.trace
        self._span: TaskSpan | None = None  # of the commit in progress, if it is traced
        self._started = 0.0
        self._deadline: float | None = None  # of the commit in progress
        self.next_commit = time.monotonic() + interval_s
        """``time.monotonic()`` of the next periodic commit."""

    @property
    def is_in_progress(self) -> bool:
        """Whether a commit is waiting for its answer."""
        return self._deadline is not None

    def is_due(self, now: float, *, requested: bool) -> bool:
        """Whether to commit now. There is one commit at a time, unless its answer is overdue."""
        if self._deadline is not None:
            if now < self._deadline:
                return False
            log.warning("Task %s: no answer to an offset commit within offset.flush.timeout.ms", self._task_id)
            self._deadline = None
            self._end_span("No answer within offset.flush.timeout.ms")
        return now >= self.next_commit or requested

    def commit(self, now: float) -> None:
        """Starts to commit the offsets of all assigned partitions; :meth:`on_committed` gets the result."""
        self.next_commit = now + self._interval_s
        self._activity.enter(TaskPhase.PRE_COMMIT)
        self._started = started = time.monotonic()
        delivered = self._positions.to_pre_commit(set(self._positions.assigned))
        if self._trace is not None and not self._positions.are_committed():
            self._span = self._trace.open("commit")  # a commit of nothing needs no trace
        try:
            if self._span is None or self._trace is None:
                returned = self._task.pre_commit(dict(delivered))
            else:
                with self._trace.within(self._span, "pre_commit"):
                    returned = self._task.pre_commit(dict(delivered))
        except Exception as e:
            self._end_span(e)
            log.error("pre_commit() of task %s failed; rewinding to the last committed offsets: %s", self._task_id, describe(e))
            for partition, offset in self._positions.restart_offsets().items():
                self._rewind(partition, offset)
                self._positions.assigned[partition].delivered = offset
            self._meter.committed(time.monotonic() - started, successful=False)
            return
        # Promise 2: only what pre_commit returned.
        offsets = self._positions.to_commit(returned, delivered, self._task_id)
        if not offsets:
            self._end_span()
            if self._positions.are_committed():
                self._activity.on_nothing_to_commit()
            return
        # Promise 7: not before the dead letter queue has acknowledged every failed record.
        if not self._errors.flush(self._timeout_s):
            log.warning(
                "Task %s does not commit offsets: its dead letter queue did not acknowledge all failed records within %d ms "
                "(offset.flush.timeout.ms). The commit will be retried",
                self._task_id,
                int(self._timeout_s * 1000),
            )
            self._meter.committed(time.monotonic() - started, successful=False)
            self._end_span("The dead letter queue did not acknowledge all failed records")
            return
        crash_points.point("sink.precommitted")
        self._deadline = now + self._timeout_s
        self._meter.commit_requested()
        self._consumer.commit(offsets, wait=False)

    def _end_span(self, error: BaseException | str | None = None) -> None:
        """Ends the span of the commit in progress."""
        if (span := self._span) is not None:
            self._span = None
            if error is not None:
                span.fail(error)
            span.end()

    def extend_deadline(self) -> None:
        """Called after a put, during which the answer to a commit may have arrived: the next poll takes it in."""
        if self._deadline is not None:
            self._deadline = max(self._deadline, time.monotonic() + _ANSWER_DELAY_S)

    def on_committed(self, offsets: Mapping[TopicPartition, int], error: ConnectError | None) -> None:
        """The commit in progress has ended."""
        if self._deadline is None:
            self._meter.commit_skipped()  # its answer was overdue
        else:
            self._meter.committed(time.monotonic() - self._started, successful=error is None)
        self._deadline = None
        self._end_span(error)
        self._positions.set_committed(offsets)
        if offsets and error is None:
            self._activity.on_commit(is_complete=self._positions.are_committed())
        if error is not None:
            log.warning("Task %s: %s. The commit will be retried", self._task_id, error.message)

    def commit_and_close(self, partitions: Collection[TopicPartition]) -> None:
        """Calls ``pre_commit`` and ``close_partitions``, then commits and waits: these partitions go to another task."""
        trace = None if self._positions.are_committed() else self._trace  # a commit of nothing needs no trace
        with traced(trace, "commit", is_root=True):
            self._commit_and_close(partitions, trace)

    def _commit_and_close(self, partitions: Collection[TopicPartition], trace: TaskTrace | None) -> None:
        started, committed = time.monotonic(), False
        delivered = self._positions.to_pre_commit(partitions)
        returned: Mapping[TopicPartition, int] = {}
        self._activity.enter(TaskPhase.PRE_COMMIT)
        try:
            with traced(trace, "pre_commit"):
                returned = self._task.pre_commit(dict(delivered))
        except Exception as e:
            log.error("pre_commit() of task %s failed before its partitions were closed: %s", self._task_id, describe(e))
        finally:
            self._activity.enter(TaskPhase.OPENING)
            self._task.close_partitions(list(partitions))
        # Promises 2 and 7, as in commit().
        offsets = self._positions.to_commit(returned, delivered, self._task_id)
        if offsets and self._reports_are_durable():
            crash_points.point("sink.precommitted")
            self._activity.enter(TaskPhase.COMMITTING)
            try:
                self._meter.commit_requested()
                self._consumer.commit(offsets, wait=True)
                self._positions.set_committed(offsets)
                committed = True
            except ConnectError as e:
                log.error("Task %s: %s. Records since the last commit will be read again", self._task_id, e.message)
        if offsets:
            self._meter.committed(time.monotonic() - started, successful=committed)

    def _reports_are_durable(self) -> bool:
        """Whether all failed records are in the dead letter queue. If not, the partitions' next owner reads them again."""
        try:
            if self._errors.flush(self._timeout_s):
                return True
            reason = "it did not acknowledge all of them within offset.flush.timeout.ms"
        except ConnectError as e:
            reason = e.message
        log.error(
            "Task %s does not commit offsets because failed records are missing from its dead letter queue: %s",
            self._task_id,
            reason,
        )
        return False
