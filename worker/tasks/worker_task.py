"""The base of source and sink tasks: a thread, the requests of an operator, and the report of a failure."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from connect.errors import BadRequestError
from connect.metrics import Metric
from connect.tracing import trace_of_thread
from worker.model import ErrorCounts, TaskId, TaskProgress, TaskSignal
from worker.observability.activity import ActivityTracker, TaskPhase
from worker.observability.log_context import log_context
from worker.observability.metrics.task_figures import TaskFigures
from worker.observability.metrics.task_meter import TaskMeter

if TYPE_CHECKING:
    from worker.observability.tracing.task_trace import TaskTrace

log = logging.getLogger(__name__)


class TaskListener(Protocol):
    """Receives state changes of a task. Called on the task's thread; must not block."""

    def on_running(self, task: WorkerTask) -> None: ...

    def on_paused(self, task: WorkerTask) -> None: ...

    def on_failed(self, task: WorkerTask, error: BaseException) -> None: ...

    def on_ended(self, task: WorkerTask) -> None:
        """The task has ended as requested."""

    def on_topics(self, task: WorkerTask, topics: Collection[str]) -> None:
        """The task has written to or read from these topics for the first time since it started (KIP-558)."""


class TaskControl:
    """Requests to a running task: stop, pause, resume. Safe from any thread."""

    def __init__(self, *, paused: bool = False) -> None:
        self._changed = threading.Condition()
        self._stopping = False
        self._paused = paused

    @property
    def stopping(self) -> bool:
        return self._stopping

    @property
    def paused(self) -> bool:
        return self._paused

    def is_stopping(self) -> bool:
        return self._stopping

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def set_paused(self, paused: bool) -> None:
        with self._changed:
            self._paused = paused
            self._changed.notify_all()

    def wait_for_stop(self, timeout_s: float) -> bool:
        """Waits at most this long; returns True if a stop was requested."""
        return self._wait(timeout_s, lambda: self._stopping)

    def wait_while_paused(self, timeout_s: float) -> bool:
        """Waits at most this long; returns True if the task was resumed or asked to stop."""
        return self._wait(timeout_s, lambda: self._stopping or not self._paused)

    def _wait(self, timeout_s: float, predicate: Any) -> bool:
        with self._changed:
            return bool(self._changed.wait_for(predicate, timeout_s))


class TaskHandle(Protocol):
    """What the parts of a task see of it."""

    id: TaskId
    control: TaskControl
    cancelled: bool
    activity: ActivityTracker
    meter: TaskMeter
    trace: TaskTrace | None
    """None if the task is not traced."""

    def count(self, records: int, size_bytes: int) -> None:
        """Adds to the task's totals."""

    def report_topics(self, topics: Collection[str]) -> None:
        """Reports topics that the task has used for the first time (KIP-558)."""


