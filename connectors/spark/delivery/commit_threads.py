"""The threads that commit tables."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)


class CommitThreads(Generic[T]):
    """Runs jobs, at most ``limit`` at once, and collects their results. Used on the task's thread, which owns the threads.

    A thread starts when there is a job for it, and stays: Spark keeps a connection and a thread of its JVM for each.
    """

    def __init__(self, name: str, limit: int) -> None:
        self.limit = limit
        self._name = name
        self._jobs: queue.SimpleQueue[Callable[[], T] | None] = queue.SimpleQueue()  # bounded by the limit
        self._results: queue.SimpleQueue[T] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self.running = 0
        """Number of jobs whose results were not taken yet."""

    @property
    def is_free(self) -> bool:
        """Whether another job may be submitted."""
        return self.running < self.limit

    def submit(self, job: Callable[[], T]) -> None:
        """Runs a job, which must not raise."""
        assert self.is_free
        self.running += 1
        if len(self._threads) < self.running:
            name = f"{self._name}-{len(self._threads)}"
            self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
            self._threads[-1].start()
        self._jobs.put(job)

    def take(self, timeout_s: float = 0.0) -> list[T]:
        """Returns the results since the last call. Waits for the first one if there is none."""
        found: list[T] = []
        with contextlib.suppress(queue.Empty):
            if timeout_s > 0 and self.running:
                found.append(self._results.get(timeout=timeout_s))
            while True:
                found.append(self._results.get_nowait())
        self.running -= len(found)
        return found

    def close(self, timeout_s: float) -> None:
        """Waits for running jobs and ends the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(timeout_s)
            if thread.is_alive():
                log.warning("%s still commits a table; its outcome is read from the table at the next start", thread.name)
        self._threads = []

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._results.put(job())
