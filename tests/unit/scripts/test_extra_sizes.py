"""docs/installation.md states the sizes of the extras."""

from __future__ import annotations

import re

import pytest

from scripts.build_release import BASE, ROOT, ReleaseError, read_project
from scripts.extra_sizes import measure


def test_docs_have_the_sizes() -> None:
    page = (ROOT / "docs" / "installation.md").read_text("utf-8")
    rows = re.findall(r"^\|(?: `([a-z]+)`)? \| .* \| ([\d,]+) MB \|$", page, re.M)
    stated = {extra or BASE: int(size.replace(",", "")) for extra, size in rows}
    # Platforms' wheels differ a little.
    assert stated == pytest.approx(measure(read_project(ROOT)), rel=0.1, abs=1)


def test_extra_that_is_not_installed_is_named() -> None:
    project = {"name": "sluice-connect", "dependencies": [], "optional-dependencies": {"x": ["no-such-distribution"]}}
    with pytest.raises(ReleaseError, match="no-such-distribution is not installed"):
        measure(project)