class WorkerTask(ABC):
    """One task on its own thread. Started once; its owner stops and joins it, or cancels it."""

    is_source: ClassVar[bool]

    def __init__(
        self,
        task_id: TaskId,
        listener: TaskListener,
        *,
        version: str | None,
        paused: bool = False,
        meter: TaskMeter | None = None,
        trace: TaskTrace | None = None,
    ) -> None:
        self.id = task_id
        self.trace = trace
        self.meter = meter or TaskMeter()
        self.version = version
        self.control = TaskControl(paused=paused)
        self.cancelled = False
        self.activity = ActivityTracker()
        self._listener = listener
        self._records = 0
        self._bytes = 0
        self._thread = threading.Thread(target=self._run, name=f"task-{task_id}", daemon=True)
        self._stopper: threading.Thread | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks the task to stop; does not wait. May be called more than once."""
        if not self.control.stopping:
            self.control.stop()
            # On a separate thread: a plugin's stop() may hang, whatever its contract says.
            self._stopper = threading.Thread(target=self._stop_plugin, name=f"stop-{self.id}", daemon=True)
            self._stopper.start()

    def join(self, deadline: float) -> bool:
        """Waits until ``time.monotonic()`` is ``deadline``; returns False if the task still runs."""
        for thread in (self._thread, self._stopper):
            if thread is not None and thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Abandons a task that does not stop: its clients are closed and its reports are ignored. Does not wait."""
        # Promise 4: an abandoned task neither reads nor writes Kafka.
        self.cancelled = True
        self.control.stop()
        log.warning("Task %s did not stop within task.shutdown.graceful.timeout.ms; its Kafka clients were closed", self.id)
        self._cut_off()

    def count(self, records: int, size_bytes: int) -> None:
        self._records += records
        self._bytes += size_bytes

    def report_topics(self, topics: Collection[str]) -> None:
        if not self.cancelled:
            self._listener.on_topics(self, topics)

    @abstractmethod
    def progress(self) -> TaskProgress:
        """Returns current counts. Safe from any thread. Calls the plugin, which may hang."""

    def counts(self) -> TaskProgress:
        """Returns the part of :meth:`progress` that calls no plugin."""
        return TaskProgress(self._records, self._bytes, errors=self._error_counts())

    def figures(self) -> TaskFigures:
        """Returns what the worker has measured. Safe from any thread; runs no code of the connector."""
        meter = self.meter
        return TaskFigures(
            self.id,
            self.is_source,
            meter.numbers(),
            self._error_counts(),
            meter.batch_times.histogram.figures(),
            meter.commits.times.histogram.figures(),
            plugins=meter.plugins,
        )

    @abstractmethod
    def _error_counts(self) -> ErrorCounts:
        """Returns the counts of failed records. Safe from any thread."""

    def plugin_metrics(self) -> Sequence[Metric]:
        """Returns the metrics of the connector's task. Runs its code, which may hang."""
        return ()

    def plugin_lag(self) -> Mapping[str, int]:
        """Returns the records that a sink has taken and not delivered, by ``topic-partition``. Runs its code, which may hang."""
        return {}

    def signal(self, signal: TaskSignal) -> bool:
        """Passes a signal to the connector's task. Returns False if that has not started. Raises BadRequestError. Safe from any
        thread."""
        raise BadRequestError(f"Tasks of connector {self.id.connector} take no signals")

    @abstractmethod
    def _execute(self) -> None:
        """Runs the task until it is asked to stop. Closes what it opened, also after errors."""

    @abstractmethod
    def _stop_plugin(self) -> None:
        """Calls ``stop`` of the connector's task, if there is one yet."""

    @abstractmethod
    def _cut_off(self) -> None:
        """Closes the Kafka clients of the abandoned thread."""

    def _run(self) -> None:
        with log_context(self.id.connector, self.id.task), trace_of_thread(self.trace):
            try:
                self._wait_if_created_paused()
                if not self.control.stopping:
                    self._execute()
            except BaseException as e:
                if self.cancelled:
                    log.info("Abandoned task %s has ended: %s", self.id, type(e).__name__)
                elif self.control.stopping:
                    # As in Apache's worker, the task counts as stopped: the next run must not start in state FAILED.
                    log.warning("Task %s failed while it was being stopped", self.id, exc_info=e)
                    self._listener.on_ended(self)
                else:
                    self._listener.on_failed(self, e)
            else:
                if not self.cancelled:
                    self._listener.on_ended(self)

    def _wait_if_created_paused(self) -> None:
        # As in Apache's worker, a paused task is not started before it is resumed.
        if self.control.paused and not self.control.stopping:
            self.activity.enter(TaskPhase.PAUSED)
            self._listener.on_paused(self)
            while not self.control.wait_while_paused(60.0):
                pass


def read_plugin_progress(task: Any) -> Mapping[str, Any]:
    """Returns the progress that a connector's task reports; nothing if that fails."""
    try:
        details: Mapping[str, Any] = task.progress()
    except Exception as e:
        log.debug("progress() of %s failed: %s", type(task).__name__, e)
        return {}
    return details


def read_plugin_metrics(task: Any) -> Sequence[Metric]:
    """Returns the metrics of a connector's task; none if that fails."""
    try:
        return [metric for metric in task.metrics() if isinstance(metric, Metric)]
    except Exception as e:
        log.debug("metrics() of %s failed: %s", type(task).__name__, e)
        return ()
