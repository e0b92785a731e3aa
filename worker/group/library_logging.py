"""Redirects the log of the client library: :mod:`worker.group.member` reports what matters, the rest is for debugging."""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)

# Only those of the group's library; confluent-kafka's producers, consumers, and admin clients log below "kafka" too.
_LIBRARY = ("kafka.coordinator", "kafka.net", "kafka.cluster", "kafka.protocol", "kafka.future")


class _AsDebug(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s: %s", record.name, record.getMessage(), exc_info=record.exc_info)


def redirect_library_logs() -> None:
    """Sends the library's messages to this module's logger, at DEBUG. May be called again.

    The library's own DEBUG messages stay off: they contain requests byte by byte, including credentials (promise 9).
    """
    for name in _LIBRARY:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, _AsDebug) for handler in logger.handlers):
            logger.addHandler(_AsDebug())
        logger.propagate = False
        logger.setLevel(logging.INFO)
