"""Collects the progress of tasks from executor processes: one request for each process."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from concurrent.futures import TimeoutError as FutureTimeout

from connect.errors import ConnectError, DataError
from worker.executors.messages import id_to_plain, progresses_of_plain
from worker.executors.process_handle import ProcessHandle
from worker.executors.work_registry import WorkRegistry
from worker.model import TaskId, TaskProgress

log = logging.getLogger(__name__)

_CODE_TIMEOUT_S = 1.5
"""For the code of tasks."""
_TIMEOUT_S = 2.0
_COUNTS_TIMEOUT_S = 0.5


class PoolProgress:
    """Safe from any thread."""

    def __init__(self, registry: WorkRegistry) -> None:
        self._registry = registry

    def collect(self, tasks: Collection[TaskId]) -> dict[TaskId, TaskProgress]:
        """Asks all processes of these tasks at once. Those that do not answer in time are asked for what needs no plugin."""
        by_process: dict[ProcessHandle, list[TaskId]] = {}
        with self._registry.lock:
            for task in tasks:
                entry = self._registry.tasks.get(task)
                if entry is not None and entry.process is not None:
                    by_process.setdefault(entry.process, []).append(task)
        found, silent = _ask(by_process, "progress", _TIMEOUT_S, timeout_s=_CODE_TIMEOUT_S)
        counts, _ = _ask(silent, "counts", _COUNTS_TIMEOUT_S)
        return found | counts


def _ask(
    by_process: Mapping[ProcessHandle, list[TaskId]], method: str, limit_s: float, **arguments: float
) -> tuple[dict[TaskId, TaskProgress], dict[ProcessHandle, list[TaskId]]]:
    """Returns the answers, and the processes without one."""
    deadline = time.monotonic() + limit_s
    asked = [
        (handle, tasks, handle.call(method, tasks=[id_to_plain(task) for task in tasks], **arguments))
        for handle, tasks in by_process.items()
    ]
    found: dict[TaskId, TaskProgress] = {}
    silent: dict[ProcessHandle, list[TaskId]] = {}
    for handle, tasks, answer in asked:
        try:
            told = progresses_of_plain(answer.result(max(0.0, deadline - time.monotonic())))
        except (FutureTimeout, ConnectError, DataError) as e:
            log.debug("Executor %s does not report %s: %s", handle.key, method, str(e) or "no answer in time")
            silent[handle] = tasks
        else:
            # An executor is believed about the tasks it was asked for only.
            found |= {task: told[task] for task in tasks if task in told}
    return found, silent
