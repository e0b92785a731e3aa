"""Failures of the database, and error messages for configuration mistakes."""

from __future__ import annotations

import re
import socket
import threading
import time
from typing import Any

import pytest

from connect.errors import ConfigError, ConnectError, UnreachableError
from connectors.postgres.streaming import slots
from sluice.embedded.postgres import EmbeddedPostgres
from tests.integration.postgres.conftest import STATUS_TIME, errors_of
from tests.support.cases import first_fast
from tests.support.waiting import call_with_timeout, eventually


def test_lost_connection_loses_and_repeats_no_records(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, pad text)")
        source.start(snapshot_mode="never", max_batch_size="10", retriable_restart_connector_wait_ms="100")
        source.until("streaming")
        db.execute("insert into t select i, repeat('x', 100) from generate_series(1, 5000) i")
        ids: list[int] = []
        for cut in range(6):
            for _ in range(15 * cut):
                ids += [r.key["id"] for r in source.poll()]
            db.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sluice'")
        source.config["max.batch.size"] = "2048"
        ids += [r.key["id"] for r in source.read(5000 - len(ids))]
    assert ids == list(range(1, 5001))


def test_lost_connection_continues_the_snapshot(source: Any, show: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, pad text)")
        db.execute("insert into t select i, repeat('x', 1000) from generate_series(1, 30000) i")
        source.start()
        source.until("snapshot")
        first = source.poll()
        assert 0 < len(first) < 30_000
        db.execute("delete from t where id = 1")
        db.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sluice'")
        records = source.until("streaming")
    start = next(i for i, r in enumerate(records) if r.value is None or r.value["op"] == "d")
    assert [show(r)[1] for r in records[start : start + 2]] == ["d", "tombstone"]
    snapshot = first + records[:start] + records[start + 2 :]
    assert [r.key["id"] for r in snapshot] == list(range(1, 30_001))
    assert [r.value["source"]["snapshot"] for r in snapshot] == ["first", *["true"] * 29_998, "last"]


@pytest.mark.parametrize("how", first_fast(["restart", "kill"]))
def test_stream_survives_a_restart_of_the_database(source: Any, show: Any, how: str) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        source.start(snapshot_mode="never")
        source.until("streaming")
        db.execute("insert into t values (1)")
        (first,) = source.read(1)
        source.store(first)
    restart = threading.Thread(target=restart_server if how == "restart" else kill_and_start_server, args=(source.server,))
    restart.start()
    found = []
    while restart.is_alive():
        found += source.poll()
    restart.join()
    with source.sql() as db:
        db.execute("insert into t values (2)")
        found += source.read(1)
    assert [show(r)[3]["id"] for r in found] == [2]


def restart_server(server: EmbeddedPostgres) -> None:
    server.restart()


def kill_and_start_server(server: EmbeddedPostgres) -> None:
    server.kill()
    time.sleep(0.5)
    server.start()


