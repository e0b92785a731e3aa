"""What becomes of a record that fails: tried again, told of, skipped, or the end of its task.

Kafka Connect's ``RetryWithToleranceOperator`` (KIP-298), with one difference, against loss: a record that waits for a retry when
its task is stopped is read again by the next run instead of being skipped.
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
from connect.errors import ConnectError, RetriableError
from connect.record import SourceRecord
from worker.config.secrets import SecretMask
from worker.error_text import describe
from worker.errors.batch_failures import BatchFailures
from worker.errors.config import ErrorSettings
from worker.errors.dead_letter import ConsumedRecord, FailedRecord, context_headers, letter_of, log_message
from worker.errors.stages import Stage, StageError, ToleranceExceededError
from worker.errors.trace import java_name
from worker.kafka.dead_letter_producer import DeadLetterProducer
from worker.kafka.topic_creator import TopicCreator
from worker.model import ErrorCounts, Stopped, TaskId

T = TypeVar("T")

log = logging.getLogger(__name__)

_FIRST_DELAY_MS = 300
_CALLED_OUTSIDE = frozenset({Stage.KAFKA_PRODUCE, Stage.TASK_PUT})
"""Stages that are not run through :meth:`ErrorHandler.attempt`."""


@dataclass(frozen=True, slots=True)
class DeadLetterQueue:
    """Where failed records go, and who makes the topic when it is missing."""

    producer: DeadLetterProducer
    topics: TopicCreator
    context_headers: bool


class Clock(Protocol):
    """The time as the handler needs it; :class:`connect.testing.ManualClock` is one that tests turn."""

    def monotonic(self) -> float: ...

    def time_ms(self) -> int: ...


class _SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def time_ms(self) -> int:
        return int(time.time() * 1000)


class ErrorHandler:
    """The handler of one task. Used on the task's thread; :meth:`failed` from any."""

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
        """``counts`` is where it counts; ``class_name`` says under which name a plugin is told of; ``fraction`` gives a number
        from 0 to below 1, for waits of no fixed length."""
        self._task = task
        self.settings = settings
        self.counts = counts or ErrorCounts()
        self._queue = queue
        self._class_name = class_name
        self._mask = mask or SecretMask()
        self._clock = clock or _SystemClock()
        self._fraction = fraction
        self._wait: Callable[[float], bool] = lambda _: False
        self._lock = threading.Lock()
        self._exceeded: ToleranceExceededError | None = None
        self._reported = False  # since the last settlement
        self._unreported: BaseException | None = None

    @property
    def tolerant(self) -> bool:
        return self.settings.tolerant

    def open(self, wait: Callable[[float], bool]) -> bool:
        """Makes the dead letter queue's topic where it is missing; False when the task is to end first.

        ``wait`` pauses that many seconds and says True when the task is to end. Raises ConnectError when the broker refuses; it
        begins with the words of Apache's workers.
        """
        self._wait = wait
        if self._queue is None:
            return True
        topic = self._queue.producer.topic
        try:
            return self._queue.topics.ensure(topic, wait)
        except Exception as e:
            raise ConnectError(f"Could not initialize dead letter queue with topic={topic}: {describe(e)}") from e

    def batch(self) -> BatchFailures:
        """A place for the failures of one batch."""
        return BatchFailures(tolerant=self.settings.tolerant, attempt=self.attempt)

    def attempt(self, operation: Callable[[], T]) -> T:
        """Calls the operation, and again after a RetriableError, as ``errors.retry.*`` say. Raises its last error, or Stopped."""
        clock, timeout_ms = self._clock, self.settings.retry_timeout_ms
        began = clock.monotonic()
        attempts = 0
        while True:
            try:
                attempts += 1
                return operation()
            except RetriableError as e:
                self.counts.failures += 1
                left_s = float("inf") if timeout_ms < 0 else began + timeout_ms / 1000 - clock.monotonic()
                if left_s <= 0:
                    raise
                delay_s = min(self._delay_s(attempts), left_s)
                log.debug("An operation failed and is called again in %.1f s: %s", delay_s, e.message)
                if self._wait(delay_s):
                    raise Stopped from e
                self.counts.retries += 1

    def _delay_s(self, attempts: int) -> float:
        most_ms = self.settings.retry_delay_max_ms
        delay_ms: float = _FIRST_DELAY_MS * 2 ** min(attempts - 1, 40)
        if delay_ms > most_ms:
            delay_ms = max(0, most_ms) * self._fraction()
        return delay_ms / 1000

    def failed(self, failure: StageError, original: ConsumedRecord | SourceRecord | None) -> Future[None]:
        """Counts and reports a record that failed for good; ``original`` is what it was at first.

        The future ends when the report is durable. Raises ToleranceExceededError, after the report, unless failures are
        tolerated: then the record is skipped (promise 7).
        """
        with self._lock:
            counts = self.counts
            counts.last_error_ms = self._clock.time_ms()
            outside = failure.stage in _CALLED_OUTSIDE
            if outside or not isinstance(failure.reason, RetriableError):
                counts.failures += 1
            if not outside or not self.tolerant:
                counts.errors += 1
            if self.tolerant and failure.stage is not Stage.TASK_PUT:
                counts.skipped += 1
            try:
                reported = self._report(FailedRecord(self._task, failure, self._class_name(failure.plugin), original))
            except BaseException as e:
                self._unreported = e
                raise
        if not self.tolerant:
            error = ToleranceExceededError(failure)
            self._exceeded = self._exceeded or error
            raise error
        return reported

    def _report(self, failed: FailedRecord) -> Future[None]:
        settings, reason = self.settings, failed.failure.reason
        if settings.log:
            trace = (type(reason), reason, reason.__traceback__)
            # A second line with the class that Apache's workers would show, for people search logs for it.
            what = log_message(failed, include_record=settings.log_messages)
            log.error("%s\n%s: %s", what, java_name(reason), describe(reason), exc_info=trace)
            self.counts.logged += 1
        future: Future[None] = Future()
        queue = self._queue
        if queue is None:
            future.set_result(None)
            return future
        self.counts.dead_letters += 1
        letter = letter_of(
            failed, context_headers(failed, self._mask) if queue.context_headers else [], queue.producer.most_bytes
        )
        if letter is None:
            self.counts.dead_letter_failures += 1
            future.set_result(None)
            return future
        future = queue.producer.send(*letter, lambda: self._wait(0))
        self._reported = True
        crash_points.point("errors.reported")
        return future

    def settle(self, timeout_s: float) -> bool:
        """Waits until every report is durable: only then may offsets be committed (promise 7). False when they are not within the
        time. Raises ConnectError when a report could not be written: the record would be lost."""
        if self._unreported is not None:
            return False  # for good: the record is to be read again
        if self._queue is not None and not self._queue.producer.settle(timeout_s):
            return False
        if self._reported:
            self._reported = False
            crash_points.point("errors.acknowledged")
        return True

    def settle_now(self) -> None:
        """The same without a limit. Raises Stopped when the task is to end before."""
        while not self.settle(1.0):
            if self._wait(0):
                raise Stopped

    def check(self) -> None:
        """Raises what must end the task though whoever heard of it went on: a failure that is not tolerated, a report that could
        not be made or written."""
        for error in (self._exceeded, self._unreported):
            if error is not None:
                raise error
        if self._queue is not None:
            self._queue.producer.check()

    def cancel(self) -> None:
        """Cuts an abandoned task off from its dead letter queue. From any thread; does not wait."""
        if self._queue is not None:
            self._queue.producer.cancel()

    def close(self, timeout_s: float) -> None:
        """Ends the dead letter queue's client, after what was reported has been written, if that is within the time."""
        if self._queue is None:
            return
        try:
            if not self._queue.producer.settle(timeout_s):
                log.warning(
                    "Task %s ends while %d records are not acknowledged by its dead letter queue; they are read again",
                    self._task,
                    self._queue.producer.unsettled,
                )
        except ConnectError as e:
            log.warning("Task %s ends with records that its dead letter queue does not have: %s", self._task, e.message)
        self._queue.producer.close()
