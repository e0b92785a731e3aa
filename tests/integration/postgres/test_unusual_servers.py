"""Unusual servers, tables, and transactions: each is captured, or refused with an error that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConfigError
from sluice.embedded.postgres import EmbeddedPostgres
from tests.integration.postgres.conftest import errors_of


@pytest.fixture
def narrow(source: Any, services_dir: Path) -> Iterator[EmbeddedPostgres]:
    """A server of its own with one replication slot and prepared transactions."""
    (services_dir / "narrow").mkdir(mode=0o755, exist_ok=True)
    settings = {"max_replication_slots": "1", "max_prepared_transactions": "5"}
    server = EmbeddedPostgres(
        services_dir / "narrow" / "server", dies_with_parent=True, password=source.server.password, settings=settings
    )
    server.start()
    try:
        server.create_database(source.database)
        source.server = server
        source.config["database.port"] = str(server.port)
        yield server
        source.kill()
    finally:
        server.remove()


# --- server -----------------------------------------------------------------------------------------------------------------


def test_no_free_slot_is_reported_with_the_fix(source: Any, narrow: EmbeddedPostgres) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        db.execute("select pg_create_physical_replication_slot('other')")
        source.start()
        with pytest.raises(ConfigError, match=r"all replication slots are in use, .* raise max_replication_slots on the server"):
            source.until("streaming")


@pytest.mark.long
def test_prepared_transactions_are_captured_once_they_commit(source: Any, narrow: EmbeddedPostgres) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        db.execute("begin; insert into t values (1); prepare transaction 'one'")
        db.execute("begin; insert into t values (2); prepare transaction 'two'")
        db.execute("insert into t values (3)")
        assert [r.key["id"] for r in source.read(1)] == [3]
        db.execute("commit prepared 'two'")
        db.execute("rollback prepared 'one'")
        assert [r.key["id"] for r in source.read(1)] == [2]


def test_a_slot_that_sends_prepared_transactions_is_refused(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key); create publication sluice for all tables")
        db.execute("select pg_create_logical_replication_slot(%s, 'pgoutput', false, true)", [source.config["slot.name"]])
        assert "was created with two_phase" in errors_of(source.config)["slot.name"][0]
        source.start()
        with pytest.raises(ConfigError, match="drop the slot and let the connector create it"):
            source.until("streaming")


def test_a_physical_slot_is_refused(source: Any) -> None:
    name = source.config["slot.name"]
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        db.execute("select pg_create_physical_replication_slot(%s)", [name])
        message = (
            f"replication slot {name} already exists for physical replication; this connector needs one for {source.database}"
        )
        assert message in errors_of(source.config)["slot.name"][0]
        source.start()
        with pytest.raises(ConfigError, match=message):
            source.until("streaming")


def test_a_host_that_is_not_admitted_is_reported(source: Any, role: str) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        (path,) = db.execute("show hba_file").fetchone() or ("",)
        before = Path(path).read_text(encoding="utf-8")
        Path(path).write_text(f"host all {role} all reject\n{before}", encoding="utf-8")
        db.execute("select pg_reload_conf()")
        try:
            assert "pg_hba.conf" in str(errors_of(source.config))
            with pytest.raises(ConfigError, match=r"pg_hba\.conf"):
                source.start()
        finally:
            Path(path).write_text(before, encoding="utf-8")
            db.execute("select pg_reload_conf()")


def test_a_server_without_tls_is_reported_if_tls_is_required(source: Any) -> None:
    source.config["database.sslmode"] = "require"
    assert "check database.sslmode" in errors_of(source.config)["database.sslmode"][0]
    with pytest.raises(ConfigError, match=r"server does not support SSL"):
        source.start()


def test_a_publication_of_another_owner_is_reported(source: Any, role: str) -> None:
    with source.sql() as db:
        db.execute(
            "create table t(id int primary key); create table u(id int primary key); create publication sluice for table t"
        )
        db.execute(f"grant select on all tables in schema public to {role}")
        source.start(publication_autocreate_mode="filtered")
        with pytest.raises(ConfigError, match=r"may not change publication sluice.*publication\.autocreate\.mode=disabled"):
            source.until("streaming")


# --- tables -----------------------------------------------------------------------------------------------------------------


def test_tables_outside_the_log_are_named_if_nothing_else_matches(source: Any) -> None:
    with source.sql() as db:
        db.execute("create unlogged table fast(id int primary key); create view seen as select 1; create table t(id int)")
        for name, what in (("fast", "unlogged"), ("seen", "a view")):
            source.config["table.include.list"] = f"public.{name}"
            assert f"public.{name} is {what}" in errors_of(source.config)["table.include.list"][0]


def test_tables_outside_the_log_do_not_disturb_others(source: Any) -> None:
    with source.sql() as db:
        db.execute(
            "create unlogged table fast(id int primary key); create temp table brief(id int); create table t(id int primary key)"
        )
        db.execute("create foreign data wrapper nothing; create server away foreign data wrapper nothing")
        db.execute("create foreign table far(id int) server away; create materialized view held as select 1 as one")
        db.execute("insert into fast values (1); insert into t values (1)")
        source.start()
        assert [r.topic for r in source.until("streaming")] == ["shop.public.t"]
        db.execute("insert into fast values (2); insert into brief values (1); insert into t values (2)")
        assert [r.topic for r in source.read(1)] == ["shop.public.t"]
        db.execute("alter table fast set logged; insert into fast values (3)")
        assert [(r.topic, r.key["id"]) for r in source.read(1)] == [("shop.public.fast", 3)]


@pytest.mark.long
def test_a_dropped_schema_ends_its_tables(source: Any) -> None:
    source.config["schema.include.list"] = "public,gone"
    with source.sql() as db:
        db.execute("create schema gone; create table gone.a(id int primary key); create table t(id int primary key)")
        source.start()
        source.until("streaming")
        db.execute("insert into gone.a values (1); drop schema gone cascade; insert into t values (2)")
        assert [(r.topic, r.key["id"]) for r in source.read(2)] == [("shop.gone.a", 1), ("shop.public.t", 2)]
        source.kill()
        source.start()
        source.until("streaming")


@pytest.mark.long
def test_a_table_with_the_most_columns(source: Any) -> None:
    columns = [f"c{i}" for i in range(1599)]
    with source.sql() as db:
        db.execute(f"create table t(id int primary key, {', '.join(f'{name} int' for name in columns)})")
        db.execute("insert into t(id, c0, c1598) values (1, 2, 3)")
        source.start()
        snapshot = source.until("streaming")
        db.execute("update t set c1 = 4")
        for record in (*snapshot, *source.read(1)):
            after = record.value["after"]
            assert len(after.schema.fields) == 1600
            assert (after["c0"], after["c2"], after["c1598"]) == (2, None, 3)


@pytest.mark.long
def test_a_row_of_100_megabytes(source: Any) -> None:
    """By snapshot and stream; the topic's limit is another matter."""
    with source.sql() as db:
        db.execute("create table t(id int primary key, pad text)")
        db.execute("insert into t values (1, repeat('a', 100000000))")
        source.start()
        sizes = [len(r.value["after"]["pad"]) for r in source.until("streaming")]
        db.execute("insert into t values (2, repeat('b', 100000000))")
        sizes += [len(r.value["after"]["pad"]) for r in source.read(1)]
    assert sizes == [100_000_000] * 2


