"""The documentation site builds without warnings, has every page in its navigation, and needs nothing from elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.site_hooks import ROOT, ROOT_PAGES, build_nav

DOCS = ROOT / "docs"
EXTERNAL = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc="(https?:[^"]*)|<link[^>]*rel="(?:stylesheet|icon|preconnect)"[^>]*href="(https?:[^"]*)"""
)


def _pages(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [page for entry in entries for page in _pages(entry)]


def test_navigation_has_every_page_once() -> None:
    pages = _pages(build_nav(DOCS))
    assert sorted(pages) == sorted([*ROOT_PAGES, *(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))])


def test_tabs_are_by_task() -> None:
    tabs = [next(iter(one)) for one in build_nav(DOCS)[1:]]
    assert tabs == ["Get started", "Tutorials", "Operate", "How-to", "Concepts", "Develop", "Reference"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.mark.slow
def test_site_builds_without_warnings_and_needs_nothing_from_elsewhere(site: Path) -> None:
    external = {
        (page.relative_to(site).as_posix(), "".join(found))
        for page in site.rglob("*.html")
        for found in EXTERNAL.findall(page.read_text("utf-8"))
    }
    assert external == set()
    assert "mermaid" not in (site / "architecture" / "index.html").read_text("utf-8"), "its script is not in the site"


@pytest.mark.slow
def test_search_finds_pages_and_keys(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    texts = {one["location"]: f"{one['title']} {one['text']}" for one in index["docs"]}
    assert "offset.flush.interval.ms" in " ".join(text for place, text in texts.items() if place.startswith("reference/worker/"))
    assert any(place.startswith("tutorials/first-pipeline/") for place in texts)


@pytest.mark.slow
def test_other_files_of_the_documentation_are_in_the_site(site: Path) -> None:
    for path in DOCS.rglob("*"):
        if path.is_file() and path.suffix != ".md":
            assert (site / path.relative_to(DOCS)).is_file(), path


@pytest.mark.slow
def test_files_of_tutorials_show_their_names(site: Path) -> None:
    page = (site / "tutorials" / "first-pipeline" / "index.html").read_text("utf-8")
    assert '<span class="filename">worker.properties</span>' in page
    assert '<span class="filename">in terminal worker</span>' in page
