"""The job queue of the herder's thread, which owns all state of the herder.

Requests and events of the stores, the group, and the executor come from other threads and are queued as jobs. A job must not
block for long: work that waits for a connector or another worker is done elsewhere and comes back as a job.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from worker.executors.futures import pass_on
from worker.observability.herder_activity import HerderActivity

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(order=True, slots=True)
class _DueJob:
    due: float
    number: int
    run: Callable[[], None] = field(compare=False)
    refuse: Callable[[Exception], None] = field(compare=False)


class HerderLoop:
    """A queue of jobs in the order of their due times, and the one thread that runs them."""

    def __init__(self, interrupt: Callable[[], None] = lambda: None) -> None:
        """``interrupt`` is called, on any thread, when a job was queued: it ends a wait of the thread elsewhere."""
        self._interrupt = interrupt
        self._changed = threading.Condition()
        self._jobs: list[_DueJob] = []
        self._number = 0
        self._woken = False
        self._refusal: Exception | None = None
        self._thread: threading.Thread | None = None
        self._stepped_at: float | None = None
        self.activity = HerderActivity()

    def start(self, run: Callable[[], None]) -> None:
        """Starts the thread, which calls ``run`` and ends with it."""
        self._thread = threading.Thread(target=run, name="herder", daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        """Returns whether the thread has ended within the time."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._thread is None or not self._thread.is_alive()

    @property
    def has_ended(self) -> bool:
        """Whether the thread was started and is no longer there."""
        return self._thread is not None and not self._thread.is_alive()

    @property
    def silent_s(self) -> float:
        """How long the thread has not come back for jobs; 0 until it has for the first time. Any thread."""
        stepped_at = self._stepped_at
        return 0.0 if stepped_at is None else time.monotonic() - stepped_at

    @property
    def is_current_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def post(self, job: Callable[[], Any], delay_s: float = 0.0) -> None:
        """Queues a job without a result; its error is logged. Any thread."""

        def run() -> None:
            try:
                job()
            except Exception:
                log.exception("A job of the herder failed")

        self._add(run, lambda _: None, delay_s)

    def submit(self, job: Callable[[], Future[T]]) -> Future[T]:
        """Queues a job. The future gets the result of the future that the job returns."""
        done: Future[T] = Future()

        def run() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                answer = job()
            except BaseException as e:
                done.set_exception(e)
                return
            pass_on(answer, done, lambda result: result)

        self._add(run, done.set_exception, 0.0)
        return done

    def wake(self) -> None:
        """Makes :meth:`wait` return. Any thread."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def run_due(self) -> float | None:
        """Runs the jobs that are due. Returns the seconds until the next one, None without one."""
        while True:
            self._stepped_at = time.monotonic()
            with self._changed:
                if not self._jobs:
                    return None
                left_s = self._jobs[0].due - time.monotonic()
                if left_s > 0:
                    return left_s
                job = heapq.heappop(self._jobs)
            job.run()

    def wait(self, timeout_s: float) -> None:
        """Waits until a job is queued or :meth:`wake` is called, at most this long."""
        with self._changed:
            if not self._woken and not (self._jobs and self._jobs[0].due <= time.monotonic()):
                self._changed.wait(timeout_s)
            self._woken = False

    def refuse_all(self, error: Exception) -> None:
        """Fails all queued and future jobs with this error."""
        with self._changed:
            self._refusal = error
            jobs, self._jobs = self._jobs, []
        for job in jobs:
            job.refuse(error)

    def doing(self, description: str) -> AbstractContextManager[None]:
        """Notes what the thread is doing, such as ``joining the group``, for requests that time out."""
        return self.activity.doing(description)

    def _add(self, run: Callable[[], None], refuse: Callable[[Exception], None], delay_s: float) -> None:
        with self._changed:
            refusal = self._refusal
            if refusal is None:
                self._number += 1
                heapq.heappush(self._jobs, _DueJob(time.monotonic() + delay_s, self._number, run, refuse))
                self._changed.notify()
        if refusal is not None:
            refuse(refusal)
        elif not self.is_current_thread:
            self._interrupt()
