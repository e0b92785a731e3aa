"""Bounded shutdown: no component can keep the worker from ending."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import wait

from connect.errors import ConnectError
from worker.executors.futures import in_thread

log = logging.getLogger(__name__)


def close_all(components: Mapping[str, Callable[[], object]], timeout_s: float) -> list[str]:
    """Closes components, given by their names in the log, in parallel. Returns the names of those that did not close within the
    time, which are abandoned. Errors are logged; nothing is raised."""
    closing = {name: in_thread(f"close {name}", close) for name, close in components.items()}
    wait(closing.values(), timeout_s)
    hanging = []
    for name, closed in closing.items():
        if not closed.done():
            hanging.append(name)
            log.error("The worker shuts down without closing %s, which did not close within %g s", name, timeout_s)
        elif isinstance(error := closed.exception(), ConnectError):
            log.warning("%s", error.message)
        elif error is not None:
            log.error("Closing %s failed", name, exc_info=error)
    return hanging
