"""Watches many files on one thread, so that tasks of quiet files need not wake up.

Checking a file takes microseconds; waking a thread costs ten times as much. So a task reads its file only once per poll, and
sleeps until it changes. Only latency depends on the watch: if a check hangs on an unavailable network file system, other tasks
become slower, but nothing else happens.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

WATCH_INTERVAL_S = 0.2

FileState = tuple[int, int, int] | None
"""Device, inode, and size of a file; None if it does not exist or is not accessible."""


def read_file_state(path: str) -> FileState:
    """Reads the state of a file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size


class FileWatch:
    """Wakes threads that wait for a file to change. Thread-safe; its creator must close it."""

    def __init__(self, interval_s: float = WATCH_INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._waiting: dict[threading.Event, tuple[str, FileState]] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._check_files, name="file-watch", daemon=True)
        self._thread.start()

    def wait(self, path: str, seen: FileState, wake: threading.Event, timeout_s: float) -> None:
        """Waits until the file's state differs from ``seen``, ``wake`` is set, or the timeout. Only one wait at a time per
        ``wake``, which may remain set."""
        with self._lock:
            self._waiting[wake] = path, seen
        try:
            wake.wait(timeout_s)
        finally:
            with self._lock:
                del self._waiting[wake]

    def close(self) -> None:
        """Ends the thread; waits for it at most a second."""
        self._closing.set()
        self._thread.join(1.0)

    def _check_files(self) -> None:
        while not self._closing.wait(self._interval_s):
            with self._lock:
                waiting = list(self._waiting.items())
            for wake, (path, seen) in waiting:
                if read_file_state(path) != seen:
                    wake.set()


class SharedFileWatch:
    """A FileWatch shared by reference counting: created for the first user, closed after the last."""

    def __init__(self, make: Callable[[], FileWatch] = FileWatch) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._watch: FileWatch | None = None
        self._users = 0

    def acquire(self) -> FileWatch:
        """Returns the watch; every call needs a :meth:`release`."""
        with self._lock:
            self._watch = self._watch or self._make()
            self._users += 1
            return self._watch

    def release(self) -> None:
        """Releases the watch for one user."""
        with self._lock:
            self._users -= 1
            watch = self._watch
            if self._users or watch is None:
                return
            self._watch = None
        watch.close()


SHARED_WATCH = SharedFileWatch()
"""The watch of all file sources in this process."""
