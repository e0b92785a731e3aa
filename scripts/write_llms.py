"""Writes ``docs/llms.txt``: the index of the documentation for assistants, in the form of llmstxt.org.

It has the pages and descriptions of ``docs/README.md``, the table of contents for people. Usage:
``python scripts/write_llms.py [--check]``; with ``--check``, exits 1 if the file is not current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
INDEX, LLMS = DOCS / "README.md", DOCS / "llms.txt"
_ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)]+)\) \| (.+) \|$")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_HEAD = """\
# Sluice

> Sluice is Kafka Connect for Python: workers that run connectors between Apache Kafka and other systems, with the configuration
> files, REST API, and internal topics of Apache Kafka Connect, and streams of database changes into Delta and Iceberg tables.

- A connector is a flat config: `name`, `connector.class`, `tasks.max`, converters, `transforms`, and the keys of its class.
- Check it with `sluice lint FILE`, try it with `sluice preview FILE --records -`, compare it with a cluster with
  `sluice plan FILE`, and create it with `sluice apply FILE --wait`.
- When something does not work: `sluice diagnose`. Every key of a component: `sluice docs COMPONENT`.
- `sluice mcp` offers the same as tools of the Model Context Protocol ([assistants.md](assistants.md)).
- Never put a secret into a config: use a config provider ([config-providers.md](config-providers.md)).
"""


def llms_text(index: str) -> str:
    """Returns the text of the file for a table of contents."""
    lines = [_HEAD.rstrip()]
    for title, pages in _sections(index):
        lines += ["", f"## {title}", "", *(f"- [{name}]({target}): {text}" for name, target, text in pages)]
    return "\n".join(lines) + "\n"


def _sections(index: str) -> Iterator[tuple[str, Sequence[tuple[str, str, str]]]]:
    for section in index.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        rows = [found for line in body.splitlines() if (found := _ROW.match(line))]
        pages = [(row[1], row[2], _LINK.sub(r"\1", row[3])) for row in rows]
        if title == "Reference":
            pages.append(("reference/", "reference/README.md", "every key of every component, generated from the code"))
        if pages:
            # What an assistant rarely needs is optional, in the words of llmstxt.org.
            yield ("Optional" if title == "Develop" else title), pages


def main(arguments: Sequence[str]) -> int:
    """Writes or checks the file."""
    text = llms_text(INDEX.read_text("utf-8"))
    if "--check" in arguments:
        is_current = LLMS.exists() and LLMS.read_text("utf-8") == text
        if not is_current:
            print(f"{LLMS.name} is not current: run python scripts/write_llms.py")
        return 0 if is_current else 1
    LLMS.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
