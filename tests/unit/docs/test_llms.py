"""docs/llms.txt is the table of contents for assistants, and current."""

from __future__ import annotations

import re

import pytest

from scripts.write_llms import DOCS, INDEX, LLMS, llms_text, main


def test_index_for_assistants_is_current_and_its_links_resolve(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().out
    text = LLMS.read_text("utf-8")
    targets = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S", text, re.M)
    assert len(targets) > 30
    assert [target for target in targets if not (DOCS / target).exists()] == []


def test_index_has_the_form_of_llmstxt_org() -> None:
    lines = llms_text(INDEX.read_text("utf-8")).splitlines()
    assert lines[0].startswith("# ")
    assert lines[2].startswith("> ")
    assert [line for line in lines if line.startswith("#")].count("## Optional") == 1
