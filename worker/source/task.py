"""A source task: its thread, its plugins, and the loop that polls and sends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from connect.backoff import Backoff
from connect.errors import BadRequestError, ConnectError, RetriableError, UnsupportedError
from connect.metrics import Metric
from connect.record import SourceRecord
from connect.source import OwnedTopic, OwnedTopicSettings, TopicReader, TransactionContext
from worker.executor import WorkerServices
from worker.kafka.idempotence import NOT_IDEMPOTENT_HINT
from worker.kafka.record_producer import ProduceCancelled, ProducerLostError
from worker.kafka.transactions import TransactionLostError
from worker.model import ErrorCounts, TaskId, TaskProgress, TaskSignal, TaskStopped
from worker.observability.activity import TaskPhase
from worker.observability.metrics.task_figures import TaskFigures
from worker.observability.metrics.task_meter import TaskMeter
from worker.source.at_least_once import AtLeastOnceDelivery
from worker.source.delivery import RunOutcome, SourceDelivery, confirm_record
from worker.source.exactly_once import ExactlyOnceDelivery
from worker.source.runtime import FlushTiming, ProducerOptions, SourceTaskRuntime
from worker.source.sender import RecordSender
from worker.source.transaction_boundary import TransactionBoundaries
from worker.storage.offset_store import ConnectorOffsetReader
from worker.tasks.worker_task import TaskListener, WorkerTask, read_plugin_metrics, read_plugin_progress

if TYPE_CHECKING:
    from worker.observability.tracing.task_trace import TaskTrace

log = logging.getLogger(__name__)

_IDLE_FIRST_S, _IDLE_MAX_S = 0.001, 0.1
_RETRY_FIRST_S, _RETRY_MAX_S = 0.1, 5.0
_PAUSED_FLUSH_S = 1.0
_MAX_FAILED_RESTARTS = 3
"""A task that loses its producer or transaction this often in a row, without progress and with all brokers available, fails: its
configuration is to blame, not the brokers."""
_STOP_REQUEST_TIMEOUT_S = 30.0


class SourceContext:
    """Passed to the connector's task (:class:`connect.source.SourceTaskContext`)."""

    def __init__(
        self, runtime: SourceTaskRuntime, offset_reader: ConnectorOffsetReader, transactions: TransactionContext | None
    ) -> None:
        self._config = runtime.config
        self._open_topic = runtime.open_topic
        self._owned_topics = runtime.owned_topics
        self._offset_reader = offset_reader
        self._transactions = transactions

    def configs(self) -> Mapping[str, str]:
        return self._config

    @property
    def offset_reader(self) -> ConnectorOffsetReader:
        return self._offset_reader

    @property
    def transaction_context(self) -> TransactionContext | None:
        return self._transactions

    def open_topic(self, topic: str, settings: Mapping[str, str], position: int | None) -> TopicReader:
        return self._open_topic(topic, settings, position)

    def open_owned_topic(self, topic: str, settings: OwnedTopicSettings) -> OwnedTopic:
        return self._owned_topics.open(topic, settings)


