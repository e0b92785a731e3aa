"""The database is another one than before: restored, failed over, or with a slot that somebody recreated or moved."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from connectors.cdc.errors import PositionLostError
from connectors.postgres.offsets import parse_lsn
from sluice.embedded.postgres import EmbeddedPostgres
from tests.support.cases import first_fast
from tests.support.postgres_copy import ServerCopy
from tests.support.waiting import Deadline


def confirmed(db: Any, source: Any) -> int:
    sql = "select confirmed_flush_lsn from pg_replication_slots where slot_name = %s"
    return parse_lsn(str(db.execute(sql, [source.config["slot.name"]]).fetchone()[0]))


def wait_until_confirmed(db: Any, source: Any, lsn: int) -> None:
    """Polls until the server has processed a status with this LSN."""
    source.idle_until(lambda: confirmed(db, source) >= lsn, f"{lsn=}")


def wal_end(db: Any) -> int:
    return parse_lsn(db.execute("select pg_current_wal_flush_lsn()").fetchone()[0])


def stream_one(source: Any, db: Any) -> Any:
    """Starts a source without a snapshot and streams and stores one row."""
    db.execute("create table t(id int primary key)")
    source.start(snapshot_mode="never", status_update_interval_ms="100")
    source.until("streaming")
    db.execute("insert into t values (1)")
    (record,) = source.read(1)
    source.store(record)
    return record


def test_offsets_name_the_server_and_equal_the_slot(source: Any) -> None:
    with source.sql() as db:
        record = stream_one(source, db)
        stored = source.offsets.stored
        assert stored["systemid"] == str(db.execute("select system_identifier from pg_control_system()").fetchone()[0])
        assert stored["timeline"] == 1
        assert stored["lsn_commit"] > record.source_offset["tx_lsn"]
        wait_until_confirmed(db, source, stored["lsn_commit"])
        source.kill()
        source.wait_for_slot(db)
        assert confirmed(db, source) == stored["lsn_commit"]


def test_changes_are_not_confirmed_by_a_discarded_offset(source: Any) -> None:
    """Promise 1: the offset of another database may be at any LSN, and says nothing about this one."""
    with source.sql() as db:
        stream_one(source, db)
        source.kill()
        ahead = {name: source.offsets.stored[name] + (1 << 40) for name in ("lsn", "lsn_proc", "lsn_commit", "tx_lsn")}
        source.offsets.stored = {**source.offsets.stored, **ahead}
        source.start(snapshot_mode="when_needed")
        source.store(source.until("streaming")[-1])
        db.execute("insert into t values (2)")
        (record,) = source.read(1)
        source.poll_through_status_updates(db)
        assert confirmed(db, source) <= record.source_offset["tx_lsn"]


def test_a_slot_that_was_advanced_is_refused(source: Any) -> None:
    with source.sql() as db:
        stream_one(source, db)
        source.kill()
        db.execute("insert into t select generate_series(2, 11)")
        advance(db, source)
        source.start()
        with pytest.raises(
            PositionLostError, match=r"is at \S+, ahead of the stored offset at \S+: it was recreated or advanced"
        ):
            source.poll_until_error()
        source.kill()
        source.start(snapshot_mode="when_needed")
        found = {r.value["after"]["id"] for r in source.until("streaming")}
    assert found == set(range(1, 12))


def advance(db: Any, source: Any) -> None:
    """Advances the slot to the end of the WAL, once the server has noticed that its reader is gone."""
    source.wait_for_slot(db)
    db.execute("select pg_replication_slot_advance(%s, pg_current_wal_lsn())", [source.config["slot.name"]])


def test_a_slot_that_was_recreated_is_refused(source: Any) -> None:
    with source.sql() as db:
        stream_one(source, db)
        source.kill()
        db.execute("insert into t values (2)")
        source.drop_slot()
        db.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [source.config["slot.name"]])
        source.start()
        with pytest.raises(PositionLostError, match="ahead of the stored offset"):
            source.poll_until_error()


@pytest.mark.parametrize("strategy", first_fast(["trust_slot", "trust_greater_lsn"]))
def test_a_slot_that_was_advanced_is_followed_if_it_is_trusted(source: Any, strategy: str) -> None:
    with source.sql() as db:
        stream_one(source, db)
        source.kill()
        db.execute("insert into t values (2)")
        advance(db, source)
        db.execute("insert into t values (3)")
        source.start(offset_mismatch_strategy=strategy)
        assert [r.key["id"] for r in source.read(1)] == [3]


@pytest.mark.parametrize(
    ("strategy", "follows"),
    first_fast([("trust_offset", True), ("trust_slot", False), ("trust_greater_lsn", True), ("no_validation", False)], 2),
)
def test_a_slot_behind_the_offset_advances_if_the_offset_is_trusted(source: Any, strategy: str, follows: bool) -> None:
    with source.sql() as db:
        stream_one(source, db)
        before = source.offsets.stored["lsn_commit"]
        wait_until_confirmed(db, source, before)
        db.execute("insert into t values (2)")
        (record,) = source.read(1)
        (stored,) = source.task.update_offsets([(record.source_partition, record.source_offset)])
        source.kill()  # after the offset is stored, before the server is told
        source.offsets.stored = dict(stored[1])
        source.start(offset_mismatch_strategy=strategy)
        source.until("streaming")
        if follows:
            wait_until_confirmed(db, source, stored[1]["lsn_commit"])
        source.poll_through_status_updates(db)
        assert confirmed(db, source) == (stored[1]["lsn_commit"] if follows else before)
        db.execute("insert into t values (3)")
        assert [r.key["id"] for r in source.read(1)] == [3]


def test_nothing_is_missing_when_a_first_snapshot_after_a_lost_slot_is_interrupted(source: Any) -> None:
    """The new slot is ahead of the old offset until the snapshot is stored."""
    with source.sql() as db:
        stream_one(source, db)
        source.kill()
        source.drop_slot()
        db.execute("insert into t values (2)")
        source.start(snapshot_mode="when_needed")
        source.until("snapshot")
        source.kill()
        db.execute("insert into t values (3)")
        source.start()
        found = {r.value["after"]["id"] for r in source.until("streaming")}
    assert found == {1, 2, 3}


# --- other servers ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def copies(services_dir: Path) -> Iterator[Path]:
    """A directory for servers, which the server's user may enter."""
    directory = services_dir / "copies"
    directory.mkdir(mode=0o755, exist_ok=True)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def test_a_failover_that_lost_changes_is_refused(source: Any, copies: Path) -> None:
    with source.sql() as db:
        stream_one(source, db)
        copy = ServerCopy(source.server, copies / "lagging")
        db.execute("insert into t values (2)")  # the copy never gets it
        (record,) = source.read(1)
        source.store(record)
        source.kill()
    server = copy.promote()
    try:
        with server.connect(source.database) as db:
            db.execute("create table noise as select generate_series(1, 10000) i")  # past the stored position
            source.config["database.port"] = str(server.port)
            db.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [source.config["slot.name"]])
            source.start()
            with pytest.raises(PositionLostError, match=r"left timeline 1 at \S+ \(a failover\?\), but changes up to"):
                source.poll_until_error()
            source.kill()
            source.start(snapshot_mode="when_needed", table_include_list="public.t")
            assert [r.value["after"]["id"] for r in source.until("streaming")] == [1]
            source.kill()
    finally:
        server.remove()


