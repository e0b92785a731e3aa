"""The connection test and the table list of the SQLite source, with real files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from connect.errors import ConfigError
from connect.external_system import ConnectionStep, StepState
from connectors.sqlite.external_system import SqliteSystem
from tests.integration.sqlite.conftest import SqliteCase


def steps_of(config: dict[str, str]) -> dict[str, ConnectionStep]:
    system = SqliteSystem(config)
    try:
        return {step.name: step for step in system.test_connection()}
    finally:
        system.close()


def codes(step: ConnectionStep) -> list[str]:
    return [finding.code for finding in step.findings]


def test_connection_test_describes_file_and_tables(case: SqliteCase) -> None:
    case.run("CREATE TABLE t (id INTEGER PRIMARY KEY, v)", "CREATE TABLE n (v)", "CREATE VIEW w AS SELECT * FROM t")
    steps = steps_of(case.config)
    assert {name: step.state for name, step in steps.items()} == {
        "File": StepState.PASSED, "Triggers": StepState.PASSED, "Tables": StepState.PASSED, "Keys": StepState.WARNING,
    }  # fmt: skip
    assert steps["File"].detail.startswith(str(case.path))
    assert steps["Tables"].detail == "2 captured: main.n, main.t"
    assert codes(steps["Keys"]) == ["no-primary-key"]
    assert case.writer.execute("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'").fetchone() == (0,)
    case.run("PRAGMA journal_mode = DELETE")
    assert codes(steps_of(case.config)["File"]) == ["no-wal"]
    assert codes(steps_of({**case.config, "table.include.list": "main[.]x"})["Tables"]) == ["no-table"]


def test_tables_are_listed_with_only_the_file(case: SqliteCase) -> None:
    case.run("CREATE TABLE 'a.b' (id INTEGER PRIMARY KEY)", "CREATE TABLE n (v)", "CREATE VIEW w AS SELECT 1")
    system = SqliteSystem({"database.file": str(case.path)})
    try:
        found = system.data_collections()
    finally:
        system.close()
    assert [(one.name, one.has_primary_key) for one in found] == [("main.a.b", True), ("main.n", False)]
    steps = steps_of({**case.config, "table.include.list": found[0].entry})
    assert steps["Tables"].detail == "1 captured: main.a.b"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "does not exist or is not accessible; check database.file"),
        (lambda path: path.write_bytes(b"no database at all" * 100), "is not a SQLite database, or it is encrypted"),
        (lambda path: path.mkdir(), "is not a regular file"),
    ],
)
def test_what_is_wrong_with_the_file_is_named(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "other.db"
    make(path)
    steps = steps_of({"topic.prefix": "s", "database.file": str(path)})
    (finding,) = steps["File"].findings
    assert (finding.path, message in finding.message) == ("database.file", True)
    assert list(steps) == ["File"]


def test_locked_file_is_named(case: SqliteCase) -> None:
    case.run("CREATE TABLE t (id INTEGER PRIMARY KEY)", "BEGIN IMMEDIATE")
    steps = steps_of({**case.config, "database.busy.timeout.ms": "100"})
    (finding,) = steps["Triggers"].findings
    assert "another process holds a lock" in finding.message
    assert steps["Tables"].state is StepState.PASSED


def test_missing_file_key_is_refused_and_other_keys_are_findings(case: SqliteCase) -> None:
    with pytest.raises(ConfigError, match=r"database\.file"):
        SqliteSystem({"topic.prefix": "s"})
    case.run("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    steps = steps_of({"database.file": str(case.path), "max.batch.size": "none"})
    assert {finding.path for finding in steps["Configuration"].findings} == {"topic.prefix", "max.batch.size"}
    assert os.path.exists(case.path)
