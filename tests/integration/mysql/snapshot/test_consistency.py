"""The point in time: with each kind of lock, snapshot and stream together are the table, whatever others write meanwhile."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from connect.errors import ConfigError, ConnectError
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.offsets import BinlogPosition
from connectors.mysql.server import read_position, read_server
from connectors.mysql.snapshot import point, row_stream, table_plan
from tests.integration.mysql.snapshot import rig
from tests.integration.mysql.snapshot.rig import SnapshotSource, SourceAttempt, markers, replay, values_of
from tests.support.cases import first_fast
from tests.support.waiting import WAIT_S, eventually

MODES = ("minimal", "extended", "none", "minimal_at_least_once")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_stream, "BATCH_ROWS", 100)
    monkeypatch.setattr(table_plan, "MIN_PARALLEL_BYTES", 16 << 10)


class Writer(threading.Thread):
    """Changes tables until it is stopped."""

    def __init__(self, sql: MySqlConnection) -> None:
        super().__init__(name="writer")
        self._sql = sql
        self._stopped = threading.Event()
        self.rounds = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while not self._stopped.is_set():
                n = self.rounds
                table = "ab"[n % 2]
                key = n * 7919 % 2000
                self._sql.execute("BEGIN")
                self._sql.execute(f"UPDATE {table} SET v = 'u{n}' WHERE id BETWEEN {key} AND {key + 3}")
                self._sql.execute(f"DELETE FROM {table} WHERE id = {key + 5}")
                self._sql.execute(f"REPLACE INTO {table} VALUES ({key * 2 + 1}, 'n{n}'), ({-n}, 'm')")
                self._sql.execute(f"UPDATE IGNORE {table} SET id = id + 4000 WHERE id = {key + 7}")
                self._sql.execute("COMMIT")
                self.rounds += 1
        except Exception as e:
            self.error = e

    def stop(self) -> None:
        self._stopped.set()
        self.join(WAIT_S)
        assert not self.is_alive()
        assert self.error is None


@contextlib.contextmanager
def writing(source: SnapshotSource) -> Iterator[Writer]:
    writer = Writer(source.connect())
    writer.start()
    try:
        yield writer
    finally:
        writer.stop()


def create_tables(source: SnapshotSource) -> None:
    for name in "ab":
        source.execute(
            f"CREATE TABLE IF NOT EXISTS {name} (id INT PRIMARY KEY, v VARCHAR(40))",
            f"REPLACE INTO {name} SELECT seq, REPEAT('x', 30) FROM seq_1_to_2000",
        )


@pytest.mark.parametrize(
    ("mode", "threads"),
    first_fast([*zip(MODES, "3311", strict=True), *zip(MODES, "1133", strict=True)], 4),
)
def test_snapshot_and_stream_are_the_tables_under_writes(source: SnapshotSource, mode: str, threads: str) -> None:
    create_tables(source)
    attempt = source.attempt(snapshot_locking_mode=mode, snapshot_max_threads=threads)
    with writing(source) as writer:
        attempt.snapshot.start()
        before = writer.rounds
        records = attempt.read_some(500)
        if mode != "extended":  # which stops writes until the end
            eventually(lambda: writer.rounds > before + 20, "writes")
        records += attempt.read_all()
        eventually(lambda: writer.rounds > before + 40, "writes")
    end = read_position(source.sql, attempt.server)
    assert max(Counter(values_of(records, "a")).values()) == 1
    records += attempt.stream(attempt.snapshot.position, end)
    for name in "ab":
        assert replay(records, name) == source.rows(name)


def test_parallel_reading_returns_the_rows_of_serial_reading(source: SnapshotSource) -> None:
    create_tables(source)
    source.execute("CREATE TABLE c (id INT, v INT)", "INSERT INTO c SELECT seq, seq FROM seq_1_to_300", "ANALYZE TABLE a, b, c")
    serial = source.take()
    attempt = source.attempt(snapshot_max_threads="3", snapshot_max_threads_multiplier="2")
    attempt.snapshot.start()
    parallel = attempt.read_all()

    def rows(records: list[Any]) -> Counter[str]:
        return Counter(f"{r.topic} {r.key and r.key.as_dict()} {r.value['after'].as_dict()}" for r in records)

    assert rows(parallel) == rows(serial)
    assert values_of(parallel, "a") != values_of(serial, "a")  # several ranges at once
    assert markers(serial)[0] == markers(parallel)[0] == ("a", "first")
    assert Counter(marker for _, marker in markers(parallel)) == Counter(
        first=1, first_in_data_collection=2, last_in_data_collection=2, last=1
    )


def test_writes_wait_for_an_extended_lock(source: SnapshotSource) -> None:
    create_tables(source)
    attempt = source.attempt(snapshot_locking_mode="extended")
    attempt.snapshot.start()
    source.execute("SET SESSION lock_wait_timeout = 1")
    with pytest.raises(ConnectError, match="1205"):
        source.execute("INSERT INTO a VALUES (-1, 'x')")
    attempt.read_all()
    source.execute("INSERT INTO a VALUES (-1, 'x')")


@pytest.mark.parametrize("mode", first_fast(["minimal", "none"]))
def test_writes_do_not_wait_for_other_locks(source: SnapshotSource, mode: str) -> None:
    create_tables(source)
    attempt = source.attempt(snapshot_locking_mode=mode, snapshot_max_threads="2")
    attempt.snapshot.start()
    source.execute("SET SESSION lock_wait_timeout = 1", "INSERT INTO a VALUES (-1, 'x')")
    assert -1 not in values_of(attempt.read_all(), "a")


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch, source: SnapshotSource) -> SnapshotSource:
    """Commits come between the starts of several transactions, at each attempt, unless a lock stops them."""
    create_tables(source)
    source.execute("ANALYZE TABLE a, b")
    writer = source.connect()
    writer.execute("SET SESSION lock_wait_timeout = 0")
    execute = MySqlConnection.execute

    def execute_after_insert(self: MySqlConnection, sql: str, *arguments: Any, **keywords: Any) -> None:
        if sql == point._START:
            with contextlib.suppress(ConnectError):
                execute(writer, "INSERT INTO a VALUES ((SELECT n FROM (SELECT MAX(id) + 1 n FROM a) t), 'between')")
        execute(self, sql, *arguments, **keywords)

    monkeypatch.setattr(MySqlConnection, "execute", execute_after_insert)
    return source


def test_several_connections_on_a_busy_server_take_a_short_lock(busy: SnapshotSource) -> None:
    attempt = busy.attempt(snapshot_max_threads="3", snapshot_locking_mode="minimal")
    attempt.snapshot.start()
    busy.execute("SET SESSION lock_wait_timeout = 1", "INSERT INTO a VALUES (-100000, 'x')")  # the lock is released
    records = attempt.read_all()
    assert len(values_of(records, "a")) == len(set(values_of(records, "a"))) > 2000
    changes = attempt.stream(attempt.snapshot.position, read_position(busy.sql, attempt.server))
    assert not set(values_of(records, "a")) & {change.value["after"]["id"] for change in changes}
    assert replay(records + changes, "a") == busy.rows("a")


def test_without_locks_a_busy_server_gets_one_connection(busy: SnapshotSource, caplog: pytest.LogCaptureFixture) -> None:
    attempt = busy.attempt(snapshot_max_threads="3", snapshot_locking_mode="none")
    attempt.snapshot.start()
    assert "uses one connection" in caplog.text
    records = attempt.read_all()
    records += attempt.stream(attempt.snapshot.position, read_position(busy.sql, attempt.server))
    assert replay(records, "a") == busy.rows("a")


@pytest.fixture
def user(source: SnapshotSource) -> Iterator[str]:
    """A user that may read and stream, and take no lock."""
    name = f"u_{source.database}"
    source.execute(
        f"CREATE USER {name} IDENTIFIED BY 'pw'",
        f"GRANT SELECT, INSERT ON {source.database}.* TO {name}",
        f"GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {name}",
    )
    source.config |= {"database.user": name, "database.password": "pw"}
    yield name
    source.execute(f"DROP USER {name}")


def test_minimal_needs_no_lock_on_mariadb(source: SnapshotSource, user: str) -> None:
    create_tables(source)
    assert len(source.take()) == 4000


def test_user_without_the_global_lock_locks_the_captured_tables(source: SnapshotSource, user: str) -> None:
    create_tables(source)
    source.execute(f"GRANT LOCK TABLES ON {source.database}.* TO {user}", "CREATE TABLE other (id INT PRIMARY KEY)")
    source.config["table.include.list"] = rf"{source.database}\.[ab]"
    attempt = source.attempt(snapshot_locking_mode="extended")
    attempt.snapshot.start()
    source.execute("SET SESSION lock_wait_timeout = 1", "INSERT INTO other VALUES (1)")
    with pytest.raises(ConnectError, match="1205"):
        source.execute("INSERT INTO a VALUES (-1, 'x')")
    assert len(attempt.read_all()) == 4000
    source.execute("INSERT INTO a VALUES (-1, 'x')")


def test_user_without_any_lock_is_told_what_to_grant(source: SnapshotSource, user: str) -> None:
    create_tables(source)
    attempt = source.attempt(snapshot_locking_mode="extended")
    with pytest.raises(ConfigError, match=r"GRANT RELOAD ON \*\.\*, or GRANT LOCK TABLES"):
        attempt.snapshot.start()


def test_backup_lock_is_percona_servers(source: SnapshotSource) -> None:
    attempt = source.attempt(snapshot_locking_mode="minimal_percona")
    with pytest.raises(ConfigError, match=r"snapshot\.locking\.mode=minimal"):
        attempt.snapshot.start()


def test_lock_that_others_hold_is_not_awaited_for_ever(source: SnapshotSource) -> None:
    create_tables(source)
    source.execute("LOCK TABLES a WRITE")
    attempt = source.attempt(snapshot_locking_mode="extended", snapshot_lock_timeout_ms="1000")
    with pytest.raises(ConnectError, match=r"within snapshot\.lock\.timeout\.ms=1000"):
        attempt.snapshot.start()
    source.execute("UNLOCK TABLES")
    retry = source.attempt()
    retry.snapshot.start()
    assert len(retry.read_all()) == 4000


@pytest.mark.long
def test_connections_that_wait_for_an_altered_table_read_others(source: SnapshotSource) -> None:
    """ALTER waits for the first connection, which has opened the table; the others would wait for ALTER."""
    create_tables(source)
    source.execute("ANALYZE TABLE a, b")
    attempt = source.attempt(snapshot_max_threads="2", snapshot_max_threads_multiplier="2")
    attempt.snapshot.start()
    assert attempt.snapshot._started is not None
    leader, other = attempt.snapshot._started.connections.readers
    leader.connection.execute(f"SELECT 1 FROM {source.database}.a LIMIT 1")
    alter = threading.Thread(target=lambda: source.execute("ALTER TABLE a ADD COLUMN w INT, ALGORITHM=COPY"))
    watcher = source.connect()
    alter.start()
    waiting = "SELECT 1 FROM information_schema.processlist WHERE state LIKE '%metadata lock%'"
    eventually(lambda: watcher.query(waiting), "a session that waits")
    records = attempt.read_all()
    alter.join(WAIT_S)
    assert not other.is_lost
    for name in "ab":
        assert sorted(values_of(records, name)) == list(range(1, 2001))


@pytest.mark.long
def test_connection_that_is_lost_is_replaced_by_the_others(source: SnapshotSource) -> None:
    create_tables(source)
    source.execute("ANALYZE TABLE a, b")
    attempt = source.attempt(snapshot_max_threads="3")
    attempt.snapshot.start()
    records = attempt.read_some(300)
    assert attempt.snapshot._started is not None
    connections = attempt.snapshot._started.connections
    source.execute(f"KILL {connections.readers[1].connection.thread_id}")
    records += attempt.read_all()
    assert len(connections.readers) == 2
    for name in "ab":
        assert sorted(values_of(records, name)) == list(range(1, 2001))


@pytest.fixture
def as_mysql(source: SnapshotSource, monkeypatch: pytest.MonkeyPatch) -> SnapshotSource:
    """The server is taken for MySQL, which does not report the position of a consistent snapshot."""
    create_tables(source)
    monkeypatch.setattr(point, "read_snapshot_position", lambda connection: None)
    monkeypatch.setattr(rig, "read_server", lambda sql: replace(read_server(sql), is_mariadb=False, version=(8, 0, 36)))
    return source


@pytest.mark.parametrize("mode", first_fast(["minimal", "none"]))
def test_mysql_without_reported_positions(as_mysql: SnapshotSource, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = as_mysql
    statements: list[str] = []
    execute = MySqlConnection.execute

    def execute_noted(self: MySqlConnection, sql: str, *arguments: Any, **keywords: Any) -> None:
        statements.append(sql)
        execute(self, sql, *arguments, **keywords)

    monkeypatch.setattr(MySqlConnection, "execute", execute_noted)
    attempt = source.attempt(snapshot_locking_mode=mode, snapshot_max_threads="2")
    attempt.snapshot.start()
    locks = [sql for sql in statements if sql.startswith(("FLUSH", "UNLOCK", point._START))]
    taken = [point._START, point._START]
    assert locks == (["FLUSH TABLES WITH READ LOCK", *taken, "UNLOCK TABLES"] if mode == "minimal" else taken)
    with writing(source) as writer:
        eventually(lambda: writer.rounds > 20, "writes")
    records = attempt.read_all()
    assert len(records) == 4000
    position = attempt.snapshot.position
    assert position == read_position_before(source, attempt)
    attempt.server = read_server(source.sql)
    records += attempt.stream(position, replace(read_position(source.sql, attempt.server), gtids=None))
    for name in "ab":
        assert replay(records, name) == source.rows(name)


def read_position_before(source: SnapshotSource, attempt: SourceAttempt) -> BinlogPosition:
    """The position of the snapshot, with what the log has up to the first change of the writer."""
    file = attempt.snapshot.position.file
    events = source.sql.query(f"SHOW BINLOG EVENTS IN '{file}' FROM {attempt.snapshot.position.position} LIMIT 1")
    assert events[0][2] == "Gtid"
    return BinlogPosition(file, int(events[0][1] or 0))


@pytest.mark.long
def test_mysql_without_locks_on_a_busy_server_repeats_changes(as_mysql: SnapshotSource, busy: SnapshotSource) -> None:
    attempt = busy.attempt(snapshot_locking_mode="none")
    attempt.snapshot.start()
    records = attempt.read_all()
    attempt.server = read_server(busy.sql)
    end = replace(read_position(busy.sql, attempt.server), gtids=None)
    changes = attempt.stream(attempt.snapshot.position, end)
    assert set(values_of(records, "a")) & {change.value["after"]["id"] for change in changes}
    assert replay(records + changes, "a") == busy.rows("a")
