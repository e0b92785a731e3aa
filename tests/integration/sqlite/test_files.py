"""What happens to the file: missing, replaced, locked, no database, two connectors, and what remains of the connector."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConfigError, ConnectError
from connect.testing import MemoryOffsets, SourceHarness
from connectors.sqlite import SqliteSource, SqliteSourceTask
from connectors.sqlite.__main__ import EXIT_FAILED, EXIT_USAGE, main
from connectors.sqlite.errors import DatabaseReplacedError
from tests.integration.sqlite.conftest import SqliteCase, events
from tests.support.waiting import WAIT_S

ITEMS = "CREATE TABLE items(id INTEGER PRIMARY KEY, name TEXT)"


def _start(case: SqliteCase, **config: str) -> None:
    case.run(ITEMS, "INSERT INTO items VALUES (1, 'a')")
    case.start(**config)
    case.read_all()
    case.commit()


def _replace(case: SqliteCase, new: Path) -> None:
    """Moves another database over the file, as a restore does."""
    case.writer.close()
    for suffix in ("-wal", "-shm"):
        Path(f"{case.path}{suffix}").unlink(missing_ok=True)
    os.replace(new, case.path)
    case.writer = case.connect()


def _other_database(folder: Path) -> Path:
    path = folder / "other.db"
    with sqlite3.connect(path) as db:
        db.execute(ITEMS)
        db.execute("INSERT INTO items VALUES (7, 'other')")
    db.close()
    return path


def test_replaced_file_is_noticed(case: SqliteCase, tmp_path: Path) -> None:
    _start(case)
    _replace(case, _other_database(tmp_path))
    with pytest.raises(DatabaseReplacedError, match=r"the file was replaced.* snapshot\.mode=when_needed"):
        case.poll_until(lambda records: False)


def test_offset_of_another_file_is_noticed_at_the_start(case: SqliteCase, tmp_path: Path) -> None:
    """Also if the other file has tables of a connector with this topic.prefix."""
    _start(case)
    case.stop()
    stored, case.offsets = case.offsets, MemoryOffsets()
    case.start(database_file=str(_other_database(tmp_path)))
    assert len(case.read_all()) == 1
    case.commit()
    case.stop()
    case.offsets = stored
    case.start()
    with pytest.raises(DatabaseReplacedError, match=r"other\.db is another database than that of the stored offset"):
        case.poll_until(lambda records: False)
    case.restart(snapshot_mode="when_needed")
    assert case.events() == [("r", None, {"id": 7, "name": "other"})]


def test_interrupted_initial_only_snapshot_starts_over_with_the_file_that_is_there(case: SqliteCase, tmp_path: Path) -> None:
    """Without triggers, nothing tells whether it is the same, and what has changed in it."""
    fill = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 9000) INSERT INTO items SELECT i, 1 FROM c"
    case.run(ITEMS, fill)
    case.start(snapshot_mode="initial_only")
    assert 0 < len(case.poll_until(bool)) < 9000
    case.commit()
    case.stop()
    _replace(case, _other_database(tmp_path))
    case.start()
    assert case.events() == [("r", None, {"id": 7, "name": "other"})]
    case.commit()
    case.restart()
    assert case.events() == []


def test_replaced_file_is_read_again_when_needed(case: SqliteCase, tmp_path: Path) -> None:
    _start(case, snapshot_mode="when_needed")
    _replace(case, _other_database(tmp_path))
    records = case.poll_until(lambda records: len(records) == 1)
    assert events(records) == [("r", None, {"id": 7, "name": "other"})]
    case.commit()
    case.restart()
    case.run("DELETE FROM items")
    assert [op for op, _, _ in case.events()] == ["d"]


def test_stored_offset_of_the_replaced_file_deletes_no_changes_of_the_new_one(case: SqliteCase, tmp_path: Path) -> None:
    """Promise 1."""
    fill = "WITH RECURSIVE c(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM c WHERE i < 3000) INSERT INTO items SELECT i, 1 FROM c"
    _start(case, snapshot_mode="when_needed")
    case.run(fill)
    last = case.read_all()[-1]
    _replace(case, _other_database(tmp_path))
    case.poll_until(lambda records: len(records) == 1)
    case.run(fill)
    assert case.harness is not None
    case.harness.task.commit([(last.source_partition or {}, last.source_offset or {})])
    case.restart()
    assert [op for op, _, _ in case.events()].count("c") == 2991


@pytest.mark.parametrize("is_changed", [False, True])
def test_restored_backup_lacks_changes(case: SqliteCase, tmp_path: Path, is_changed: bool) -> None:
    """Also one with as many changes as the stored offset says."""
    _start(case)
    backup = tmp_path / "backup.db"
    with sqlite3.connect(backup) as copy:
        case.writer.backup(copy)
    copy.close()
    case.run("INSERT INTO items VALUES (2, 'b')")
    assert len(case.read_all()) == 1
    case.commit()
    case.stop()
    if is_changed:
        with sqlite3.connect(backup) as copy:
            copy.execute("INSERT INTO items VALUES (3, 'c')")
            copy.execute("INSERT INTO items VALUES (4, 'd')")
        copy.close()
    _replace(case, backup)
    case.start()
    with pytest.raises(DatabaseReplacedError, match="another change has that number" if is_changed else "does not have it"):
        case.read_all()


def test_emptied_change_table_is_noticed(case: SqliteCase) -> None:
    _start(case)
    case.run("DELETE FROM _sluice_changes", "INSERT INTO items VALUES (2, 'b')")
    with pytest.raises(DatabaseReplacedError, match="somebody has deleted changes"):
        case.read_all()


def test_copy_in_another_file_continues(case: SqliteCase, tmp_path: Path) -> None:
    _start(case)
    case.run("INSERT INTO items VALUES (2, 'b')", f"VACUUM INTO '{tmp_path / 'copy.db'}'")
    case.stop()
    _replace(case, tmp_path / "copy.db")
    case.start()
    assert case.events() == [("c", None, {"id": 2, "name": "b"})]


def test_file_that_is_missing_for_a_moment_does_not_fail_the_task(case: SqliteCase, tmp_path: Path) -> None:
    _start(case, retriable_restart_connector_wait_ms="50")
    assert case.harness is not None
    case.writer.close()
    case.path.rename(tmp_path / "moved.db")
    case.poll_until(lambda records: case.harness is not None and case.harness.task.progress()["phase"] == "reconnecting")
    (tmp_path / "moved.db").rename(case.path)
    case.writer = case.connect()
    case.run("INSERT INTO items VALUES (2, 'b')")
    assert events(case.poll_until(lambda records: bool(records))) == [("c", None, {"id": 2, "name": "b"})]
    assert case.events() == []


def _problem(config: dict[str, str], key: str = "database.file") -> str:
    (value,) = (value for value in SqliteSource().validate(config) if value.name == key)
    return "; ".join(value.errors)


def test_validation_names_what_is_wrong_with_the_file(tmp_path: Path) -> None:
    config = {"topic.prefix": "shop", "database.file": str(tmp_path / "no.db")}
    assert "does not exist" in _problem(config)
    assert not (tmp_path / "no.db").exists()
    assert "not a regular file" in _problem({**config, "database.file": str(tmp_path)})
    (tmp_path / "text.db").write_bytes(b"this is no database" * 100)
    assert "not a SQLite database, or it is encrypted" in _problem({**config, "database.file": str(tmp_path / "text.db")})
    path = str(_other_database(tmp_path))
    assert "has no such table" in _problem(
        {**config, "database.file": path, "table.include.list": "main.none"}, "table.include.list"
    )
    assert not _problem({**config, "database.file": path})
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("items",)]
    db.close()


def test_file_without_permission_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _other_database(tmp_path)
    real: Any = sqlite3.connect

    def connect_read_only(file: str, **options: object) -> Any:
        # Permissions do not keep root, as which tests may run, from writing.
        return real(file.replace("mode=rw", "mode=ro"), **options)

    case = SqliteCase(tmp_path)
    case.writer.close()
    case.config["database.file"] = str(path)
    monkeypatch.setattr(sqlite3, "connect", connect_read_only)
    case.start()
    with pytest.raises(ConnectError, match="permission to write the file and its directory"):
        case.poll_until(lambda records: False)
    case.stop()


def test_locked_database_is_waited_for(case: SqliteCase) -> None:
    case.run(ITEMS, "BEGIN IMMEDIATE", "INSERT INTO items VALUES (1, 'a')")
    case.start(database_busy_timeout_ms="10", retriable_restart_connector_wait_ms="20")
    case.poll_until(lambda records: case.harness is not None and case.harness.task.progress()["phase"] == "reconnecting")
    case.run("COMMIT")
    assert events(case.poll_until(lambda records: len(records) == 1)) == [("r", None, {"id": 1, "name": "a"})]


def test_locked_database_ends_the_task_after_the_retries(case: SqliteCase) -> None:
    case.run(ITEMS, "BEGIN IMMEDIATE")
    case.start(database_busy_timeout_ms="1", errors_max_retries="0")
    with pytest.raises(ConnectError, match=r"holds a lock for longer than database\.busy\.timeout\.ms"):
        case.poll_until(lambda records: False)


def test_stop_ends_a_running_statement(case: SqliteCase) -> None:
    case.run(ITEMS, "INSERT INTO items VALUES (1, 'a')")
    key = "snapshot.select.statement.overrides"
    endless = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT max(i) FROM c"
    case.config |= {key: "main.items", f"{key}.main.items": f"SELECT * FROM items WHERE id > ({endless})"}
    task = case.start(capture_drop_on_stop="true").task
    is_open = threading.Event()

    def poll() -> None:
        task.poll()  # opens the file
        is_open.set()
        task.poll()

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    assert is_open.wait(WAIT_S)
    task.stop()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    case.stop()
    # What follows the interruption is done all the same.
    assert case.writer.execute("SELECT count(*) FROM sqlite_master WHERE name LIKE '%sluice%'").fetchone() == (0,)


def test_second_connector_needs_a_name_of_its_own(case: SqliteCase) -> None:
    _start(case)
    case.stop()
    other = SqliteCase.__new__(SqliteCase)
    other.__dict__.update({**case.__dict__, "config": {**case.config, "topic.prefix": "second"}})
    other.offsets = type(case.offsets)()
    other.start()
    with pytest.raises(ConfigError, match=r"belongs to the connector with topic\.prefix=shop; set capture\.name"):
        other.read_all()
    other.restart(capture_name="second")
    assert len(other.read_all()) == 1
    case.run("INSERT INTO items VALUES (2, 'b')")
    assert other.events() == [("c", None, {"id": 2, "name": "b"})]
    other.stop()
    case.start()
    assert case.events() == [("c", None, {"id": 2, "name": "b"})]


def test_triggers_are_dropped_when_the_task_stops(case: SqliteCase) -> None:
    before = "SELECT name FROM sqlite_master WHERE name LIKE '%sluice%'"
    _start(case, capture_drop_on_stop="true")
    assert case.writer.execute(before).fetchall()
    case.stop()
    assert case.writer.execute(before).fetchall() == []
    case.run("INSERT INTO items VALUES (2, 'b')")


def test_triggers_of_another_connector_are_not_dropped(case: SqliteCase, tmp_path: Path) -> None:
    names = "SELECT name FROM sqlite_master WHERE name LIKE '%sluice%' ORDER BY 1"
    _start(case)
    before = case.writer.execute(names).fetchall()
    harness = SourceHarness(
        SqliteSourceTask(), {**case.config, "topic.prefix": "other", "capture.drop.on.stop": "true"}, MemoryOffsets()
    ).start()
    with pytest.raises(ConfigError, match=r"belongs to the connector with topic\.prefix=shop"):
        harness.poll()
    harness.stop()
    assert case.writer.execute(names).fetchall() == before


def test_command_removes_what_a_deleted_connector_has_left(case: SqliteCase, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    names = "SELECT count(*) FROM sqlite_master WHERE name LIKE '%sluice%'"
    _start(case)
    case.stop()
    (own,) = case.writer.execute(names).fetchone()
    # A name that is a number looks like that of a table.
    case.offsets = MemoryOffsets()
    case.start(capture_name="1")
    case.read_all()
    case.commit()
    case.stop()
    file = str(case.path)
    case.run("DROP TABLE _sluice_changes")  # each insert fails now
    assert main([file]) == 0
    assert f"dropped {own - 1} triggers and tables" in caplog.text
    assert case.writer.execute(names).fetchone() == (own,)
    case.run("INSERT INTO items VALUES (2, 'b')")
    case.start()
    assert case.events() == [("c", None, {"id": 2, "name": "b"})]
    case.stop()
    assert main([file, "--capture-name", "1"]) == 0
    assert case.writer.execute(names).fetchone() == (0,)
    assert main([file + "x"]) == EXIT_FAILED
    assert "does not exist" in caplog.text
    assert (main([]), main([file, "--capture-name", "A"])) == (EXIT_USAGE, EXIT_USAGE)


def test_dropped_triggers_are_a_lost_position(case: SqliteCase) -> None:
    _start(case, capture_drop_on_stop="true")
    case.stop()
    case.start()
    with pytest.raises(DatabaseReplacedError, match="somebody has dropped the connector's tables"):
        case.read_all()
    case.restart(snapshot_mode="when_needed")
    assert case.events() == [("r", None, {"id": 1, "name": "a"})]
    case.commit()
    case.restart(snapshot_mode="initial")
    with pytest.raises(DatabaseReplacedError):
        case.read_all()
    case.stop()
    case.offsets = type(case.offsets)()
    case.start()
    assert len(case.read_all()) == 1


def test_path_with_special_characters(case: SqliteCase, tmp_path: Path) -> None:
    folder = tmp_path / "a b?c#d%20"
    folder.mkdir()
    case.run(ITEMS, "INSERT INTO items VALUES (1, 'a')", "PRAGMA journal_mode=DELETE")
    shutil.copy(case.path, folder / "x y.db")
    case.start(database_file=str(folder / "x y.db"))
    assert len(case.read_all()) == 1
