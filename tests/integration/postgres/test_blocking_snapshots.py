"""Blocking ad hoc snapshots: the stream pauses, the named tables are read, and the stream continues where it was."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from connect.record import SourceRecord


def execute(db: Any, *tables: str, **data: Any) -> None:
    data = {"type": "BLOCKING", "data-collections": list(tables), **data}
    db.execute("insert into signals values (%s, 'execute-snapshot', %s)", [f"b{time.monotonic_ns()}", json.dumps(data)])


def changes(records: list[SourceRecord]) -> list[tuple[str, str, Any]]:
    return [
        (r.topic.rpartition(".")[2], r.value["op"], (r.value["after"] or r.value["before"])["id"])
        for r in records
        if r.value is not None and not r.topic.endswith(".signals")
    ]


@pytest.fixture
def db(source: Any) -> Any:
    with source.sql() as connection:
        connection.execute("create table signals(id text primary key, type text, data text)")
        connection.execute("create table t(id int primary key); insert into t select generate_series(1, 20)")
        connection.execute("create table u(id int primary key); insert into u values (1)")
        source.start(snapshot_mode="no_data", signal_data_collection="public.signals")
        source.until("streaming")
        yield connection


def test_rows_come_between_the_changes_before_and_after_them(source: Any, db: Any) -> None:
    db.execute("insert into t values (100)")
    execute(db, "public.t")
    db.execute("insert into t values (101)")
    found = source.poll_until(lambda found: any(r.value is not None and r.value["op"] == "r" for r in found), "a row")
    db.execute("insert into t values (102); insert into u values (2)")
    found += source.read(2)
    shown = changes(found)
    rows = [c for c in shown if c[1] == "r"]
    assert sorted(rows) == [("t", "r", i) for i in [*range(1, 21), 100, 101]]
    assert [c for c in shown if c[1] != "r"] == [("t", "c", 100), ("t", "c", 101), ("t", "c", 102), ("u", "c", 2)]
    assert shown.index(("t", "c", 101)) < shown.index(rows[0])
    assert shown.index(rows[-1]) < shown.index(("t", "c", 102))
    markers = [r.value["source"]["snapshot"] for r in found if r.value is not None and r.value["op"] == "r"]
    assert (markers[0], markers[-1]) == ("first", "last")
    assert all("snapshot" not in r.source_offset for r in found)


@pytest.mark.long
def test_a_snapshot_that_was_interrupted_starts_over(source: Any, db: Any) -> None:
    execute(db, r"public\.[tu]", **{"additional-conditions": [{"data-collection": "public.t", "filter": "id > 18"}]})
    source.store(source.read_before_failure(1)[-1])
    source.kill()
    source.wait_for_slot(db)
    db.execute("delete from t where id = 20")
    source.start()
    found = source.until("streaming")
    assert changes(found)[-2:] == [("t", "r", 19), ("u", "r", 1)]
    source.store(found[-1])
    source.kill()
    source.wait_for_slot(db)
    source.start()
    source.until("streaming")
    assert source.quiet() == []


def test_a_snapshot_that_fails_does_not_stop_the_stream(source: Any, db: Any, caplog: Any) -> None:
    execute(db, "public.t", **{"additional-conditions": [{"data-collection": "public.t", "filter": "no_such_column > 18"}]})
    execute(db, "public.no_such_table")
    execute(
        db, "public.t", **{"additional-conditions": [{"data-collection": "public.t", "filter": "select * from t where id = 3"}]}
    )
    found = source.poll_until(lambda found: ("t", "r", 3) in changes(found), "the row")
    db.execute("insert into t values (100)")
    found += source.read(1)
    assert changes(found) == [("t", "r", 3), ("t", "c", 100)]
    assert "the blocking snapshot failed; streaming continues" in caplog.text
    assert "no captured table matches public.no_such_table" in caplog.text


@pytest.mark.long
def test_a_condition_does_not_bring_in_rows_of_inheriting_tables(source: Any, db: Any) -> None:
    db.execute("create table child() inherits (t); insert into child values (500)")
    execute(db, "public.t", **{"additional-conditions": [{"data-collection": "public.t", "filter": "id > 18"}]})
    found = source.poll_until(
        lambda found: any(r.value is not None and r.value["source"]["snapshot"] == "last" for r in found), "the last row"
    )
    assert [c for c in changes(found) if c[1] == "r"] == [("t", "r", 19), ("t", "r", 20)]


def test_notifications_are_those_of_a_snapshot(source: Any, db: Any) -> None:
    source.kill()
    source.wait_for_slot(db)
    source.start(notification_enabled_channels="sink", notification_sink_topic_name="notes")
    source.until("streaming")
    source.quiet()
    execute(db, "public.t", "public.u")
    found = source.poll_until(lambda found: "COMPLETED" in [note["type"] for note in _notes(found)], "the end")
    assert [(note["type"], note["additional_data"].get("scanned_collection")) for note in _notes(found)] == [
        ("STARTED", None), ("IN_PROGRESS", None), ("TABLE_SCAN_COMPLETED", "public.t"), ("IN_PROGRESS", None),
        ("TABLE_SCAN_COMPLETED", "public.u"), ("COMPLETED", None),
    ]  # fmt: skip


@pytest.mark.long
def test_a_snapshot_that_fails_is_reported_as_aborted(source: Any, db: Any) -> None:
    source.kill()
    source.wait_for_slot(db)
    source.start(notification_enabled_channels="sink", notification_sink_topic_name="notes")
    source.until("streaming")
    source.quiet()
    execute(db, "public.t", **{"additional-conditions": [{"data-collection": "public.t", "filter": "1 / (id - 10) > 0"}]})
    found = source.poll_until(lambda found: "ABORTED" in [note["type"] for note in _notes(found)], "the end")
    assert "COMPLETED" not in [note["type"] for note in _notes(found)]


def _notes(records: list[SourceRecord]) -> list[dict[str, Any]]:
    return [r.value.as_dict() for r in records if r.topic == "notes"]
