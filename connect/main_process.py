"""The start and the end of a program: a process that runs until a signal asks it to stop."""

from __future__ import annotations

import gc
import logging
import os
import queue
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

log = logging.getLogger(__name__)


def exit_with(run: Callable[[], int], failure_code: int) -> NoReturn:
    """Ends the process with the exit code that ``run`` returns, or with ``failure_code`` after an unexpected error, which is
    logged. Immediately, so that abandoned threads cannot keep it alive."""
    try:
        code = run()
    except BaseException:
        log.exception("Stopping due to error")
        code = failure_code
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class StopSignals:
    """SIGTERM and SIGINT ask the main thread, which creates this and waits, to stop."""

    def __init__(self) -> None:
        # A handler may interrupt any code of the main thread, so it must not take a lock that this may hold, as that of an event.
        self._received: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._is_asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda received, _: self._received.put(received))

    def wait(self, timeout_s: float) -> bool:
        """Waits for a signal. Returns whether there was one, now or earlier."""
        if not self._is_asked:
            try:
                self._received.get(timeout=timeout_s)
                self._is_asked = True
            except queue.Empty:
                pass
        return self._is_asked


def tune_gc() -> None:
    """Raises the garbage collector's thresholds: millions of records, rarely in cycles, would trigger it all the time."""
    gc.set_threshold(50_000, 20, 100)


def freeze_gc() -> None:
    """Excludes the objects that exist after startup from garbage collection."""
    gc.freeze()
