"""The embedded PostgreSQL: its life cycle, logical decoding, and rejected settings."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import psycopg2
import psycopg2.extras
import pytest

from connect.errors import ConfigError, ConnectError
from sluice.embedded.ports import LOOPBACK
from sluice.embedded.postgres import EmbeddedPostgres
from tests.integration.embedded.lifetimes import assert_exits_with_killed_parent, is_running
from tests.support.waiting import WAIT_S


@pytest.fixture
def own(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    """A server for one test, not started."""
    server = EmbeddedPostgres(tmp_path / "postgres", dies_with_parent=True)
    yield server
    server.remove()


def test_committed_rows_survive_a_stop_and_a_kill_on_the_same_port(own: EmbeddedPostgres) -> None:
    own.start()
    port, password = own.port, own.password
    with own.connect() as connection:
        connection.execute("CREATE TABLE kept (n int)")
        connection.execute("INSERT INTO kept VALUES (1)")
    own.restart()
    with own.connect() as connection:
        connection.execute("INSERT INTO kept VALUES (2)")
    assert own.kill()
    assert not own.running
    own.start()
    assert (own.port, own.password) == (port, password)
    with own.connect() as connection:
        assert connection.execute("SELECT n FROM kept ORDER BY n").fetchall() == [(1,), (2,)]


@pytest.mark.long
def test_kill_ends_all_processes(own: EmbeddedPostgres) -> None:
    own.start()
    assert own.pid is not None
    processes = psutil.Process(own.pid).children(recursive=True)
    assert processes
    own.kill()
    assert [one for one in processes if is_running(one)] == []


def test_pgoutput_decodes_changes(postgres: EmbeddedPostgres, database: str) -> None:
    with postgres.connect(database) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.execute("CREATE PUBLICATION p FOR TABLE t")
        connection.execute("SELECT pg_create_logical_replication_slot('embedded_decodes', 'pgoutput')")
        connection.execute("INSERT INTO t VALUES (1)")
    replication = psycopg2.connect(postgres.dsn(database), connection_factory=psycopg2.extras.LogicalReplicationConnection)
    try:
        cursor = replication.cursor()
        options = {"proto_version": "1", "publication_names": "p"}
        cursor.start_replication("embedded_decodes", decode=False, options=options)
        kinds: list[bytes] = []
        while len(kinds) < 4:
            if (message := cursor.read_message()) is not None:
                kinds.append(message.payload[:1])
        assert kinds == [b"B", b"R", b"I", b"C"]
    finally:
        replication.close()


def test_database_is_dropped_with_its_sessions_and_all_kinds_of_slots(
    postgres: EmbeddedPostgres, unique_name: Callable[[str], str]
) -> None:
    name = unique_name("db")
    postgres.create_database(name)
    holder = postgres.connect(name)
    try:
        for slot, temporary in (("permanent", False), ("temporary", True)):  # the second is dropped with its session
            holder.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput', %s)", [f"{slot}_{name}", temporary])
        postgres.drop_database(name)
        with pytest.raises(psycopg.OperationalError):
            holder.execute("SELECT 1")
    finally:
        holder.close()
    postgres.drop_database(name)
    with postgres.connect() as connection:
        assert connection.execute("SELECT slot_name FROM pg_replication_slots WHERE database = %s", [name]).fetchall() == []
        assert connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchall() == []


def test_wrong_password_is_rejected(postgres: EmbeddedPostgres) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        postgres.connect(password="wrong").close()


def test_server_listens_only_on_loopback(postgres: EmbeddedPostgres) -> None:
    assert postgres.pid is not None
    listening = {one.laddr.ip for one in psutil.Process(postgres.pid).net_connections("tcp") if one.status == "LISTEN"}
    assert listening == {LOOPBACK}


def test_server_never_runs_as_root_and_changes_no_directory_permissions(own: EmbeddedPostgres) -> None:
    own.data_dir.parent.chmod(0o700)
    own.start()
    assert own.pid is not None
    assert psutil.Process(own.pid).uids().effective != 0
    assert own.data_dir.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.long
def test_password_is_given_or_generated_and_readable_only_by_its_owner(own: EmbeddedPostgres, tmp_path: Path) -> None:
    given = EmbeddedPostgres(tmp_path / "given", password="s3cret", dies_with_parent=True)
    try:
        given.start()
        assert given.password == "s3cret"
        assert given.answers()
        assert (given.data_dir / "password").stat().st_mode & 0o777 == 0o600
    finally:
        given.remove()


@pytest.mark.long
def test_settings_can_be_changed_at_a_restart(own: EmbeddedPostgres) -> None:
    changed = EmbeddedPostgres(own.data_dir, settings={"wal_level": "replica"}, dies_with_parent=True)
    changed.start()
    with changed.connect() as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("replica",)
    changed.stop()
    own.start()
    with own.connect() as connection:
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)


def test_port_in_use_is_reported_and_nothing_starts(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        server = EmbeddedPostgres(tmp_path / "postgres", port=taken.getsockname()[1])
        with pytest.raises(ConfigError, match="the port is in use"):
            server.start()
        assert not server.running


@pytest.mark.long
def test_failed_start_reports_the_log_and_leaves_nothing(own: EmbeddedPostgres) -> None:
    broken = EmbeddedPostgres(own.data_dir, settings={"wal_level": "sideways"})
    with pytest.raises(ConnectError, match=r"(?s)ended while starting.*wal_level.*sideways"):
        broken.start()
    assert not broken.running
    own.start()


@pytest.mark.long
def test_creation_that_takes_too_long_is_ended_with_an_error_and_leaves_nothing(
    own: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.embedded.server._CREATE_TIMEOUT_S", 0.0)
    message = f"^PostgreSQL could not create its data in {own.data_dir} within 0 s; start it again .*{own.log_file} ends with"
    with pytest.raises(ConnectError, match=message):
        own.start()
    assert not {"cluster"} & {path.name for path in own.data_dir.iterdir()}
    own_processes = [one for one in psutil.process_iter(["cmdline"]) if str(own.data_dir) in str(one.info["cmdline"])]
    assert not psutil.wait_procs(own_processes, timeout=WAIT_S)[1]
    monkeypatch.undo()
    own.start()
    assert own.answers()


@pytest.mark.long
def test_incomplete_cluster_is_recreated(own: EmbeddedPostgres) -> None:
    (own.data_dir / "cluster" / "base").mkdir(parents=True)
    own.start()
    assert own.answers()


def test_server_ends_when_its_parent_is_killed(own: EmbeddedPostgres) -> None:
    assert_exits_with_killed_parent(own)
