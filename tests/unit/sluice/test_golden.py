"""Golden cases of the offline commands: a folder each, with ``command.txt``, its input files, and ``expected.txt``.

A new case needs no Python: make the folder, run with SLUICE_WRITE_GOLDEN=1, and read what was written.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run

FOLDER = Path(__file__).parent / "golden"
CASES = sorted(path for path in FOLDER.iterdir() if path.is_dir())


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_golden(case: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(case)
    code = run(build(COMMANDS), shlex.split((case / "command.txt").read_text("utf-8")))
    shown = capsys.readouterr()
    text = f"{shown.out}-- stderr\n{shown.err}-- exit {code}\n"
    expected = case / "expected.txt"
    if os.environ.get("SLUICE_WRITE_GOLDEN"):
        expected.write_text(text, "utf-8")
    assert text == expected.read_text("utf-8")
