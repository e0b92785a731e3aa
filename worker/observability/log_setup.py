"""Sets up logging: one line per event on stderr, with its connector, and without secrets (promise 9)."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from types import TracebackType
from typing import Any, Final, TextIO

from worker.config.extension_keys import LOG_FORMAT
from worker.config.secrets import SecretMask
from worker.observability.log_context import ContextFilter

LOG_FORMAT_VARIABLE: Final = "SLUICE_LOG_FORMAT"
"""The environment variable that applies if the key is not set, and to lines before the worker's file is read."""

log = logging.getLogger(__name__)

_TEXT = "[%(asctime)s] %(levelname)s %(connector_context)s%(message)s (%(name)s)"


class LogFormat(Enum):
    """How a line looks."""

    TEXT = "text"
    """Apache's layout."""
    JSON = "json"


def find_log_format(props: Mapping[str, str]) -> LogFormat:
    """Returns the format of a worker's properties, else that of the environment. An invalid value counts as absent: the worker's
    ConfigDef reports it."""
    for value in (props.get(LOG_FORMAT), os.environ.get(LOG_FORMAT_VARIABLE)):
        if value and value.strip().lower() in (one.value for one in LogFormat):
            return LogFormat(value.strip().lower())
    return LogFormat.TEXT


class _MaskingFormatter(logging.Formatter):
    """Masks secrets in the formatted text, including arguments and tracebacks."""

    def __init__(self, mask: SecretMask) -> None:
        super().__init__(_TEXT)
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        return self._mask.mask(super().format(record))


class _JsonFormatter(logging.Formatter):
    """One JSON object per line. Members without a value are left out."""

    def __init__(self, mask: SecretMask) -> None:
        super().__init__()
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        connector, task = getattr(record, "instance", None) or (None, None)
        trace = self.formatException(record.exc_info) if record.exc_info and record.exc_info[0] is not None else None
        stack = self.formatStack(record.stack_info) if record.stack_info else None
        trace_id, span_id = _active_span_ids()
        members: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "connector": connector,
            "task": task,
            # Before JSON escapes characters of a secret, which would hide it from the mask.
            "message": self._mask.mask(record.getMessage()),
            "trace": None if trace is None else self._mask.mask(trace),
            "stack": None if stack is None else self._mask.mask(stack),
            "thread": record.threadName,
            "process": record.process,
            "trace_id": trace_id,
            "span_id": span_id,
        }
        return json.dumps({name: value for name, value in members.items() if value is not None}, ensure_ascii=False)


def _active_span_ids() -> tuple[str | None, str | None]:
    # Imported by processes that trace their tasks, and by no other.
    module = sys.modules.get("worker.observability.tracing.task_trace")
    found: tuple[str, str] | None = None if module is None else module.active_span_ids()
    return found or (None, None)


def _without_connection_attempts(record: logging.LogRecord) -> bool:
    # The Kafka client logs each connection attempt; worker.kafka.clients logs one summary.
    if not record.name.startswith("kafka."):
        return True
    text = record.getMessage()
    return not (text.startswith("FAIL") and ("Connect to" in text or "Disconnected" in text))


def set_up_logging(
    mask: SecretMask, level: int = logging.INFO, stream: TextIO | None = None, format: LogFormat | None = None
) -> None:
    """Sends all logs to ``stream`` (default: stderr) in this format (default: that of the environment)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    set_log_format(handler, mask, find_log_format({}) if format is None else format)
    handler.addFilter(ContextFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    handler.addFilter(_without_connection_attempts)
    logging.getLogger("kafka").setLevel(logging.ERROR)
    # The worker logs startup and shutdown itself.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.captureWarnings(True)


def log_uncaught_exceptions() -> None:
    """Logs exceptions that nobody handles, of threads that a plugin starts and of finalizers, through the mask (promise 9).

    Python prints them on stderr itself otherwise, with whatever secret is in their message. Called once, by processes that run
    plugins.
    """

    def of_process(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        log.critical("The process ends with an exception", exc_info=(kind, error, trace))

    def of_thread(found: threading.ExceptHookArgs) -> None:
        if found.exc_value is not None and not issubclass(found.exc_type, SystemExit):
            name = "" if found.thread is None else found.thread.name
            log.error("Thread %s ended with an exception", name, exc_info=(found.exc_type, found.exc_value, found.exc_traceback))

    def of_finalizer(found: Any) -> None:
        error = found.exc_value
        exc_info = None if error is None else (type(error), error, found.exc_traceback)
        log.warning("%s %r", found.err_msg or "Exception ignored in", found.object, exc_info=exc_info)

    sys.excepthook, threading.excepthook, sys.unraisablehook = of_process, of_thread, of_finalizer


def set_log_format(handler: logging.Handler, mask: SecretMask, format: LogFormat) -> None:
    """Changes the format of a handler."""
    handler.setFormatter(_JsonFormatter(mask) if format is LogFormat.JSON else _MaskingFormatter(mask))


def follow_log_format(mask: SecretMask, props: Mapping[str, str]) -> None:
    """Changes the format of all handlers to that of a worker's properties, as soon as they are known."""
    for handler in logging.getLogger().handlers:
        set_log_format(handler, mask, find_log_format(props))
