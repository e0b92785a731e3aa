"""Change events of each kind, and the position after a restart."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from connect.errors import ConnectError, DataError
from tests.support.waiting import eventually


def test_insert_update_delete_and_tombstone(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, name text)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        db.execute("insert into t values (1, 'a')")
        db.execute("update t set name = 'b'")
        db.execute("delete from t")
    records = source.read(4)
    assert [show(r) for r in records] == [
        ("t", "c", None, {"id": 1, "name": "a"}),
        ("t", "u", None, {"id": 1, "name": "b"}),
        ("t", "d", {"id": 1, "name": None}, None),
        ("t", "tombstone", {"id": 1}),
    ]
    created = records[0]
    assert created.topic == "shop.public.t"
    assert created.key.as_dict() == {"id": 1}
    assert created.value_schema.name == "shop.public.t.Envelope"
    assert created.value_schema.version == 2
    assert created.key_schema.name == "shop.public.t.Key"
    assert created.value_schema.field_names == ("before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns")
    block = created.value["source"].as_dict()
    assert list(block) == [
        "version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns", "schema", "table", "txId", "lsn",
        "xmin", "origin", "origin_lsn",
    ]  # fmt: skip
    assert (block["connector"], block["name"], block["db"]) == ("postgresql", "shop", source.database)
    assert (block["schema"], block["table"], block["snapshot"]) == ("public", "t", "false")
    for record in records[:3]:
        record.value.validate()


def test_key_change_is_delete_tombstone_create_with_headers(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, name text not null); insert into t values (1, 'a')")
        source.start(snapshot_mode="never")
        source.until("streaming")
        db.execute("update t set id = 2")
    deleted, tombstone, created = source.read(3)
    assert show(deleted) == ("t", "d", {"id": 1, "name": ""}, None)
    assert show(tombstone) == ("t", "tombstone", {"id": 1})
    assert show(created) == ("t", "c", None, {"id": 2, "name": "a"})
    assert deleted.headers.last_with_name("__debezium.newkey").value.as_dict() == {"id": 2}
    assert created.headers.last_with_name("__debezium.oldkey").value.as_dict() == {"id": 1}


def test_context_headers_are_debeziums(source: Any) -> None:
    names = [f"__debezium.context.{name}" for name in ("connectorLogicalName", "taskId", "connectorName", "runId")]
    with source.sql() as db:
        db.execute("create table t(id int primary key); insert into t values (1)")
        source.start()
        (row,) = source.read(1)
        db.execute("update t set id = 2")
        deleted, tombstone, created = source.read(3)
        assert row.headers is None
        assert [h.key for h in deleted.headers] == ["__debezium.newkey", *names]
        assert tombstone.headers == deleted.headers
        assert tombstone.headers is not deleted.headers
        assert [h.key for h in created.headers] == ["__debezium.oldkey", *names]
        values = [h.value for h in created.headers][1:]
        assert values[:3] == ["shop", "0", "postgresql"]
        assert uuid.UUID(values[3]).version == 7
        source.kill()
        source.start(extended_headers_enabled="false")
        deleted, tombstone, *_ = source.read(4)
        assert [[h.key for h in r.headers] for r in (deleted, tombstone)] == [["__debezium.newkey"]] * 2


def test_unchanged_toasted_values_are_placeholders_and_full_identity_fills_them(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, n int, big text, bin bytea, words text[], numbers int[])")
        db.execute("alter table t alter big set storage external, alter bin set storage external")
        db.execute("alter table t alter words set storage external, alter numbers set storage external")
        db.execute(
            "insert into t select 1, 0, repeat('x', 9000), decode(repeat('ab', 9000), 'hex'), "
            "array_fill('word'::text, '{2000}'), array_fill(7, '{3000}')"
        )
        source.start(snapshot_mode="never")
        source.until("streaming")
        db.execute("update t set n = 1")
        db.execute("alter table t replica identity full")
        db.execute("update t set n = 2")
    placeholder, filled = (r.value["after"].as_dict() for r in source.read(2))
    word = "__debezium_unavailable_value"
    assert placeholder["big"] == word
    assert placeholder["bin"] == word.encode()
    assert placeholder["words"] == [word]
    assert placeholder["numbers"] == list(word.encode())
    assert filled["big"] == "x" * 9000
    assert filled["bin"] == b"\xab" * 9000
    assert filled["words"] == ["word"] * 2000
    assert filled["numbers"] == [7] * 3000


def test_a_key_change_includes_unavailable_values(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, big text, words text[], small int)")
        db.execute("alter table t alter big set storage external, alter words set storage external")
        db.execute(
            "insert into t select i, repeat('x', 9000), array_fill('word'::text, '{2000}'), i from generate_series(1, 3) i"
        )
        source.start(snapshot_mode="never")
        source.until("streaming")
        db.execute("update t set id = 11 where id = 1")
        with db.transaction():  # the row moves twice, and its text changes in between
            db.execute("update t set id = 12 where id = 2")
            db.execute("update t set big = repeat('y', 9000) where id = 12")
            db.execute("update t set id = 22 where id = 12")
        with db.transaction():
            db.execute("update t set id = 13 where id = 3")
            db.execute("delete from t where id = 13")
    records = [r for r in source.read(14) if r.value is not None]
    after = {r.value["after"]["id"]: r.value["after"].as_dict() for r in records if r.value["op"] == "c"}
    assert after[11] == {"id": 11, "big": "x" * 9000, "words": ["word"] * 2000, "small": 1}
    assert after[22] == {"id": 22, "big": "y" * 9000, "words": ["word"] * 2000, "small": 2}
    assert [r.value["op"] for r in records][-1] == "d"


@pytest.mark.long
def test_replica_identity_full_gives_complete_before_images(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute(
            "create table t(id int primary key, name text); alter table t replica identity full; insert into t values (1, 'a')"
        )
        source.start(snapshot_mode="never")
        source.until("streaming")
        db.execute("update t set name = 'b'")
        db.execute("delete from t")
    assert [show(r) for r in source.read(3)] == [
        ("t", "u", {"id": 1, "name": "a"}, {"id": 1, "name": "b"}),
        ("t", "d", {"id": 1, "name": "b"}, None),
        ("t", "tombstone", {"id": 1}),
    ]


def test_column_added_in_the_middle_of_a_transaction(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, name text)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        with db.transaction():
            db.execute("insert into t values (1, 'a')")
            db.execute("alter table t add column price numeric(6,2) not null default 1.5")
            db.execute("insert into t values (2, 'b', 2.25)")
        db.execute("alter table t drop column name")
        db.execute("insert into t values (3, 3)")
    records = source.read(3)
    assert [list(r.value["after"].as_dict()) for r in records] == [["id", "name"], ["id", "name", "price"], ["id", "price"]]
    assert str(records[1].value["after"]["price"]) == "2.25"
    assert str(records[1].value["after"].schema.field("price").schema.default) == "1.50"


def test_rows_older_than_a_not_null_constraint_get_an_optional_schema(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, name text)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        db.execute("insert into t values (1, null)")
        db.execute("update t set name = 'a'")
        db.execute("alter table t alter name set not null")
    records = source.read(2)
    assert [show(r)[3] for r in records] == [{"id": 1, "name": None}, {"id": 1, "name": "a"}]
    for record in records:
        record.value.validate()


def test_table_without_a_key_has_null_keys(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute("create table audit(at int, what text)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        db.execute("insert into audit values (1, 'x')")
        db.execute("alter table audit replica identity full")
        db.execute("update audit set what = 'y'")
        db.execute("delete from audit")
    records = source.read(3)
    assert [r.key for r in records] == [None, None, None]
    assert [show(r)[1:] for r in records] == [
        ("c", None, {"at": 1, "what": "x"}),
        ("u", {"at": 1, "what": "x"}, {"at": 1, "what": "y"}),
        ("d", {"at": 1, "what": "y"}, None),
    ]


def test_tombstones_with_null_keys_are_written_on_request(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute("create table audit(at int, what text); alter table audit replica identity full")
        source.start(snapshot_mode="never", restore_debezium_events="null_key_tombstones")
        source.until("streaming")
        db.execute("insert into audit values (1, 'x'); delete from audit")
        db.execute("insert into audit values (2, 'y')")
    records = source.read(4)
    assert [r.key for r in records] == [None] * 4
    assert [None if r.value is None else r.value["op"] for r in records] == ["c", "d", None, "c"]


def test_restored_nulls_are_for_columns_that_may_be_null(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute("create type mood as enum ('sad', 'ok')")
        db.execute("create table t(id int primary key, t time not null, e mood[] not null)")
        source.start(
            snapshot_mode="never", time_precision_mode="structured", restore_debezium_events="time_24_00,enum_array_nulls"
        )
        source.until("streaming")
        db.execute("insert into t values (1, '24:00', '{ok}'); insert into t values (2, '1:00', '{sad,NULL}')")
    good, bad = source.read(2)
    after = show(good)[3]
    assert (after["t"]["hour"], after["e"]) == (24, ["ok"])
    with pytest.raises(DataError, match=r"public\.t.*id=2.*column e: \{sad,NULL\} is no array without NULL.*NOT NULL column"):
        assert bad.value


def test_truncate_is_skipped_by_default(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key); create table u(id int primary key)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        with db.transaction():  # a transaction of which nothing is left may be confirmed before the next
            db.execute("truncate t, u")
            db.execute("insert into t values (1)")
        assert [show(r)[1] for r in source.read(1)] == ["c"]
        source.kill()
        source.start(skipped_operations="none")
        assert sorted(show(r)[:2] for r in source.read(3)) == [("t", "c"), ("t", "t"), ("u", "t")]  # nothing was stored
        db.execute("truncate t, u")
    assert sorted(show(r)[:2] for r in source.read(2)) == [("t", "t"), ("u", "t")]


def test_skipped_operations_tombstones_off_columns_and_keys(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, code text not null, secret text)")
        db.execute("alter table t replica identity full")
        source.start(
            snapshot_mode="never", skipped_operations="u,t", tombstones_on_delete="false",
            column_exclude_list="public.t.secret", message_key_columns="public.t:code",
        )  # fmt: skip
        source.until("streaming")
        db.execute("insert into t values (1, 'A', 'hush')")
        db.execute("update t set secret = 'x'")
        db.execute("delete from t")
    records = source.read(2)
    assert [show(r) for r in records] == [("t", "c", None, {"id": 1, "code": "A"}), ("t", "d", {"id": 1, "code": "A"}, None)]
    assert records[0].key.as_dict() == {"code": "A"}


def test_resume_at_every_point_of_a_transaction(source: Any, show: Any) -> None:
    """Promise 5: killed after any record, nothing is lost, and only the change at hand may come again."""
    with source.sql() as db:
        db.execute("create table t(id int primary key, name text); create table u(id int primary key)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        db.execute("insert into t values (0, 'before')")
        with db.transaction():
            db.execute("insert into t select i, 'x' from generate_series(1, 3) i")
            db.execute("insert into u values (1)")
            db.execute("update t set id = 100 where id = 1")  # three records
            db.execute("delete from t where id = 2")  # two
            db.execute("update t set name = 'y' where id = 3")
        db.execute("insert into t values (9, 'after')")
        everything = source.read(12)
        source.kill()
        assert len(everything) == 12
        changes = [1] + [1] * 3 + [1] + [3] + [2] + [1] + [1]  # records each
        assert sum(changes) == len(everything)
        first = 0
        for size in changes:
            for at in range(first, first + size):
                source.offsets.stored = dict(everything[at].source_offset)
                source.start()
                # Inside a change of several records a restart repeats that change from its first record.
                goes_on = first + size if at == first + size - 1 else first
                expected = [show(r) for r in everything[goes_on:]]
                got = [show(r) for r in (source.read(len(expected)) if expected else source.quiet())]
                assert got == expected, f"after record {at}"
                source.kill()
            first += size


def test_interleaved_transactions_resume_by_commit_order(source: Any, show: Any) -> None:
    """A change may be older (by LSN) than the stored position and still be new: its transaction committed later."""
    with source.sql() as db, source.sql() as slow:
        db.execute("create table t(id int primary key)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        with slow.transaction():
            slow.execute("insert into t values (1)")
            db.execute("insert into t values (2)")
            (first,) = source.read(1)
            source.store(first)
            source.kill()
            source.start()
            source.until("streaming")
        (late,) = source.read(1)
    assert show(first)[3] == {"id": 2}
    assert show(late)[3] == {"id": 1}
    assert late.source_offset["lsn"] < first.source_offset["lsn"]


@pytest.mark.parametrize(
    ("copied", "ours", "expected"),
    [
        pytest.param(False, {"tx_lsn", "tx_events"}, [2, 3], id="inserts"),
        pytest.param(True, {"tx_lsn", "tx_events"}, [2, 3], id="COPY"),
        # Older releases of Debezium do not count the changes at one LSN: a few are repeated, none is lost.
        pytest.param(
            False, {"tx_lsn", "tx_events", "lsn_events_processed"}, [1, 2, 3], id="inserts, older release", marks=pytest.mark.long
        ),
        pytest.param(
            True, {"tx_lsn", "tx_events", "lsn_events_processed"}, [0, 1, 2, 3], id="COPY, older release", marks=pytest.mark.long
        ),
    ],
)
def test_offset_that_debezium_stored_is_continued(
    source: Any, show: Any, copied: bool, ours: set[str], expected: list[int]
) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        if copied:
            with db.cursor().copy("copy t from stdin") as copy:
                copy.write("0\n1\n2\n3\n")
        else:
            with db.transaction():
                for i in range(4):
                    db.execute("insert into t values (%s)", [i])
        records = source.read(4)
        assert len({r.source_offset["lsn"] for r in records}) == (1 if copied else 4)
        source.kill()
        source.offsets.stored = {k: v for k, v in records[1].source_offset.items() if k not in ours} | {"transaction_id": None}
        source.start()
        again = source.read(len(expected))
    assert [show(r)[3]["id"] for r in again] == expected
    expected_offset = {k: v for k, v in records[-1].source_offset.items() if k != "last_commit_lsn"}
    assert again[-1].source_offset == expected_offset  # Debezium can continue from it, too


@pytest.mark.long
def test_offsets_count_the_changes_at_one_lsn_after_a_restart(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        with db.cursor().copy("copy t from stdin") as copy:
            copy.write("0\n1\n2\n3\n")
        records = source.read(4)
        source.store(records[1])
        source.kill()
        source.start()
        again = source.read(2)
    assert [r.source_offset for r in again] == [r.source_offset for r in records[2:]]
    assert [r.source_offset["lsn_events_processed"] for r in again] == [3, 4]


def test_the_slot_advances_only_after_offsets_are_stored(source: Any) -> None:
    """Promise 1."""
    with source.sql() as db:
        db.execute("create table t(id int primary key); create table noise(id int)")
        source.start(snapshot_mode="never", table_include_list="public.t", status_update_interval_ms="100")
        source.until("streaming")
        source.quiet()

        def confirmed() -> int:
            sql = "select confirmed_flush_lsn - '0/0' from pg_replication_slots where slot_name = %s"
            row = db.execute(sql, [source.config["slot.name"]]).fetchone()
            assert row is not None
            return int(row[0])

        db.execute("insert into t values (1)")
        (record,) = source.read(1)
        committed = record.source_offset["tx_lsn"]
        source.poll_through_status_updates(db)
        assert confirmed() <= committed
        source.store(record)
        source.idle_until(lambda: confirmed() > committed, "a later slot", flushes=True)
        # A position is stored without a record, so that an idle table does not hold back WAL.
        before = confirmed()
        db.execute("insert into noise select generate_series(1, 1000)")
        source.idle_until(lambda: confirmed() > before + 10_000, "a later slot", flushes=True)
        assert confirmed() <= source.offsets.stored["lsn_commit"]


def test_heartbeats_carry_the_position_and_run_the_query(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key); create table beats(at timestamptz)")
        source.start(
            snapshot_mode="never", table_include_list="public.t", heartbeat_interval_ms="100",
            heartbeat_action_query="insert into beats values (now())",
        )  # fmt: skip
        source.until("streaming")
        records = source.read_before_failure(3)
        assert {r.topic for r in records} == {"__debezium-heartbeat.shop"}
        assert records[0].key.as_dict() == {"serverName": "shop"}
        assert list(records[0].value.as_dict()) == ["ts_ms"]
        assert db.execute("select count(*) from beats").fetchone()[0] >= 3
        db.execute("insert into t values (1)")
        source.store(source.poll_until(lambda found: any(r.topic.endswith(".t") for r in found), "the row")[-1])
        source.kill()
        source.start(heartbeat_interval_ms="0")
        source.until("streaming")
        assert source.quiet() == []


@pytest.mark.long
def test_xmin_of_the_slot_is_in_events_if_configured(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        source.start(snapshot_mode="never", xmin_fetch_interval_ms="60000")
        source.until("streaming")
        db.execute("insert into t values (1)")
        (record,) = source.read(1)
        xmin = db.execute(
            "select catalog_xmin::text from pg_replication_slots where slot_name = %s", [source.config["slot.name"]]
        )
        assert record.value["source"]["xmin"] == record.source_offset["xmin"] == int(xmin.fetchone()[0])


def test_enum_labels_added_later_are_known(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute("create type mood as enum ('sad', 'ok'); create table t(id int primary key, m mood)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        db.execute("insert into t values (1, 'ok')")
        (first,) = source.read(1)
        db.execute("alter type mood add value 'happy'")
        db.execute("alter table t add column n int")
        db.execute("insert into t values (2, 'happy')")
        (second,) = source.read(1)
    schema = second.value["after"].schema.field("m").schema
    assert first.value["after"].schema.field("m").schema.parameters == {"allowed": "sad,ok"}
    assert schema.parameters == {"allowed": "sad,ok,happy"}


def test_names_that_need_quoting_are_captured(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute('create table "Odd ""table"" \'x\'"("Key, 1" int primary key, "select" text)')
        db.execute('insert into "Odd ""table"" \'x\'" values (1, \'a\')')
        source.start(publication_name='pub "x"', publication_autocreate_mode="filtered")
        (row,) = source.read(1)
        db.execute('insert into "Odd ""table"" \'x\'" values (2, \'b\')')
        (change,) = source.read(1)
    assert row.topic == "shop.public.Odd__table___x_"
    assert show(change)[3] == {"Key, 1": 2, "select": "b"}


def test_a_missing_slot_with_a_stored_offset_is_an_error(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key); insert into t values (1)")
        source.start()
        (record,) = source.read(1)
        source.store(record)
        source.kill()
        source.drop_slot()
        source.start()
        with pytest.raises(ConnectError, match=r"does not exist .*when_needed"):
            source.poll_until_error()
        source.kill()
        source.start(snapshot_mode="when_needed")
        assert [r.value["op"] for r in source.read(1)] == ["r"]


def test_a_unique_index_is_the_key_of_a_table_without_a_primary_key(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(a int not null, b int); create unique index t_a on t(a); insert into t values (1, 1)")
        source.start()
        source.until("streaming")
        db.execute("insert into t values (2, 2)")
    streamed = source.read(1)[-1]
    assert streamed.key.as_dict() == {"a": 2}
    assert streamed.key_schema.field_names == ("a",)


def test_a_task_knows_whether_a_backlog_has_more(source: Any) -> None:
    """Also if a transaction ends with a full batch: what follows are the messages of its end, but no change."""
    with source.sql() as db:
        db.execute("create table t(id int generated always as identity primary key)")
        task = source.start(snapshot_mode="never", max_batch_size="10", poll_interval_ms="50")
        source.until("streaming")
        assert not task.has_more()
        for count, expected in ((25, [(10, True), (10, True), (5, False)]), (20, [(10, True), (10, False)])):
            db.execute("insert into t select from generate_series(1, %s)", [count])
            wait_until_sent(db)
            polls: list[tuple[int, bool]] = []
            while sum(size for size, _ in polls) < count:
                size = len(source.poll())
                polls += [(size, task.has_more())] if size else []
            assert polls == expected


def wait_until_sent(db: Any) -> None:
    """Waits until the server has sent everything that is committed."""
    behind = "select 1 from pg_stat_replication where sent_lsn < pg_current_wal_flush_lsn()"
    eventually(lambda: db.execute(behind).fetchone() is None, "all that is committed to be sent")
