"""The audit log: every change and every refused request, as one JSON object per line.

The logger is ``sluice.audit``. With ``rest.audit.log.file`` the entries are in that file instead of the worker's log.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler

from connect.errors import ConfigError
from worker.config.rest_security_config import AUDIT_FILE

log = logging.getLogger(__name__)

LOGGER = "sluice.audit"
_MAX_TEXT = 300


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One request."""

    request_id: str
    subject: str
    method_of_authentication: str
    client: str | None
    via: str | None
    """The worker that forwarded the request, or None."""
    method: str
    path: str
    connector: str | None
    status: int

    @property
    def result(self) -> str:
        if self.status in (401, 403):
            return "refused"
        return "done" if self.status < 400 else "failed"

    def as_json(self) -> str:
        return json.dumps(
            {
                "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "request_id": self.request_id,
                "subject": _short(self.subject),
                "authentication": self.method_of_authentication,
                "client": self.client,
                "via": self.via,
                "method": self.method,
                "path": _short(self.path),
                "connector": None if self.connector is None else _short(self.connector),
                "status": self.status,
                "result": self.result,
            }
        )


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


class _AuditFileHandler(WatchedFileHandler):
    """Appends to a file that only the worker's user may read; opens it again when it was renamed or deleted."""

    def _open(self) -> TextIOWrapper:
        def private(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        return open(self.baseFilename, "a", encoding="utf-8", opener=private)

    def handleError(self, record: logging.LogRecord) -> None:
        """Raises the error that is being handled: by default it would go to stderr, where nobody looks."""
        raise


class AuditLog:
    """Writes entries. Owns the file, which :meth:`close` closes."""

    def __init__(self, file: str | None, mask: Callable[[str], str]) -> None:
        """``mask`` hides secrets in a text. Raises ConfigError for a file that cannot be opened."""
        self._mask = mask
        self._logger = logging.getLogger(LOGGER)
        self._handler: _AuditFileHandler | None = None
        if file is not None:
            try:
                self._handler = _AuditFileHandler(file)
            except OSError as e:
                raise ConfigError.invalid(AUDIT_FILE, file, f"the file cannot be opened: {e.strerror}") from e
            self._handler.setFormatter(logging.Formatter("%(message)s"))

    def write(self, entry: AuditEntry) -> None:
        """Writes an entry, to the worker's log if the file cannot be written: the request has been carried out already."""
        text = self._mask(entry.as_json())
        if self._handler is None:
            self._logger.info("%s", text)
        else:
            record = self._logger.makeRecord(LOGGER, logging.INFO, __file__, 0, text, (), None)
            try:
                self._handler.handle(record)
            except OSError as e:
                log.error(
                    "Cannot write to the audit log %s: %s. The entry is %s", self._handler.baseFilename, e.strerror or e, text
                )

    def close(self) -> None:
        if self._handler is not None:
            # Closing writes once more what a full disk has refused; those entries are in the worker's log.
            with suppress(OSError):
                self._handler.close()
