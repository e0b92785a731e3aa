"""One type for whatever a check finds, wherever it is shown: lint, validation, doctor, the UI."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class Severity(Enum):
    """How bad it is. An ERROR keeps a connector from working, a WARNING may be meant so, a NOTE only informs."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found in a configuration. The message names the key, the value (unless secret) and what was expected."""

    code: str
    """Stable, in kebab-case, for filters: ``unknown-key``, ``wrong-type``, ``missing-key``."""
    severity: Severity
    message: str
    path: str | None = None
    """The key it is about."""
    suggestion: str | None = None
    """What to write instead: a key, a value, or a sentence."""
    file: str | None = None
    line: int | None = None
    """Counted from 1."""

    def at(self, file: str | None, line: int | None) -> Finding:
        """The same finding with its location."""
        return replace(self, file=file, line=line)

    def as_json(self) -> dict[str, object]:
        """Its members as plain values, for ``-o json``."""
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
        """``file:line``, the file alone when it is about no line, empty without a file."""
        if self.file is None:
            return ""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        location = f"{self.location}: " if self.location else ""
        stop = "" if not self.suggestion or self.message.endswith((".", "?", ")")) else "."
        hint = f"{stop} {self.suggestion}" if self.suggestion else ""
        return f"{location}{self.severity.value}: {self.message}{hint} [{self.code}]"
