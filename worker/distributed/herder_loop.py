"""The herder's thread: it owns all state of the herder, and does one thing after another.

Requests, events of the stores, of the group and of what runs come from other threads and are queued as jobs. A job must not block
for long: what waits for a connector or another worker is done elsewhere and comes back as a job.
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
from worker.observability.herder_activity import CurrentStage

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(order=True, slots=True)
class _Job:
    due: float
    number: int
    run: Callable[[], None] = field(compare=False)
    refuse: Callable[[Exception], None] = field(compare=False)


class HerderLoop:
    """A queue of jobs in the order of their time, and the one thread that does them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: list[_Job] = []
        self._number = 0
        self._woken = False
        self._refusal: Exception | None = None
        self._thread: threading.Thread | None = None
        self.stages = CurrentStage()
        self.interrupt: Callable[[], None] = _nothing
        """Called when something is queued: ends what the thread may be waiting in elsewhere."""

    def start(self, run: Callable[[], None]) -> None:
        """Begins the thread, which calls ``run`` and ends with it."""
        self._thread = threading.Thread(target=run, name="herder", daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        """Whether the thread has ended within this time."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._thread is None or not self._thread.is_alive()

    @property
    def is_current_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def post(self, job: Callable[[], Any], delay_s: float = 0.0) -> None:
        """Queues a job that nobody waits for; an error of it is logged. From any thread."""

        def run() -> None:
            try:
                job()
            except Exception:
                log.exception("The herder could not do a job")

        self._add(run, lambda _: None, delay_s)

    def submit(self, job: Callable[[], Future[T]]) -> Future[T]:
        """Queues a job whose outcome is waited for: that of the future it answers with."""
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
        """Makes :meth:`wait` return. From any thread."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def run_due(self) -> float | None:
        """Does the jobs whose time has come. Returns the seconds until the next one, None when there is none."""
        while True:
            with self._changed:
                if not self._jobs:
                    return None
                left_s = self._jobs[0].due - time.monotonic()
                if left_s > 0:
                    return left_s
                job = heapq.heappop(self._jobs)
            job.run()

    def wait(self, timeout_s: float) -> None:
        """Until something was queued or :meth:`wake` was called, at most this long."""
        with self._changed:
            if not self._woken and not (self._jobs and self._jobs[0].due <= time.monotonic()):
                self._changed.wait(timeout_s)
            self._woken = False

    def refuse_all(self, error: Exception) -> None:
        """The end: whoever still waits for a job, or queues one later, hears this error."""
        with self._changed:
            self._refusal = error
            jobs, self._jobs = self._jobs, []
        for job in jobs:
            job.refuse(error)

    def doing(self, description: str) -> AbstractContextManager[None]:
        """Notes what the thread is doing, as ``joining the group``, for requests that wait in vain."""
        return self.stages.of(description)

    def _add(self, run: Callable[[], None], refuse: Callable[[Exception], None], delay_s: float) -> None:
        with self._changed:
            refusal = self._refusal
            if refusal is None:
                self._number += 1
                heapq.heappush(self._jobs, _Job(time.monotonic() + delay_s, self._number, run, refuse))
                self._changed.notify()
        if refusal is not None:
            refuse(refusal)
        elif not self.is_current_thread:
            self.interrupt()


def _nothing() -> None:
    pass
