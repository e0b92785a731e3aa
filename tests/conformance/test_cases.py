"""Runs the cases in this directory with run.py, which also runs other files of cases.

``cases`` is a selection of the vectors. ``edges`` are further edge cases, with the results and errors of the same classes of
Apache Kafka Connect 4.3.1.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
FILES = sorted((HERE / "cases").glob("*.jsonl"))
EDGES = sorted((HERE / "edges").glob("*.jsonl"))


def run(*files: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(HERE / "run.py"), *map(str, files)], capture_output=True, text=True, timeout=120, check=False
    )


def test_every_case_gives_the_result_of_the_original() -> None:
    done = run(*FILES, *EDGES)
    cases = sum(len(file.read_text("utf-8").splitlines()) for file in (*FILES, *EDGES))
    assert done.stderr == ""
    assert done.stdout.endswith(f"{cases} passed, 0 failed\n"), done.stdout[-6000:]
    assert done.returncode == 0


def test_every_kind_has_a_file() -> None:
    assert [file.stem for file in FILES] == ["converters", "projector", "transforms", "validate", "values"]


def test_failed_case_is_reported_with_its_id(tmp_path: Path) -> None:
    case = json.loads((HERE / "cases" / "projector.jsonl").read_text("utf-8").splitlines()[0])
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(json.dumps({**case, "expected": "something else"}) + "\n", "utf-8")
    done = run(wrong)
    assert case["id"] in done.stdout
    assert done.stdout.endswith("0 passed, 1 failed\n")
    assert done.returncode == 1
