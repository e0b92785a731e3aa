"""The serial queues of connectors: what is requested for one connector runs in that order, and connectors do not wait for each
other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from typing import TypeVar

from worker.executors.deadlines import Deadlines
from worker.executors.serial_queue import SerialQueue

T = TypeVar("T")


class QueueKind(Enum):
    """The two queues of a connector, which do not wait for each other. The value names the queue's thread."""

    CALLS = "connector"
    """Calls of the connector instance."""
    TASKS = "tasks"
    """Starts and stops of its tasks."""


class ConnectorQueues:
    """Queues by connector, created when they are needed and dropped when they are idle. Safe from any thread."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._lock = threading.Lock()
        self._queues: dict[tuple[QueueKind, str], SerialQueue] = {}

    def submit(self, kind: QueueKind, connector: str, job: Callable[[], T]) -> Future[T]:
        """Queues a job; the future has its result."""
        with self._lock:
            return self._queue(kind, connector).submit(job)

    def submit_within(
        self, kind: QueueKind, connector: str, timeout_s: float, job: Callable[[], T], give_up: Callable[[], T]
    ) -> Future[T]:
        """As :meth:`worker.executors.serial_queue.SerialQueue.submit_within`."""
        with self._lock:
            return self._queue(kind, connector).submit_within(timeout_s, job, give_up)

    def _queue(self, kind: QueueKind, connector: str) -> SerialQueue:
        key = kind, connector
        if key not in self._queues:
            name = f"{kind.value}-{connector}"
            self._queues[key] = SerialQueue(name, connector, self._deadlines, lambda: self._drop_if_idle(key))
        return self._queues[key]

    def _drop_if_idle(self, key: tuple[QueueKind, str]) -> None:
        with self._lock:
            queue = self._queues.get(key)
            if queue is not None and queue.is_idle:
                del self._queues[key]
