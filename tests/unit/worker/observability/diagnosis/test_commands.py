"""Each command that a diagnosis names exists, with its options, and each of its codes is documented."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from sluice.cli import COMMANDS
from sluice.cli.app import build
from worker.observability.diagnosis import rules
from worker.observability.diagnosis.error_causes import CAUSES

_TEXT = Path(rules.__file__).read_text(encoding="utf-8")
_IN_RULES = re.findall(r'f?"(sluice [^"]+)"', _TEXT)
_IN_CALLS = re.findall(r'(?:_problem\(\s*\w+,|make\()\s*"([a-z-]+)"', _TEXT)
_CODES = {one.code for one in CAUSES} | set(_IN_CALLS)
_COMMANDS = sorted({one.command for one in CAUSES} | set(_IN_RULES))


@pytest.mark.parametrize("command", _COMMANDS)
def test_command_parses(command: str) -> None:
    words = shlex.split(re.sub(r"\{\{?[^}]*\}\}?", "7", command))[1:]
    found: click.Command = build(COMMANDS)
    context = click.Context(found, **found.context_settings)
    while isinstance(found, click.Group) and words:
        sub = found.get_command(context, words.pop(0))
        assert sub is not None, command
        found = sub
    found.make_context(found.name, list(words), parent=context, resilient_parsing=False)


def test_every_code_is_documented() -> None:
    page = (Path(__file__).parents[5] / "docs" / "diagnosis.md").read_text(encoding="utf-8")
    assert len(_CODES) > 50
    assert [code for code in sorted(_CODES) if f"`{code}`" not in page] == []
