"""Adds the connector or task of a thread to its log lines: Apache's ``connector.context``, such as ``[name|task-0] ``."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_local = threading.local()


@contextmanager
def log_context(connector: str, task: int | None = None) -> Iterator[None]:
    """Sets the connector (or task) of this thread's log lines inside the block."""
    before = current()
    _local.context = f"[{connector}|{'worker' if task is None else f'task-{task}'}] "
    try:
        yield
    finally:
        _local.context = before


def current() -> str:
    """Returns the current thread's context, empty outside of connectors."""
    context: str = getattr(_local, "context", "")
    return context


class ContextFilter(logging.Filter):
    """Adds the attribute ``connector_context`` to log records. Attach it to handlers."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.connector_context = current()
        return True
