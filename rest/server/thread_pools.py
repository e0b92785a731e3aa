"""The threads that handlers run on, in lanes, so that calls that hang do not keep quick ones waiting.

A handler may block until the request timeout. With one pool for all, a few dozen connectors that hang in their validation would
take every thread, and nobody could see a status or stop a connector any more. So each kind of call has threads of its own.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from typing import Any, TypeVar

T = TypeVar("T")

_Work = tuple["Future[Any]", Callable[[], Any]]


class Kind(Enum):
    """Kinds of calls, each with the number of its threads."""

    WORKER = ("worker", 8)
    """Who answers here and whether it is well; levels of loggers."""
    READ = ("read", 32)
    """What the herder knows."""
    CHANGE = ("change", 32)
    """Pause, stop, restart, delete: what an operator does when something hangs. And what workers ask of each other."""
    CONFIGURE = ("configure", 32)
    """Runs a connector's own code, or asks Kafka: configurations, plugins, offsets."""
    FORWARD = ("forward", 32)
    """Waits for another worker of the cluster, which the request was passed on to."""

    def __init__(self, label: str, threads: int) -> None:
        self.label = label
        self.threads = threads


def kind_of(method: str, path: str) -> Kind:
    """The lane of a route, by its path with placeholders."""
    if path in ("/", "/health") or path.startswith("/admin"):
        return Kind.WORKER
    if path.endswith("/offsets") or path.startswith("/connector-plugins/"):
        return Kind.CONFIGURE
    if method == "GET":
        return Kind.READ
    return Kind.CONFIGURE if path == "/connectors" or path.endswith(("/config", "/rollback")) else Kind.CHANGE


class Lane:
    """Threads that start when they are needed. The queue is bounded by the server's limit of connections."""

    def __init__(self, name: str, max_threads: int) -> None:
        self._name = name
        self._max_threads = max_threads
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Runs the call on a thread of the lane. A future that is cancelled before its turn is not run."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                future.cancel()
                return future
            self._queue.put((future, call))
            if self._idle > 0:
                self._idle -= 1
            elif len(self._threads) < self._max_threads:
                # A daemon: a handler that hangs must not keep the process.
                thread = threading.Thread(target=self._run, name=f"rest-{self._name}-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def _run(self) -> None:
        while True:
            work = self._queue.get()
            if work is None:
                return
            future, call = work
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as e:
                    future.set_exception(e)
            # Nothing of a request is kept until the next one comes.
            del work, future, call
            with self._lock:
                if self._queue.empty():
                    self._idle += 1

    def close(self, deadline: float) -> list[str]:
        """Ends the threads that are idle; those that still work by the deadline (on the monotonic clock) are abandoned. Their
        names are returned."""
        with self._lock:
            self._closed = True
            for _ in self._threads:
                self._queue.put(None)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return [thread.name for thread in self._threads if thread.is_alive()]


class Lanes:
    """All lanes of a server."""

    def __init__(self) -> None:
        self._lanes = {kind: Lane(kind.label, kind.threads) for kind in Kind}

    def submit(self, kind: Kind, call: Callable[[], T]) -> Future[T]:
        return self._lanes[kind].submit(call)

    def close(self, deadline: float) -> list[str]:
        """Ends all threads; the names of those that hang and are abandoned, see :meth:`Lane.close`."""
        return [name for lane in self._lanes.values() for name in lane.close(deadline)]
