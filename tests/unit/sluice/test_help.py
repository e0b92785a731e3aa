"""The help of each command is that of its golden file. After a change, run with SLUICE_WRITE_GOLDEN=1 and read the difference."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run

FOLDER = Path(__file__).parent / "golden_help"


def command_lines() -> Iterator[tuple[str, ...]]:
    """Yields the words of each command and subcommand."""
    yield ()
    for name, command in COMMANDS.items():
        yield (name,)
        found = command.load()
        if isinstance(found, click.Group):
            yield from ((name, subcommand) for subcommand in found.commands)


def help_of(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> str:
    assert run(build(COMMANDS), [*words, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", list(command_lines()), ids=lambda words: "-".join(words) or "sluice")
def test_help(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = help_of(words, capsys)
    golden = FOLDER / f"{'-'.join(words) or 'sluice'}.txt"
    if os.environ.get("SLUICE_WRITE_GOLDEN"):
        golden.write_text(shown, encoding="utf-8")
    assert golden.exists(), f"{golden} is missing: run this test with SLUICE_WRITE_GOLDEN=1"
    assert shown == golden.read_text(encoding="utf-8")


def test_each_golden_file_belongs_to_a_command() -> None:
    names = {"-".join(words) or "sluice" for words in command_lines()}
    assert {path.stem for path in FOLDER.glob("*.txt")} <= names


def test_every_command_with_data_has_machine_readable_forms(capsys: pytest.CaptureFixture[str]) -> None:
    # completion prints a script, and mcp serves an assistant on stdin and stdout.
    without = {"completion", "mcp"}
    for words in command_lines():
        shown = help_of(words, capsys)
        if " ".join(words) not in without and "COMMAND [ARGS]" not in shown:
            assert "--output" in shown, words
