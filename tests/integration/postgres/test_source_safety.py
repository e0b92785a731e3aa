"""What the task notices about its source while it runs, and what it does about it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConfigError, ConnectError
from connect.pending_work import Pending
from connectors.cdc.errors import PositionLostError
from sluice.embedded.postgres import EmbeddedPostgres
from tests.support.cases import first_fast
from tests.support.waiting import Deadline, call_with_timeout, eventually


@pytest.fixture
def watched(source: Any) -> Any:
    """A source that checks its server often."""
    source.config.update({"source.check.interval.ms": "50", "snapshot.mode": "never"})
    with source.sql() as db:
        db.execute("create table t(id int primary key, pad text)")
    source.start()
    source.until("streaming")
    return source


def wait_for(source: Any, condition: Callable[[dict[str, Any]], Any], *, polling: bool = True) -> dict[str, Any]:
    """Waits until the progress of a task satisfies a condition, and returns it; the task is paused unless ``polling``."""
    deadline = Deadline("progress", lambda: source.task.progress())
    while True:
        progress: dict[str, Any] = source.task.progress()
        if condition(progress):
            return progress
        deadline.check()
        if polling:
            source.poll()
        else:
            time.sleep(0.01)


def wait_for_stuck_slot(source: Any) -> Pending:
    """Waits until the monitor has noticed that the slot stands still. It notes that after the progress shows the lag."""
    found: list[Pending] = []

    def notices(_: dict[str, Any]) -> bool:
        oldest = source.task.pending_work.oldest()
        found[:] = [oldest] if oldest is not None else []
        return bool(found)

    wait_for(source, notices)
    assert "does not advance from" in found[0].message
    return found[0]


def problems(progress: dict[str, Any]) -> dict[str, str]:
    return {problem["code"]: problem["message"] for problem in progress.get("problems", ())}


def stop_behind_a_row(source: Any, db: Any) -> None:
    """Stops the task with an offset in the stream."""
    db.execute("insert into t values (1)")
    source.store(source.read(1)[-1])
    source.kill()


# --- lag --------------------------------------------------------------------------------------------------------------------


def test_lag_is_that_of_the_server_while_the_task_is_paused(watched: Any) -> None:
    wait_for(watched, lambda p: "slot" in p and p["lag_bytes"] == 0 and p["slot"]["active"] and p["lag_seconds"] == 0)
    with watched.sql() as db:
        db.execute("insert into t select i, repeat('x', 1000) from generate_series(1, 1000) i")
        paused = wait_for(watched, lambda p: p["lag_bytes"] > 1_000_000 and p["lag_seconds"] > 0.2, polling=False)
        assert paused["slot"]["lag_bytes"] >= paused["lag_bytes"]
        assert paused["slot"]["lag_seconds"] >= paused["lag_seconds"]
        assert paused["slot"]["retained_bytes"] >= paused["slot"]["lag_bytes"]
        records = watched.read(1000)
        read = wait_for(watched, lambda p: p["lag_bytes"] == 0 and p["lag_seconds"] == 0)
        assert read["slot"]["lag_bytes"] > 1_000_000  # nothing is stored yet
        # What the worker reports as a stall, if it lasts.
        stuck = wait_for_stuck_slot(watched)
        watched.store(records[-1])
        wait_for(watched, lambda p: p["slot"]["lag_bytes"] < 10_000)
        wait_for(watched, lambda _: (now := watched.task.pending_work.oldest()) is None or now > stuck)


@pytest.mark.long
def test_stall_names_the_lost_connection_instead_of_the_slot_that_stood_still_before(watched: Any) -> None:
    watched.kill()
    watched.start(retriable_restart_connector_wait_ms="600000")
    watched.until("streaming")
    pending = watched.task.pending_work
    with watched.sql() as db:
        db.execute("insert into t select i, repeat('x', 1000) from generate_series(1, 1000) i")
        watched.read(1000)
        wait_for_stuck_slot(watched)
        db.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = %s",
            [watched.database],
        )
        watched.until("reconnecting")
        assert "no connection to the database" in pending.oldest().message


@pytest.mark.long
def test_lag_contains_a_long_transaction_until_it_is_read(watched: Any) -> None:
    with watched.sql() as db:
        db.execute("insert into t select i, repeat('x', 1000) from generate_series(1, 5000) i")
        assert len(watched.read_before_failure(1)) < 5000
        assert wait_for(watched, lambda p: p["lag_bytes"] > 2_000_000, polling=False)
        watched.quiet()
        wait_for(watched, lambda p: p["lag_bytes"] == 0)


def test_lag_over_a_threshold_is_a_problem_until_it_shrinks(watched: Any) -> None:
    watched.kill()
    watched.start(slot_lag_warn_bytes="500000")
    watched.until("streaming")
    with watched.sql() as db:
        db.execute("insert into t select i, repeat('x', 1000) from generate_series(1, 1000) i")
        found = wait_for(watched, lambda p: "slot_lag" in problems(p), polling=False)
        assert "more than slot.lag.warn.bytes=500000" in problems(found)["slot_lag"]
        watched.store(watched.read(1000)[-1])
        wait_for(watched, lambda p: "slot_lag" not in problems(p))


def test_lag_over_a_limit_fails_the_task(watched: Any) -> None:
    watched.kill()
    watched.start(slot_lag_max_bytes="500000")
    watched.until("streaming")
    with watched.sql() as db:
        db.execute("insert into t select i, repeat('x', 1000) from generate_series(1, 1000) i")
    with pytest.raises(
        ConnectError, match=r"bytes behind, more than slot\.lag\.max\.bytes=500000 \(slot\.lag\.limit\.action=fail"
    ):
        watched.poll_until_error()


@pytest.mark.parametrize("polling", first_fast([True, False]))
def test_slot_is_dropped_at_a_limit_if_chosen(watched: Any, polling: bool) -> None:
    watched.kill()
    watched.start(slot_lag_max_bytes="500000", slot_lag_limit_action="drop_slot")
    watched.until("streaming")
    with watched.sql() as db:
        db.execute("insert into t select i, repeat('x', 1000) from generate_series(1, 1000) i")
        slot = "select 1 from pg_replication_slots where slot_name = %s"
        if not polling:
            eventually(lambda: db.execute(slot, [watched.config["slot.name"]]).fetchone() is None, "the end of the slot")
        with pytest.raises(ConnectError, match=r"the slot was dropped \(slot\.lag\.limit\.action=drop_slot"):
            watched.poll_until_error()
        assert db.execute(slot, [watched.config["slot.name"]]).fetchone() is None


# --- slot -------------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_slot_dropped_during_the_snapshot_is_replaced_at_once(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, pad text)")
        db.execute("insert into t select i, repeat('x', 1000) from generate_series(1, 30000) i")
        source.start(source_check_interval_ms="50", retriable_restart_connector_wait_ms="50")
        source.until("snapshot")
        assert source.poll()
        source.drop_slot()
        wait_for(source, lambda p: "slot_missing" in problems(p), polling=False)
        db.execute("insert into t values (30001)")
        records = source.until("streaming")
    assert sorted(r.key["id"] for r in records[-30_001:]) == list(range(1, 30_002))


def test_removal_of_wal_is_announced_and_named(source: Any, services_dir: Path) -> None:
    """A server with little room for WAL: first a warning, then the slot is lost."""
    (services_dir / "small").mkdir(mode=0o755)
    settings = {"max_slot_wal_keep_size": "4MB", "min_wal_size": "32MB", "max_wal_size": "32MB", "wal_keep_size": "0"}
    server = EmbeddedPostgres(services_dir / "small" / "server", dies_with_parent=True, password=source.server.password)
    server._settings.update(settings)
    server.start()
    try:
        server.create_database(source.database)
        with server.connect(source.database) as db:
            db.execute("create table t(id int primary key); create table noise(pad text)")
            source.server = server
            source.config.update({"database.port": str(server.port), "source.check.interval.ms": "20"})
            source.start(snapshot_mode="never")
            source.until("streaming")
            size = wait_for(source, lambda p: "slot" in p)["slot"]["safe_wal_size"]
            assert 0 < size < 64 << 20
            codes = ("wal_loss_forecast", "wal_about_to_be_removed", "slot_lost")
            seen: set[str] = set()
            deadline = Deadline("the loss of the slot", lambda: seen)
            while "slot_lost" not in seen:  # nothing is stored, so the slot does not move
                deadline.check()
                db.execute("insert into noise select repeat('x', 1000) from generate_series(1, 500)")
                if seen:
                    db.execute("checkpoint")
                seen |= {code for code in problems(source.task.progress()) if code in codes}
            assert seen >= {"wal_loss_forecast"}
            with pytest.raises(PositionLostError, match="is invalid, because the server removed WAL that it needs"):
                source.poll_until_error()
        source.kill()
    finally:
        server.remove()


# --- publication and tables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recreated", first_fast([False, True]))
def test_a_dropped_publication_stops_the_task(watched: Any, recreated: bool) -> None:
    wait_for(watched, lambda p: "slot" in p)
    with watched.sql() as db:
        db.execute("drop publication sluice" + ("; create publication sluice for all tables" if recreated else ""))
        db.execute("insert into t values (1)")
        with pytest.raises(PositionLostError, match=r"publication sluice .*so changes are missing\. Take a new snapshot"):
            watched.poll_until_error()


@pytest.mark.long
def test_a_publication_dropped_while_the_task_is_stopped_is_not_recreated_silently(watched: Any) -> None:
    with watched.sql() as db:
        stop_behind_a_row(watched, db)
        db.execute("drop publication sluice; insert into t values (2)")
        watched.start()
        with pytest.raises(PositionLostError, match="publication sluice does not exist"):
            watched.poll_until_error()
        watched.kill()
        watched.start(snapshot_mode="when_needed")
        assert {r.key["id"] for r in watched.until("streaming")} == {1, 2}
        db.execute("insert into t values (3)")
        assert [r.key["id"] for r in watched.read(1)] == [3]


def test_a_publication_recreated_while_the_task_is_stopped_is_noticed(watched: Any, caplog: pytest.LogCaptureFixture) -> None:
    """PostgreSQL 18 silently skips the changes in between."""
    with watched.sql() as db:
        stop_behind_a_row(watched, db)
        db.execute("drop publication sluice; insert into t values (2)")
        db.execute("create publication sluice for all tables; insert into t values (3)")
        for _ in range(2):
            watched.start()
            with pytest.raises(PositionLostError, match=r"publication sluice on PostgreSQL .* was dropped and recreated"):
                watched.poll_until_error()
            watched.kill()
        before = dict(watched.offsets.stored)
        watched.start(offset_mismatch_strategy="trust_slot")
        assert [r.key["id"] for r in watched.read(1)] == [3]
        assert "was dropped and recreated; continuing without the changes that were not published" in caplog.text
        watched.kill()
        watched.offsets.stored = before
        watched.start(snapshot_mode="when_needed", offset_mismatch_strategy="trust_offset")
        records = watched.until("streaming")
        assert {r.key["id"] for r in records} == {1, 2, 3}
        watched.store(records[-1])
        watched.kill()
        watched.start(snapshot_mode="never")
        db.execute("insert into t values (4)")
        assert [r.key["id"] for r in watched.read(1)] == [4]


@pytest.mark.long
def test_a_snapshot_for_lost_changes_is_taken_after_a_lost_connection_too(watched: Any) -> None:
    with watched.sql() as db:
        stop_behind_a_row(watched, db)
        db.execute("drop publication sluice; insert into t values (2); create publication sluice for all tables")
        watched.start(snapshot_mode="when_needed", retriable_restart_connector_wait_ms="50")
        watched.until("catching up")
        db.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = %s",
            [watched.database],
        )
        records = watched.until("reconnecting") + watched.until("streaming")
    assert {r.key["id"] for r in records} == {1, 2}


def test_changes_of_a_publication_while_the_task_is_stopped_are_reported(watched: Any, caplog: pytest.LogCaptureFixture) -> None:
    with watched.sql() as db:
        watched.kill()
        db.execute("create table u(id int primary key); create table v(id int primary key); create schema s")
        db.execute("create table s.w(id int primary key); create schema kept; create table kept.x(id int)")
        db.execute("drop publication sluice; create publication sluice for table t, u, v, tables in schema s, kept")
        watched.offsets.stored = None
        watched.drop_slot()
        watched.start(publication_autocreate_mode="disabled")
        watched.until("streaming")
        stop_behind_a_row(watched, db)
        db.execute("alter publication sluice drop table t; insert into t values (2); alter publication sluice add table t")
        db.execute("alter publication sluice set table t, u where (id > 5), tables in schema kept")
        db.execute("alter publication sluice set (publish = 'insert')")
        watched.start()
        watched.until("streaming")
        wait_for(watched, lambda p: "operations_not_published" in problems(p))
        for message in (
            "table public.t was removed from publication sluice and added again: changes in between are missing",
            "publication sluice has another row filter or column list for public.u",
            "table public.v was removed from publication sluice: its changes are missing",
            "schema s was removed from publication sluice: changes of its tables are missing",
        ):
            assert caplog.text.count(message) == 1, message
        assert "kept" not in caplog.text
        db.execute("alter publication sluice drop tables in schema kept; alter publication sluice add tables in schema kept")
        wait_for(watched, lambda p: "schema kept was removed from publication sluice and added again" in str(p))
        db.execute("insert into t values (3)")
        watched.store(watched.read(1)[-1])
        watched.kill()
        watched.start()
        watched.until("streaming")
        assert problems(wait_for(watched, lambda p: "slot" in p)) == {}


@pytest.mark.long
def test_another_publication_is_named(watched: Any, caplog: pytest.LogCaptureFixture) -> None:
    with watched.sql() as db:
        db.execute("insert into t values (1)")
        watched.store(watched.read(1)[-1])
        db.execute("create publication second for all tables")
        watched.kill()
        db.execute("insert into t values (2)")
        watched.start(publication_name="second")
        assert [r.key["id"] for r in watched.read(1)] == [2]
        wait_for(watched, lambda p: "slot" in p)
        assert "reading publication second instead of sluice" in caplog.text


def test_changes_of_publication_and_tables_are_reported(watched: Any) -> None:
    with watched.sql() as db:
        watched.kill()
        db.execute("drop publication sluice; create table u(id int primary key); create table v(id int primary key)")
        db.execute("create publication sluice for table t, u, v")
        watched.offsets.stored = None
        watched.drop_slot()
        watched.start(publication_autocreate_mode="disabled", publish_via_partition_root="false")
        watched.until("streaming")
        wait_for(watched, lambda p: "slot" in p)
        quick = watched.task.progress
        assert problems(quick()) == {}
        db.execute("alter publication sluice set (publish = 'insert')")
        found = wait_for(watched, lambda p: "operations_not_published" in problems(p))
        assert "no longer publishes update, delete" in problems(found)["operations_not_published"]
        db.execute("alter publication sluice drop table t")
        found = wait_for(watched, lambda p: "table_not_published" in problems(p))
        assert "public.t was removed from publication sluice" in problems(found)["table_not_published"]
        db.execute("alter publication sluice set table u where (id > 5), v")
        found = wait_for(watched, lambda p: "publication_changed" in problems(p))
        assert "another row filter or column list for public.u" in problems(found)["publication_changed"]
        db.execute("drop table u")
        wait_for(watched, lambda p: "table_dropped" in problems(p))
        db.execute("drop table v; create table v(id int primary key)")
        found = wait_for(watched, lambda p: "table_recreated" in problems(p))
        assert "captured table public.v was dropped and recreated" in problems(found)["table_recreated"]


# --- limits -----------------------------------------------------------------------------------------------------------------


def test_guardrail_limits_captured_tables(source: Any, caplog: pytest.LogCaptureFixture) -> None:
    message = "Guardrail limit exceeded: 2 tables/collections configured for capture, but maximum allowed is 1."
    with source.sql() as db:
        db.execute("create table t(id int primary key); create table u(id int primary key)")
    source.start(guardrail_collections_max="1")
    assert message in caplog.text
    source.kill()
    with pytest.raises(ConfigError, match=message):
        source.start(guardrail_collections_limit_action="fail")


# --- the server's shutdown --------------------------------------------------------------------------------------------------


@pytest.fixture
def server(source: Any, services_dir: Path) -> Iterator[EmbeddedPostgres]:
    """A server of its own, which a test stops."""
    (services_dir / "stopped").mkdir(mode=0o755)
    server = EmbeddedPostgres(services_dir / "stopped" / "server", dies_with_parent=True, password=source.server.password)
    server.start()
    try:
        server.create_database(source.database)
        yield server
        source.kill()
    finally:
        server.remove()


@pytest.mark.long
def test_a_fast_shutdown_ends_although_the_task_is_paused_with_a_backlog(source: Any, server: EmbeddedPostgres) -> None:
    source.server = server
    source.config.update({"database.port": str(server.port), "status.update.interval.ms": "100"})
    with server.connect(source.database) as db:
        db.execute("create table t(id int primary key, pad text)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        wait_for(source, lambda p: "slot" in p)
        db.execute("insert into t values (0)")
        (record,) = source.read(1)
        source.store(record)
        db.execute("insert into t select i, repeat('x', 1000) from generate_series(1, 50000) i")  # more than sockets hold
    # Without a SIGKILL by this process.
    call_with_timeout(lambda: server.stop(grace_s=3600), "a fast shutdown while the task is paused")
    starting = threading.Thread(target=server.start)
    starting.start()
    ids = [r.key["id"] for r in source.read(50_000)]
    starting.join()
    assert ids == list(range(1, 50_001))


# --- flush LSN --------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_connector_and_driver_confirms_wal_without_changes_before_an_offset_is_stored(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key); create table noise(id int)")
        source.start(
            snapshot_mode="never",
            table_include_list="public.t",
            lsn_flush_mode="connector_and_driver",
            status_update_interval_ms="100",
        )
        source.until("streaming")
        db.execute("insert into t values (1)")
        (record,) = source.read(1)
        confirmed = "select confirmed_flush_lsn - %s::pg_lsn from pg_replication_slots where slot_name = %s"
        before = db.execute("select pg_current_wal_flush_lsn()").fetchone()[0]
        source.poll_through_status_updates(db)  # the record is not stored
        assert db.execute(confirmed, [before, source.config["slot.name"]]).fetchone()[0] < 0
        source.store(record)
        db.execute("insert into noise select generate_series(1, 1000)")
        end = db.execute("select pg_current_wal_flush_lsn()").fetchone()[0]
        arguments = [end, source.config["slot.name"]]
        source.idle_until(lambda: db.execute(confirmed, arguments).fetchone()[0] >= 0, "a later slot")
        source.kill()  # the slot is ahead of the stored offset
        db.execute("insert into t values (2)")
        source.start()
        assert [r.key["id"] for r in source.read(1)] == [2]


# --- failover slots ---------------------------------------------------------------------------------------------------------


def test_an_existing_slot_becomes_a_failover_slot_and_a_lagging_standby_is_named(watched: Any) -> None:
    with watched.sql() as db:
        failover = "select failover from pg_replication_slots where slot_name = %s"
        assert db.execute(failover, [watched.config["slot.name"]]).fetchone() == (False,)
        watched.kill()
        watched.wait_for_slot(db)
        db.execute("select pg_create_physical_replication_slot('standby', true)")
        db.execute("alter system set synchronized_standby_slots = 'standby'")
        db.execute("select pg_reload_conf()")
        try:
            watched.start(slot_failover="true")
            watched.until("streaming")
            assert db.execute(failover, [watched.config["slot.name"]]).fetchone() == (True,)
            db.execute("insert into t values (1)")
            found = wait_for(watched, lambda p: "standby_lagging" in problems(p))
            assert "no standby is connected to standby" in problems(found)["standby_lagging"]
        finally:
            db.execute("alter system reset synchronized_standby_slots")
            db.execute("select pg_reload_conf()")
            db.execute("select pg_drop_replication_slot('standby')")
        assert [r.key["id"] for r in watched.read(1)] == [1]
        wait_for(watched, lambda p: "standby_lagging" not in problems(p))


@pytest.mark.long
def test_checks_take_no_connection_that_the_task_needs(source: Any, role: str) -> None:
    """A role that may have one connection, apart from replication."""
    with source.sql() as db:
        db.execute(
            f"create table t(id int primary key); create publication sluice for all tables; alter role {role} connection limit 1"
        )
        source.start(snapshot_mode="never", source_check_interval_ms="10", retriable_restart_connector_wait_ms="50")
        source.until("streaming")
        for number in range(3):
            wait_for(source, lambda p: "source_not_checked" in problems(p))
            db.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = %s", [role])
            db.execute("insert into t values (%s)", [number])
            assert [r.key["id"] for r in source.read(1)] == [number]
