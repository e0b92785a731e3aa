"""The snapshot, its transition to streaming, and interruptions."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from connect.errors import ConnectError
from connect.record import SourceRecord
from connectors.cdc.interrupt import Interrupt
from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import parse_config
from connectors.postgres.connection import Connection
from connectors.postgres.schema.catalog import read_tables
from connectors.postgres.snapshot.transaction import start_snapshot
from connectors.postgres.streaming import slots
from connectors.postgres.streaming.captured_tables import CapturedTables
from tests.support.cases import first_fast
from tests.support.waiting import WAIT_S, eventually


def fill(db: Any) -> None:
    db.execute(
        "create table a(id int primary key, v text); insert into a select i, 'a' || i from generate_series(1, 3) i;"
        "create table b(id int primary key); create table c(id int primary key); insert into c values (1);"
        "create table d(id int primary key); insert into d values (1), (2); create table e(id int primary key)"
    )


def marks(records: list[Any]) -> list[tuple[str, str]]:
    return [(r.topic.rpartition(".")[2], r.value["source"]["snapshot"]) for r in records]


def test_markers_and_offsets_are_debeziums(source: Any, show: Any) -> None:
    with source.sql() as db:
        fill(db)
    source.start()
    records = source.read(6)
    assert marks(records) == [
        ("a", "first"),
        ("a", "true"),
        ("a", "last_in_data_collection"),
        ("c", "last_in_data_collection"),
        ("d", "first_in_data_collection"),
        ("d", "last"),
    ]
    assert {r.value["op"] for r in records} == {"r"}
    assert [r.source_offset["snapshot_completed"] for r in records] == [False] * 5 + [True]
    assert [r.source_offset["last_snapshot_record"] for r in records] == [False] * 5 + [True]
    assert {r.source_offset["snapshot"] for r in records} == {"INITIAL"}
    assert len({r.value["source"]["lsn"] for r in records}) == 1
    for record in records:
        record.value.validate()
        record.key.validate()


def test_single_row_is_last(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table a(id int primary key); insert into a values (1)")
    source.start()
    assert marks(source.read(1)) == [("a", "last")]


def test_large_tables_come_in_batches_with_one_schema_object(source: Any) -> None:
    with source.sql() as db:
        db.execute(
            "create table a(id int primary key, v text); insert into a select i, 'v' || i from generate_series(1, 25000) i"
        )
        source.start()
        records = source.read(25_000)
        db.execute("insert into a values (0, 'new')")
        (change,) = source.read(1)
    assert [r.key["id"] for r in records] == list(range(1, 25_001))
    assert {id(r.value_schema) for r in [*records, change]} == {id(change.value_schema)}
    assert {id(r.key_schema) for r in [*records, change]} == {id(change.key_schema)}


def test_changes_during_the_snapshot_follow_it(source: Any, show: Any) -> None:
    with source.sql() as db:
        fill(db)
        source.start()
        source.until("snapshot")  # the moment is fixed, nothing is read
        db.execute("update a set v = 'changed' where id = 1")
        db.execute("delete from a where id = 2")
        records = source.read(9)
    assert [show(r)[1:] for r in records if r.topic.endswith(".a")] == [
        ("r", None, {"id": 1, "v": "a1"}),
        ("r", None, {"id": 2, "v": "a2"}),
        ("r", None, {"id": 3, "v": "a3"}),
        ("u", None, {"id": 1, "v": "changed"}),
        ("d", {"id": 2, "v": None}, None),
        ("tombstone", {"id": 2}),
    ]


def test_a_transaction_open_during_the_snapshot_is_neither_lost_nor_reordered(source: Any, show: Any) -> None:
    """Its changes lie below the snapshot's LSN, its commit above: only the order of commits can tell."""
    with source.sql() as db, source.sql() as first, source.sql() as second, source.sql() as third:
        fill(db)
        for connection in (first, second, third):
            connection.autocommit = False
        first.execute("insert into a values (10, 'first')")
        source.start()
        polls = threading.Thread(target=source.poll)  # makes the slot: waits for `first`, then for `second`
        polls.start()
        wait_for(db, f"select count(*) from pg_locks where {waits_for(first)}")
        second.execute("insert into a values (11, 'second')")
        waits = f"select count(*) from pg_locks where {waits_for(second)}"
        first.commit()
        wait_for(db, waits)  # the server takes note of what runs now, and waits for it
        third.execute("insert into a values (12, 'third')")
        third.execute("update a set v = 'late' where id = 1")
        second.commit()
        polls.join(WAIT_S)
        assert not polls.is_alive()
        records = source.until("streaming")
        db.execute("insert into a values (13, 'after')")
        third.commit()
        records += source.read(3)
    rows = [show(r)[1:] for r in records if r.topic.endswith(".a")]
    lsn = records[0].value["source"]["lsn"]
    snapshot = {r[2]["id"]: r[2]["v"] for r in rows if r[0] == "r"}
    assert snapshot == {1: "a1", 2: "a2", 3: "a3", 10: "first", 11: "second"}
    assert [r for r in rows if r[0] != "r"] == [
        ("c", None, {"id": 13, "v": "after"}),
        ("c", None, {"id": 12, "v": "third"}),
        ("u", None, {"id": 1, "v": "late"}),
    ]
    late = [r.value["source"]["lsn"] for r in records if r.value["op"] != "r"][1:]
    assert all(change < lsn for change in late), (late, lsn)


