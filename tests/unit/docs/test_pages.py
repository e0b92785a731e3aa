"""The pages for users name what there is, and their links lead somewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import click
import pytest
from fastapi.routing import APIRoute

from rest.app import build_api
from sluice.cli import COMMANDS
from sluice.cli.app import build
from worker.herder import Herder
from worker.validation.connector_keys import COMMON_KEYS, SINK_KEYS, SOURCE_KEYS

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
MAINTAINERS_PAGES = [
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md")),
    *(DOCS / name for name in ("architecture.md", "glossary.md")),
    *sorted((DOCS / "development").glob("*.md")),
]
NAMED_PATH = re.compile(r"`((?:connect|connectors|worker|rest|sluice|configs|tests|benchmarks|docs)/[^`\s]*)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


def _links(page: Path) -> Iterator[str]:
    for target in LINK.findall(FENCE.sub("", page.read_text("utf-8"))):
        if "://" not in target:
            yield target


def _anchors(page: Path) -> set[str]:
    """The anchors that headings get where such pages are shown."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text("utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page: Path) -> None:
    for link in _links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.relative_to(ROOT)}: {link}"
        if anchor:
            assert anchor in _anchors(target), f"{page.relative_to(ROOT)}: {link}"


def test_every_page_is_listed_in_a_table_of_contents() -> None:
    for index in (DOCS / "README.md", *(DOCS / folder / "README.md" for folder in ("decisions", "development", "tutorials"))):
        listed = {(index.parent / link).resolve() for link in _links(index)}
        there = {page.resolve() for page in index.parent.glob("*.md")} - {index.resolve()}
        assert there <= listed, f"{index.parent.name} does not list {sorted(p.name for p in there - listed)}"


@pytest.mark.parametrize("page", MAINTAINERS_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_for_maintainers_name_existing_paths(page: Path) -> None:
    for named in NAMED_PATH.findall(page.read_text("utf-8")):
        pattern = re.sub(r"<[^>]*>", "*", named.rstrip("/"))
        assert any(ROOT.glob(pattern)), f"{page.relative_to(ROOT)} names {named}"


def test_every_command_is_documented() -> None:
    text = (DOCS / "commands.md").read_text("utf-8")
    for name, command in COMMANDS.items():
        found = command.load()
        words = [f"sluice {name} {sub}" for sub in found.commands] if isinstance(found, click.Group) else [f"sluice {name}"]
        for word in words:
            assert re.search(rf"{word}\b", text), f"docs/commands.md does not name '{word}'"


def _examples() -> Iterator[list[str]]:
    for line in (DOCS / "commands.md").read_text("utf-8").splitlines():
        if not line.startswith("    "):
            continue
        for part in line.split("|"):
            words = shlex.split(part.replace("[", "").replace("]", ""), comments=True)
            if words and words[0] == "sluice":
                yield words[1:]


@pytest.mark.parametrize("words", list(_examples()), ids=" ".join)
def test_every_example_on_the_commands_page_is_a_valid_command_line(words: list[str]) -> None:
    context = build(COMMANDS).make_context("sluice", list(words))
    while isinstance(context.command, click.Group):
        rest = [*context._protected_args, *context.args]
        _, command, rest = context.command.resolve_command(context, rest)
        assert command is not None
        context = command.make_context(command.name, rest, parent=context)


def test_every_route_is_documented() -> None:
    text = (DOCS / "rest.md").read_text("utf-8")
    names = {"connector": "name", "task": "id"}
    for route in build_api(cast(Herder, None)).routes:
        if isinstance(route, APIRoute) and route.include_in_schema:  # others are between workers
            path = re.sub(r"\{(\w+)\}", lambda match: "{" + names.get(match[1], match[1]) + "}", route.path)
            for method in route.methods or ():
                assert f"| `{method} {path}` |" in text, f"docs/rest.md does not name {method} {path}"


def test_every_common_connector_key_is_documented() -> None:
    text = (DOCS / "standalone.md").read_text("utf-8")
    named = [word.replace(".", r"\.").replace("*", ".*") for word in re.findall(r"`([a-z_.*]+)`", text)]
    for key in (*COMMON_KEYS, *SOURCE_KEYS, *SINK_KEYS):
        assert any(re.fullmatch(word, key.name) for word in named), f"docs/standalone.md does not name {key.name}"
