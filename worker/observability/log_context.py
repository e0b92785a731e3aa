"""Adds the connector or task of a thread to its log lines: Apache's ``connector.context``, such as ``[name|task-0] ``."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_local = threading.local()

Instance = tuple[str, int | None]
"""A connector's name, and the number of a task or None for the connector itself."""


@contextmanager
def log_context(connector: str, task: int | None = None) -> Iterator[None]:
    """Sets the connector (or task) of this thread's log lines inside the block."""
    before = current_instance()
    _local.instance = (connector, task)
    try:
        yield
    finally:
        _local.instance = before


def current_instance() -> Instance | None:
    """Returns the current thread's connector or task, None outside of connectors."""
    instance: Instance | None = getattr(_local, "instance", None)
    return instance


def current() -> str:
    """Returns the current thread's context, empty outside of connectors."""
    if (instance := current_instance()) is None:
        return ""
    connector, task = instance
    return f"[{connector}|{'worker' if task is None else f'task-{task}'}] "


class ContextFilter(logging.Filter):
    """Adds the attributes ``connector_context`` and ``instance`` to log records. Attach it to handlers."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.instance = current_instance()
        record.connector_context = current()
        return True
