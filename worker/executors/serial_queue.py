"""Runs jobs one after another, on a thread that exists only while there are jobs.

Each connector has queues of its own: its calls never overlap, and one that hangs delays no other connector. A job may have a
timeout: when it expires, whatever hangs in the queue is abandoned and the queue continues with the next job.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connect.errors import ConnectError
from worker.executors.deadlines import Deadlines
from worker.executors.futures import fail, succeed
from worker.observability.log_context import log_context

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _QueuedJob:
    run: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)


class SerialQueue:
    """The jobs of one connector. Safe from any thread."""

    def __init__(self, name: str, connector: str, deadlines: Deadlines, on_idle: Callable[[], None] = lambda: None) -> None:
        """``name`` is the thread's. ``on_idle`` is called on the queue's thread when the last job is done."""
        self._name = name
        self._on_idle = on_idle
        self._connector = connector
        self._deadlines = deadlines
        self._lock = threading.Lock()
        self._jobs: deque[_QueuedJob] = deque()
        self._running: _QueuedJob | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no job is queued or running."""
        with self._lock:
            return self._thread is None

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Queues a job; the future has its result."""
        queued = _QueuedJob(job)
        self._put(queued)
        return queued.future

    def submit_within(self, timeout_s: float, job: Callable[[], T], give_up: Callable[[], T]) -> Future[T]:
        """Queues a job that must be done within a timeout that starts now.

        When the timeout expires, the job and those before it are abandoned; ``give_up``, which must not block, is called on
        another thread, and the future has its result.
        """
        queued = _QueuedJob(job)
        cancel = self._deadlines.call_at(time.monotonic() + timeout_s, lambda: self._give_up(queued, give_up))
        queued.future.add_done_callback(lambda _: cancel())
        self._put(queued)
        return queued.future

    def _put(self, job: _QueuedJob) -> None:
        with self._lock:
            self._jobs.append(job)
            if self._thread is None:
                self._start_thread()

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        this_thread = threading.current_thread()
        with log_context(self._connector):
            while True:
                with self._lock:
                    if self._thread is not this_thread:
                        return  # abandoned: another thread has taken over the queue
                    self._running = job = self._jobs.popleft() if self._jobs else None
                    if job is None:
                        self._thread = None
                if job is None:
                    self._on_idle()
                    return
                try:
                    result = job.run()
                except BaseException as e:
                    fail(job.future, e)
                else:
                    succeed(job.future, result)

    def _give_up(self, job: _QueuedJob, give_up: Callable[[], T]) -> None:
        with self._lock:
            if job.future.done():
                return
            abandoned = [] if self._running is None else [self._running]
            while self._jobs and job not in abandoned:
                abandoned.append(self._jobs.popleft())
            self._running = self._thread = None
            is_idle = not self._jobs
            if not is_idle:
                self._start_thread()
        for one in abandoned:
            if one is not job:
                fail(one.future, ConnectError(f"Connector {self._connector} does not respond and was abandoned"))
        try:
            succeed(job.future, give_up())
        except Exception as e:
            fail(job.future, e)
        if is_idle:
            self._on_idle()
