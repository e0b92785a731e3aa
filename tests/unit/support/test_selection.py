"""Which tests run: without an option, with --all, in shares, and by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import selection
from tests.support.selection import SHARE_S, split_into_shares

pytest_plugins = ["pytester"]

FILE = """
import pytest

def test_fast(): pass

@pytest.mark.long
def test_long(): pass

@pytest.mark.parametrize("case", ["a", pytest.param("b", marks=pytest.mark.long)])
def test_both(case): pass
"""


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makeini("[pytest]\nmarkers =\n    long: runs in make test-all only\n")
    pytester.makepyfile(test_one=FILE, test_two=FILE)
    seconds = {"test_one.py": {"fast": 1.0, "long": SHARE_S * 0.8}, "test_two.py": {"fast": 9.0, "long": SHARE_S * 0.7}}
    path = pytester.path / "seconds.json"
    path.write_text(json.dumps(seconds))
    monkeypatch.setattr(selection, "SECONDS_FILE", path)
    return pytester


def run(folder: pytest.Pytester, *options: str) -> list[str]:
    """Returns the tests that ran, in order."""
    result = folder.inline_run("-p", "tests.support.selection", "-p", "no:cacheprovider", *options)
    return [report.nodeid for report in result.getreports("pytest_runtest_logreport") if report.when == "call"]


def test_long_tests_run_only_with_all(folder: pytest.Pytester) -> None:
    fast = ["test_fast", "test_both[a]"]
    assert run(folder) == [f"{file}.py::{test}" for file in ("test_two", "test_one") for test in fast]
    assert sorted(run(folder, "--all")) == sorted(
        f"{file}.py::{test}" for file in ("test_one", "test_two") for test in (*fast, "test_long", "test_both[b]")
    )


def test_consecutive_shares_run_every_long_test_once(folder: pytest.Pytester) -> None:
    first, second = run(folder, "--share=6"), run(folder, "--share=7")
    assert first == ["test_one.py::test_long", "test_one.py::test_both[b]"]
    assert second == ["test_two.py::test_long", "test_two.py::test_both[b]"]


def test_long_test_without_seconds_runs_in_every_share(folder: pytest.Pytester) -> None:
    folder.makepyfile(test_new=FILE)
    for share in (0, 1):
        assert {"test_new.py::test_long", "test_new.py::test_both[b]"} < set(run(folder, f"--share={share}"))


def test_long_test_runs_if_it_is_named(folder: pytest.Pytester) -> None:
    assert run(folder, "test_one.py::test_long") == ["test_one.py::test_long"]


def test_seconds_are_recorded_by_file_and_kind(folder: pytest.Pytester) -> None:
    run(folder, "--all", "--record-seconds")
    found = json.loads((folder.path / "seconds.json").read_text())
    assert set(found) == {"test_one.py", "test_two.py"}
    assert {kind for kinds in found.values() for kind in kinds} == {"fast", "long"}
    assert all(seconds < 60 for kinds in found.values() for seconds in kinds.values())


def test_seconds_of_files_that_are_gone_are_dropped(folder: pytest.Pytester) -> None:
    (Path(folder.path) / "test_one.py").unlink()
    run(folder, "--all", "--record-seconds")
    assert set(json.loads((folder.path / "seconds.json").read_text())) == {"test_two.py"}


def test_a_file_whose_tests_became_long_has_no_fast_seconds_after_a_run_of_all(folder: pytest.Pytester) -> None:
    (Path(folder.path) / "test_one.py").write_text("import pytest\n\npytestmark = pytest.mark.long\n\ndef test_long(): pass\n")
    run(folder, "--share=6", "--record-seconds")
    assert set(json.loads((folder.path / "seconds.json").read_text())["test_one.py"]) == {"fast", "long"}
    run(folder, "--all", "--record-seconds")
    assert set(json.loads((folder.path / "seconds.json").read_text())["test_one.py"]) == {"long"}


def test_shares_have_about_the_same_length() -> None:
    seconds = {f"test_{i}.py": {"long": 100.0 + i} for i in range(100)} | {"test_fast.py": {"fast": 5.0}}
    parts = split_into_shares(seconds)
    totals = [sum(seconds[file]["long"] for file in part) for part in parts]
    assert sum(len(part) for part in parts) == 100
    assert max(totals) <= SHARE_S * 1.05
    assert max(totals) - min(totals) < 200


def test_every_process_divides_the_tests_in_the_same_way() -> None:
    """Sums of floats depend on the order of a set, which differs by process."""
    program = (
        "from tests.support.selection import split_into_shares\n"
        "seconds = {f'test_{i}.py': {'long': 100 + i % 7 / 10} for i in range(300)}\n"
        "print([sorted(part) for part in split_into_shares(seconds)])"
    )
    results = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in range(1, 5)
    }
    assert len(results) == 1