class SourceWorkerTask(WorkerTask):
    """Runs one source task."""

    is_source = True

    def __init__(
        self,
        task_id: TaskId,
        listener: TaskListener,
        create_runtime: Callable[[Callable[[], bool], ProducerOptions], SourceTaskRuntime],
        services: WorkerServices,
        timing: FlushTiming,
        *,
        start_id: int = 0,
        version: str | None = None,
        paused: bool = False,
        meter: TaskMeter | None = None,
        trace: TaskTrace | None = None,
    ) -> None:
        """``create_runtime`` is called on the task's thread. Its arguments: a function that says whether the producer must give
        up, and what the producer may do. ``run`` is the worker's start ID of the task."""
        super().__init__(task_id, listener, version=version, paused=paused, meter=meter, trace=trace)
        self._create_runtime = create_runtime
        self._services = services
        self._timing = timing
        self._start_id = start_id
        self._offset_reader = self._new_offset_reader()
        self._runtime: SourceTaskRuntime | None = None
        self._started = False
        self._counts = ErrorCounts()
        self._written = 0.0
        self._failed_restarts = 0
        self._producer_options = ProducerOptions()

    def progress(self) -> TaskProgress:
        runtime = self._runtime
        details = read_plugin_progress(runtime.task) if runtime is not None and self._started else {}
        return replace(self.counts(), details=details)

    def count(self, records: int, size_bytes: int) -> None:
        super().count(records, size_bytes)
        self.meter.sent(records, size_bytes)

    def figures(self) -> TaskFigures:
        found, runtime = super().figures(), self._runtime
        if runtime is not None:
            # Apache counts a record as written when it is acknowledged. A batch is counted when all of it was passed to the
            # producer, so the difference may go back for a moment; the total may not.
            written = found.numbers.outgoing_total - len(runtime.producer)
            found.numbers.outgoing_total = self._written = max(self._written, written)
        return found

    def _error_counts(self) -> ErrorCounts:
        return self._counts

    def plugin_metrics(self) -> Sequence[Metric]:
        runtime = self._runtime
        return read_plugin_metrics(runtime.task) if runtime is not None and self._started else ()

    def signal(self, signal: TaskSignal) -> bool:
        runtime = self._runtime
        if runtime is None or not self._started:
            return False
        try:
            runtime.task.signal(signal.id, signal.type, signal.data)
        except UnsupportedError as e:
            raise BadRequestError(f"Tasks of connector {self.id.connector} take no signals") from e
        return True

    def _new_offset_reader(self) -> ConnectorOffsetReader:
        return ConnectorOffsetReader(self._services.offsets, self.id.connector, self.control.wait_for_stop)

    def _stop_plugin(self) -> None:
        if self._runtime is not None:
            try:
                self._runtime.task.stop()
            except BaseException:
                log.exception("stop() of task %s failed", self.id)

    def _cut_off(self) -> None:
        self._offset_reader.close()
        if self._runtime is not None:
            self._runtime.producer.cancel()
            self._runtime.errors.cancel()

    def _execute(self) -> None:
        while self._run_instance() and not self.control.stopping:
            self._offset_reader = self._new_offset_reader()
            self._wait_if_created_paused()

    def _run_instance(self) -> bool:
        """Runs one instance of the connector's task. Returns True if another one should follow."""
        self.activity.enter(TaskPhase.PREPARING)
        runtime = self._create_runtime(self.control.is_stopping, self._producer_options)
        runtime.errors.counts.add(self._counts)
        self._runtime, self._counts = runtime, runtime.errors.counts
        self._started = False
        lost: SourceDelivery | None = None
        try:
            if not runtime.errors.open(self.control.wait_for_stop) or self.control.stopping:
                return False
            delivery = self._new_delivery(runtime)
            if not delivery.prepare():
                return False
            runtime.task.initialize(SourceContext(runtime, self._offset_reader, delivery.context))
            self.activity.enter(TaskPhase.STARTING)
            runtime.task.start(runtime.config)
            self._started = True
            self.activity.follow(runtime.task.pending_work)
            if self.control.is_stopping():
                runtime.task.stop()  # the request may have come before start() returned
            self._listener.on_running(self)
            outcome = RunOutcome.FAILED
            try:
                self._loop(runtime, delivery)
                outcome = RunOutcome.STOPPED
            except (ProduceCancelled, TaskStopped):
                outcome = RunOutcome.INTERRUPTED
                log.info("Task %s stops with records that the broker has not acknowledged; they will be read again", self.id)
            except (TransactionLostError, ProducerLostError) as e:
                if self.control.stopping or not self._should_restart(delivery, e):
                    raise
                lost = delivery
            finally:
                delivery.finish(outcome)
        finally:
            self._close(runtime)
        return lost is not None and self._await_restart(lost)

    def _should_restart(self, delivery: SourceDelivery, error: TransactionLostError | ProducerLostError) -> bool:
        if isinstance(error, ProducerLostError) and error.idempotence_denied:
            self._producer_options = replace(self._producer_options, idempotent=False)
            log.warning("Task %s restarts with a non-idempotent producer: %s. %s", self.id, error.message, NOT_IDEMPOTENT_HINT)
            return True
        if isinstance(error, ProducerLostError) and error.batch_too_large:
            self._producer_options = replace(self._producer_options, large_batches=False)
            log.warning(
                "Task %s restarts with smaller batches from its last committed offsets: %s. A lower producer.override.batch.size "
                "avoids that",
                self.id,
                error.message,
            )
            return True
        self._failed_restarts = 0 if delivery.made_progress or delivery.broker_unavailable else self._failed_restarts + 1
        if self._failed_restarts > _MAX_FAILED_RESTARTS:
            return False
        reason = error.reason if isinstance(error, TransactionLostError) else error.message
        log.warning("Task %s restarts from its last committed offsets: %s", self.id, reason)
        return True

    def _await_restart(self, delivery: SourceDelivery) -> bool:
        """Waits until the task may restart. Returns False if it must stop."""
        self.control.wait_for_stop(Backoff(_RETRY_FIRST_S, _RETRY_MAX_S).delay_after_s(self._failed_restarts + 1))
        try:
            return delivery.can_restart()
        except ConnectError as e:
            log.warning("Task %s does not restart: %s", self.id, e.message)
            # A request to stop should follow. A failure reported before it would be that of an outdated run.
            if self.control.wait_for_stop(_STOP_REQUEST_TIMEOUT_S):
                return False
            raise

    def _new_delivery(self, runtime: SourceTaskRuntime) -> SourceDelivery:
        if runtime.create_delivery is not None:
            return runtime.create_delivery(self, runtime)
        if runtime.transaction is None:
            sender = RecordSender(self, runtime, partial(confirm_record, self.id, runtime.task))
            return AtLeastOnceDelivery(
                self,
                runtime.task,
                sender,
                runtime.producer,
                runtime.errors,
                self._services.offsets,
                self._timing,
                lingers_for_backlog=runtime.lingers_for_backlog,
            )
        boundaries = TransactionBoundaries(runtime.transaction.boundary, self._timing.interval_s)
        transactions = runtime.transaction.transactions
        return ExactlyOnceDelivery(self, runtime, transactions, boundaries, self._services, self._start_id)

    def _loop(self, runtime: SourceTaskRuntime, delivery: SourceDelivery) -> None:
        control, task, errors, activity, meter = self.control, runtime.task, runtime.errors, self.activity, self.meter
        trace = self.trace
        idle, retry = Backoff(_IDLE_FIRST_S, _IDLE_MAX_S), Backoff(_RETRY_FIRST_S, _RETRY_MAX_S)
        delivery.start()
        while not control.stopping:
            if control.paused:
                self._stay_paused(runtime, delivery)
                delivery.start()
                continue
            started, started_ns = time.monotonic(), 0 if trace is None else time.time_ns()
            activity.enter(TaskPhase.POLLING)
            try:
                batch = task.poll()
                retry.reset()
                activity.on_success()
                if not batch:
                    activity.on_empty_poll()
            except RetriableError as e:
                delay_s = retry.next_delay_s()
                log.warning("poll() failed and will be retried in %.1f s: %s", delay_s, e.message)
                batch = None
                if trace is not None:
                    trace.failed("poll", started_ns, e)
                activity.on_retry(e.message)
                activity.enter(TaskPhase.IDLE)
                control.wait_for_stop(delay_s)
            except Exception as e:
                if trace is not None:
                    trace.failed("poll", started_ns, e)
                raise
            errors.check()
            runtime.owned_topics.serve()
            if batch:
                activity.on_records()
            else:
                activity.enter(TaskPhase.IDLE)
            try:
                if batch:
                    meter.polled(len(batch), time.monotonic() - started)
                if trace is None or not batch:
                    delivery.send(batch)
                else:
                    with trace.batch("source batch", "poll", len(batch), started_ns):
                        delivery.send(batch)
            except (AttributeError, TypeError) as e:
                raise _explain(e, batch, type(task)) from e
            if batch:
                idle.reset()
                meter.set_active(len(runtime.producer))
            elif time.monotonic() - started < _IDLE_FIRST_S:
                # A task that returns nothing at once would keep a core busy with polling.
                control.wait_for_stop(idle.next_delay_s())

    def _stay_paused(self, runtime: SourceTaskRuntime, delivery: SourceDelivery) -> None:
        self._listener.on_paused(self)
        delivery.flush()
        self.activity.enter(TaskPhase.PAUSED)
        while not self.control.wait_while_paused(_PAUSED_FLUSH_S):
            delivery.flush()
            runtime.owned_topics.serve()
            self.activity.enter(TaskPhase.PAUSED)
        if not self.control.stopping:
            self._listener.on_running(self)

    def _close(self, runtime: SourceTaskRuntime) -> None:
        self.activity.enter(TaskPhase.STOPPING)
        self._offset_reader.close()
        # A task that was asked to stop has already waited for its error reports in the last flush.
        runtime.errors.close(0.0 if self.cancelled or self.control.stopping else self._timing.last_timeout_s)
        for component in (runtime.task, runtime.owned_topics, runtime.chain, runtime.converters, runtime.producer):
            try:
                component.close()
            except Exception:
                log.exception("close() of %s failed in task %s", type(component).__name__, self.id)


def _explain(error: Exception, batch: object, task: type) -> Exception:
    """Returns an error that says what ``poll`` returned if that was not a valid batch; else the error itself."""
    if isinstance(batch, str | Mapping) or not isinstance(batch, Iterable):
        found = type(batch).__name__
    else:
        invalid = next((one for one in batch if not isinstance(one, SourceRecord)), error)
        if invalid is error:
            return error
        found = f"a sequence with {type(invalid).__name__} in it"
    return ConnectError(f"poll() of {task.__qualname__} must return a sequence of SourceRecord, or None, but returned {found}")
