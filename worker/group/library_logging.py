"""The log of the client library: in our words where it matters (:mod:`worker.group.member`), and the rest for debugging."""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)

# Those of the group's library alone; the producers, consumers and admin clients of the other one log below "kafka" too.
_LIBRARY = ("kafka.coordinator", "kafka.net", "kafka.cluster", "kafka.protocol", "kafka.future")


class _AsDebug(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s: %s", record.name, record.getMessage(), exc_info=record.exc_info)


def quieten() -> None:
    """Everything the library says goes to this module's logger, at DEBUG. May be called again.

    What it says at DEBUG itself is never built: there it quotes requests byte by byte, those of a login too (promise 9).
    """
    for name in _LIBRARY:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, _AsDebug) for handler in logger.handlers):
            logger.addHandler(_AsDebug())
        logger.propagate = False
        logger.setLevel(logging.INFO)
