"""The end of a worker's parts: none of them keeps the worker from ending, whatever it does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import wait

from connect.errors import ConnectError
from worker.executors.futures import in_thread

log = logging.getLogger(__name__)


def close_all(parts: Mapping[str, Callable[[], object]], timeout_s: float) -> list[str]:
    """Closes parts, given by what they are called in the log, side by side. Returns when all are closed, at the latest after the
    time: with the names of those that are not, which are left to themselves. What fails is logged; nothing is raised."""
    closing = {name: in_thread(f"close {name}", close) for name, close in parts.items()}
    wait(closing.values(), timeout_s)
    hanging = []
    for name, closed in closing.items():
        if not closed.done():
            hanging.append(name)
            log.error("The worker ends without %s, which is not closed after %g s", name, timeout_s)
        elif isinstance(error := closed.exception(), ConnectError):
            log.warning("%s", error.message)
        elif error is not None:
            log.error("Closing %s failed", name, exc_info=error)
    return hanging