def waits_for(writer: Any) -> str:
    """The lock that somebody waits for until the transaction of this connection ends."""
    xid = writer.execute("select pg_current_xact_id()::xid::text").fetchone()[0]
    return f"locktype = 'transactionid' and transactionid = '{xid}'::xid and not granted"


def wait_for(db: Any, sql: str) -> None:
    eventually(lambda: db.execute(sql).fetchone()[0], sql)


@pytest.mark.parametrize("stored", first_fast([False, True]), ids=["no offset", "offset of an unfinished snapshot"])
def test_an_interrupted_snapshot_restarts_after_streaming_changes_since_then(source: Any, show: Any, stored: bool) -> None:
    """The first try has already put rows into the topics, so a row deleted since must still be deleted there."""
    with source.sql() as db:
        fill(db)
        source.start()
        source.until("snapshot")
        early = source.poll()
        assert early
        if stored:
            source.store(early[0])
        source.kill()
        db.execute("delete from a where id = 1")
        db.execute("update a set v = 'newer' where id = 2")
        db.execute("insert into a values (4, 'a4')")
        source.start()
        records = source.until("streaming")
        db.execute("insert into a values (5, 'a5')")
        records += source.read(1)
        # The temporary one goes with its session, which the server ends a moment after the task.
        wait_for(db, "select count(*) = 1 from pg_replication_slots where database = current_database()")
    rows = [show(r)[1:] for r in records if r.topic.endswith(".a")]
    assert rows == [
        ("d", {"id": 1, "v": None}, None),
        ("tombstone", {"id": 1}),
        ("u", None, {"id": 2, "v": "newer"}),
        ("c", None, {"id": 4, "v": "a4"}),
        *rows[4:7],
        ("c", None, {"id": 5, "v": "a5"}),
    ]
    assert sorted((r[0], r[2]["id"], r[2]["v"]) for r in rows[4:7]) == [("r", 2, "newer"), ("r", 3, "a3"), ("r", 4, "a4")]
    changes = [r for r in records if r.value is not None and r.value["op"] in ("d", "u")]
    assert {r.source_offset["snapshot_completed"] for r in changes} == {False}  # stored alone they still ask for the snapshot


@pytest.mark.long
def test_the_snapshot_is_taken_after_an_interrupted_catch_up(source: Any, show: Any) -> None:
    with source.sql() as db:
        fill(db)
        source.start()
        source.until("snapshot")
        source.kill()
        db.execute("delete from a where id = 1")
        db.execute("delete from a where id = 2")
        source.start(max_batch_size="1")
        source.until("catching up")
        records: list[SourceRecord] = []
        while not records:
            records = source.poll()
        source.store(records[-1])
        source.kill()
        source.start(max_batch_size="2048")
        records = source.until("streaming")
    rows = [show(r)[1:] for r in records if r.topic.endswith(".a")]
    assert rows[:2] == [("d", {"id": 2, "v": None}, None), ("tombstone", {"id": 2})]
    assert [r[0] for r in rows[2:]] == ["r"]


@pytest.mark.long
def test_the_task_waits_for_an_existing_temporary_slot(source: Any) -> None:
    """The server may take longer to end the session of the try before than this one needs to begin."""
    with source.sql() as db:
        fill(db)
        source.start()
        source.until("snapshot")
        source.kill()
        before = source.sql()
        temporary = f"{source.config['slot.name']}_snapshot"
        before.execute("select pg_create_logical_replication_slot(%s, 'pgoutput', true)", [temporary])
        source.start()
        source.until("waiting for slot")
        before.close()
        records = source.until("streaming")
    assert {r.value["op"] for r in records} == {"r"}
    assert len(records) == 6


