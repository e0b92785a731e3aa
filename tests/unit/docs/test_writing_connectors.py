"""Every Python block of docs/writing-connectors.md runs, in order."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from connect.plugins import Kind, Plugins

PAGE = Path(__file__).parents[3] / "docs" / "writing-connectors.md"
BLOCK = re.compile(r"^```python(?: file=(\S+))?\n(.*?)^```$", re.M | re.S)


@pytest.fixture
def blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The blocks that are no files; those that are lie on the path, and the present folder is empty."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    plain = []
    for name, code in BLOCK.findall(PAGE.read_text("utf-8")):
        if name:
            (tmp_path / name).write_text(code)
            monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
        else:
            plain.append(code)
    return plain


def test_the_blocks_run(blocks: list[str]) -> None:
    assert blocks
    for code in blocks:
        exec(compile(code, str(PAGE), "exec"), {"__name__": "docs"})


def test_the_worker_finds_the_connectors_by_their_path(blocks: list[str]) -> None:
    plugins = Plugins.discover()
    assert plugins.resolve(Kind.CONNECTOR, "countdown:Countdown").type == "source"
    assert plugins.resolve(Kind.CONNECTOR, "totals:Totals").type == "sink"


def test_the_readme_connector_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (PAGE.parents[1] / "README.md").read_text("utf-8")
    for name, code in BLOCK.findall(readme):
        assert not name
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
