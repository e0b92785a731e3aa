"""One requested task, from the request to run it until it has ended or was abandoned."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from connect.metrics import Metric
from worker.config.secrets import SecretMask
from worker.error_text import describe
from worker.errors.trace import trace_of
from worker.executor import ExecutorListener, TaskSpec
from worker.model import Stall, State, TaskActivity, TaskId, TaskProgress, TaskSignal
from worker.observability.activity import ActivityTracker, TaskPhase
from worker.observability.metrics.task_figures import TaskFigures
from worker.observability.stalls import StallSettings, find_stall
from worker.tasks.worker_task import TaskListener, WorkerTask

log = logging.getLogger(__name__)


class TaskSlot:
    """Owns a task and passes on its reports until it is abandoned. Safe from any thread.

    Implements :class:`worker.tasks.worker_task.TaskListener`.
    """

    def __init__(
        self, start_id: int, spec: TaskSpec, listener: ExecutorListener, mask: SecretMask, stalls: StallSettings | None = None
    ) -> None:
        self.spec = spec
        self.start_id = start_id
        self._stalls = stalls or StallSettings()
        self._creation = ActivityTracker()
        self._asking = threading.Lock()
        """Held while the plugin is asked for its progress, so that calls of one that hangs do not pile up."""
        self._listener = listener
        self._mask = mask
        self._lock = threading.Lock()
        self._paused = spec.paused
        self._stopping = False
        self._abandoned = False
        self._has_ended = False
        self._task: WorkerTask | None = None

    @property
    def id(self) -> TaskId:
        return self.spec.id

    def start(self, create: Callable[[TaskListener, bool], WorkerTask]) -> None:
        """Creates the task and starts it, unless it was stopped in the meantime. A failure is reported.

        ``create`` gets whether the task starts paused.
        """
        self._creation.enter(TaskPhase.PREPARING)
        try:
            task = create(self, self._paused)
        except Exception as e:
            if self._stopping:
                # As for a task that fails while it is stopped: the next run must not start as failed.
                log.warning("Task %s failed while it was being stopped", self.id, exc_info=e)
                self._report(State.UNASSIGNED, None, None)
            else:
                log.error("Task %s failed: %s", self.id, describe(e), exc_info=e)
                self._report(State.FAILED, e, None)
            return
        with self._lock:
            if not self._stopping:
                self._task = task
                task.control.set_paused(self._paused)
                task.start()
                return
        self._report(State.UNASSIGNED, None, task.version)

    def set_paused(self, paused: bool) -> None:
        with self._lock:
            self._paused = paused
            if self._task is not None:
                self._task.control.set_paused(paused)

    def stop(self) -> None:
        """Asks the task to end; does not wait."""
        with self._lock:
            self._stopping = True
            task = self._task
        if task is not None:
            task.stop()

    def join(self, deadline: float) -> bool:
        """Waits for the end until ``time.monotonic()`` is ``deadline``; False when it still runs."""
        return self._task is None or self._task.join(deadline)

    def abandon(self) -> None:
        """Gives up on a task that does not end: its Kafka clients are closed (promise 4), and its reports are ignored."""
        with self._lock:
            self._stopping = self._abandoned = True
            task = self._task
        if task is not None:
            task.cancel()

    def progress(self) -> TaskProgress | None:
        """Returns the progress; without what the plugin reports while an earlier call of it hangs."""
        task = self._task
        if task is None:
            return None
        if not self._asking.acquire(blocking=False):
            return self.counts()
        try:
            found = task.progress()
        finally:
            self._asking.release()
        return self._with_activity(_masked_progress(found, self._mask))

    def counts(self) -> TaskProgress | None:
        """Returns the part of the progress that calls no plugin."""
        task = self._task
        return None if task is None else self._with_activity(task.counts())

    def _with_activity(self, progress: TaskProgress) -> TaskProgress:
        activity = self._activity()
        return replace(progress, activity=activity, stalled=self._stall_of(activity))

    def stall(self) -> Stall | None:
        """Returns why the task does not move; None if it does. Calls no plugin."""
        return self._stall_of(self._activity())

    def _activity(self) -> TaskActivity:
        task = self._task
        found = (self._creation if task is None else task.activity).snapshot()
        error = found.retry_error
        # Promise 9: an error may repeat a secret.
        return found if error is None else replace(found, retry_error=self._mask.mask(error))

    def _stall_of(self, activity: TaskActivity) -> Stall | None:
        task = self._task
        is_sink = task is not None and not task.is_source
        return None if self._has_ended else find_stall(activity, self._stalls, is_sink=is_sink)

    def figures(self) -> TaskFigures | None:
        """Returns what the worker has measured of the task; None if there is none (yet). Runs no code of the connector."""
        task = self._task
        return None if task is None else task.figures()

    def plugin_metrics(self) -> Sequence[Metric]:
        """Returns the metrics of the connector's task. Runs its code, which may hang."""
        task = self._task
        return () if task is None else task.plugin_metrics()

    def plugin_lag(self) -> Mapping[str, int]:
        """Returns the part of a sink's lag that only its task knows. Runs its code, which may hang."""
        task = self._task
        return {} if task is None else task.plugin_lag()

    def signal(self, signal: TaskSignal) -> bool:
        """Passes on a signal. Returns False if the task does not run (yet). Raises BadRequestError."""
        task = self._task
        return task is not None and task.signal(signal)

    # --- reports of the task, on its thread

    def on_running(self, task: WorkerTask) -> None:
        task.meter.change_state(State.RUNNING)
        self._report(State.RUNNING, None, task.version)

    def on_paused(self, task: WorkerTask) -> None:
        task.meter.change_state(State.PAUSED)
        self._report(State.PAUSED, None, task.version)

    def on_failed(self, task: WorkerTask, error: BaseException) -> None:
        task.meter.change_state(State.FAILED)
        log.error("Task %s failed: %s", task.id, describe(error), exc_info=error)
        self._report(State.FAILED, error, task.version)

    def on_ended(self, task: WorkerTask) -> None:
        self._report(State.UNASSIGNED, None, task.version)

    def on_topics(self, task: WorkerTask, topics: Collection[str]) -> None:
        if not self._abandoned:
            self._listener.on_topics(self.start_id, self.id, topics)

    def _report(self, state: State, error: BaseException | None, version: str | None) -> None:
        self._has_ended = state in (State.FAILED, State.UNASSIGNED)
        if not self._abandoned:
            trace = None if error is None else trace_of(error, self._mask)
            self._listener.on_task_state(self.start_id, self.id, state, trace, version)


def _masked_progress(progress: TaskProgress, mask: SecretMask) -> TaskProgress:
    """Masks secrets: the details are written by the connector's author (promise 9)."""
    return replace(progress, details=mask.mask_json(progress.details)) if progress.details else progress
