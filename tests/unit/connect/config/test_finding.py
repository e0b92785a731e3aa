"""How a finding shows itself."""

from __future__ import annotations

import pytest

from connect.config.finding import Finding, Severity

FOUND = Finding("unknown-key", Severity.WARNING, "Nothing reads topcs", "topcs", "Did you mean topic?")


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        (FOUND, "warning: Nothing reads topcs. Did you mean topic? [unknown-key]"),
        (FOUND.at("a.properties", None), "a.properties: warning: Nothing reads topcs. Did you mean topic? [unknown-key]"),
        (FOUND.at("a.properties", 3), "a.properties:3: warning: Nothing reads topcs. Did you mean topic? [unknown-key]"),
        (Finding("a", Severity.NOTE, "Done."), "note: Done. [a]"),
        (Finding("a", Severity.ERROR, "Wrong (as it is)", suggestion="Try."), "error: Wrong (as it is) Try. [a]"),
    ],
)
def test_text(finding: Finding, text: str) -> None:
    assert str(finding) == text


def test_json() -> None:
    assert FOUND.at("a", 3).as_json() == {
        "code": "unknown-key",
        "severity": "warning",
        "message": "Nothing reads topcs",
        "path": "topcs",
        "suggestion": "Did you mean topic?",
        "file": "a",
        "line": 3,
    }
