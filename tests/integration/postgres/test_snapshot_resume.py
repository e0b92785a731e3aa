"""Snapshots that are interrupted: what was completed is not read again, and the topics still equal the tables."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import orjson
import pytest

from connect.record import SourceRecord
from connectors.postgres.offsets import SNAPSHOT_STATE
from connectors.postgres.snapshot import copy_stream, table_plan
from tests.support import randomness
from tests.support.cases import first_fast

KEYS = {
    "text": "'k''\\' || chr(9) || i || chr(10) || 'é'",
    "bigint": "i",
    "uuid": "md5(i::text)::uuid",
    "numeric(10,2)": "i / 7.0",
    "timestamptz": "timestamptz '2000-01-01 BC' + i * interval '1 month'",
    "bytea": "decode(md5(i::text), 'hex')",
    "double precision": "case i when 1 then 'NaN' when 2 then '-Infinity' else i / 3.0 end",
    "char(12)": "i::text",
    "inet": "inet '10.0.0.0' + i",
    "boolean": "i % 2 = 0",
    "mood": "(array['sad', 'it''s', 'a\\b']::mood[])[1 + i % 3]",
    "positive": "i",
}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_stream, "BATCH_ROWS", 100)
    monkeypatch.setattr(table_plan, "RANGE_BYTES", 32 << 10)
    monkeypatch.setattr(table_plan, "MIN_PARALLEL_BYTES", 16 << 10)


def poll_records(source: Any) -> list[SourceRecord]:
    records: list[SourceRecord] = source.read_before_failure(1)
    return records


def read_some(source: Any, count: int) -> list[SourceRecord]:
    """Reads whole batches and stores their offset."""
    records: list[SourceRecord] = []
    while len(records) < count:
        records += poll_records(source)
    source.store(records[-1])
    return records


def replay(records: list[SourceRecord]) -> dict[str, dict[str, dict[str, Any]]]:
    """The rows that a consumer of the topics has, by table and key."""
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for record in records:
        rows = tables.setdefault(record.topic.rpartition(".")[2], {})
        key = repr(record.key.as_dict())
        after = None if record.value is None else record.value["after"]
        if after is None:
            rows.pop(key, None)
        else:
            rows[key] = after.as_dict()
    return tables


def reads(records: list[SourceRecord], table: str) -> Counter[Any]:
    """How often each row was read, by its id."""
    return Counter(
        r.value["after"]["id"] for r in records if r.topic.endswith(f".{table}") and r.value is not None and r.value["op"] == "r"
    )


def rows_of(db: Any, table: str) -> list[tuple[Any, ...]]:
    return sorted(db.execute(f"select id, v from {table}").fetchall())


def replayed(records: list[SourceRecord], table: str) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["v"]) for row in replay(records).get(table, {}).values())


def markers(records: list[SourceRecord], table: str) -> list[str]:
    found = [r.value["source"]["snapshot"] for r in records if r.value is not None and r.topic.endswith(f".{table}")]
    return [marker for marker in found if marker not in ("true", "false")]


def test_only_missing_rows_are_read_after_an_interruption(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, v text); insert into t select i, 'v' || i from generate_series(1, 1000) i")
        source.start()
        records = read_some(source, 300)
        done = len(records)
        source.kill()
        db.execute("update t set v = 'early' where id in (1, 2); update t set v = 'late' where id in (999, 1000)")
        db.execute("delete from t where id in (3, 998)")
        db.execute("insert into t values (-1, 'new'), (2000, 'new')")
        db.execute("update t set id = id + 5000 where id in (5, 6); update t set id = id - 5000 where id = 990")
        source.start()
        rest = source.until("streaming")
        assert replayed(records + rest, "t") == rows_of(db, "t")
    assert not (reads(records, "t") & reads(rest, "t"))
    assert len(reads(rest, "t")) == 1000 - done - 2 + 3  # deleted, moved away, moved here, and inserted
    assert markers(records + rest, "t") == ["first", "last"]
    assert rest[-1].source_offset is not None
    assert SNAPSHOT_STATE not in rest[-1].source_offset


def test_completed_tables_are_not_read_again(source: Any) -> None:
    with source.sql() as db:
        for name in "abcd":
            db.execute(
                f"create table {name}(id int primary key, v text); insert into {name} select i from generate_series(1, 50) i"
            )
        db.execute("create table nokey(id int, v text); insert into nokey select i from generate_series(1, 150) i")
        source.start()
        records: list[SourceRecord] = []
        while not any(r.topic.endswith(".c") for r in records):
            records += poll_records(source)
        source.store(records[-1])
        source.kill()
        source.start()
        rest = source.until("streaming")
    assert [len(reads(rest, table)) for table in "abcd"] == [0, 0, 50 - len(reads(records, "c")), 50]
    assert markers(records + rest, "nokey") == ["first_in_data_collection", "last"]
    assert {count for table in "abcd" for count in reads(records + rest, table).values()} == {1}


def test_a_table_without_a_key_starts_over(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table a(id int primary key, v text); insert into a values (1)")
        db.execute("create table nokey(id int, v text); insert into nokey select i from generate_series(1, 500) i")
        source.start()
        records = read_some(source, 250)
        source.kill()
        source.start()
        rest = source.until("streaming")
    assert (len(reads(rest, "a")), len(reads(rest, "nokey"))) == (0, 500)
    assert 0 < len(reads(records, "nokey")) < 500


@pytest.mark.parametrize("type_", first_fast(KEYS))
def test_keys_of_many_types_are_resumed(source: Any, type_: str) -> None:
    """With a second column, which makes keys unique."""
    with source.sql() as db:
        db.execute("create type mood as enum ('sad', 'it''s', 'a\\b'); create domain positive as numeric check (value > 0)")
        db.execute(
            f"create table t(k {type_}, id int, v text, primary key (k, id)); "
            f"insert into t select {KEYS[type_]}, i, repeat('x', 200) from generate_series(1, 400) i; analyze t"
        )
        source.start()
        records = read_some(source, 150)
        source.kill()
        db.execute("update t set v = 'new' where id % 50 = 0; delete from t where id % 77 = 0")
        source.start()
        records += (rest := source.until("streaming"))
        assert replayed(records, "t") == rows_of(db, "t")
    assert set(reads(records, "t").values()) == {1}
    assert 0 < len(reads(rest, "t")) < 300


WHOLE = {
    "override": ("id int primary key, v text", {"snapshot.select.statement.overrides": "public.t"}),
    "record key without the primary key": ("id int primary key, v text not null", {"message.key.columns": "public.t:v"}),
    "index on part of the rows": ("id int not null, v text", {}),
}


@pytest.mark.parametrize("reason", first_fast(WHOLE))
def test_tables_without_a_suitable_key_start_over(source: Any, reason: str) -> None:
    columns, settings = WHOLE[reason]
    source.config.update(settings)
    source.config["snapshot.select.statement.overrides.public.t"] = "select * from public.t"
    with source.sql() as db:
        db.execute(f"create table t({columns}); insert into t select i, 'v' || i from generate_series(1, 500) i")
        db.execute("create unique index on t (id) where id > 0; alter table t replica identity full")
        source.start()
        read_some(source, 250)
        source.kill()
        db.execute("update t set v = 'new' where id in (1, 500)")
        source.start()
        rest = source.until("streaming")
    assert len(reads(rest, "t")) == 500


@pytest.mark.long
def test_partitions_are_resumed_as_their_root(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, v text) partition by range (id)")
        for number in range(3):
            db.execute(f"create table t{number} partition of t for values from ({number * 400}) to ({number * 400 + 400})")
        db.execute("insert into t select i, repeat('x', 200) from generate_series(0, 1199) i; analyze t")
        source.start(publish_via_partition_root="true")
        records = read_some(source, 500)
        source.kill()
        db.execute("delete from t where id in (1, 900); update t set v = 'new' where id in (2, 901)")
        source.start()
        records += source.until("snapshot") + read_some(source, 200)
        assert set(reads(records, "t").values()) == {1}
        source.kill()
        db.execute("create table t3(id int primary key, v text); insert into t3 values (1300, 'attached')")
        db.execute("alter table t attach partition t3 for values from (1200) to (1600)")
        source.start()
        rest = source.until("streaming")
        assert replayed(records + rest, "t") == rows_of(db, "t")
    assert len(reads(rest, "t")) == 1199


CHANGES = {
    "rewritten": "alter table {t} alter v type varchar(100); vacuum full {t}",
    "truncated": "truncate {t}; insert into {t} select i, 'again' from generate_series(1, 50) i",
    "grown": "alter table {t} add w int default 7",
    "recreated": "drop table {t}; create table {t}(id int primary key, v text); "
    "insert into {t} select i, 'again' from generate_series(1, 50) i",
    "rekeyed": "alter table {t} drop constraint {t}_pkey; alter table {t} alter v set not null; "
    "alter table {t} add primary key (v, id)",
    "same": "select",
    "zpartly": "alter table {t} add w int default 7",
}


def test_changed_tables_are_read_again(source: Any) -> None:
    with source.sql() as db:
        for table in CHANGES:
            rows = 50 if table != "zpartly" else 500
            db.execute(f"create table {table}(id int primary key, v text)")
            db.execute(f"insert into {table} select i, 'v' || i from generate_series(1, {rows}) i")
        source.start()
        records: list[SourceRecord] = []
        while len(reads(records, "zpartly")) < 200:
            records += poll_records(source)
        source.store(records[-1])
        source.kill()
        for table, statements in CHANGES.items():
            for statement in statements.format(t=table).split("; "):
                db.execute(statement)
        source.start(skipped_operations="none")
        rest = source.until("streaming")
    counts = {table: len(reads(rest, table)) for table in CHANGES}
    assert counts == {**dict.fromkeys(CHANGES, 50), "same": 0, "zpartly": 500}


def test_a_table_whose_key_has_another_collation_is_read_again(source: Any) -> None:
    with source.sql() as db:
        db.execute('create table t(id text collate "C" primary key, v text)')
        db.execute("insert into t select chr(65 + i % 58) || i, i from generate_series(1, 500) i")
        source.start()
        source.store(read_some(source, 200)[-1])
        source.kill()
        db.execute('alter table t alter column id type text collate "default"')
        source.start()
        rest = source.until("streaming")
    assert len(reads(rest, "t")) == 500


@pytest.mark.long
def test_a_lost_slot_or_resume_disabled_starts_over(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, v text); insert into t select i from generate_series(1, 1000) i")
        source.start(snapshot_mode="when_needed")
        stored = read_some(source, 300)[-1].source_offset
        source.kill()
        source.start(snapshot_resume_enabled="false")
        rest = source.until("streaming")
        assert len(reads(rest, "t")) == 1000
        assert all(SNAPSHOT_STATE not in (r.source_offset or {}) for r in rest)
        source.kill()
        source.drop_slot()
        source.offsets.stored = stored
        source.start(snapshot_resume_enabled="true")
        assert len(reads(source.until("streaming"), "t")) == 1000


def test_a_slot_ahead_of_the_offset_starts_over(source: Any) -> None:
    """The stream lacks changes of rows that were completed."""
    with source.sql() as db:
        db.execute("create table t(id int primary key, v text); insert into t select i from generate_series(1, 1000) i")
        source.start(offset_mismatch_strategy="trust_slot")
        read_some(source, 300)
        source.kill()
        db.execute("update t set v = 'lost' where id = 1")
        source.wait_for_slot(db)
        db.execute("select pg_replication_slot_advance(%s, pg_current_wal_lsn())", [source.config["slot.name"]])
        source.start()
        rest = source.until("streaming")
        assert replayed(rest, "t") == rows_of(db, "t")


@pytest.mark.parametrize("number", range(4))
@pytest.mark.long
def test_random_interruptions_and_changes_lose_nothing(source: Any, number: int) -> None:
    """What was sent behind the stored offset does not exist: batches with exactly-once, otherwise any number of records. With
    whole batches, no row is repeated."""
    chance = randomness.chance(f"interruptions-{number}")
    sends_batches = number % 2 == 0
    kept: list[SourceRecord] = []
    touched: set[int] = set()
    with source.sql() as db:
        db.execute("create table t(id int primary key, v text); create table u(id int, v text, primary key (v, id))")
        db.execute("select setseed(%s)", [chance.random()])
        for name in "tu":
            db.execute(f"insert into {name} select i, repeat('x', 100) || i % 7 from generate_series(1, 800) i order by random()")
        db.execute("analyze")
        threads = "1" if number < 2 else "3"
        for _ in range(5):
            source.start(snapshot_max_threads=threads)
            batches = [records for _ in range(chance.randrange(1, 12)) if (records := source.poll())]
            if batches:
                found = list(itertools.chain(*batches[: chance.randrange(len(batches)) + 1]))
                if not sends_batches:
                    found = found[: chance.randrange(len(found)) + 1]
                kept += found
                source.store(found[-1])
            source.kill()
            for _ in range(chance.randrange(12)):
                touched |= change_row(db, chance)
        source.start()
        kept += source.until("streaming")
        kept += source.quiet()
        assert replayed(kept, "t") == rows_of(db, "t")
        assert replayed(kept, "u") == rows_of(db, "u")
    for table in "tu":
        counts = {count for id_, count in reads(kept, table).items() if id_ not in touched}
        assert counts == {1} or (not sends_batches and min(counts) == 1)


def change_row(db: Any, chance: random.Random) -> set[int]:
    """Changes a row; returns the ids that it had and has."""
    id_, other = chance.randrange(1, 800), chance.randrange(1, 4000)
    changes = [
        f"update t set v = 'u{id_}' where id = {id_}",
        f"update u set v = 'u{id_}' where id = {id_}",
        f"delete from t where id = {id_}",
        f"delete from u where id = {id_}",
        f"insert into t values ({other}, 'i') on conflict do nothing",
        f"update t set id = {other} where id = {id_} and not exists (select from t where id = {other})",
    ]
    db.execute(chance.choice(changes))
    return {id_, other}


@pytest.mark.long
def test_a_lost_connection_continues_the_snapshot(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, v text); insert into t select i from generate_series(1, 30000) i")
        source.start()
        records = read_some(source, 300)
        db.execute("delete from t where id = 1")
        db.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sluice'")
        records += source.until("streaming")
        assert replayed(records, "t") == rows_of(db, "t")
    assert set(reads(records, "t").values()) == {1}


def test_offsets_are_stored_in_a_compact_form(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table a(id int primary key, v text); insert into a values (1)")
        db.execute("create table t(id int primary key, v text); insert into t select i from generate_series(1, 1000) i")
        db.execute("analyze")
        source.start()
        offset = read_some(source, 301)[-1].source_offset
        oids = dict(db.execute("select relname::text, oid::int from pg_class where relname in ('a', 't')").fetchall())
    assert offset is not None
    state = orjson.loads(offset[SNAPSHOT_STATE])
    fingerprint, rows, missing = state["partial"][str(oids["t"])]
    assert state["v"] == 1
    assert list(state["done"]) == [str(oids["a"])]
    assert (len(fingerprint), len(missing), missing[0][1]) == (8, 1, None)
    assert missing[0][0] == [str(rows)]
    assert offset["snapshot"] == "INITIAL"
    assert not offset["snapshot_completed"]
