"""Hooks of the documentation site (``mkdocs.yml``).

The navigation is that of ``docs/README.md``: a tab for each heading, a section for each heading below it, and the pages of its
tables. Tables of contents in folders (``tutorials/``, ``development/``, ``decisions/``, ``reference/``) become sections
themselves. Pages at the repository's root that the documentation links to are part of the site.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ROOT_PAGES = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
"""Pages outside of ``docs/`` that the site has."""
INDEX = "README.md"

_ROW = re.compile(r"^\|.*?\]\(([^)#\s]+\.md)[^)]*\)", re.M)
_HEADING = re.compile(r"^(##+) (.+)$", re.M)
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(```.*?^```)$", re.M | re.S)

_FENCE_HEAD = re.compile(r"\A```(\w+) (?:(file|terminal)=)?(.*)$", re.M)

Nav = list[Any]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Sets the navigation."""
    config.nav = build_nav(Path(config.docs_dir))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages at the repository's root."""
    for name in ROOT_PAGES:
        files.append(File.generated(config, name, content=(ROOT / name).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Points links at the site's pages, and shows diagrams as text: drawing them needs a script from elsewhere."""
    parts = _FENCE.split(markdown)
    for position, part in enumerate(parts):
        if position % 2:
            parts[position] = _FENCE_HEAD.sub(_site_fence, part.replace("```mermaid", "```text", 1), count=1)
        else:
            parts[position] = _LINK.sub(lambda link: _site_link(link, page.file.src_uri, files), part)
    return "".join(parts)


def build_nav(docs: Path) -> Nav:
    """Returns MkDocs' navigation for the tables of contents of a folder of pages."""
    nav: Nav = [INDEX]
    tab: Nav = []
    section: Nav = []
    pieces = _HEADING.split((docs / INDEX).read_text("utf-8"))
    for marks, title, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        if marks == "##":
            tab = section = []
            nav.append({title: tab})
        else:
            section = []
            tab.append({title: section})
        section += _entries(docs, text)
    return nav


def _entries(docs: Path, text: str) -> Nav:
    entries: Nav = []
    for link in _ROW.findall(text):
        target = PurePosixPath(link)
        if link.startswith("../"):
            entries.append(target.name)
        elif target.name == INDEX:
            folder = target.parent.as_posix()
            pages = [f"{folder}/{page}" for page in _ROW.findall((docs / target).read_text("utf-8"))]
            # The only folder of a tab needs no section of its own.
            alone = len(_ROW.findall(text)) == 1
            entries += [link, *pages] if alone else [{folder.capitalize(): [link, *pages]}]
        else:
            entries.append(link)
    return entries


def _site_fence(head: re.Match[str]) -> str:
    """Shows the name of a file or terminal as a title; what else follows the language is for tests."""
    language, role, name = head.groups()
    if role is None:
        return f"```{language}"
    title = name if role == "file" else f"in terminal {name}"
    return f'```{language} title="{title}"'


def _site_link(link: re.Match[str], source: str, files: Files) -> str:
    """Returns the link for the site: to a page at the root, its copy; to another file outside of ``docs/``, only the text."""
    text, target = link.groups()
    path, _, anchor = target.partition("#")
    if "://" in target or not path:
        return link[0]
    # Pages at the root stay where they are relative to docs/, which is the site's root.
    folder = Path("docs") if source not in ROOT_PAGES else Path()
    found = (ROOT / folder / source).parent.joinpath(path).resolve()
    if not found.is_relative_to(ROOT):
        return text
    name = found.relative_to(ROOT).as_posix()
    inside = name.removeprefix("docs/") if name.startswith("docs/") else name if name in ROOT_PAGES else None
    if inside is None or files.get_file_from_path(inside) is None:
        return text
    up = "../" * (len(PurePosixPath(source).parts) - 1)
    return f"[{text}]({up}{inside}{'#' if anchor else ''}{anchor})"
