"""Retries, reports, and skips records that fail, or fails their task.

Kafka Connect's ``RetryWithToleranceOperator`` (KIP-298), with one difference that prevents loss: a record that waits for a retry
when its task is stopped is read again by the next run instead of being skipped.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, TypeVar

from connect import crash_points
from connect.backoff import Backoff
from connect.errors import ConnectError, RetriableError
from connect.record import SourceRecord
from connect.tracing import current_trace
from worker.config.secrets import SecretMask
from worker.error_text import describe
from worker.errors.batch_failures import BatchFailures
from worker.errors.config import ErrorSettings
from worker.errors.dead_letter import ConsumedRecord, FailedRecord, build_dead_letter, context_headers, log_message, trace_headers
from worker.errors.stages import RecordStage, StageError, ToleranceExceededError
from worker.errors.trace import java_name
from worker.kafka.dead_letter_producer import DeadLetterProducer
from worker.kafka.topic_creator import TopicCreator
from worker.model import ErrorCounts, TaskId, TaskStopped

T = TypeVar("T")

log = logging.getLogger(__name__)

_FIRST_DELAY_S = 0.3
_NOT_ATTEMPTED = frozenset({RecordStage.KAFKA_PRODUCE, RecordStage.TASK_POLL, RecordStage.TASK_PUT})
"""Stages whose operations do not use :meth:`ErrorHandler.attempt`."""


@dataclass(frozen=True, slots=True)
class DeadLetterQueue:
    """The producer of a dead letter queue, and the creator of its topic."""

    producer: DeadLetterProducer
    topics: TopicCreator
    context_headers: bool


class Clock(Protocol):
    """The clock of the handler; tests use :class:`connect.testing.ManualClock`."""

    def monotonic(self) -> float: ...

    def time_ms(self) -> int: ...


class _SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def time_ms(self) -> int:
        return int(time.time() * 1000)


class ErrorHandler:
    """Handles the failures of one task. Used on the task's thread; :meth:`handle_failure` is safe from any thread."""

    def __init__(
        self,
        task: TaskId,
        settings: ErrorSettings,
        counts: ErrorCounts | None = None,
        *,
        queue: DeadLetterQueue | None = None,
        class_name: Callable[[object], str] = lambda plugin: type(plugin).__name__,
        mask: SecretMask | None = None,
        clock: Clock | None = None,
        fraction: Callable[[], float] = random.random,
    ) -> None:
        """``class_name`` returns the name of a plugin for reports; ``fraction`` a number from 0 to below 1, for jitter."""
        self._task = task
        self.settings = settings
        self.counts = counts or ErrorCounts()
        self._queue = queue
        self._class_name = class_name
        self._mask = mask or SecretMask()
        self._clock = clock or _SystemClock()
        self._backoff = Backoff(_FIRST_DELAY_S, settings.retry_delay_max_ms / 1000, fraction)
        self._wait: Callable[[float], bool] = lambda _: False
        self._lock = threading.Lock()
        self._exceeded: ToleranceExceededError | None = None
        self._reported = False  # since the last flush
        self._unreported: BaseException | None = None

    @property
    def tolerant(self) -> bool:
        return self.settings.tolerant

    def open(self, wait: Callable[[float], bool]) -> bool:
        """Creates the dead letter queue's topic if it is missing. Returns False if the task must stop first.

        ``wait`` waits that many seconds and returns True if the task must stop. Raises ConnectError if the broker rejects the
        request; the message starts like Apache's.
        """
        self._wait = wait
        if self._queue is None:
            return True
        topic = self._queue.producer.topic
        try:
            return self._queue.topics.ensure(topic, wait)
        except Exception as e:
            raise ConnectError(f"Could not initialize dead letter queue with topic={topic}: {describe(e)}") from e

    def start_batch(self) -> BatchFailures:
        """Returns an empty collection for the failures of one batch."""
        return BatchFailures(tolerant=self.settings.tolerant, attempt=self.attempt)

    def attempt(self, operation: Callable[[], T]) -> T:
        """Calls the operation, and retries after a RetriableError as configured by ``errors.retry.*``.

        Raises the last error of the operation, or TaskStopped.
        """
        clock, timeout_ms = self._clock, self.settings.retry_timeout_ms
        started = clock.monotonic()
        attempts = 0
        while True:
            try:
                attempts += 1
                return operation()
            except RetriableError as e:
                self.counts.failures += 1
                left_s = float("inf") if timeout_ms < 0 else started + timeout_ms / 1000 - clock.monotonic()
                if left_s <= 0:
                    raise
                delay_s = min(self._backoff.delay_after_s(attempts), left_s)
                log.debug("An operation failed and will be retried in %.1f s: %s", delay_s, e.message)
                if self._wait(delay_s):
                    raise TaskStopped from e
                self.counts.retries += 1

    def handle_failure(self, failure: StageError, original: ConsumedRecord | SourceRecord | None) -> Future[None]:
        """Counts and reports a record that failed for good; ``original`` is the unchanged record.

        The future completes when the report is durable. If failures are tolerated, the caller skips the record (promise 7);
        otherwise raises ToleranceExceededError after the report.
        """
        tolerant = self.tolerant or failure.skips
        with self._lock:
            counts = self.counts
            counts.last_error_ms = self._clock.time_ms()
            outside = failure.stage in _NOT_ATTEMPTED
            if outside or not isinstance(failure.reason, RetriableError):
                counts.failures += 1
            if not outside or not tolerant:
                counts.errors += 1
            if tolerant and failure.stage is not RecordStage.TASK_PUT:
                counts.skipped += 1
            try:
                reported = self._report(FailedRecord(self._task, failure, self._class_name(failure.plugin), original))
            except BaseException as e:
                self._unreported = e
                raise
        if not tolerant:
            error = ToleranceExceededError(failure)
            self._exceeded = self._exceeded or error
            raise error
        return reported

    def _report(self, failed: FailedRecord) -> Future[None]:
        settings, reason = self.settings, failed.failure.reason
        if (task_trace := current_trace()) is not None:
            task_trace.record_error(failed.failure)
        if settings.log:
            trace = (type(reason), reason, reason.__traceback__)
            # The second line has the class that Apache's workers show: people search logs for it.
            message = log_message(failed, include_record=settings.log_messages)
            log.error("%s\n%s: %s", message, java_name(reason), describe(reason), exc_info=trace)
            self.counts.logged += 1
        future: Future[None] = Future()
        queue = self._queue
        if queue is None:
            future.set_result(None)
            return future
        self.counts.dead_letters += 1
        headers = [] if task_trace is None else trace_headers(failed, task_trace.active())
        if queue.context_headers:
            headers += context_headers(failed, self._mask)
        dead_letter = build_dead_letter(failed, headers, queue.producer.max_record_bytes)
        if dead_letter is None:
            self.counts.dead_letter_failures += 1
            future.set_result(None)
            return future
        future = queue.producer.send(*dead_letter, lambda: self._wait(0))
        self._reported = True
        crash_points.point("errors.reported")
        return future

    def flush(self, timeout_s: float) -> bool:
        """Waits until every report is durable: offsets may be committed only then (promise 7). Returns False on timeout.

        Raises ConnectError if a report could not be written: the record would be lost.
        """
        if self._unreported is not None:
            return False  # permanently: the record must be read again
        if self._queue is not None and not self._queue.producer.flush(timeout_s):
            return False
        if self._reported:
            self._reported = False
            crash_points.point("errors.acknowledged")
        return True

    def flush_or_stop(self) -> None:
        """Like :meth:`flush`, without a timeout. Raises TaskStopped if the task must stop first."""
        while not self.flush(1.0):
            if self._wait(0):
                raise TaskStopped

    def check(self) -> None:
        """Raises errors that must fail the task although a plugin may have caught them: a failure that is not tolerated, or a
        report that could not be created or written."""
        for error in (self._exceeded, self._unreported):
            if error is not None:
                raise error
        if self._queue is not None:
            self._queue.producer.check()

    def cancel(self) -> None:
        """Closes the dead letter queue of an abandoned task. Safe from any thread; does not wait."""
        if self._queue is not None:
            self._queue.producer.cancel()

    def close(self, timeout_s: float) -> None:
        """Closes the dead letter queue's client, after waiting at most this long for reports to be written."""
        if self._queue is None:
            return
        try:
            if not self._queue.producer.flush(timeout_s):
                log.warning(
                    "Task %s stops before its dead letter queue acknowledged %d records; they will be read again",
                    self._task,
                    self._queue.producer.unacknowledged,
                )
        except ConnectError as e:
            log.warning(
                "Task %s stops with failed records that are missing from its dead letter queue: %s", self._task, e.message
            )
        self._queue.producer.close()
