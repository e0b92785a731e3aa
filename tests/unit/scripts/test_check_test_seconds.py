"""scripts/check_test_seconds.py finds folders whose fast tests take longer than their budget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.check_test_seconds import findings, main

BUDGETS = {"tests/unit": 10.0, "tests/integration": 10.0, "tests/integration/spark": 5.0}


def test_folder_over_its_budget_is_found_with_its_slowest_files() -> None:
    seconds = {
        "tests/integration/spark/test_a.py": {"fast": 2.0},
        "tests/integration/spark/tables/test_b.py": {"fast": 4.0, "long": 100.0},
        "tests/integration/test_c.py": {"fast": 9.0},
    }
    (finding,) = findings(seconds, BUDGETS)
    assert finding.startswith("the fast tests of tests/integration/spark take 6 s, but its budget is 5 s: ")
    assert finding.endswith("Slowest: tables/test_b.py 4, test_a.py 2")


def test_file_without_a_budget_is_found() -> None:
    (finding,) = findings({"tests/other/test_a.py": {"fast": 1.0}}, BUDGETS)
    assert finding.startswith("tests/other/test_a.py is in no folder with a budget")


@pytest.mark.parametrize(("taken", "code"), [(10.0, 0), (10.1, 1)])
def test_exit_code_says_whether_there_are_findings(tmp_path: Path, taken: float, code: int) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "seconds.json").write_text(json.dumps({"tests/unit/test_a.py": {"fast": taken}}))
    (tmp_path / "pyproject.toml").write_text('[tool.sluice.test-seconds]\n"tests/unit" = 10\n')
    assert main(tmp_path) == code