@pytest.fixture
def failover_standby(source: Any, copies: Path) -> Iterator[ServerCopy]:
    """A running standby that has the source's slot; the source streams from its primary."""
    with source.sql() as db:
        db.execute("create table noise(id int); select pg_create_physical_replication_slot('standby', true)")
        source.config.update({"table.include.list": "public.t", "slot.failover": "true"})
        stream_one(source, db)
        upstream = f"{source.server.dsn(source.database)} application_name=standby"
        copy = ServerCopy(
            source.server, copies / "standby", primary_conninfo=upstream, primary_slot_name="standby", hot_standby_feedback="on"
        )
        try:
            copy.server.start()
            with copy.server.connect(source.database) as standby:
                synchronize_slot(source, db, standby)
            yield copy
            source.kill()
        finally:
            copy.server.remove()
            db.execute("select pg_drop_replication_slot('standby')")


def test_streaming_continues_on_a_promoted_standby_with_a_synchronized_slot(
    source: Any, failover_standby: ServerCopy, caplog: pytest.LogCaptureFixture
) -> None:
    """The old primary wrote more than the standby has, but nothing that is captured."""
    failover_standby.server.stop()
    stored = source.offsets.stored
    with source.sql() as db:
        db.execute("insert into noise select generate_series(1, 1000)")
    wait_for_position(source, stored["lsn_commit"] + 10_000)
    source.kill()
    server = failover_standby.promote(primary_conninfo="")
    source.config["database.port"] = str(server.port)
    source.start()
    source.until("streaming")
    assert "left timeline 1" in caplog.text
    with server.connect(source.database) as promoted:
        promoted.execute("insert into t values (3)")
    (record,) = source.read(1)
    assert record.key["id"] == 3
    source.store(record)
    assert source.offsets.stored["timeline"] == 2


