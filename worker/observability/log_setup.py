"""Sets up logging: one line per event on stderr, with its connector, and without secrets (promise 9)."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from worker.config.secrets import SecretMask
from worker.observability.log_context import ContextFilter

_FORMAT = "[%(asctime)s] %(levelname)s %(connector_context)s%(message)s (%(name)s)"


class _MaskingFormatter(logging.Formatter):
    """Masks secrets in the formatted text, including arguments and tracebacks."""

    def __init__(self, mask: SecretMask) -> None:
        super().__init__(_FORMAT)
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        return self._mask.mask(super().format(record))


def _without_connection_attempts(record: logging.LogRecord) -> bool:
    # The Kafka client logs each connection attempt; worker.kafka.clients logs one summary.
    if not record.name.startswith("kafka."):
        return True
    text = record.getMessage()
    return not (text.startswith("FAIL") and ("Connect to" in text or "Disconnected" in text))


def set_up_logging(mask: SecretMask, level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Sends all logs to ``stream`` (default: stderr) in Apache's layout."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_MaskingFormatter(mask))
    handler.addFilter(ContextFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    handler.addFilter(_without_connection_attempts)
    logging.getLogger("kafka").setLevel(logging.ERROR)
    # The worker logs startup and shutdown itself.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.captureWarnings(True)
