"""Ends a worker whose shutdown hangs.

Every wait during shutdown has a limit, so this is for unforeseen cases. The thread stacks show the cause, and a rolling restart
of workers does not get stuck.
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
"""Graceful timeout until the worker's settings are known."""
_EXTRA_S = 20.0
_LOCKED_S = 3.0


class ShutdownWatchdog:
    """Dumps all thread stacks to stderr and ends the process with exit code 4 when a shutdown takes too long. Thread-safe."""

    def __init__(self, extra_s: float = _EXTRA_S) -> None:
        """``extra_s`` is the time that a shutdown may take beyond the tasks' graceful timeout."""
        self._extra_s = extra_s
        self._graceful_s = _GRACEFUL_S
        self._started_at: float | None = None
        self._lock = threading.Lock()

    def set_graceful_timeout(self, graceful_s: float) -> None:
        """Sets the time that tasks have to stop."""
        with self._lock:
            self._graceful_s = graceful_s
            if self._started_at is not None:
                self._arm()

    def start(self) -> None:
        """Starts the countdown when shutdown starts; further calls have no effect."""
        with self._lock:
            if self._started_at is not None:
                return
            self._started_at = time.monotonic()
            self._arm()
        threading.Thread(target=self._watch, args=(self._started_at,), name="shutdown-watchdog", daemon=True).start()

    @property
    def _limit_s(self) -> float:
        return self._graceful_s + self._extra_s

    def _arm(self) -> None:
        # A C thread, in case native code holds the GIL and blocks the Python thread. Its exit code is 1.
        faulthandler.dump_traceback_later(self._limit_s + _LOCKED_S, exit=True)

    def _watch(self, started_at: float) -> None:
        while (left_s := started_at + self._limit_s - time.monotonic()) > 0:
            threading.Event().wait(left_s)
        # Not through logging: a hanging thread may hold its locks. Nonblocking: a full pipe must not keep the process alive.
        with contextlib.suppress(OSError):
            os.set_blocking(_STDERR, False)
            text = f"Shutdown did not finish within {self._limit_s:g} s. Exiting with code {EXIT_HANGING}. Thread stacks:\n"
            os.write(_STDERR, text.encode())
        faulthandler.dump_traceback(_STDERR, all_threads=True)
        with contextlib.suppress(OSError):
            os.set_blocking(_STDERR, True)  # a terminal is shared
        os._exit(EXIT_HANGING)
