"""Snapshots on several connections: all as of one point in time, with the markers of a snapshot on one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from connect.record import SourceRecord
from connectors.postgres.snapshot import copy_stream, table_plan
from tests.support import randomness


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_stream, "BATCH_ROWS", 200)
    monkeypatch.setattr(table_plan, "MIN_PARALLEL_BYTES", 64 << 10)


def fill(db: Any, rows: int = 3000) -> None:
    """Accounts whose amounts add up to 0, in two tables."""
    for name in "ab":
        db.execute(f"create table {name}(id int primary key, amount int, pad text)")
        db.execute(f"insert into {name} select i, 0, repeat('x', 1000) from generate_series(1, {rows}) i")
    db.execute("analyze")


@contextmanager
def transfers(source: Any, rows: int = 3000) -> Iterator[None]:
    """Moves amounts between the tables all the time."""
    stop = threading.Event()

    def run() -> None:
        chance = randomness.chance("transfers")
        with source.sql() as db:
            while not stop.is_set():
                with db.transaction():
                    db.execute("update a set amount = amount - 1 where id = %s", [chance.randrange(rows) + 1])
                    db.execute("update b set amount = amount + 1 where id = %s", [chance.randrange(rows) + 1])

    writer = threading.Thread(target=run)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


def amounts(records: list[SourceRecord]) -> Counter[str]:
    found: Counter[str] = Counter()
    for record in records:
        if record.value is not None and record.value["op"] == "r":
            found["rows"] += 1
            found["sum"] += record.value["after"]["amount"]
    return found


def reader_pids(db: Any) -> list[int]:
    """The sessions that read the snapshot; the first one holds its locks."""
    sql = (
        "select pid from pg_stat_activity where application_name = 'sluice' and datname = current_database() "
        "and xact_start is not null and backend_type = 'client backend' order by backend_start"
    )
    return [pid for (pid,) in db.execute(sql).fetchall()]


@pytest.mark.long
def test_a_snapshot_alone_is_of_one_point_in_time(source: Any) -> None:
    with source.sql() as db:
        fill(db)
        with transfers(source):
            source.start(snapshot_max_threads="4", snapshot_mode="initial_only")
            records = source.until("done")
    assert amounts(records) == {"rows": 6000, "sum": 0}


def test_all_connections_read_as_of_one_point_in_time(source: Any) -> None:
    with source.sql() as db:
        fill(db)
        with transfers(source):
            source.start(snapshot_max_threads="4")
            source.until("snapshot")
            records = source.poll()
            assert len(reader_pids(db)) == 4
            records += source.until("snapshot completed")
        assert amounts(records) == {"rows": 6000, "sum": 0}
        records += source.until("streaming")
        records += source.quiet()
        balance = {(r.topic, r.key["id"]): r.value["after"]["amount"] for r in records if r.value is not None}
        rows = [(f"shop.public.{n}", *row) for n in "ab" for row in db.execute(f"select id, amount from {n}").fetchall()]
    assert balance == {(topic, id_): amount for topic, id_, amount in rows}


def test_markers_are_those_of_one_connection(source: Any) -> None:
    with source.sql() as db:
        fill(db)
        db.execute("create table c(id int primary key); create table d(id int primary key); insert into d values (1)")
        db.execute("create table e(id int, v text); insert into e select i from generate_series(1, 700) i")
        source.start(snapshot_max_threads="3", snapshot_max_threads_multiplier="2")
        records = source.until("streaming")
    marks = [(r.topic.rpartition(".")[2], r.value["source"]["snapshot"]) for r in records]
    assert marks[0] == ("a", "first")
    counts = Counter(marks)
    assert len(marks) == 6701
    for table in "abde":
        last = max(i for i, (name, _) in enumerate(marks) if name == table)
        first = min(i for i, (name, _) in enumerate(marks) if name == table)
        assert marks[last][1] in ("last_in_data_collection", "last")
        assert marks[first][1] in ("first", "first_in_data_collection") or first == last
        assert sum(counts[table, mark] for mark in ("first_in_data_collection", "first")) == (first != last)
        assert sum(counts[table, mark] for mark in ("last_in_data_collection", "last")) == 1
    assert [mark for _, mark in marks].index("last") == 6700
    assert [r.source_offset["last_snapshot_record"] for r in records if r.source_offset] == [False] * 6700 + [True]
    assert set(Counter((r.topic, r.value["after"]["id"]) for r in records).values()) == {1}


@pytest.mark.long
def test_a_connection_that_is_lost_is_replaced_at_the_same_point_in_time(source: Any, caplog: Any) -> None:
    with source.sql() as db:
        fill(db, 12_000)
        with transfers(source, 12_000):
            source.start(snapshot_max_threads="3")
            source.until("snapshot")
            records = source.poll()
            before = reader_pids(db)
            db.execute("select pg_terminate_backend(%s)", [before[-1]])
            while "replacing a connection" not in caplog.text:
                records += source.poll()
            records += source.poll()
            now = reader_pids(db)
            records += source.until("snapshot completed")
    assert len(now) == 3
    assert now[:2] == before[:2]
    assert amounts(records) == {"rows": 24_000, "sum": 0}


def test_a_statement_that_waits_for_the_snapshot_does_not_stop_it(source: Any) -> None:
    """New readers of the table wait behind the ALTER TABLE, which waits for the first connection."""
    with source.sql() as db, source.sql() as migration:
        fill(db)
        source.start(snapshot_max_threads="3")
        source.until("snapshot")
        alter = threading.Thread(target=lambda: migration.execute("alter table b add more int"))
        alter.start()
        while not db.execute("select count(*) from pg_locks where not granted and mode = 'AccessExclusiveLock'").fetchone()[0]:
            pass
        records = source.until("snapshot completed")
        alter.join()
    assert amounts(records)["rows"] == 6000


@pytest.mark.long
def test_too_few_connections_are_enough(source: Any, role: str, caplog: Any) -> None:
    with source.sql() as db:
        fill(db)
        db.execute("create publication sluice for all tables")
        db.execute(f"alter role {role} connection limit 3; grant select on all tables in schema public to {role}")
        source.start(snapshot_max_threads="4", source_check_interval_ms="0")
        records = source.until("snapshot completed")
    assert amounts(records)["rows"] == 6000
    assert "the snapshot continues with 2 of 4 connections" in caplog.text


def test_progress_names_the_tables_that_are_read(source: Any) -> None:
    with source.sql() as db:
        fill(db)
        task = source.start(snapshot_max_threads="2", legacy_snapshot_max_threads="true")
        source.until("snapshot")
        for _ in range(5):
            source.poll()
        during = task.progress()
        source.until("snapshot completed")
        after = task.progress()
    assert during["tables"] == ["public.a", "public.b"]
    assert (during["tables_done"], during["tables_total"], during["rows_estimate"]) == (0, 2, 6000)
    assert 0 < during["rows"] < 6000
    assert during["bytes"] > 1000 * during["rows"]
    assert (after["tables_done"], after["rows"], after["seconds_left"], after["tables"]) == (2, 6000, 0, [])
