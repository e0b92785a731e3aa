"""What source and sink tasks share: a thread, the requests of an operator, and what becomes of a failure."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from worker.model import TaskId, TaskProgress
from worker.observability.log_context import log_context

log = logging.getLogger(__name__)


class TaskListener(Protocol):
    """Hears what becomes of a task. Called on the task's thread; must not block."""

    def on_running(self, task: WorkerTask) -> None: ...

    def on_paused(self, task: WorkerTask) -> None: ...

    def on_failed(self, task: WorkerTask, error: BaseException) -> None: ...

    def on_ended(self, task: WorkerTask) -> None:
        """The task has ended as it was asked to."""

    def on_topics(self, task: WorkerTask, topics: Collection[str]) -> None:
        """The task has used these topics for the first time in its life (KIP-558): written records to them, or read from them."""


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
        """Waits until a stop is asked for, at most this long."""
        return self._wait(timeout_s, lambda: self._stopping)

    def wait_while_paused(self, timeout_s: float) -> bool:
        """Waits until resumed or asked to stop, at most this long; True when one of them came."""
        return self._wait(timeout_s, lambda: self._stopping or not self._paused)

    def _wait(self, timeout_s: float, predicate: Any) -> bool:
        with self._changed:
            return bool(self._changed.wait_for(predicate, timeout_s))


class WorkerTask(ABC):
    """One task on a thread of its own. Started once; whoever starts it stops and joins it, or cancels it."""

    def __init__(self, task_id: TaskId, listener: TaskListener, *, version: str | None, paused: bool = False) -> None:
        self.id = task_id
        self.version = version
        self.control = TaskControl(paused=paused)
        self.cancelled = False
        self._listener = listener
        self._records = 0
        self._bytes = 0
        self._thread = threading.Thread(target=self._run, name=f"task-{task_id}", daemon=True)
        self._stopper: threading.Thread | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks the task to end; does not wait. May be called more than once."""
        if not self.control.stopping:
            self.control.stop()
            # On a thread of its own: it is a plugin's code and may hang, whatever its contract says.
            self._stopper = threading.Thread(target=self._stop_plugin, name=f"stop-{self.id}", daemon=True)
            self._stopper.start()

    def join(self, deadline: float) -> bool:
        """Waits for the end until ``time.monotonic()`` is ``deadline``; False when it still runs."""
        for thread in (self._thread, self._stopper):
            if thread is not None and thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Abandons a task that does not end: its clients are cut off, and what it still says is not heard. Does not wait."""
        self.cancelled = True
        self.control.stop()
        log.warning("Task %s did not stop in time and is abandoned: it can read and write Kafka no more", self.id)
        self._cut_off()

    @abstractmethod
    def progress(self) -> TaskProgress:
        """Live numbers; safe from any thread."""

    @abstractmethod
    def _execute(self) -> None:
        """All of the task's life, until it is asked to stop. Closes what it opened, on errors too."""

    @abstractmethod
    def _stop_plugin(self) -> None:
        """Passes the request to stop on to the connector's own task, if there is one yet."""

    @abstractmethod
    def _cut_off(self) -> None:
        """Makes the Kafka clients useless to the abandoned thread."""

    def _run(self) -> None:
        with log_context(self.id.connector, self.id.task):
            try:
                self._wait_if_born_paused()
                if not self.control.stopping:
                    self._execute()
            except BaseException as e:
                if self.cancelled:
                    log.info("Abandoned task %s ended at last: %s", self.id, type(e).__name__)
                elif self.control.stopping:
                    # As in Apache's worker it counts as stopped: the next run must not begin as one that has failed.
                    log.warning("Task %s failed while it was being stopped", self.id, exc_info=e)
                    self._listener.on_ended(self)
                else:
                    self._listener.on_failed(self, e)
            else:
                if not self.cancelled:
                    self._listener.on_ended(self)

    def _wait_if_born_paused(self) -> None:
        # As in Apache's worker the task is not even started before it is resumed.
        if self.control.paused and not self.control.stopping:
            self._listener.on_paused(self)
            while not self.control.wait_while_paused(60.0):
                pass


def plugin_details(task: Any) -> Mapping[str, Any]:
    """What a connector's task tells about itself; nothing when it cannot."""
    try:
        details: Mapping[str, Any] = task.progress()
    except Exception as e:
        log.debug("progress() of %s failed: %s", type(task).__name__, e)
        return {}
    return details
