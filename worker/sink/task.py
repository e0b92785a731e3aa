"""A sink task: its thread, its plugins, and its consumer. The loop is in :mod:`worker.sink.loop`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from connect.metrics import Metric
from connect.record import TopicPartition
from worker.kafka.sink_consumer import ConsumerClosed, RebalanceListener
from worker.model import ErrorCounts, TaskId, TaskProgress, TaskStopped
from worker.observability.activity import TaskPhase
from worker.observability.metrics.task_figures import TaskFigures
from worker.observability.metrics.task_meter import TaskMeter
from worker.sink.loop import SinkLoop
from worker.sink.rebalance import RebalanceCallbacks
from worker.sink.runtime import SinkTaskRuntime
from worker.tasks.worker_task import TaskListener, WorkerTask, read_plugin_metrics, read_plugin_progress

if TYPE_CHECKING:
    from worker.observability.tracing.task_trace import TaskTrace

log = logging.getLogger(__name__)


class SinkWorkerTask(WorkerTask):
    """Runs one sink task."""

    is_source = False

    def __init__(
        self,
        task_id: TaskId,
        listener: TaskListener,
        create_runtime: Callable[[RebalanceListener], SinkTaskRuntime],
        interval_s: float,
        timeout_s: float,
        *,
        version: str | None = None,
        paused: bool = False,
        meter: TaskMeter | None = None,
        trace: TaskTrace | None = None,
    ) -> None:
        """``create_runtime`` is called on the task's thread, with the consumer's rebalance listener. ``interval_s`` and
        ``timeout_s`` are ``offset.flush.interval.ms`` and ``offset.flush.timeout.ms``."""
        super().__init__(task_id, listener, version=version, paused=paused, meter=meter, trace=trace)
        self._create_runtime = create_runtime
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._runtime: SinkTaskRuntime | None = None
        self._started = False
        self._lag: dict[str, int] = {}

    def progress(self) -> TaskProgress:
        found, runtime = self.counts(), self._runtime
        if runtime is None or found.lag is None:
            return found
        lag = dict(found.lag)
        for name, records in self.plugin_lag().items():
            lag[name] = lag.get(name, 0) + records
        return replace(found, lag=lag, details=read_plugin_progress(runtime.task))

    def counts(self) -> TaskProgress:
        return replace(super().counts(), lag=dict(self._lag) if self._started else None)

    def count(self, records: int, size_bytes: int) -> None:
        super().count(records, size_bytes)
        self.meter.read(records, size_bytes)

    def figures(self) -> TaskFigures:
        found = super().figures()
        found.lag = self._lag
        return found

    def _error_counts(self) -> ErrorCounts:
        runtime = self._runtime
        return ErrorCounts() if runtime is None else runtime.errors.counts

    def plugin_metrics(self) -> Sequence[Metric]:
        runtime = self._runtime
        return read_plugin_metrics(runtime.task) if runtime is not None and self._started else ()

    def plugin_lag(self) -> Mapping[str, int]:
        runtime = self._runtime
        if runtime is None or not self._started:
            return {}
        try:
            found = runtime.task.lag() or {}
            return {str(TopicPartition(*partition)): int(records) for partition, records in found.items()}
        except Exception as e:
            log.debug("lag() of task %s failed: %s", self.id, e)
            return {}

    def _stop_plugin(self) -> None:
        if self._runtime is not None:
            try:
                self._runtime.task.stop()
            except BaseException:
                log.exception("stop() of task %s failed", self.id)

    def _cut_off(self) -> None:
        if self._runtime is not None:
            self._runtime.consumer.cancel()
            self._runtime.errors.cancel()

    def _execute(self) -> None:
        callbacks = RebalanceCallbacks(lambda: self.cancelled)
        self.activity.enter(TaskPhase.PREPARING)
        runtime = self._runtime = self._create_runtime(callbacks)
        try:
            if not self.control.stopping:
                self._run_loop(runtime, callbacks)
        except ConsumerClosed:
            log.info("The Kafka clients of task %s were closed", self.id)
        except TaskStopped:
            log.info("Task %s stops while a record waits for a retry or an error report; it will be read again", self.id)
        finally:
            self._close(runtime)

    def _run_loop(self, runtime: SinkTaskRuntime, callbacks: RebalanceCallbacks) -> None:
        if not runtime.errors.open(self.control.wait_for_stop):
            return
        loop = SinkLoop(self, runtime, callbacks, self._interval_s, self._timeout_s)
        runtime.task.initialize(loop.context)
        self.activity.enter(TaskPhase.STARTING)
        runtime.task.start(runtime.config)
        self._started = True
        if loop.context.raw_allowed and runtime.task.wants_raw():
            loop.use_raw_batches()
        if self.control.is_stopping():
            runtime.task.stop()  # the request may have come before start() returned
        self._listener.on_running(self)
        try:
            loop.run()
        finally:
            if not self.cancelled:
                loop.close()

    def _close(self, runtime: SinkTaskRuntime) -> None:
        self.activity.enter(TaskPhase.STOPPING)
        # A task that was asked to stop has already waited for its error reports before the last commit.
        runtime.errors.close(0.0 if self.cancelled or self.control.stopping else self._timeout_s)
        # The consumer is closed first: partitions that it still has are given up before the task closes.
        for component in (runtime.consumer, runtime.task, runtime.chain, runtime.converters):
            try:
                component.close()
            except Exception:
                log.exception("close() of %s failed in task %s", type(component).__name__, self.id)

    def report_lag(self, lag: dict[str, int], *, is_paused: bool) -> None:
        self._lag = lag
        self.activity.on_lag(lag, is_paused=is_paused)

    def on_paused(self) -> None:
        self._listener.on_paused(self)

    def on_resumed(self) -> None:
        self._listener.on_running(self)
