"""docs/development/tests.md has a proof of each promise and each page: tests that exist, and that run in ``make test``."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS, TESTS = ROOT / "docs", ROOT / "tests"
PAGE = DOCS / "development" / "tests.md"
PROMISES, PAGES = "Proofs of the promises", "Proofs of the pages"
SUBJECT = re.compile(r"(?P<promise>\d+)\. |\[[^\]]*\]\(\.\./(?P<page>[^)#]+)\)")
"""The number of a promise, or the path of a page below docs/."""


def find_gaps(text: str, tests: Path, subjects: Mapping[str, Collection[str]]) -> list[str]:
    """Returns what is missing or wrong in the tables of a page, and what to do about it.

    ``subjects`` has the promises or pages that need a row, by the heading of their table.
    """
    gaps = []
    for heading, expected in subjects.items():
        rows = list(_read_rows(text, heading))
        missing = [subject for subject in expected if subject not in {subject for subject, _, _ in rows}]
        gaps += [f"'{heading}' has no row for {subject}: add one with the tests that prove it" for subject in missing]
        for subject, fast, others in rows:
            if not fast:
                gaps.append(f"{subject} has no test in make test: name one that is not marked long")
            found = [_find_gap(tests, reference, is_fast=True) for reference in fast]
            found += [_find_gap(tests, reference, is_fast=False) for reference in others]
            gaps += [f"{subject}: {gap}" for gap in found if gap]
    return gaps


def _read_rows(text: str, heading: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields subject, references of the fast column, and references of the last column."""
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    for line in [line for line in section.splitlines() if line.startswith("|")][2:]:
        cells = line.strip().strip("|").split("|")
        subject = SUBJECT.match(cells[0].strip())
        name = subject["promise"] or subject["page"] if subject else cells[0].strip()
        yield name, re.findall(r"`([^`]+)`", cells[-2]), re.findall(r"`([^`]+)`", cells[-1])


def _find_gap(tests: Path, reference: str, *, is_fast: bool) -> str | None:
    path, _, test = reference.partition("::")
    if not (tests / path).is_file():
        return f"tests/{path} does not exist: name another file"
    found = _read_tests(tests / path)
    named = [test] if test else list(found)
    if not named or named[0] not in found:
        return f"tests/{path} has no test{f' {test}' if test else 's'}: name another one"
    if is_fast and all(found[name] for name in named):
        return f"{reference} is long: move it to the last column and name a test that runs in make test, or remove the mark"
    return None


@cache
def _read_tests(file: Path) -> Mapping[str, bool]:
    """Returns the tests of a file, and whether all of their cases are long."""
    tree = ast.parse(file.read_text("utf-8"))
    marks = [node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"]
    is_long = any(_is_long(mark) for value in marks for mark in (value.elts if isinstance(value, ast.List) else [value]))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return {function.name: is_long or any(map(_is_long, function.decorator_list)) for function in functions}


def _is_long(mark: ast.expr) -> bool:
    return ast.unparse(mark) == "pytest.mark.long"


def test_each_promise_and_each_page_has_a_proof() -> None:
    promises = re.findall(r"^(\d+)\. ", (DOCS / "promises.md").read_text("utf-8"), re.M)
    pages = [str(page.relative_to(DOCS)) for folder in (DOCS, DOCS / "tutorials") for page in sorted(folder.glob("*.md"))]
    assert promises == [str(number) for number in range(1, 11)]
    gaps = find_gaps(PAGE.read_text("utf-8"), TESTS, {PROMISES: promises, PAGES: pages})
    assert not gaps, f"{PAGE.relative_to(ROOT)}:\n" + "\n".join(gaps)


FILE = """
import pytest

def test_fast(): pass

@pytest.mark.long
def test_long(): pass

@pytest.mark.parametrize("case", [1, pytest.param(2, marks=pytest.mark.long)])
def test_both(case): pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_one.py").write_text(FILE)
    (tmp_path / "test_long.py").write_text(f"{FILE}\npytestmark = [pytest.mark.chaos, pytest.mark.long]\n")
    (tmp_path / "data.py").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("fast", "others", "gap"),
    [
        ("`test_one.py` `test_one.py::test_fast` `test_one.py::test_both`", "`test_one.py::test_long` `test_long.py`", None),
        ("", "`test_one.py`", "has no test in make test: name one that is not marked long"),
        ("`test_two.py`", "", "tests/test_two.py does not exist: name another file"),
        ("`test_one.py`", "`test_one.py::test_gone`", "tests/test_one.py has no test test_gone: name another one"),
        ("`data.py`", "", "tests/data.py has no tests: name another one"),
        ("`test_one.py::test_long`", "", "test_one.py::test_long is long: move it to the last column"),
        ("`test_long.py`", "", "test_long.py is long: move it to the last column"),
        ("`test_long.py::test_fast`", "", "test_long.py::test_fast is long: move it to the last column"),
    ],
)
def test_what_is_wrong_in_a_row_is_found(folder: Path, fast: str, others: str, gap: str | None) -> None:
    text = (
        f"# Tests\n\n## {PAGES}\n\n| Page | Fast | Long |\n| --- | --- | --- |\n| [file.md](../file.md) | {fast} | {others} |\n"
    )
    found = find_gaps(text, folder, {PAGES: ["file.md"]})
    assert len(found) == (gap is not None)
    assert gap is None or gap in found[0]
    assert all(one.startswith("file.md") for one in found)


def test_promises_and_pages_without_a_row_are_found(folder: Path) -> None:
    row = "| 1. Offsets | SIGKILL | `test_one.py` | |\n"
    head = "| Promise | Proof | Fast | Long |\n| --- | --- | --- | --- |\n"
    text = f"\n## {PROMISES}\n\n{head}{row}{row}\n## Others\n\n{head}| 2. Order | SIGKILL | `test_one.py` | |\n"
    assert find_gaps(text, folder, {PROMISES: ["1", "2"], PAGES: ["tutorials/a.md"]}) == [
        f"'{PROMISES}' has no row for 2: add one with the tests that prove it",
        f"'{PAGES}' has no row for tutorials/a.md: add one with the tests that prove it",
    ]