def test_a_stored_complete_snapshot_is_not_repeated(source: Any, show: Any) -> None:
    with source.sql() as db:
        fill(db)
        source.start()
        records = source.read(6)
        source.store(records[-1])
        source.kill()
        db.execute("insert into b values (7)")
        source.start()
        assert [show(r)[:2] for r in source.read(1)] == [("b", "c")]


def test_snapshot_modes(source: Any, show: Any) -> None:
    with source.sql() as db:
        fill(db)
        source.start(snapshot_mode="initial_only")
        records = source.until("done")
        assert len(records) == 6
        assert db.execute("select count(*) from pg_replication_slots where database = current_database()").fetchone()[0] == 0
        source.store(records[-1])
        source.kill()
        source.start()
        source.until("done")
        source.kill()
        source.offsets.stored = None
        source.start(snapshot_mode="no_data")
        source.until("streaming")
        db.execute("insert into b values (1)")
        (record,) = source.read(1)
        source.store(record)
        source.kill()
        db.execute("insert into b values (2)")
        source.start(snapshot_mode="always")
        again = source.until("streaming")
    assert [show(r)[:2] for r in again if r.topic.endswith(".b")] == [("b", "c"), ("b", "r"), ("b", "r")]


def test_tables_to_read_and_overrides(source: Any, show: Any) -> None:
    with source.sql() as db:
        fill(db)
    source.config["snapshot.select.statement.overrides.public.a"] = "select * from public.a where id > 1;"
    source.start(snapshot_include_collection_list="public\\.(a|c)", snapshot_select_statement_overrides="public.a")
    assert sorted((show(r)[0], r.key["id"]) for r in source.read(3)) == [("a", 2), ("a", 3), ("c", 1)]


