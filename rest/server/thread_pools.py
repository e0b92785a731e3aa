"""Thread pools for request handlers, one for each kind of request.

A handler may block until the request timeout. With a single pool, a few dozen connectors that hang during validation would take
every thread, and nobody could read a status or stop a connector.
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


class RequestKind(Enum):
    """Kinds of requests, each with its maximum number of threads."""

    WORKER = ("worker", 8)
    """Version and health of the worker, log levels."""
    PROBE = ("probe", 4)
    """Liveness and readiness: answered whatever else hangs."""
    METRICS = ("metrics", 4)
    READ = ("read", 32)
    """Reads from the herder's memory."""
    CHANGE = ("change", 32)
    """Pause, stop, restart, delete: needed most when something hangs. Also requests between workers."""
    CONFIGURE = ("configure", 32)
    """Runs connector code or queries Kafka: configurations, plugins, offsets."""
    FORWARD = ("forward", 32)
    """Waits for the worker that the request was forwarded to."""
    AUTHENTICATE = ("authenticate", 2)
    """Checks passwords and tokens. Few: a flood of wrong passwords must not take every core."""

    def __init__(self, label: str, threads: int) -> None:
        self.label = label
        self.threads = threads


def request_kind(method: str, path: str) -> RequestKind:
    """Returns the kind of a route's requests, by its path with placeholders."""
    if path.startswith("/health/"):
        return RequestKind.PROBE
    if path == "/metrics":
        return RequestKind.METRICS
    if path in ("/", "/health") or path.startswith("/admin"):
        return RequestKind.WORKER
    if path.endswith(("/offsets", "/diagnosis")) or "/dead-letters" in path or "/connector-plugins/" in path:
        return RequestKind.CONFIGURE
    if method == "GET":
        return RequestKind.READ
    return (
        RequestKind.CONFIGURE
        if path == "/connectors" or path.endswith(("/config", "/rollback", "/preview", "/connection-test", "/data-collections"))
        else RequestKind.CHANGE
    )


class ThreadPool:
    """Threads that start on demand. The server's connection limit bounds the queue."""

    def __init__(self, name: str, max_threads: int) -> None:
        self._name = name
        self._max_threads = max_threads
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._closed = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Runs the call on a thread of the pool. A call whose future is cancelled in the queue does not run."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                future.cancel()
                return future
            self._queue.put((future, call))
            if self._idle > 0:
                self._idle -= 1
            elif len(self._threads) < self._max_threads:
                # A daemon: a hanging handler must not keep the process alive.
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
            # Release the request before waiting for the next one.
            del work, future, call
            with self._lock:
                if self._queue.empty():
                    self._idle += 1

    def close(self, deadline: float) -> list[str]:
        """Stops the threads; returns the names of those still busy at the deadline (monotonic clock), which are abandoned."""
        with self._lock:
            self._closed = True
            for _ in self._threads:
                self._queue.put(None)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return [thread.name for thread in self._threads if thread.is_alive()]


class ThreadPools:
    """The thread pools of a server."""

    def __init__(self) -> None:
        self._pools = {kind: ThreadPool(kind.label, kind.threads) for kind in RequestKind}

    def submit(self, kind: RequestKind, call: Callable[[], T]) -> Future[T]:
        return self._pools[kind].submit(call)

    def close(self, deadline: float) -> list[str]:
        """Stops all threads; returns the names of the abandoned ones, see :meth:`ThreadPool.close`."""
        return [name for pool in self._pools.values() for name in pool.close(deadline)]
