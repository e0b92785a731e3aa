"""The end of a process whose stop does not come to one.

Every wait of a worker's stop has a limit, so this is for what nobody thought of: the stacks say what it was. Whoever restarts
workers one after the other need not find out by hand that one hangs.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import threading
import time

EXIT_HANGING = 4
_STDERR = 2
_GRACEFUL_S = 5.0
"""As long as the worker's settings are not known."""
_MORE_S = 20.0
_LOCKED_S = 3.0


class LastResort:
    """Prints the stacks of all threads and ends the process with exit code 4 when a stop that has begun takes too long. Safe
    from any thread."""

    def __init__(self, more_s: float = _MORE_S) -> None:
        """``more_s`` is what a stop may take beyond what tasks are given to end."""
        self._more_s = more_s
        self._graceful_s = _GRACEFUL_S
        self._began: float | None = None
        self._lock = threading.Lock()

    def allow(self, graceful_s: float) -> None:
        """How long tasks are given to end."""
        with self._lock:
            self._graceful_s = graceful_s
            if self._began is not None:
                self._arm()

    def begin(self) -> None:
        """The stop begins now, unless it has begun already."""
        with self._lock:
            if self._began is not None:
                return
            self._began = time.monotonic()
            self._arm()
        threading.Thread(target=self._watch, args=(self._began,), name="last-resort", daemon=True).start()

    @property
    def _limit_s(self) -> float:
        return self._graceful_s + self._more_s

    def _arm(self) -> None:
        # A thread of C's, for native code that keeps Python's lock keeps the other one from running. Its exit code is 1.
        faulthandler.dump_traceback_later(self._limit_s + _LOCKED_S, exit=True)

    def _watch(self, began: float) -> None:
        while (left_s := began + self._limit_s - time.monotonic()) > 0:
            time.sleep(left_s)
        # Not through logging: what hangs may have its locks. And a full pipe that nobody reads must not keep the process.
        with contextlib.suppress(OSError):
            os.set_blocking(_STDERR, False)
            text = f"The worker was asked to end and has not ended after {self._limit_s:g} s. It is ended now; its threads:\n"
            os.write(_STDERR, text.encode())
        faulthandler.dump_traceback(_STDERR, all_threads=True)
        with contextlib.suppress(OSError):
            os.set_blocking(_STDERR, True)  # a terminal is not the worker's own
        os._exit(EXIT_HANGING)
