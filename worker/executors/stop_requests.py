"""Stops connectors and tasks in their processes, and kills a process that does not answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from typing import Any

from worker.executors.connector_queues import ConnectorQueues, QueueKind
from worker.executors.deadlines import Deadlines
from worker.executors.messages import id_to_plain
from worker.executors.process_handle import ProcessHandle
from worker.executors.process_registry import ProcessRegistry
from worker.executors.work_registry import Entry, TaskEntry, WorkRegistry

ANSWER_MARGIN_S = 5.0
"""How much longer than ``task.shutdown.graceful.timeout.ms`` a process may take to confirm a stop. Inside the process, hanging
code is abandoned by then, so a process that does not answer hangs itself."""

_UNRESPONSIVE = "did not answer a stop request and was killed: code of a connector hangs"


class StopRequests:
    """Sends stop requests. Safe from any thread."""

    def __init__(
        self,
        registry: WorkRegistry,
        processes: ProcessRegistry,
        queues: ConnectorQueues,
        deadlines: Deadlines,
        graceful_timeout_s: float,
    ) -> None:
        self._registry = registry
        self._processes = processes
        self._queues = queues
        self._deadlines = deadlines
        self._graceful_timeout_s = graceful_timeout_s

    def queue_stop(self, kind: QueueKind, entries: Sequence[Entry]) -> Future[None]:
        """Stops entries of one connector that were taken out of the registry.

        The queue waits until they have ended: what starts next may run in another process, and must find the old one ended
        (promise 4).
        """

        def stop() -> None:
            try:
                requests = [(process, self._request_stop(process, entries)) for process in _processes_of(entries)]
                wait([future for _, future in requests], self._graceful_timeout_s + ANSWER_MARGIN_S)
                for process, future in requests:
                    if not future.done():
                        process.kill(_UNRESPONSIVE)
                        wait([future], ANSWER_MARGIN_S)
            finally:
                forget()

        def forget() -> None:
            with self._registry.lock:
                self._registry.stopping.difference_update(entries)
            for process in _processes_of(entries):
                self._processes.dismiss_if_empty(process)

        # Jobs before this one are bounded too, except for a class that hangs while it is imported.
        timeout_s = self._graceful_timeout_s + 3 * ANSWER_MARGIN_S
        return self._queues.submit_within(kind, entries[0].name, timeout_s, stop, forget)

    def require_answer(self, process: ProcessHandle, request: Future[Any]) -> None:
        """Kills the process when it does not answer in time."""
        deadline = time.monotonic() + self._graceful_timeout_s + ANSWER_MARGIN_S
        cancel = self._deadlines.call_at(deadline, lambda: process.kill(_UNRESPONSIVE))
        request.add_done_callback(lambda _: cancel())

    def _request_stop(self, process: ProcessHandle, entries: Sequence[Entry]) -> Future[Any]:
        present = [entry for entry in entries if entry.process is process]
        tasks = [id_to_plain(entry.spec.id) for entry in present if isinstance(entry, TaskEntry)]
        if tasks:
            return process.call("stop_tasks", tasks=tasks)
        return process.call("stop_connector", name=present[0].name)


def _processes_of(entries: Sequence[Entry]) -> list[ProcessHandle]:
    return list(dict.fromkeys(entry.process for entry in entries if entry.process is not None))