def test_partitions_appear_as_leaves_or_as_their_root(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute(
            "create table p(id int primary key) partition by range (id);"
            "create table p1 partition of p for values from (0) to (10);"
            "create table p2 partition of p for values from (10) to (20); insert into p values (1), (11)"
        )
        source.start()
        assert [show(r)[0] for r in source.read(2)] == ["p1", "p2"]
        source.kill()
        source.drop_slot()
        db.execute("drop publication sluice")
        source.offsets.stored = None
        source.start(publish_via_partition_root="true")
        rows = source.read(2)
        db.execute("insert into p values (12)")
        rows += source.read(1)
    assert [show(r)[0] for r in rows] == ["p", "p", "p"]


def test_progress_counts_tables_and_rows(source: Any) -> None:
    with source.sql() as db:
        fill(db)
        db.execute("analyze")
    task = source.start()
    source.until("snapshot")
    before = task.progress()
    metrics = {one.name: one.value for one in task.metrics()}
    assert (metrics["postgres_snapshot_tables"], metrics["postgres_snapshot_tables_done"]) == (5, 0)
    source.until("streaming")
    after = task.progress()
    assert (before["tables_total"], before["tables_done"], before["rows_estimate"]) == (5, 0, 6)
    assert (after["tables_done"], after["rows"]) == (5, 6)
    assert {"lsn", "lag_bytes", "events", "confirmed_lsn"} <= set(after)


def test_tables_are_not_rewritten_while_they_wait_for_their_turn(source: Any) -> None:
    """A rewritten table looks empty to older snapshots, so the snapshot locks all tables before it reads the first."""
    with source.sql() as db, source.sql() as migration:
        fill(db)
        db.execute("analyze")  # the snapshot counts rows of tables without statistics
        source.start()
        source.until("snapshot")
        migration.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            migration.execute("alter table d alter id type bigint")
        assert len(source.read(6)) == 6
        migration.execute("reset lock_timeout; alter table d alter id type bigint")


@pytest.mark.long
def test_a_table_rewritten_at_the_start_of_the_snapshot_causes_a_new_one(source: Any, monkeypatch: Any) -> None:
    rewrites = iter(["alter table c alter id type bigint", "truncate c; insert into c values (1)"])
    create_slot = slots.create_slot

    def create(*args: Any, **options: Any) -> Any:
        created = create_slot(*args, **options)
        if statement := next(rewrites, None):
            db.execute(statement)
        return created

    monkeypatch.setattr(slots, "create_slot", create)
    with source.sql() as db:
        fill(db)
        source.start()
        records = source.until("streaming")
    rows = [(table, record.key["id"]) for (table, _), record in zip(marks(records), records, strict=True) if is_read(record)]
    assert sorted(rows) == [("a", 1), ("a", 2), ("a", 3), ("c", 1), ("d", 1), ("d", 2)]


def is_read(record: SourceRecord) -> bool:
    return record.value is not None and record.value["op"] == "r"


def test_locking_mode_shared_limits_the_wait_for_locks(source: Any) -> None:
    with source.sql() as db:
        fill(db)
        settings = parse_config({**source.config, "snapshot.locking.mode": "shared", "snapshot.lock.timeout.ms": "1"})
        filters = Filters(settings.capture)
        interrupt = Interrupt()
        connection = Connection.open(settings.address, interrupt)
        captured = CapturedTables(settings, filters, lambda: connection)
        tables = [captured.rows_of(table) for table in read_tables(connection, filters.captures_table)]
        with db.transaction():
            db.execute("lock table c in access exclusive mode")
            with pytest.raises(ConnectError, match=r"cannot lock .* within snapshot\.lock\.timeout\.ms=1"):
                start_snapshot(connection, None, lambda _: tables, settings)
        assert start_snapshot(connection, None, lambda _: tables, settings) == tables
        connection.close()
        interrupt.close()


def test_notifications_of_a_snapshot(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table a(id int primary key); create table b(id int primary key)")
        db.execute("insert into a select generate_series(1, 3)")
    source.start(notification_enabled_channels="sink,log", notification_sink_topic_name="notes")
    records = source.until("streaming")
    assert [(note["type"], tables_of(note)) for note in notes(records)] == [
        ("STARTED", {"connector_name": "shop"}),
        ("IN_PROGRESS", {"connector_name": "shop", "current_collection_in_progress": "public.a", "data_collections": _BOTH}),
        ("TABLE_SCAN_COMPLETED", completed("public.a", 3)),
        ("IN_PROGRESS", {"connector_name": "shop", "current_collection_in_progress": "public.b", "data_collections": _BOTH}),
        ("TABLE_SCAN_COMPLETED", completed("public.b", 0)),
        ("COMPLETED", {"connector_name": "shop"}),
    ]
    assert {note["aggregate_type"] for note in notes(records)} == {"Initial Snapshot"}
    assert [record.key["id"] for record in records if record.topic == "shop.public.a"] == [1, 2, 3]
    source.store(records[-1])
    source.kill()
    source.start()
    source.until("streaming")
    assert [note["type"] for note in notes(source.read(1))] == ["SKIPPED"]


@pytest.mark.long
def test_an_interrupted_snapshot_is_reported_as_aborted(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table a(id int primary key, v text); create unlogged table is_slow as select 1")
        db.execute("insert into a select i, repeat('x', 1000) from generate_series(1, 4000) i")
        sleep = "select case when id > 3000 and exists (select from is_slow) then pg_sleep(100) end"
        source.start(
            table_include_list="public.a",
            snapshot_select_statement_overrides="public.a",
            snapshot_select_statement_overrides_public_a=f"select a.* from a cross join lateral ({sleep}) s",
            notification_enabled_channels="sink",
            notification_sink_topic_name="notes",
            retriable_restart_connector_wait_ms="100",
        )
        source.until("snapshot")
        found = source.poll()
        db.execute("delete from is_slow")
        db.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and pid <> pg_backend_pid()",
            [source.database],
        )
        found += source.until("streaming")
        found += source.quiet()
    types = [note["type"] for note in notes(found)]
    assert [type_ for type_ in types if type_ in ("STARTED", "ABORTED", "COMPLETED")] == [
        "STARTED",
        "ABORTED",
        "STARTED",
        "COMPLETED",
    ]


_BOTH = "public.a,public.b"


def notes(records: list[Any]) -> list[dict[str, Any]]:
    return [record.value.as_dict() for record in records if record.topic == "notes"]


def tables_of(note: dict[str, Any]) -> dict[str, str]:
    return dict(note["additional_data"])


def completed(table: str, rows: int) -> dict[str, str]:
    return {
        "connector_name": "shop", "scanned_collection": table, "data_collections": _BOTH, "total_rows_scanned": str(rows),
        "status": "SUCCEEDED",
    }  # fmt: skip
