"""Keys, publications, and values of tables whose definition differs from the usual."""

from __future__ import annotations

from typing import Any

import pytest

from connect.errors import ConfigError, ConnectError, DataError
from connectors.postgres import PostgresSource
from connectors.postgres.streaming import publications
from tests.integration.postgres.conftest import errors_of
from tests.support.cases import first_fast


def after(records: list[Any]) -> list[Any]:
    return [r.value["after"].as_dict() for r in records if r.value is not None and r.value["after"] is not None]


def test_the_replica_identity_index_is_the_key(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute(
            "create table t(id bigserial primary key, code text not null unique, n int);"
            "alter table t replica identity using index t_code_key; insert into t values (0, 'zero', 1), (5, 'five', 1)"
        )
        source.start()
        rows = source.read(2)
        db.execute("update t set code = 'FIVE' where id = 5")
        db.execute("delete from t where id = 5")
        changes = source.read(5)
    assert [r.key.as_dict() for r in rows] == [{"code": "five"}, {"code": "zero"}]
    assert [(r.key["code"], None if r.value is None else r.value["op"]) for r in changes] == [
        ("five", "d"), ("five", None), ("FIVE", "c"), ("FIVE", "d"), ("FIVE", None),
    ]  # fmt: skip


def test_message_keys_outside_the_replica_identity_are_refused(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, code text not null)")
        source.start(message_key_columns="public.t:code", snapshot_mode="never")
        with pytest.raises(ConfigError, match=r"code of public\.t.*REPLICA IDENTITY FULL"):
            source.poll_until_error()
        errors = {value.name: value.errors for value in PostgresSource().validate(source.config)}
        assert "REPLICA IDENTITY FULL" in errors["message.key.columns"][0]
        source.kill()
        source.start(replica_identity_autoset_values="public.t:FULL")
        source.until("streaming")
        db.execute("insert into t values (1, 'a')")
        db.execute("delete from t")
        assert [r.key.as_dict() for r in source.read(3)] == [{"code": "a"}] * 3
        db.execute("alter table t replica identity default")
        db.execute("insert into t values (2, 'b')")
        db.execute("delete from t")
        with pytest.raises(DataError, match=r"public\.t with the key \(code=null\).*replica identity"):
            source.read(2)


def test_partitions_need_the_replica_identity_of_their_root(source: Any) -> None:
    with source.sql() as db:
        db.execute(
            "create table p(id int primary key, code int not null) partition by range (id);"
            "create table p1 partition of p for values from (0) to (10); alter table p replica identity full"
        )
        source.start(message_key_columns="public.p:code", publish_via_partition_root="true", snapshot_mode="never")
        with pytest.raises(ConfigError, match=r"FULL, also of its partitions"):
            source.poll_until_error()
        source.kill()
        source.start(replica_identity_autoset_values="public.p:FULL")
        source.until("streaming")
        db.execute("insert into p values (1, 7); delete from p")
        assert [r.key.as_dict() for r in source.read(3)] == [{"code": 7}] * 3
        db.execute("create table p2 partition of p for values from (10) to (20); insert into p values (11, 8); delete from p")
        with pytest.raises(DataError, match=r"key column code of public\.p has no value: a partition has another replica"):
            source.read(2)


def test_two_tables_with_one_topic_are_refused(source: Any) -> None:
    with source.sql() as db:
        db.execute('create table "a b"(id int primary key); create table c(id int primary key)')
        source.start(snapshot_mode="never")
        source.until("streaming")
        db.execute('insert into "a b" values (1)')
        assert len(source.read(1)) == 1
        db.execute("create table a_b(id int primary key); insert into a_b values (1)")
        with pytest.raises(ConfigError, match=r'"public\.a b" and "public\.a_b" have the same topic shop\.public\.a_b'):
            source.read(1)
        source.kill()
        source.start()
        with pytest.raises(ConfigError, match="have the same topic"):
            source.poll_until_error()


def test_new_partitions_and_recreated_tables_are_in_a_filtered_publication(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute(
            "create table p(id int primary key) partition by range (id);"
            "create table p1 partition of p for values from (0) to (10); create table u(id int primary key)"
        )
        source.start(publication_autocreate_mode="filtered", table_include_list=r"public\.p\d?,public\.t", snapshot_mode="never")
        source.until("streaming")
        db.execute("create table p2 partition of p for values from (10) to (20); insert into p values (1), (11)")
        assert [show(r)[0] for r in source.read(2)] == ["p1", "p2"]
        source.kill()
        db.execute("create table t(id int primary key)")
        source.start()
        source.until("streaming")
        db.execute("insert into t values (1)")
        assert [show(r)[0] for r in source.read(3)] == ["p1", "p2", "t"]  # nothing was stored
        listed = "select string_agg(prrelid::regclass::text, ',' order by 1) from pg_publication_rel"
        assert db.execute(listed).fetchone()[0] == "p,t"
        source.kill()
        source.start(table_include_list=r"public\.p2,public\.u")
        source.until("streaming")
        assert db.execute(listed).fetchone()[0] == "p,u"


def test_tables_created_while_the_task_runs_join_a_filtered_publication(source: Any, show: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(publications, "UPDATE_INTERVAL_S", 0.0)
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        source.start(publication_autocreate_mode="filtered", snapshot_mode="never", backfill_new_tables="none")
        source.until("streaming")
        db.execute("drop table t; create table u(id int primary key)")
        with source.sql() as other, other.transaction():
            other.execute("create table t(id int primary key, n int); lock table u in access exclusive mode")
            db.execute("select pg_log_standby_snapshot()")  # flushes the WAL of the open transaction, which is awaited
            source.quiet()  # a lock does not stop the stream
        names = "select tablename from pg_publication_tables"
        source.idle_until(lambda: {name for (name,) in db.execute(names)} == {"t", "u"}, "both tables in the publication")
        db.execute("insert into t values (1, 2); insert into u values (3)")
        assert [show(r)[0::3] for r in source.read(2)] == [("t", {"id": 1, "n": 2}), ("u", {"id": 3})]


def test_the_publication_decides_about_roots_rows_and_columns(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute(
            "create table p(id int primary key, region text, secret text, n int generated always as (id * 2) stored)"
            " partition by range (id);"
            "create table p1 partition of p for values from (0) to (10);"
            "create table p2 partition of p for values from (10) to (20);"
            "alter table p replica identity default;"
            "insert into p values (1, 'eu', 's'), (2, 'us', 's'), (11, 'eu', 's')"
        )
        db.execute(
            "create publication sluice for table p(id, region, n) where (id <> 2) with (publish_via_partition_root = true)"
        )
        source.start(publication_autocreate_mode="disabled", table_include_list=r"public\.p")
        rows = source.read(2)
        db.execute("insert into p values (3, 'eu', 's')")
        rows += source.read(1)
    assert [show(r)[0] for r in rows] == ["p", "p", "p"]
    assert after(rows) == [{"id": i, "region": "eu", "n": i * 2} for i in (1, 11, 3)]
    assert rows[0].value_schema is rows[-1].value_schema


def test_generated_columns_follow_the_publication(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, n int generated always as (id * 2) stored); insert into t values (1)")
        db.execute("create publication sluice for table t with (publish_generated_columns = stored)")
        source.start(publication_autocreate_mode="disabled")
        rows = source.read(1)
        db.execute("insert into t values (2)")
        rows += source.read(1)
    assert after(rows) == [{"id": 1, "n": 2}, {"id": 2, "n": 4}]
    assert rows[0].value_schema is rows[1].value_schema


def test_unchanged_values_of_types_without_a_placeholder_come_from_the_full_old_row(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, n int, a numeric[], b varbit, c numeric)")
        db.execute("alter table t alter a set storage external, alter b set storage external, alter c set storage external")
        db.execute("alter table t replica identity full")
        db.execute(
            "insert into t select 1, 0, array_fill(1.5::numeric, '{3000}'), repeat('10', 20000)::varbit, "
            "('1' || repeat('7', 20000))::numeric"
        )
        source.start(snapshot_mode="never")
        source.until("streaming")
        db.execute("update t set n = 1")
        (changed,) = source.read(1)
    before, row = changed.value["before"], changed.value["after"]
    changed.value.validate()
    assert (row["n"], len(row["a"]), len(row["b"])) == (1, 3000, 5000)
    assert row["c"] == before["c"]
    assert row["b"] == before["b"]


@pytest.mark.parametrize(
    ("ddl", "big"),
    first_fast(
        [
            ("alter table t rename column id to number", "__debezium_unavailable_value"),
            ("alter table t rename to moved", "x" * 9000),
            ("alter table t rename column big to large", "__debezium_unavailable_value"),
            ("alter table t drop column big", "__debezium_unavailable_value"),
            ("drop table t", "__debezium_unavailable_value"),
        ],
        2,
    ),
)
def test_a_key_change_survives_later_changes_of_the_table(source: Any, ddl: str, big: str) -> None:
    with source.sql() as db:
        db.execute("create table other(id int)")  # the filters must match a table
        db.execute("create table t(id int primary key, big text); alter table t alter big set storage external")
        db.execute("insert into t values (1, repeat('x', 9000))")
        source.start(snapshot_mode="never")
        source.until("streaming")
        source.kill()
        db.execute("update t set id = 2")
        db.execute(ddl)
        source.start(snapshot_mode="never")
        records = source.read(3)
    assert after(records) == [{"id": 2, "big": big}]


def test_nulls_in_required_columns_make_the_column_optional(source: Any, caplog: Any) -> None:
    with source.sql() as db:
        db.execute(
            "create table t(id int primary key, n int, s text); insert into t values (1, null, null), (2, null, 'm'), (3, 2, 'b')"
        )
        if db.info.server_version >= 180000:
            db.execute("alter table t add constraint n not null n not valid")
        db.execute("create table u(id int primary key, n int not null); insert into u values (1, 1), (2, 2), (3, 3)")
        source.config["snapshot.select.statement.overrides.public.u"] = "select id, null::int as n from public.u"
        source.start(snapshot_select_statement_overrides="public.u")
        records = source.read(6)
        db.execute("update t set s = 'c' where id = 3")
        records += source.read(1)
    assert after(records) == [
        {"id": 1, "n": None, "s": None}, {"id": 2, "n": None, "s": "m"}, {"id": 3, "n": 2, "s": "b"},
        *({"id": i, "n": None} for i in (1, 2, 3)), {"id": 3, "n": 2, "s": "c"},
    ]  # fmt: skip
    for record in records:
        record.value.validate()


def test_value_errors_name_table_column_and_key(source: Any) -> None:
    with source.sql() as db:
        db.execute(
            "create table t(id int primary key, s text, n numeric(6,2));"
            "insert into t values (1, E'a\\tb', 1), (7, '', 'NaN'), (8, '', 8), (9, null, 'NaN')"
        )
        source.start(column_mask_with_2_chars=r".*\.s")
        snapshot = source.read(4)
        source.until("streaming")
        db.execute("update t set n = 'NaN' where id = 1; update t set n = 2 where id = 7")
        stream = source.read(2)
    named = r"table public\.t with the key \(id={}\).*column n: NaN .*decimal\.handling\.mode"
    for record, key in ((snapshot[1], 7), (snapshot[3], 9), (stream[0], 1)):
        with pytest.raises(DataError, match=named.format(key)):
            assert record.value
    shown = {"table": "public.t", "row": {"id": "1", "s": "(masked)", "n": "NaN"}}
    assert stream[0].texts == shown
    assert [r.value["after"]["id"] for r in (snapshot[0], snapshot[2], stream[1])] == [1, 8, 7]
    # The position is behind the row, as if it had been converted.
    assert snapshot[3].source_offset["snapshot_completed"]
    assert stream[0].source_offset["messageType"] == "UPDATE"
    assert (stream[0].source_offset["tx_events"], stream[1].source_offset["tx_events"]) == (1, 2)


def test_mode_skips_rows_that_cannot_be_converted(source: Any, caplog: pytest.LogCaptureFixture) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, n numeric(6,2)); insert into t values (1, 'NaN')")
        source.start(event_processing_failure_handling_mode="warn")
        (errant,) = source.read(1)
    assert errant.error.skip
    assert "skipping it (event.processing.failure.handling.mode=warn)" in caplog.text


def test_row_level_security_is_refused_before_it_hides_rows(source: Any, role: str) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key); insert into t values (1); alter table t enable row level security")
        db.execute(f"grant select on t to {role}; create publication sluice for all tables")
        source.start(publication_autocreate_mode="disabled")
        with pytest.raises(ConnectError, match=r"row-level security of t applies to user .*BYPASSRLS"):
            source.read(1)
        assert "BYPASSRLS" in errors_of(source.config)["database.user"][0]
        source.kill()
        db.execute(f"alter role {role} bypassrls")
        source.start()
        assert after(source.read(1)) == [{"id": 1}]
