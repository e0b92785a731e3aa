"""Jobs one after another, on a thread that is there only while there are jobs.

Each connector has lanes of its own: its calls never overlap, and one that hangs holds up nobody else. A job may be given a time:
when it is over, whatever hangs in the lane is left to itself and the lane goes on with what is behind it.
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
class _Job:
    run: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)


class Lane:
    """The jobs of one connector. Safe from any thread."""

    def __init__(self, name: str, connector: str, deadlines: Deadlines, on_idle: Callable[[], None] = lambda: None) -> None:
        """``on_idle`` is called, on the lane's thread, when there is nothing more to do."""
        self._name = name
        self._on_idle = on_idle
        self._connector = connector
        self._deadlines = deadlines
        self._lock = threading.Lock()
        self._jobs: deque[_Job] = deque()
        self._running: _Job | None = None
        self._thread: threading.Thread | None = None

    @property
    def idle(self) -> bool:
        with self._lock:
            return self._thread is None

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Queues a job; the future has its result."""
        made = _Job(job)
        self._put(made)
        return made.future

    def submit_within(self, timeout_s: float, job: Callable[[], T], give_up: Callable[[], T]) -> Future[T]:
        """Queues a job that must be done within a time from now. If it is not, what is in its way (itself, or a job before it)
        is abandoned, ``give_up`` is called on another thread, and what that returns is the result. It must not block."""
        made = _Job(job)
        cancel = self._deadlines.call_at(time.monotonic() + timeout_s, lambda: self._give_up(made, give_up))
        made.future.add_done_callback(lambda _: cancel())
        self._put(made)
        return made.future

    def _put(self, job: _Job) -> None:
        with self._lock:
            self._jobs.append(job)
            if self._thread is None:
                self._start_thread()

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        me = threading.current_thread()
        with log_context(self._connector):
            while True:
                with self._lock:
                    if self._thread is not me:
                        return  # abandoned: another thread has the lane
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

    def _give_up(self, job: _Job, give_up: Callable[[], T]) -> None:
        with self._lock:
            if job.future.done():
                return
            held = [] if self._running is None else [self._running]
            while self._jobs and job not in held:
                held.append(self._jobs.popleft())
            self._running = self._thread = None
            idle = not self._jobs
            if not idle:
                self._start_thread()
        for one in held:
            if one is not job:
                fail(one.future, ConnectError(f"Connector {self._connector} does not answer and was abandoned"))
        try:
            succeed(job.future, give_up())
        except Exception as e:
            fail(job.future, e)
        if idle:
            self._on_idle()
