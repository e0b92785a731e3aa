"""Every Python block of the pages on writing connectors runs, in order; so do those of README.md."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from connect.plugins import Kind, Plugins
from connect.testing import check_source_connector, run_sink, run_source, run_transforms
from sluice.reference import pages

ROOT = Path(__file__).parents[3]
CLASSES, FUNCTIONS, README = ROOT / "docs" / "writing-connectors.md", ROOT / "docs" / "functions.md", ROOT / "README.md"
CONVERTERS = ROOT / "docs" / "custom-converters.md"
BLOCK = re.compile(r"^```python(?: file=(\S+))?\n(.*?)^```$", re.M | re.S)


@pytest.fixture
def blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[Path, list[str]]:
    """The blocks of each page that are no files; those that are lie on the path, and the present folder is empty."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    plain: dict[Path, list[str]] = {}
    for page in (CLASSES, FUNCTIONS, CONVERTERS, README):
        plain[page] = []
        for name, code in BLOCK.findall(page.read_text("utf-8")):
            if name:
                assert not (tmp_path / name).exists(), f"two files are {name}"
                (tmp_path / name).write_text(code)
                monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
            else:
                plain[page].append(code)
    return plain


@pytest.mark.parametrize("page", [CLASSES, FUNCTIONS, CONVERTERS], ids=lambda page: str(page.name))
def test_code_blocks_run(blocks: dict[Path, list[str]], page: Path) -> None:
    assert blocks[page]
    for code in blocks[page]:
        exec(compile(code, str(page), "exec"), {"__name__": "docs"})


@pytest.mark.parametrize(
    ("path", "type_name"),
    [
        ("countdown:Countdown", "source"), ("totals:Totals", "sink"), ("feed:entries", "source"), ("archive:buffered", "sink"),
        ("counter:count", "source"), ("counter:append", "sink"),
    ],
)  # fmt: skip
def test_worker_finds_connectors_by_path(blocks: dict[Path, list[str]], path: str, type_name: str) -> None:
    assert Plugins.discover().resolve(Kind.CONNECTOR, path).type == type_name


def test_custom_converters_of_the_page_are_valid(blocks: dict[Path, list[str]]) -> None:
    lines = re.search(r"^```properties\n(.*?)^```$", CONVERTERS.read_text("utf-8"), re.M | re.S)
    assert lines is not None
    config = {key: value.replace("\\\\", "\\") for key, value in (line.split("=", 1) for line in lines[1].splitlines())}
    connector = Plugins.discover().new_connector("MariaDbSource")
    values = {value.name: value for value in connector.check_config(config)}
    assert set(config) <= set(values)
    assert not any(values[key].errors for key in config)


def test_transformations_run_as_configured_in_the_page(blocks: dict[Path, list[str]]) -> None:
    lines = re.search(r"^```properties\n(.*?)^```$", FUNCTIONS.read_text("utf-8"), re.M | re.S)
    assert lines is not None
    config = dict(line.split("=", 1) for line in lines[1].splitlines())
    given = [{"name": f" {'x' * 30} ", "amount": amount} for amount in (60, 40)]
    assert [len(record.value["name"]) for record in run_transforms(config, given) if record] == [20, 30]
    for function, value, expected in (
        ("orders:score", {"name": "abc"}, {"name": "abc", "score": 3}),
        ("orders:route", {"country": "DE"}, {"country": "DE"}),
        ("numbering:Numbering", {}, {"number": "n1"}),
        ("shop:total", {"price": 2, "quantity": 3}, {"price": 2, "quantity": 3, "total": 6}),
    ):
        one = {"transforms": "f", "transforms.f.type": "Python", "transforms.f.function": function}
        assert [record and record.value for record in run_transforms(one, [value])] == [expected]


def test_readme_connector_is_as_short_as_stated_and_runs(blocks: dict[Path, list[str]], tmp_path: Path) -> None:
    code = (tmp_path / "counter.py").read_text()
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    counter = importlib.import_module("counter")
    config = {"topic": "numbers", "pause.s": "0"}
    assert [record.value for record in run_source(counter.count, config, records=150)] == list(range(150))
    check_source_connector(counter.count, config, records=250)
    run_sink(counter.append, {"path": "out.txt"}, [1, 2])
    assert (tmp_path / "out.txt").read_text() == "1\n2\n"


def test_function_connector_has_a_reference_page(blocks: dict[Path, list[str]]) -> None:
    found = pages.find_component("feed:entries", Plugins.discover())
    text = pages.page(found)
    assert "Seconds between two requests." in text
    assert "`pause.s`" in text
