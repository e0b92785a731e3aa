"""The finding: the common result type of all checks (lint, validation, doctor, UI)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class Severity(Enum):
    """The severity of a finding. An ERROR prevents a connector from working, a WARNING may be intended, a NOTE informs."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem in a configuration. The message names the key, the value (unless secret), and what was expected."""

    code: str
    """Stable, in kebab-case, for filters: ``unknown-key``, ``wrong-type``, ``missing-key``."""
    severity: Severity
    message: str
    path: str | None = None
    """The key in question."""
    suggestion: str | None = None
    """What to write instead: a key, a value, or a sentence."""
    file: str | None = None
    line: int | None = None
    """Counted from 1."""

    def at(self, file: str | None, line: int | None) -> Finding:
        """Returns a copy with this location."""
        return replace(self, file=file, line=line)

    def as_json(self) -> dict[str, object]:
        """Returns the members as plain values, for ``-o json``."""
        return {
            "code": self.code,
            "severity": self.severity.value,
            "message": self.message,
            "path": self.path,
            "suggestion": self.suggestion,
            "file": self.file,
            "line": self.line,
        }

    @property
    def location(self) -> str:
        """``file:line``, the file alone without a line, or an empty text without a file."""
        if self.file is None:
            return ""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def text(self) -> str:
        """The message, and the suggestion if there is one."""
        if not self.suggestion:
            return self.message
        stop = "" if self.message.endswith((".", "?", ")")) else "."
        return f"{self.message}{stop} {self.suggestion}"

    def __str__(self) -> str:
        location = f"{self.location}: " if self.location else ""
        return f"{location}{self.severity.value}: {self.text} [{self.code}]"
