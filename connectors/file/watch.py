"""One thread that looks at many files, so that a hundred tasks whose files nobody writes to need not wake up for it.

What costs is not the look, some microseconds, but to wake a thread for it: ten times as much. So a task looks by itself only once
a poll, and sleeps in between until something changes. Nothing depends on being woken but how soon lines are seen: where a look
hangs, on a network file system that is away, the other tasks get slower, and no more than that.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

LOOK_EVERY_S = 0.2

FileState = tuple[int, int, int] | None
"""Device, inode and size of what is under a name; None: nothing, or it cannot be told."""


def file_state(path: str) -> FileState:
    """What is under the name now."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size


class FileWatch:
    """Wakes those who wait for a file to change. Safe from any thread; whoever makes it closes it."""

    def __init__(self, every_s: float = LOOK_EVERY_S) -> None:
        self._every_s = every_s
        self._lock = threading.Lock()
        self._waiting: dict[threading.Event, tuple[str, FileState]] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._look, name="file-watch", daemon=True)
        self._thread.start()

    def wait(self, path: str, seen: FileState, wake: threading.Event, timeout_s: float) -> None:
        """Waits until the file is no more as it was seen, ``wake`` is set for another reason, or the time is over. One wait at a
        time for one ``wake``, which may be left set."""
        with self._lock:
            self._waiting[wake] = path, seen
        try:
            wake.wait(timeout_s)
        finally:
            with self._lock:
                del self._waiting[wake]

    def close(self) -> None:
        """Ends the thread. Waits for it no longer than a look may take where file systems answer."""
        self._closing.set()
        self._thread.join(1.0)

    def _look(self) -> None:
        while not self._closing.wait(self._every_s):
            with self._lock:
                waiting = list(self._waiting.items())
            for wake, (path, seen) in waiting:
                if file_state(path) != seen:
                    wake.set()


class SharedWatch:
    """A FileWatch for as long as somebody uses it: the first user has it made, the last has it closed."""

    def __init__(self, make: Callable[[], FileWatch] = FileWatch) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._watch: FileWatch | None = None
        self._users = 0

    def take(self) -> FileWatch:
        """The watch; every call wants its :meth:`give_back`."""
        with self._lock:
            self._watch = self._watch or self._make()
            self._users += 1
            return self._watch

    def give_back(self) -> None:
        """Says that one user needs it no more."""
        with self._lock:
            self._users -= 1
            watch = self._watch
            if self._users or watch is None:
                return
            self._watch = None
        watch.close()


SHARED_WATCH = SharedWatch()
"""Of all file sources in this process."""