# --- transactions -----------------------------------------------------------------------------------------------------------


def test_more_subtransactions_than_the_server_keeps_in_memory(source: Any) -> None:
    """Savepoints that are rolled back leave nothing."""
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        with db.transaction():
            for i in range(200):
                end = "rollback to savepoint s" if i % 3 == 0 else "release savepoint s"
                db.execute(f"savepoint s; insert into t values ({i}); {end}")
        assert [r.key["id"] for r in source.read(133)] == [i for i in range(200) if i % 3]


@pytest.mark.long
def test_labels_that_join_an_enum_are_captured(source: Any) -> None:
    """ADD VALUE alone makes the server send no new relation: the schema names the label after the next one."""
    with source.sql() as db:
        db.execute("create type mood as enum ('sad'); create table t(id int primary key, m mood)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        db.execute("insert into t values (1, 'sad')")
        source.read(1)
        db.execute("alter type mood add value 'glad'")
        db.execute("insert into t values (2, 'glad')")
        (record,) = source.read(1)
        assert record.value["after"]["m"] == "glad"
        source.store(record)
        source.kill()
        source.start()
        db.execute("insert into t values (3, 'glad')")
        (record,) = source.read(1)
    assert record.value["after"].schema.field("m").schema.parameters == {"allowed": "sad,glad"}


def test_tables_that_the_user_may_not_read_are_named(source: Any, role: str) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key); insert into t values (1); create publication sluice for all tables")
    assert f"GRANT SELECT ON public.t TO {role}" in str(errors_of(source.config))
    source.start()
    with pytest.raises(ConfigError, match=f"GRANT SELECT ON public.t TO {role}"):
        source.until("streaming")
