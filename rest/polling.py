"""Waits for conditions that cannot notify: the one place that polls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], timeout_s: float, interval_s: float = 0.05) -> bool:
    """Polls ``condition`` until it is true. Returns False after ``timeout_s``; checks at least once."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not condition():
        if time.monotonic() >= deadline:
            return False
        pause.wait(interval_s)
    return True
