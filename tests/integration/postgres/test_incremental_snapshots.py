"""Incremental snapshots: rows are read in chunks while their table changes, and the replayed topic is the table."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connect.errors import BadRequestError
from connect.record import SourceRecord
from connectors.postgres.incremental.positions import JAVA_KEYS
from connectors.postgres.streaming import publications
from tests.support import randomness
from tests.support.cases import first_fast
from tests.support.waiting import Deadline, eventually


def signal(db: Any, type_: str, data: dict[str, Any] | None = None, id_: str = "") -> None:
    db.execute(
        "insert into signals values (%s, %s, %s)", [id_ or f"{type_}-{time.monotonic_ns()}", type_, json.dumps(data or {})]
    )


def execute(db: Any, *tables: str, **data: Any) -> None:
    signal(db, "execute-snapshot", {"data-collections": list(tables), **data}, "s1")


class Replayed:
    """What a consumer of a topic has: rows by key. Events must fit: no row may appear that an older event describes."""

    def __init__(self, table: str) -> None:
        self.table = table
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.operations: list[str] = []

    def apply(self, records: list[SourceRecord]) -> None:
        for record in records:
            if record.topic.rpartition(".")[2] != self.table:
                continue
            key = tuple(record.key.values)
            if record.value is None:
                self.rows.pop(key, None)
                continue
            event = record.value.as_dict()
            self.operations.append(event["op"])
            if event["op"] == "d":
                self.rows.pop(key, None)
            else:
                self.rows[key] = event["after"]

    def listed(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in self.rows.values())


def until_read(source: Any, replayed: Replayed, *, flush: bool = True) -> list[SourceRecord]:
    """Polls until no incremental snapshot runs, and stores offsets on the way."""
    found: list[SourceRecord] = []
    deadline = Deadline("the end of the snapshot", lambda: source.task.progress())
    started = False
    while not started or "incremental_snapshot" in source.task.progress():
        deadline.check()
        records = source.poll()
        found += records
        replayed.apply(records)
        started = (
            started
            or "incremental_snapshot" in source.task.progress()
            or any(r.value is not None and "op" in r.value_schema.field_names and r.value["op"] == "r" for r in records)
        )
        if flush and records:
            source.store(records[-1])
    return found


class Workload:
    """Sessions that change a table all the time."""

    def __init__(self, source: Any, change: Callable[[Any, random.Random], None], sessions: int = 2) -> None:
        self._source = source
        self._change = change
        self._stopped = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(sessions)]

    def _run(self, number: int) -> None:
        rng = randomness.chance(f"session-{number}")
        try:
            with self._source.sql() as db:
                while not self._stopped.is_set():
                    self._change(db, rng)
                    self._stopped.wait(0.002)
        except BaseException as e:
            self._errors.append(e)

    def __enter__(self) -> Workload:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        assert not self._errors


def change_anything(db: Any, rng: random.Random) -> None:
    key = rng.randrange(1, 4000)
    match rng.randrange(5):
        case 0:
            db.execute("insert into t values (%s, 'new') on conflict do nothing", [key])
        case 1:
            db.execute("delete from t where id = %s", [key])
        case 2:
            db.execute("update t set id = %s where id = %s and not exists (select 1 from t where id = %s)", [-key, key, -key])
        case 3:
            with db.transaction():
                db.execute("update t set name = 'a' || %s where id between %s and %s", [rng.random(), key, key + 20])
                db.execute("update t set name = 'b' || %s where id between %s and %s", [rng.random(), key, key + 20])
        case _:
            db.execute("update t set name = 'c' || %s where id = %s", [rng.random(), key])


@pytest.fixture
def table(source: Any) -> Iterator[Any]:
    """A table with rows that were never captured, and a signal table."""
    with source.sql() as db:
        db.execute(
            "create table t(id int primary key, name text); create table signals(id text primary key, type text, data text)"
        )
        db.execute("insert into t select i, 'old' from generate_series(1, 3000) i")
        yield db


@pytest.mark.parametrize("read_only", first_fast(["false", "true"]))
def test_topic_equals_a_table_that_changes_during_the_snapshot(source: Any, table: Any, read_only: str) -> None:
    source.start(
        snapshot_mode="no_data",
        signal_data_collection="public.signals",
        incremental_snapshot_chunk_size="250",
        read_only=read_only,
    )
    source.until("streaming")
    replayed = Replayed("t")
    with Workload(source, change_anything):
        execute(table, "public.t")
        records = until_read(source, replayed)
    replayed.apply(source.quiet())
    assert replayed.listed() == table.execute("select * from t order by 1").fetchall()
    assert replayed.operations.count("r") > 1500
    assert len(replayed.operations) > replayed.operations.count("r")
    written = [r.value["after"]["type"] for r in records if r.topic.endswith(".signals") and r.value["after"]]
    assert ("snapshot-window-open" in written) == (read_only == "false")


@pytest.mark.long
def test_restarts_at_any_point_continue_at_the_chunk_and_lose_nothing(source: Any, table: Any) -> None:
    source.start(snapshot_mode="no_data", signal_data_collection="public.signals", incremental_snapshot_chunk_size="150")
    source.until("streaming")
    replayed = Replayed("t")
    rng = randomness.chance("restarts")
    restarts = 0
    with Workload(source, change_anything):
        execute(table, "public.t")
        deadline = Deadline("the end of the snapshot", lambda: source.task.progress())
        while "incremental_snapshot" not in source.task.progress():
            deadline.check()
            if found := source.poll():
                replayed.apply(found)
                source.store(found[-1])
        while "incremental_snapshot" in source.task.progress():
            deadline.check()
            records = source.poll()
            if not records:
                continue
            # Of a batch, the broker gets some records, and fewer have their offset stored when the worker is killed.
            sent = rng.randrange(1, len(records) + 1) if restarts < 8 and rng.random() < 0.3 else len(records)
            replayed.apply(records[:sent])
            if rng.random() < 0.7:
                source.store(records[rng.randrange(sent)])
            if restarts < 8 and (sent < len(records) or rng.random() < 0.2):
                restarts += 1
                source.kill()
                source.wait_for_slot(table)
                source.start()
                source.until("streaming")
    replayed.apply(source.quiet())
    assert restarts > 3
    assert replayed.listed() == table.execute("select * from t order by 1").fetchall()


def test_signal_outlives_a_kill_before_its_snapshot_starts(source: Any, table: Any) -> None:
    source.start(snapshot_mode="no_data", signal_data_collection="public.signals")
    source.until("streaming")
    execute(table, "public.t")
    source.store(source.read_before_failure(1)[-1])
    source.kill()
    source.wait_for_slot(table)
    source.start()
    replayed = Replayed("t")
    until_read(source, replayed)
    assert len(replayed.rows) == 3000


def test_pause_resume_and_stop(source: Any, table: Any) -> None:
    table.execute("create table u(id int primary key); insert into u values (1)")
    source.start(snapshot_mode="no_data", signal_data_collection="public.signals", incremental_snapshot_chunk_size="10")
    source.until("streaming")
    replayed = Replayed("t")
    execute(table, "public.t", "public.u")
    while not replayed.rows:
        replayed.apply(source.poll())
    signal(table, "pause-snapshot")
    found = source.quiet()
    replayed.apply(found)
    paused_at = len(replayed.rows)
    assert 0 < paused_at < 3000
    assert source.task.progress()["incremental_snapshot"]["paused"] is True
    source.store(found[-1])
    source.kill()
    source.wait_for_slot(table)
    source.start()
    source.until("streaming")
    assert source.quiet() == []
    signal(table, "resume-snapshot")
    while len(replayed.rows) < paused_at + 20:
        found = source.poll()
        replayed.apply(found)
    signal(table, "stop-snapshot", {"data-collections": ["public.t"]})
    other = Replayed("u")
    source.store(until_read(source, other)[-1])
    assert other.listed() == [(1,)]
    assert "incremental_snapshot" not in source.task.progress()
    source.flush()
    assert not [key for key in source.offsets.stored if key.startswith("incremental")]


def test_conditions_and_tables_by_regular_expression(source: Any, table: Any) -> None:
    table.execute("create table t2(id int primary key, name text); insert into t2 select i, 'x' from generate_series(1, 9) i")
    source.start(snapshot_mode="no_data", signal_data_collection="public.signals", incremental_snapshot_chunk_size="7")
    source.until("streaming")
    condition = {"data-collection": "public.t", "filter": "id > 100 and id <= 150 or id = 3"}
    execute(table, r"public\.t\d?", **{"additional-conditions": [condition]})
    one, two = Replayed("t"), Replayed("t2")
    records = until_read(source, one)
    two.apply(records)
    assert [row[0] for row in one.listed()] == [3, *range(101, 151)]
    assert len(two.rows) == 9
    rows = [r for r in records if r.value is not None and r.value["op"] == "r"]
    block = rows[0].value["source"].as_dict()
    assert block["snapshot"] == "incremental"
    assert rows[0].source_offset is not None
    assert block["lsn"] >= rows[0].source_offset["lsn"]
    assert rows[0].headers is None


def test_tables_without_a_key_need_a_surrogate_key(source: Any, table: Any, caplog: Any) -> None:
    table.execute("create table n(a int, b text); alter table n replica identity full")
    table.execute("insert into n select i / 10, i from generate_series(1, 200) i")
    source.start(snapshot_mode="no_data", signal_data_collection="public.signals", incremental_snapshot_chunk_size="7")
    source.until("streaming")
    execute(table, "public.n")
    warning = "public.n has no key; name a column that orders its rows in surrogate-key of the signal"
    source.poll_until(lambda _: warning in caplog.text, "a warning")
    signal(table, "execute-snapshot", {"data-collections": ["public.n"], "surrogate-key": "a"})
    records = [r for r in source.read(200) if r.topic.endswith(".n")]
    assert sorted(int(r.value["after"]["b"]) for r in records) == list(range(1, 201))
    assert {r.key for r in records} == {None}


@pytest.mark.long
def test_rows_with_equal_record_keys_are_all_read(source: Any, table: Any) -> None:
    table.execute("create table n(id int primary key, grp int); alter table n replica identity full")
    table.execute("insert into n select i, i / 10 from generate_series(1, 200) i")
    source.start(
        snapshot_mode="no_data", signal_data_collection="public.signals", incremental_snapshot_chunk_size="7",
        message_key_columns="public.n:grp",
    )  # fmt: skip
    source.until("streaming")
    execute(table, "public.n")
    records = [r for r in source.read(200) if r.topic.endswith(".n")]
    assert sorted(r.value["after"]["id"] for r in records) == list(range(1, 201))


def test_change_of_a_row_replaces_no_others_with_the_same_masked_key(source: Any, table: Any) -> None:
    table.execute("create table n(id text primary key, v int)")
    table.execute("insert into n select 'key' || i, i from generate_series(1, 50) i")
    source.start(
        snapshot_mode="no_data", signal_data_collection="public.signals", incremental_snapshot_chunk_size="1000",
        column_mask_with_3_chars="public.n.id",
    )  # fmt: skip
    source.until("streaming")
    with source.sql() as db:
        execute(db, "public.n")
        seen: set[int] = set()
        deadline = Deadline("50 rows", lambda: seen)
        while len(seen) < 50:
            deadline.check()
            db.execute("update n set v = v where id = 'key7'")
            seen |= {r.value["after"]["v"] for r in source.poll() if r.topic.endswith(".n") and r.value is not None}
    assert seen == set(range(1, 51))


@pytest.mark.parametrize(
    ("type_", "first"),
    first_fast(
        [
            ("text", "'it''s \\' || i"),
            ("bigint", "i * 1000000007::bigint"),
            ("numeric(20,5)", "i / 7.0"),
            ("uuid", "md5(i::text)::uuid"),
            ("timestamptz", "'2020-01-01'::timestamptz + i * interval '1 hour'"),
            ("bytea", "decode(md5(i::text), 'hex')"),
            ("float8", "case when i = 5 then 'NaN' else i / 3.0 end"),
            ("text[]", "array['a', null, i::text]"),
        ]
    ),
)
def test_keys_of_any_type(source: Any, table: Any, type_: str, first: str) -> None:
    table.execute(f"create table k(a {type_}, b int, name text, primary key (a, b))")
    table.execute(f"insert into k select {first}, i, 'x' from generate_series(1, 60) i")
    source.start(snapshot_mode="no_data", signal_data_collection="public.signals", incremental_snapshot_chunk_size="13")
    source.until("streaming")
    execute(table, "public.k")
    found = source.read(20)
    source.store([r for r in found if r.topic.endswith(".k")][-1])
    source.kill()
    source.wait_for_slot(table)
    source.start()
    found += source.read(60 - len(found))
    assert {r.value["after"]["b"] for r in found if r.topic.endswith(".k")} == set(range(1, 61))


def test_a_table_may_be_altered_and_truncated(source: Any, table: Any) -> None:
    source.start(snapshot_mode="no_data", signal_data_collection="public.signals", incremental_snapshot_chunk_size="100")
    source.until("streaming")
    replayed = Replayed("t")
    execute(table, "public.t")
    while len(replayed.rows) < 500:
        replayed.apply(source.poll())
    table.execute("alter table t add column c int not null default 7")
    while len(replayed.rows) < 1000:
        replayed.apply(source.poll())
    assert replayed.rows[(999,)] == {"id": 999, "name": "old", "c": 7}
    table.execute("alter table t alter column id type bigint, drop column name")
    until_read(source, replayed)
    assert replayed.rows[(2999,)] == {"id": 2999, "c": 7}
    assert len(replayed.rows) == 3000


@pytest.mark.long
def test_a_table_whose_key_has_another_order_is_read_from_its_start(source: Any, table: Any, caplog: Any) -> None:
    table.execute('create table k(a text collate "C" primary key, b int)')
    table.execute("insert into k select chr(65 + i % 58) || i, i from generate_series(1, 600) i")
    source.start(snapshot_mode="no_data", signal_data_collection="public.signals", incremental_snapshot_chunk_size="20")
    source.until("streaming")
    replayed = Replayed("k")
    execute(table, "public.k")
    while len(replayed.rows) < 200:
        replayed.apply(source.poll())
    table.execute('alter table k alter column a type text collate "default"')
    until_read(source, replayed)
    assert "the key of public.k has changed; reading the table from its start" in caplog.text
    assert sorted(row["b"] for row in replayed.rows.values()) == list(range(1, 601))


def test_a_table_that_joins_the_publication_is_backfilled(source: Any, table: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(publications, "UPDATE_INTERVAL_S", 0.1)
    source.start(snapshot_mode="no_data", publication_autocreate_mode="filtered", incremental_snapshot_chunk_size="10")
    source.until("streaming")
    with source.sql() as other:
        table.execute("create table n(id int primary key, name text)")
        table.execute("insert into n select i, 'old' from generate_series(1, 30) i")
        with other.transaction():
            # Written before the table joins the publication, committed after.
            other.execute("insert into n values (100, 'late')")
            found: list[SourceRecord] = []
            while not table.execute("select 1 from pg_publication_tables where tablename = 'n'").fetchone():
                found += source.poll()
            table.execute("update n set name = 'new' where id = 7")
            found += source.quiet()
    replayed = Replayed("n")
    replayed.apply(found)
    until_read(source, replayed)
    assert replayed.listed() == table.execute("select * from n order by 1").fetchall()
    assert len(replayed.rows) == 31
    assert "r" in replayed.operations


def test_a_backfill_survives_a_kill_before_the_next_flush(source: Any, table: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(publications, "UPDATE_INTERVAL_S", 0.1)
    source.start(snapshot_mode="no_data", publication_autocreate_mode="filtered", source_check_interval_ms="0")
    source.until("streaming")
    table.execute("insert into t values (0, 'x')")
    source.store(source.read(1)[-1])
    table.execute("create table n(id int primary key); insert into n values (1), (2)")
    while not table.execute("select 1 from pg_publication_tables where tablename = 'n'").fetchone():
        assert source.poll() == []
    for _ in range(2):
        source.kill()
        source.wait_for_slot(table)
        source.start()
        records = source.read(2)
        assert [(r.value["op"], r.key["id"]) for r in records] == [("r", 1), ("r", 2)]
    source.store(records[-1])
    source.kill()
    source.wait_for_slot(table)
    source.start()
    source.until("streaming")
    assert source.quiet() == []


@pytest.mark.long
def test_a_backfill_survives_a_kill_after_an_older_record_was_stored(source: Any, table: Any, monkeypatch: Any) -> None:
    """The offset of a record says which tables the publication had when it was read."""
    monkeypatch.setattr(publications, "UPDATE_INTERVAL_S", 0.1)
    source.start(snapshot_mode="no_data", publication_autocreate_mode="filtered", source_check_interval_ms="0")
    source.until("streaming")
    table.execute("insert into t values (0, 'x')")
    (older,) = source.read(1)
    table.execute("create table n(id int primary key); insert into n values (1), (2)")
    table.execute("insert into t values (-1, 'x')")
    while not table.execute("select 1 from pg_publication_tables where tablename = 'n'").fetchone():
        source.poll()
    source.quiet()
    table.execute("insert into t values (-2, 'x')")
    source.read(1)
    source.store(older)
    source.kill()
    source.wait_for_slot(table)
    source.start()
    assert {(r.topic, r.value["op"]) for r in source.read(4)} == {("shop.public.t", "c"), ("shop.public.n", "r")}


@pytest.mark.parametrize(("mode", "read"), first_fast([("all", 2), ("created", 0)]))
def test_tables_added_at_a_start_are_backfilled_if_asked_for(source: Any, table: Any, mode: str, read: int) -> None:
    table.execute("create table n(id int primary key); insert into n values (1), (2)")
    source.start(
        snapshot_mode="no_data", publication_autocreate_mode="filtered", table_include_list="public.t", backfill_new_tables=mode
    )
    source.until("streaming")
    table.execute("insert into t values (0, 'x')")
    source.store(source.read(1)[-1])
    source.kill()
    source.wait_for_slot(table)
    source.start(table_include_list="public.t,public.n")
    source.until("streaming")
    assert [r.value["op"] for r in source.read(read)] == ["r"] * read


@pytest.mark.parametrize("surrogate_key", first_fast(["", "grp"]))
def test_chunks_of_large_rows_are_smaller(source: Any, table: Any, surrogate_key: str) -> None:
    table.execute("create table large(id int primary key, grp int, body text)")
    table.execute("alter table large alter body set storage external")
    table.execute("insert into large select n, n / 2, repeat('x', 100000) from generate_series(1, 60) n")
    source.start(
        snapshot_mode="no_data",
        signal_data_collection="public.signals",
        max_queue_size_in_bytes="1000000",
        notification_enabled_channels="sink",
        notification_sink_topic_name="notes",
        table_include_list="public.large",
    )
    source.until("streaming")
    execute(table, "public.large", **({"surrogate-key": surrogate_key} if surrogate_key else {}))
    replayed = Replayed("large")
    records = until_read(source, replayed)
    assert [row[0] for row in replayed.listed()] == list(range(1, 61))
    assert len(replayed.operations) == 60
    last_keys = [
        record.value["additional_data"]["last_processed_key"]
        for record in records
        if record.topic == "notes" and record.value["type"] == "IN_PROGRESS"
    ]
    # A surrogate key need not be unique: rows with one value cannot be divided.
    assert last_keys == ([] if surrogate_key else ["10", "20", "30", "40", "50"])


def test_notifications_of_a_snapshot(source: Any, table: Any) -> None:
    source.start(
        snapshot_mode="no_data",
        signal_data_collection="public.signals",
        incremental_snapshot_chunk_size="2000",
        notification_enabled_channels="log,sink",
        notification_sink_topic_name="notes",
    )
    source.until("streaming")
    table.execute("create table empty(id int primary key)")
    execute(table, "public.t", "public.empty")
    records = until_read(source, Replayed("t"))
    notes = [r.value.as_dict() for r in [*records, *source.quiet()] if r.topic == "notes"]
    assert [note["type"] for note in notes] == [
        "STARTED", "IN_PROGRESS", "TABLE_SCAN_COMPLETED", "TABLE_SCAN_COMPLETED", "COMPLETED",
    ]  # fmt: skip
    assert {note["id"] for note in notes} == {"s1"}
    assert {note["aggregate_type"] for note in notes} == {"Incremental Snapshot"}
    assert notes[1]["additional_data"] == {
        "connector_name": "shop", "data_collections": "public.t,public.empty", "current_collection_in_progress": "public.t",
        "maximum_key": "3000", "last_processed_key": "2000",
    }  # fmt: skip
    by_table = {n["additional_data"]["scanned_collection"]: n["additional_data"] for n in notes[2:4]}
    assert (by_table["public.t"]["status"], by_table["public.t"]["total_rows_scanned"]) == ("SUCCEEDED", "3000")
    assert by_table["public.empty"]["status"] == "EMPTY"


def test_an_incremental_snapshot_of_debezium_is_continued(source: Any, table: Any) -> None:
    source.start(snapshot_mode="no_data", signal_data_collection="public.signals", incremental_snapshot_chunk_size="100")
    source.until("streaming")
    execute(table, "public.t")
    while "incremental_snapshot" not in source.task.progress() or not source.task.progress()["incremental_snapshot"]["last_key"]:
        if records := source.poll():
            source.store(records[-1])
    source.kill()
    source.wait_for_slot(table)
    stored = source.offsets.stored
    source.offsets.stored = {key: value for key, value in stored.items() if key != "incremental_snapshot_chunk"}
    read = JAVA_KEYS.parse(stored["incremental_snapshot_primary_key"])
    source.start()
    replayed = Replayed("t")
    until_read(source, replayed)
    assert read is not None
    assert min(replayed.rows) == (int(read[0] or 0) + 1,)
    assert max(replayed.rows) == (3000,)


def test_chunks_wait_for_streamed_transactions_that_are_not_visible_yet(source: Any, table: Any) -> None:
    """With synchronous replication, the stream has a commit before other sessions see it."""
    table.execute(f"alter database {source.database} set synchronous_commit = 'local'")
    with source.sql() as db:
        source.start(snapshot_mode="no_data", signal_data_collection="public.signals", read_only="true")
        source.until("streaming")
        db.execute("alter system set synchronous_standby_names = 'nobody'")
        db.execute("select pg_reload_conf()")
        replayed = Replayed("t")

        def update() -> None:
            with source.sql() as waiting:
                waiting.execute("set synchronous_commit = 'on'")
                waiting.execute("update t set name = 'newer' where id = 5")

        thread = threading.Thread(target=update)
        try:
            eventually(lambda: db.execute("show synchronous_standby_names").fetchone() == ("nobody",), "the setting")
            thread.start()
            while (5,) not in replayed.rows:
                replayed.apply(source.poll())
            signal(db, "execute-snapshot", {"data-collections": ["public.t"]})
            replayed.apply(source.quiet())
            assert replayed.operations == ["u"]
            assert db.execute("select name from t where id = 5").fetchone() == ("old",)
        finally:
            db.execute("alter system reset synchronous_standby_names")
            db.execute("select pg_reload_conf()")
            db.execute("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'")
            thread.join()
        # The snapshot waits for all WAL. What a session leaves that commits nothing, a server flushes after seconds.
        db.execute("select pg_log_standby_snapshot()")
    until_read(source, replayed)
    assert len(replayed.rows) == 3000
    assert replayed.rows[(5,)]["name"] == "newer"


def test_signals_from_rest(source: Any, table: Any) -> None:
    source.start(snapshot_mode="no_data")
    source.until("streaming")
    with pytest.raises(BadRequestError, match="data-collections is missing"):
        source.task.signal("1", "execute-snapshot", "{}")
    with pytest.raises(BadRequestError, match="unknown signal type x"):
        source.task.signal("1", "x", None)
    source.task.signal("1", "execute-snapshot", '{"data-collections": ["public.t"]}')
    replayed = Replayed("t")
    until_read(source, replayed)
    assert len(replayed.rows) == 3000