@pytest.mark.long
def test_a_synchronized_slot_is_waited_for_until_its_standby_is_promoted(
    source: Any, failover_standby: ServerCopy, caplog: pytest.LogCaptureFixture
) -> None:
    """After a failover the address may lead to the standby before its promotion has ended."""
    source.kill()
    source.config["database.port"] = str(failover_standby.server.port)
    source.start(retriable_restart_connector_wait_ms="50")
    source.idle_until(lambda: "waiting until the standby is promoted" in caplog.text, "a warning")
    with failover_standby.server.connect(source.database) as standby:
        assert standby.execute("select pg_promote()").fetchone() == (True,)
        source.until("streaming")
        standby.execute("insert into t values (3)")
    assert [r.key["id"] for r in source.read(1)] == [3]


def synchronize_slot(source: Any, db: Any, standby: Any) -> None:
    """Synchronizes the source's slot to the standby; it must advance until the standby has all that it needs."""
    deadline = Deadline("a synchronized slot")
    synced = "select 1 from pg_replication_slots where slot_name = %s and synced and not temporary"
    while standby.execute(synced, [source.config["slot.name"]]).fetchone() is None:
        deadline.check()
        db.execute("insert into noise values (0)")
        db.execute("select pg_log_standby_snapshot()")
        source.poll()
        source.flush()
        with contextlib.suppress(psycopg.errors.ObjectNotInPrerequisiteState):  # the slot is ahead of what the standby has
            standby.execute("select pg_sync_replication_slots()")


def wait_for_position(source: Any, lsn: int) -> None:
    """Stores positions until one is at the LSN."""
    source.idle_until(lambda: source.offsets.stored["lsn_commit"] >= lsn, f"{lsn=}", flushes=True)


@pytest.mark.long
def test_another_database_cluster_is_refused(source: Any, copies: Path) -> None:
    """Its LSNs may be higher or lower: they say nothing."""
    with source.sql() as db:
        stream_one(source, db)
        source.kill()
    server = EmbeddedPostgres(copies / "other", dies_with_parent=True, password=source.server.password)
    server.start()
    try:
        server.create_database(source.database)
        with server.connect(source.database) as db:
            db.execute("create table t(id int primary key); create publication sluice for all tables")
            db.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [source.config["slot.name"]])
            while wal_end(db) <= source.offsets.stored["lsn_commit"]:
                db.execute("select pg_logical_emit_message(false, 'fills', 'a segment', true), pg_switch_wal()")
        source.config["database.port"] = str(server.port)
        source.start()
        with pytest.raises(PositionLostError, match=r"with system identifier \d+, but that of PostgreSQL at \S+ is \d+"):
            source.poll_until_error()
        source.kill()
    finally:
        server.remove()
