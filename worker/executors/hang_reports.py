"""Reports what runs in an executor process that does not respond as stalled, before the process is killed for it."""

from __future__ import annotations

import time

from worker.executor import ExecutorListener
from worker.executors.process_handle import ProcessHandle
from worker.executors.work_registry import Entry, TaskEntry, WorkRegistry
from worker.model import TaskId
from worker.observability.stalls import executor_stall


class HangReports:
    """:meth:`check` is called on the supervisor's thread, for each process that runs."""

    def __init__(self, registry: WorkRegistry, listener: ExecutorListener, after_s: float) -> None:
        self._registry = registry
        self._listener = listener
        self._after_s = after_s
        self._reported: dict[ProcessHandle, list[Entry]] = {}

    def check(self, process: ProcessHandle, now: float) -> None:
        """Reports a process that has not answered for too long, and later that it answers again."""
        unanswered_s = process.unanswered_s(now)
        if unanswered_s <= self._after_s:
            for entry in self._reported.pop(process, ()):
                self._listener.on_stall(entry.start_id, _instance(entry), None)
            return
        if process in self._reported:
            return
        with self._registry.lock:
            entries = [one for one in self._registry.in_process(process) if self._registry.is_current(one) and not one.failed]
        # One that ended is not checked again.
        self._reported = {one: found for one, found in self._reported.items() if not one.ended.is_set()} | {process: entries}
        stall = executor_stall(time.time_ns() // 1_000_000 - round(unanswered_s * 1000))
        for entry in entries:
            self._listener.on_stall(entry.start_id, _instance(entry), stall)


def _instance(entry: Entry) -> str | TaskId:
    return entry.spec.id if isinstance(entry, TaskEntry) else entry.name
