"""Capturing from a standby, with the primary for what must be written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConfigError
from connectors.postgres import PostgresSource, capture
from connectors.postgres.streaming.server import ServerState, identify_system
from sluice.embedded.postgres import EmbeddedPostgres
from tests.support.postgres_copy import ServerCopy
from tests.support.waiting import eventually


@pytest.fixture
def standby(source: Any, services_dir: Path) -> Iterator[EmbeddedPostgres]:
    """A running standby of the source's server, from which the source reads."""
    (services_dir / "standby").mkdir(mode=0o755, exist_ok=True)
    with source.sql() as db:
        db.execute("create table t(id int primary key); insert into t values (1)")
        db.execute("select pg_create_physical_replication_slot('standby', true)")
        copy = ServerCopy(
            source.server,
            services_dir / "standby" / "server",
            primary_conninfo=f"{source.server.dsn()} application_name=standby",
            primary_slot_name="standby",
            hot_standby_feedback="on",
        )
        try:
            copy.server.start()
            source.config.update({"database.port": str(copy.server.port), "database.primary.hostname": source.server.host})
            source.config["database.primary.port"] = str(source.server.port)
            yield copy.server
            source.kill()
        finally:
            copy.server.remove()
            db.execute("select pg_drop_replication_slot('standby')")


def test_a_standby_is_captured_and_its_primary_written(source: Any, standby: EmbeddedPostgres) -> None:
    """Snapshot, stream, restart, and promotion; the publication is created on the primary."""
    with source.sql() as db:
        db.execute("create table beats(id int generated always as identity)")
        source.start(
            publication_autocreate_mode="filtered",
            table_include_list="public.t",
            replica_identity_autoset_values="public.t:FULL",
            heartbeat_interval_ms="50",
            heartbeat_action_query="insert into beats default values",
        )
        records = changes(source.until("streaming"))
        assert [(r.value["op"], r.key["id"]) for r in records] == [("r", 1)]
        assert db.execute("select relreplident from pg_class where relname = 't'").fetchone() == ("f",)
        db.execute("insert into t values (2); delete from t where id = 1")
        records = read(source, 3)
        assert [r.value and r.value["op"] for r in records] == ["c", "d", None]
        source.store(records[-1])
        assert db.execute("select count(*) > 0 from beats").fetchone() == (True,)
        with standby.connect(source.database) as other:
            slots = "select slot_name from pg_replication_slots where slot_type = 'logical'"
            assert other.execute(slots).fetchall() == [(source.config["slot.name"],)]
        source.kill()
        db.execute("insert into t values (3)")
        source.start()
        assert [r.key["id"] for r in read(source, 1)] == [3]


def test_a_standby_that_is_promoted_while_it_is_read_goes_on(source: Any, standby: EmbeddedPostgres) -> None:
    with source.sql() as db:
        source.start(snapshot_mode="never", source_check_interval_ms="50")
        source.until("streaming")
        db.execute("insert into t values (2)")
        (record,) = read(source, 1)
        source.store(record)
    with standby.connect(source.database) as promoted:
        assert promoted.execute("select pg_promote()").fetchone() == (True,)
        promoted.execute("insert into t values (3)")
        records = read(source, 1)
        assert [r.key["id"] for r in records] == [3]
        source.store(records[-1])
        assert source.offsets.stored["timeline"] == 2
        source.kill()
        promoted.execute("insert into t values (4)")
        source.start()
        assert [r.key["id"] for r in read(source, 1)] == [4]


@pytest.mark.long
def test_a_connection_that_breaks_after_a_promotion_loses_nothing(source: Any, standby: EmbeddedPostgres) -> None:
    """What was read belongs to the new timeline, before an offset of it is stored."""
    source.start(snapshot_mode="never", retriable_restart_connector_wait_ms="50")
    source.until("streaming")
    with standby.connect(source.database) as promoted:
        assert promoted.execute("select pg_promote()").fetchone() == (True,)
        promoted.execute("insert into t values (3)")
        assert [r.key["id"] for r in read(source, 1)] == [3]
        promoted.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and usename is not null"
        )
        source.until("reconnecting")
        source.until("streaming")
        promoted.execute("insert into t values (4)")
        assert [r.key["id"] for r in read(source, 1)] == [4]


@pytest.mark.long
def test_a_standby_may_be_promoted_while_the_task_starts(
    source: Any, standby: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it was identified, and before it streams: what is read is on the new timeline."""
    source.start(snapshot_mode="never", retriable_restart_connector_wait_ms="50")
    source.until("streaming")
    source.kill()
    identified: list[int] = []

    def identify_and_promote(replication: Any) -> ServerState:
        state = identify_system(replication)
        if not identified:
            with standby.connect(source.database) as promoted:
                assert promoted.execute("select pg_promote()").fetchone() == (True,)
                promoted.execute("insert into t values (3)")
        identified.append(state.timeline.timeline)
        return state

    monkeypatch.setattr(capture, "identify_system", identify_and_promote)
    source.start()
    records = read(source, 1)
    assert identified[0] == 1
    assert [r.key["id"] for r in records] == [3]
    source.store(records[-1])
    assert source.offsets.stored["timeline"] == 2
    with standby.connect(source.database) as promoted:
        promoted.execute("insert into t values (4)")
    assert [r.key["id"] for r in read(source, 1)] == [4]


@pytest.mark.long
def test_without_the_primary_only_an_existing_publication_is_enough(source: Any, standby: EmbeddedPostgres) -> None:
    wrong = {**source.config, "database.primary.port": source.config["database.port"]}
    found = {value.name: value.errors for value in PostgresSource().validate(wrong) if value.errors}
    assert "is a standby too" in found["database.primary.hostname"][0]
    del source.config["database.primary.hostname"]
    source.start(snapshot_mode="never")
    with pytest.raises(ConfigError, match=r"is a standby, .* set database\.primary\.hostname, or create publication sluice"):
        source.until("streaming")
    source.kill()
    with source.sql() as db, standby.connect(source.database) as replica:
        db.execute("create publication sluice for all tables")
        eventually(lambda: replica.execute("select 1 from pg_publication").fetchone(), "the publication")
        source.start(poll_interval_ms="10")
        is_streaming = threading.Event()
        log_snapshots = threading.Thread(target=log_running_transactions, args=(source, is_streaming))
        log_snapshots.start()
        try:
            source.until("streaming")
        finally:
            is_streaming.set()
            log_snapshots.join()
        db.execute("insert into t values (2)")
        assert [r.key["id"] for r in read(source, 1)] == [2]


def log_running_transactions(source: Any, is_streaming: threading.Event) -> None:
    """What a slot on a standby waits for; a primary does it by itself every 15 seconds if it is busy."""
    with source.sql() as db:
        while not is_streaming.wait(0.5):
            db.execute("select pg_log_standby_snapshot()")


def changes(records: list[Any]) -> list[Any]:
    return [r for r in records if not r.topic.startswith("__debezium-heartbeat")]


def read(source: Any, count: int) -> list[Any]:
    """That many changes, without heartbeats."""
    return changes(source.poll_until(lambda found: len(changes(found)) >= count, f"{count} changes"))
