"""Which connector or task a log line is about: Apache's ``connector.context``, as ``[name|task-0] ``."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_local = threading.local()


@contextmanager
def log_context(connector: str, task: int | None = None) -> Iterator[None]:
    """Log lines of this thread are about this connector (or task) inside the block."""
    before = current()
    _local.context = f"[{connector}|{'worker' if task is None else f'task-{task}'}] "
    try:
        yield
    finally:
        _local.context = before


def current() -> str:
    """The present thread's context, empty outside of connectors."""
    context: str = getattr(_local, "context", "")
    return context


class ContextFilter(logging.Filter):
    """Gives each log record the attribute ``connector_context``. Goes onto handlers."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.connector_context = current()
        return True
