"""Collects the figures of tasks from executor processes, without waiting for one that hangs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import TimeoutError as FutureTimeout

from connect.errors import ConnectError
from worker.executor import ExecutorFigures
from worker.executors.process_registry import ProcessRegistry
from worker.executors.work_registry import WorkRegistry
from worker.observability.metrics.task_figures import TaskFigures, decode_figures

log = logging.getLogger(__name__)

_ANSWER_SHARE = 0.7
"""The part of the time that connectors' code may take; the rest is for the answer."""


class PoolFigures:
    """Safe from any thread."""

    def __init__(self, registry: WorkRegistry, processes: ProcessRegistry) -> None:
        self._registry = registry
        self._processes = processes
        self._lock = threading.Lock()
        self._last: dict[str, Sequence[TaskFigures]] = {}

    def collect(self, timeout_s: float) -> list[ExecutorFigures]:
        """Asks all processes at once. One that does not answer within the time is returned with its last figures."""
        deadline = time.monotonic() + timeout_s
        handles = self._processes.all()
        # One that still starts has no tasks, and would keep the others waiting.
        asked = [(one, one.call("figures", timeout_s=timeout_s * _ANSWER_SHARE)) for one in handles if one.ready.done()]
        found = [ExecutorFigures(one.key, one.pid, True, ()) for one in handles if not one.ready.done()]
        for handle, answer in asked:
            try:
                tasks: Sequence[TaskFigures] = decode_figures(answer.result(max(0.0, deadline - time.monotonic())))
                answered = True
                with self._lock:
                    self._last[handle.key] = tasks
            except (FutureTimeout, ConnectError) as e:
                log.warning("Executor %s does not report its metrics: %s", handle.key, str(e) or "no answer in time")
                answered = False
                with self._lock:
                    tasks = self._last.get(handle.key, ())
            # An executor is believed about the tasks that run in it only.
            own = self._registry.tasks_in(handle)
            found.append(ExecutorFigures(handle.key, handle.pid, answered, [one for one in tasks if one.id in own]))
        with self._lock:
            self._last = {key: tasks for key, tasks in self._last.items() if any(key == one.key for one in handles)}
        return found
