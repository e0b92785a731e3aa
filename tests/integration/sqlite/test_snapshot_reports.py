"""Progress of snapshots, and notifications about them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connect.record import SourceRecord
from tests.integration.sqlite.conftest import SqliteCase, events
from tests.support.replayed_events import plain

FILL = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 3000) INSERT INTO t SELECT i FROM c"
BOTH = "main.empty,main.t"


def _start(case: SqliteCase, **config: str) -> None:
    case.run("CREATE TABLE empty(id INTEGER PRIMARY KEY)", "CREATE TABLE t(id INTEGER PRIMARY KEY)", FILL)
    case.start(notification_enabled_channels="sink", notification_sink_topic_name="notes", **config)


def _notes(records: list[SourceRecord]) -> list[dict[str, Any]]:
    return [plain(record.value) for record in records if record.topic == "notes"]


def _read(records: list[SourceRecord]) -> int:
    return len(events([record for record in records if record.topic != "notes"]))


def _execute(case: SqliteCase, **data: object) -> None:
    assert case.harness is not None
    data = {"data-collections": ["main.t", "main.empty"], **data}
    case.harness.task.signal("s1", "execute-snapshot", json.dumps(data))


def _until_completed(case: SqliteCase) -> list[SourceRecord]:
    return case.poll_until(lambda records: any(note["type"] == "COMPLETED" for note in _notes(records)))


def test_notifications_of_an_initial_snapshot(case: SqliteCase) -> None:
    _start(case)
    records = case.poll_until(lambda found: len(_notes(found)) == 6)
    name = {"connector_name": "shop"}
    both = {**name, "data_collections": BOTH}
    done = {**both, "status": "SUCCEEDED"}
    assert [(note["type"], note["additional_data"]) for note in _notes(records)] == [
        ("STARTED", name),
        ("IN_PROGRESS", {**both, "current_collection_in_progress": "main.empty"}),
        ("TABLE_SCAN_COMPLETED", {**done, "scanned_collection": "main.empty", "total_rows_scanned": "0"}),
        ("IN_PROGRESS", {**both, "current_collection_in_progress": "main.t"}),
        ("TABLE_SCAN_COMPLETED", {**done, "scanned_collection": "main.t", "total_rows_scanned": "3000"}),
        ("COMPLETED", name),
    ]
    assert {note["aggregate_type"] for note in _notes(records)} == {"Initial Snapshot"}
    case.commit()
    case.restart()
    assert [note["type"] for note in _notes(case.read_all())] == ["SKIPPED"]
    case.run("DELETE FROM t WHERE id = 1")
    assert _read(case.read_all()) == 1


def test_notifications_of_an_incremental_snapshot(case: SqliteCase) -> None:
    _start(case, snapshot_mode="no_data", incremental_snapshot_chunk_size="2000")
    case.read_all()
    _execute(case)
    records = _until_completed(case)
    assert _read(records) == 3000
    notes = _notes(records)
    assert [note["type"] for note in notes] == [
        "STARTED", "IN_PROGRESS", "TABLE_SCAN_COMPLETED", "TABLE_SCAN_COMPLETED", "COMPLETED",
    ]  # fmt: skip
    assert {(note["id"], note["aggregate_type"]) for note in notes} == {("s1", "Incremental Snapshot")}
    found = {note["additional_data"]["scanned_collection"]: note["additional_data"] for note in notes[2:4]}
    assert (found["main.t"]["status"], found["main.t"]["total_rows_scanned"]) == ("SUCCEEDED", "3000")
    assert found["main.empty"]["status"] == "EMPTY"
    assert [note["additional_data"]["last_processed_key"] for note in notes if note["type"] == "IN_PROGRESS"] == ["2000"]


def test_notifications_of_signals_that_control_an_incremental_snapshot(case: SqliteCase) -> None:
    _start(case, snapshot_mode="no_data", incremental_snapshot_chunk_size="10")
    case.read_all()
    assert case.harness is not None
    task = case.harness.task
    _execute(case)
    case.poll_until(lambda records: _read(records) > 20)
    task.signal("s2", "pause-snapshot", None)
    assert [note["type"] for note in _notes(case.read_all())][-1] == "PAUSED"
    assert task.progress()["incremental_snapshot"]["paused"]
    task.signal("s3", "resume-snapshot", None)
    task.signal("s4", "stop-snapshot", None)
    notes = _notes(case.poll_until(lambda records: any(note["type"] == "ABORTED" for note in _notes(records))))
    assert [note["type"] for note in notes] == ["RESUMED", "ABORTED"]
    assert "incremental_snapshot" not in task.progress()
    _execute(case)
    assert _notes(_until_completed(case))[0]["type"] == "STARTED"


def test_interrupted_initial_snapshot_is_aborted_and_started_again(case: SqliteCase, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    case.run("CREATE TABLE t(id INTEGER PRIMARY KEY)", FILL.replace("3000", "9000"))
    case.start(notification_enabled_channels="log")
    case.poll_until(lambda records: _read(records) > 0)
    case.commit()
    case.restart()
    case.read_all()
    types = [m.split(" type='")[1].split("'")[0] for m in caplog.messages if "[Notification Service]" in m]
    assert types == [
        "STARTED", "IN_PROGRESS", "ABORTED", "STARTED", "IN_PROGRESS", "TABLE_SCAN_COMPLETED", "COMPLETED",
    ]  # fmt: skip


def test_incremental_snapshot_that_a_restart_continues_is_not_started_again(case: SqliteCase) -> None:
    _start(case, snapshot_mode="no_data", incremental_snapshot_chunk_size="1000")
    case.read_all()
    _execute(case)
    records = case.poll_until(lambda found: _read(found) > 0)
    case.commit()
    case.restart()
    records += _until_completed(case)
    notes = [note["type"] for note in _notes(records) if note["aggregate_type"] == "Incremental Snapshot"]
    assert (notes.count("STARTED"), notes.count("COMPLETED"), _read(records)) == (1, 1, 3000)


def test_progress_of_later_snapshots(case: SqliteCase) -> None:
    _start(case, incremental_snapshot_chunk_size="1000")
    case.read_all()
    assert case.harness is not None
    task = case.harness.task
    condition = [{"data-collection": "main.t", "filter": "id > 1000"}]
    _execute(case, type="blocking", **{"additional-conditions": condition})
    _until_completed(case)
    progress = task.progress()
    assert (progress["tables_total"], progress["tables_done"], progress["rows"], progress["table"]) == (2, 2, 2000, None)
    _execute(case)
    case.poll_until(lambda records: 0 < _read(records) < 3000)
    state = task.progress()["incremental_snapshot"]
    assert (state["tables"][0], state["rows"], state["last_key"], state["paused"]) == ("main.t", 1000, ("1000",), False)
    assert {metric.name: metric.value for metric in task.metrics()}["sqlite_incremental_snapshot_rows"] == 1000
    _until_completed(case)
    progress = task.progress()
    assert "incremental_snapshot" not in progress
    assert (progress["tables_done"], progress["rows"]) == (2, 2000)