def test_errors_max_retries_limits_retries(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        source.start(snapshot_mode="never", errors_max_retries="2", retriable_restart_connector_wait_ms="50")
        source.until("streaming")
    source.server.kill()
    with pytest.raises(ConnectError, match=r"errors\.max\.retries=2"):
        source.poll_until_error()
    source.server.start()


def test_stop_interrupts_poll_and_close_may_be_called_twice(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        task = source.start(snapshot_mode="never", poll_interval_ms="60000")
        source.until("streaming")
        timer = threading.Timer(0.2, task.stop)
        timer.start()
        call_with_timeout(source.poll, "a poll that waits for a minute")
        assert call_with_timeout(task.poll, "a poll after the end") is None
        task.close()
        task.close()
        left = "select count(*) from pg_stat_activity where application_name = 'sluice' and datname = current_database()"
        eventually(lambda: db.execute(left).fetchone() == (0,), "the end of the task's connections")


def test_slot_is_dropped_on_stop_if_configured(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        source.start(slot_drop_on_stop="true")
        source.until("streaming")
        source.kill()
        assert db.execute("select count(*) from pg_replication_slots where database = current_database()").fetchone()[0] == 0


# --- configuration mistakes -------------------------------------------------------------------------------------------------


def test_correct_configuration_is_valid(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
    assert errors_of(source.config) == {}


def test_wrong_password_is_reported_without_showing_it(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
    source.config["database.password"] = "hunter2-wrong"
    found = errors_of(source.config)
    assert list(found) == ["database.password"]
    assert "rejected the password of user postgres" in found["database.password"][0]
    with pytest.raises(ConfigError) as raised:
        source.start()
    assert raised.value.key == "database.password"
    assert "hunter2" not in str(raised.value) + repr(source.task.settings) + str(found)


def test_unknown_database_and_user_are_reported(source: Any) -> None:
    missing = {**source.config, "database.dbname": "no_such_db"}
    assert "has no database no_such_db" in errors_of(missing)["database.dbname"][0]
    nobody = {**source.config, "database.user": "no_such_user"}
    assert set(errors_of(nobody)) <= {"database.user", "database.password"}


def test_unreachable_host_is_reported(source: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    source.config["database.port"] = str(port)
    assert f"cannot reach PostgreSQL at 127.0.0.1:{port}" in errors_of(source.config)["database.hostname"][0]
    with pytest.raises(ConnectError, match=f"127.0.0.1:{port}.*gave up after errors.max.retries=0"):
        source.start(errors_max_retries="0")
    unknown = {**source.config, "database.hostname": "no-such-host.invalid"}
    assert "no-such-host.invalid" in errors_of(unknown)["database.hostname"][0]


def test_unresponsive_host_times_out(source: Any) -> None:
    from connectors.cdc.interrupt import Interrupt
    from connectors.postgres.config import parse_config
    from connectors.postgres.connection import Connection

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = parse_config({**source.config, "database.port": str(silent.getsockname()[1])}).address
        interrupt = Interrupt()
        with pytest.raises(UnreachableError, match=r"no answer within 0\.3 s"):
            Connection.open(address, interrupt, timeout_s=0.3)
        interrupt.close()


@pytest.mark.parametrize("key", ["topic.prefix", "database.hostname", "database.user", "database.dbname"])
def test_missing_keys_are_reported(source: Any, key: str) -> None:
    del source.config[key]
    assert f'Missing required configuration "{key}"' in errors_of(source.config)[key][0]
    with pytest.raises(ConfigError, match=key):
        source.start()


def test_wal_level_replica_is_reported_with_the_fix(source: Any, tmp_path: Any) -> None:
    server = EmbeddedPostgres(tmp_path / "replica", dies_with_parent=True, settings={"wal_level": "replica"})
    server.start()
    try:
        with server.connect() as db:
            db.execute("create table t(id int primary key)")
        config = {
            **source.config, "database.port": str(server.port), "database.password": server.password,
            "database.dbname": "postgres",
        }  # fmt: skip
        (message,) = errors_of(config)["database.hostname"]
        assert "wal_level=replica" in message
        assert "ALTER SYSTEM SET wal_level" in message
        source.config = config
        with pytest.raises(ConfigError, match="wal_level=logical"):
            source.start()
    finally:
        source.kill()
        server.remove()


def test_missing_replication_privilege_is_reported_with_the_fix(source: Any, role: str) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        db.execute(f"alter role {role} noreplication; grant select on all tables in schema public to {role}")
        (message,) = errors_of(source.config)["database.user"]
        assert f"ALTER ROLE {role} REPLICATION" in message
        with pytest.raises(ConfigError, match=f"ALTER ROLE {role} REPLICATION"):
            source.start()
        source.kill()
        db.execute(f"alter role {role} replication")
        source.start()
        with pytest.raises(ConfigError, match=r"may not create publication sluice .*publication\.autocreate\.mode=disabled"):
            source.poll_until_error()


def test_missing_publication_with_autocreate_disabled_is_reported(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
    source.config["publication.autocreate.mode"] = "disabled"
    assert "publication sluice does not exist" in errors_of(source.config)["publication.name"][0]
    source.start()
    with pytest.raises(ConfigError, match="CREATE PUBLICATION sluice"):
        source.poll_until_error()


def test_table_list_without_matches_is_reported_with_existing_tables(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
    source.config["table.include.list"] = "public.no_such_.*"
    assert "matches" in errors_of(source.config)["table.include.list"][0]
    with pytest.raises(ConfigError, match=r"names are schema\.table; existing tables: public\.t"):
        source.start()


def test_slot_in_use_is_reported(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
    first = source.start(snapshot_mode="never", slot_max_retries="1", slot_retry_delay_ms="500")
    source.until("streaming")
    source.start()
    source.until("waiting for slot")  # for a retry
    with pytest.raises(ConnectError, match=r"is active for PID .*its own slot\.name"):
        source.poll_until_error()
    first.stop()
    first.close()


def test_slot_in_use_is_not_dropped_on_stop(
    source: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
    first = source.start(snapshot_mode="never", slot_drop_on_stop="true")
    source.until("streaming")
    source.start()
    source.until("waiting for slot")
    monkeypatch.setattr(slots, "_DROP_SLOT_TIMEOUT_S", 0.5)
    source.kill()
    assert re.search(r"could not drop slot \S+: server process \d+ still reads from it.*pg_drop_replication_slot\('", caplog.text)
    monkeypatch.undo()
    first.stop()
    first.close()
    with source.sql() as db:
        assert db.execute("select count(*) from pg_replication_slots where database = current_database()").fetchone()[0] == 0


def test_slot_of_another_database_is_reported(source: Any) -> None:
    with source.server.connect(autocommit=True) as other, source.sql() as db:
        db.execute("create table t(id int primary key)")
        other.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [source.config["slot.name"]])
        try:
            assert "choose another slot.name" in errors_of(source.config)["slot.name"][0]
        finally:
            other.execute("select pg_drop_replication_slot(%s)", [source.config["slot.name"]])


def test_offset_of_another_database_is_rejected(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key); insert into t values (1)")
        source.start()
        (record,) = source.read(1)
        source.kill()
        source.offsets.stored = {**record.source_offset, "lsn": record.source_offset["lsn"] + (1 << 40)}
        source.start()
        with pytest.raises(ConnectError, match="not the database that was read before"):
            source.poll_until_error()
        source.kill()
        source.start(snapshot_mode="when_needed")
        assert [r.value["op"] for r in source.read(1)] == ["r"]


def test_slot_creation_timeout_is_reported_with_the_setting(source: Any) -> None:
    with source.sql() as db, source.sql() as blocker:
        db.execute("create table t(id int primary key)")
        blocker.autocommit = False
        blocker.execute("insert into t values (1)")
        source.start(create_slot_command_timeout="1")
        with pytest.raises(ConnectError, match=r"create\.slot\.command\.timeout=1 s: the server waits"):
            source.poll_until_error()
        blocker.rollback()


@pytest.mark.long
def test_paused_task_keeps_its_replication_connection(source: Any, caplog: Any) -> None:
    """Does not poll for longer than wal_sender_timeout, while the server has more data than fits into the socket."""
    with source.sql() as db:
        db.execute(f"alter database {source.database} set wal_sender_timeout = '3s'")
        db.execute("create table t(id int primary key, pad text)")
        source.start(snapshot_mode="never", status_update_interval_ms="200")
        source.until("streaming")
        db.execute("insert into t select i, repeat('x', 500) from generate_series(1, 20000) i")
        (later,) = db.execute("select now() + interval '5 s'").fetchone()
        received = f"{STATUS_TIME} and reply_time > %s"
        arguments = [source.config["slot.name"], later]
        eventually(lambda: db.execute(received, arguments).fetchone(), "status updates for longer than the timeout")
        assert len(source.read(20_000)) == 20_000
    assert "lost the connection" not in caplog.text
