"""The embedded MariaDB: its life cycle, its binary log, and rejected settings."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pymysql
import pytest
import sqlalchemy

from connect.errors import ConfigError, ConnectError, IllegalStateError
from sluice.embedded.mariadb import EmbeddedMariaDB
from sluice.embedded.ports import LOOPBACK
from tests.integration.embedded.lifetimes import assert_exits_with_killed_parent
from tests.support.waiting import WAIT_S


@pytest.fixture
def own(tmp_path: Path) -> Iterator[EmbeddedMariaDB]:
    """A server for one test, not started."""
    server = EmbeddedMariaDB(tmp_path / "mariadb", dies_with_parent=True)
    yield server
    server.remove()


def rows(server: EmbeddedMariaDB, statement: str, database: str | None = None) -> list[tuple[Any, ...]]:
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


@pytest.mark.long
def test_committed_rows_survive_a_stop_and_a_kill_on_the_same_port(own: EmbeddedMariaDB) -> None:
    own.start()
    port, password = own.port, own.password
    rows(own, "CREATE TABLE kept (n int)")
    rows(own, "INSERT INTO kept VALUES (1)")
    own.restart()
    rows(own, "INSERT INTO kept VALUES (2)")
    assert own.kill()
    assert not own.running
    own.start()
    assert (own.port, own.password) == (port, password)
    assert rows(own, "SELECT n FROM kept ORDER BY n") == [(1,), (2,)]


@pytest.mark.long
def test_open_transaction_is_rolled_back_after_a_kill(own: EmbeddedMariaDB) -> None:
    own.start()
    rows(own, "CREATE TABLE kept (n int)")
    with own.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO kept VALUES (1)")
        own.kill()
    own.start()
    assert rows(own, "SELECT n FROM kept") == []


@pytest.mark.long
def test_two_handles_for_a_directory_control_one_server(own: EmbeddedMariaDB) -> None:
    own.start()
    other = EmbeddedMariaDB(own.data_dir)
    other.start()
    assert (other.pid, other.port, other.password) == (own.pid, own.port, own.password)
    with pytest.raises(IllegalStateError, match=f"already runs on port {own.port}"):
        EmbeddedMariaDB(own.data_dir, port=own.port + 1).start()
    assert other.stop()
    assert not own.running
    assert not own.stop()


def test_binary_log_has_row_changes(mariadb: EmbeddedMariaDB, mariadb_database: str) -> None:
    ((log, position, *_),) = rows(mariadb, "SHOW MASTER STATUS")
    rows(mariadb, "CREATE TABLE t (id int PRIMARY KEY)", mariadb_database)
    rows(mariadb, "INSERT INTO t VALUES (1)", mariadb_database)
    events = rows(mariadb, f"SHOW BINLOG EVENTS IN '{log}' FROM {position}")
    kinds = [kind for _, _, kind, *_ in events]
    assert kinds[kinds.index("Query") + 1 :] == ["Gtid", "Annotate_rows", "Table_map", "Write_rows_v1", "Xid"]


def test_character_set_and_time_zone_do_not_depend_on_the_machine(mariadb: EmbeddedMariaDB, mariadb_database: str) -> None:
    rows(mariadb, "CREATE TABLE t (word varchar(10))", mariadb_database)
    rows(mariadb, "INSERT INTO t VALUES ('Ωmega 🦦')", mariadb_database)
    assert rows(mariadb, "SELECT word, char_length(word), @@time_zone FROM t", mariadb_database) == [("Ωmega 🦦", 7, "+00:00")]


def test_url_works_with_sqlalchemy(mariadb: EmbeddedMariaDB, mariadb_database: str) -> None:
    engine = sqlalchemy.create_engine(mariadb.url(mariadb_database))
    try:
        with engine.connect() as connection:
            assert connection.scalar(sqlalchemy.text("SELECT database()")) == mariadb_database
    finally:
        engine.dispose()


def test_user_may_create_users_and_grant_rights(mariadb: EmbeddedMariaDB, mariadb_database: str) -> None:
    rows(mariadb, f"CREATE USER {mariadb_database}_reader IDENTIFIED BY 'r3ad'")
    try:
        rows(mariadb, f"GRANT SELECT ON {mariadb_database}.* TO {mariadb_database}_reader")
        credentials = {"user": f"{mariadb_database}_reader", "password": "r3ad"}
        with (
            mariadb.connect(mariadb_database, **credentials) as connection,
            pytest.raises(pymysql.OperationalError, match="denied"),
        ):
            connection.cursor().execute("CREATE TABLE t (n int)")
    finally:
        rows(mariadb, f"DROP USER {mariadb_database}_reader")


def test_database_of_any_name_is_dropped_with_its_connections(mariadb: EmbeddedMariaDB) -> None:
    name = "odd `name` 100%"
    mariadb.create_database(name)
    with pytest.raises(pymysql.ProgrammingError, match="database exists"):
        mariadb.create_database(name)
    holder = mariadb.connect(name, autocommit=False)
    with holder.cursor() as cursor:
        cursor.execute("CREATE TABLE t (n int)")
        cursor.execute("SELECT * FROM t")
        mariadb.drop_database(name)
        with pytest.raises(pymysql.OperationalError):
            cursor.execute("SELECT 1")
    mariadb.drop_database(name)
    assert (name,) not in rows(mariadb, "SHOW DATABASES")


def test_wrong_password_is_rejected(mariadb: EmbeddedMariaDB) -> None:
    with pytest.raises(pymysql.OperationalError, match="Access denied for user 'sluice'"):
        mariadb.connect(password="wrong").close()


@pytest.mark.parametrize("user", ["root", "", "mariadb.sys"])
def test_connection_without_password_is_rejected(mariadb: EmbeddedMariaDB, user: str) -> None:
    with pytest.raises(pymysql.OperationalError, match="Access denied"):
        mariadb.connect("mysql", user=user, password="").close()


def test_server_listens_only_on_loopback(mariadb: EmbeddedMariaDB) -> None:
    assert mariadb.pid is not None
    server = psutil.Process(mariadb.pid)
    assert {one.laddr.ip for one in server.net_connections("tcp") if one.status == "LISTEN"} == {LOOPBACK}
    assert server.net_connections("unix") == []


@pytest.mark.long
def test_server_never_runs_as_root_and_changes_no_directory_permissions(own: EmbeddedMariaDB) -> None:
    own.data_dir.parent.chmod(0o700)
    own.start()
    assert own.pid is not None
    assert psutil.Process(own.pid).uids().effective != 0
    assert own.data_dir.parent.stat().st_mode & 0o777 == 0o700
    assert {name: (own.data_dir / name).stat().st_mode & 0o777 for name in ("data", "tmp")} == {"data": 0o700, "tmp": 0o700}


@pytest.mark.long
def test_password_is_given_or_generated_and_readable_only_by_its_owner(tmp_path: Path) -> None:
    with pytest.raises(IllegalStateError, match="no password before its first start"):
        _ = EmbeddedMariaDB(tmp_path / "given").password
    given = EmbeddedMariaDB(tmp_path / "given", password="s3' c/re:t@%", dies_with_parent=True)
    try:
        given.start()
        assert given.password == "s3' c/re:t@%"
        assert given.answers()
        assert sqlalchemy.make_url(given.url()).password == given.password
        assert (given.data_dir / "password").stat().st_mode & 0o777 == 0o600
        assert given.password not in given.log_file.read_text(encoding="utf-8")
    finally:
        given.remove()
    assert not given.data_dir.exists()


def test_non_ascii_password_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be ASCII") as raised:
        EmbeddedMariaDB(tmp_path / "mariadb", password="geheim-ü")
    assert "geheim" not in str(raised.value)


@pytest.mark.long
def test_settings_can_be_changed_at_a_restart(own: EmbeddedMariaDB) -> None:
    changed = EmbeddedMariaDB(own.data_dir, settings={"binlog-row-image": "MINIMAL", "log_bin": ""}, dies_with_parent=True)
    changed.start()
    assert rows(changed, "SELECT @@binlog_row_image, @@log_bin") == [("MINIMAL", 0)]
    changed.stop()
    own.start()
    assert rows(own, "SELECT @@binlog_row_image, @@log_bin") == [("FULL", 1)]


def test_port_in_use_is_reported_and_nothing_starts(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        server = EmbeddedMariaDB(tmp_path / "mariadb", port=taken.getsockname()[1])
        with pytest.raises(ConfigError, match="the port is in use"):
            server.start()
        assert not server.running


def test_failed_start_reports_the_log_and_leaves_nothing(own: EmbeddedMariaDB) -> None:
    broken = EmbeddedMariaDB(own.data_dir, settings={"binlog_format": "sideways"})
    with pytest.raises(ConnectError, match=r"(?s)could not create its data.*sideways.*binlog_format"):
        broken.start()
    assert not (own.data_dir / "data").exists()
    own.start()
    own.stop()
    with pytest.raises(ConnectError, match=r"(?s)ended while starting.*sideways.*binlog_format"):
        broken.start()
    assert not broken.running


@pytest.mark.long
def test_creation_that_takes_too_long_is_ended_with_an_error_and_leaves_nothing(
    own: EmbeddedMariaDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.embedded.server._CREATE_TIMEOUT_S", 0.0)
    message = f"^MariaDB could not create its data in {own.data_dir} within 0 s; start it again .*{own.log_file} ends with"
    with pytest.raises(ConnectError, match=message):
        own.start()
    assert not {"data", "data.new"} & {path.name for path in own.data_dir.iterdir()}
    own_processes = [one for one in psutil.process_iter(["cmdline"]) if str(own.data_dir) in str(one.info["cmdline"])]
    assert not psutil.wait_procs(own_processes, timeout=WAIT_S)[1]
    monkeypatch.undo()
    own.start()
    assert own.answers()


@pytest.mark.long
def test_incomplete_database_is_recreated_and_temporary_files_are_removed(own: EmbeddedMariaDB) -> None:
    for incomplete in ("data.new/mysql", "tmp/#sql-1"):
        (own.data_dir / incomplete).mkdir(parents=True)
    own.start()
    assert own.answers()
    assert {path.name for path in own.data_dir.iterdir() if path.is_dir()} == {"data", "tmp"}
    assert not (own.data_dir / "tmp" / "#sql-1").exists()


@pytest.mark.long
def test_server_ends_when_its_parent_is_killed(own: EmbeddedMariaDB) -> None:
    assert_exits_with_killed_parent(own)
