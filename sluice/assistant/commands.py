"""Runs commands of ``sluice`` for tools, each in a process of its own: its output is data, and it cannot harm the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect.errors import ConnectError

_PROGRAM = "from sluice.cli import main; main()"
_MAX_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command has printed: JSON if it is JSON, else text."""

    exit_code: int
    output: Any
    notices: str

    def as_json(self) -> dict[str, Any]:
        return {"exit_code": self.exit_code, "output": self.output, "notices": self.notices}


@dataclass(frozen=True, slots=True)
class CommandRunner:
    """Runs commands. ``environment`` names the worker; it is added to that of this process."""

    environment: Mapping[str, str]
    timeout_s: float = 120.0

    def run(self, *words: str, stdin: str | None = None, timeout_s: float | None = None) -> CommandResult:
        """Runs a command and waits for its end. Raises ConnectError if it takes longer than ``timeout_s``, by default the
        runner's."""
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        try:
            done = subprocess.run(
                [sys.executable, "-c", _PROGRAM, *words],
                input=stdin or "",
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=limit_s,
                env={**os.environ, **self.environment, "NO_COLOR": "1"},
                check=False,
            )
        except subprocess.TimeoutExpired as e:
            raise ConnectError(f"sluice {words[0]} did not end within {limit_s:g} s") from e
        return CommandResult(done.returncode, _parsed(done.stdout), _shortened(done.stderr.strip()))

    def json(self, words: Sequence[str], stdin: str | None = None, timeout_s: float | None = None) -> dict[str, Any]:
        """Runs a command with ``-o json``, before ``--``, which ends its options."""
        at = words.index("--") if "--" in words else len(words)
        return self.run(*words[:at], "-o", "json", *words[at:], stdin=stdin, timeout_s=timeout_s).as_json()


def _parsed(text: str) -> Any:
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        found = [json.loads(line) for line in lines]
    except ValueError:
        return _shortened(text)
    return found[0] if len(found) == 1 else found


def _shortened(text: str) -> str:
    omitted = len(text) - _MAX_CHARACTERS
    return text if omitted <= 0 else f"{text[:_MAX_CHARACTERS]}\n... {omitted} characters are omitted"
