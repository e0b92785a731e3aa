"""Connections, the state of the server, and the stream of the binary log of a real MariaDB."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from connect.config.parsing import Password
from connect.errors import ConfigError, UnreachableError
from connectors.cdc.errors import ConnectionLostError, PositionLostError, QueryTimeoutError, WaitInterrupted
from connectors.cdc.interrupt import Interrupt
from connectors.mysql.binlog import (
    MariaDbGtid,
    MariaDbGtidEvent,
    MariaDbGtidPosition,
    Query,
    Rotate,
    RowDecoder,
    RowsEvent,
    RowsQuery,
    TableMap,
)
from connectors.mysql.binlog_client import BinlogClient, BinlogClientSettings, BinlogStart, FilePosition
from connectors.mysql.catalog import read_create_table, read_databases, read_primary_keys, read_tables
from connectors.mysql.config import MySqlAddress, TlsSettings, parse_config
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.errors import DuplicateServerIdError, MySqlServerError, ServerReplacedError
from connectors.mysql.offsets import BinlogPosition
from connectors.mysql.position_tracker import BinlogPositionTracker
from connectors.mysql.server import (
    check_server,
    describe_replicas,
    find_lost_position,
    read_executed,
    read_files,
    read_position,
    read_replication_source,
    read_server,
)
from connectors.mysql.sessions import MySqlSessions
from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.support.waiting import WAIT_S, Deadline, eventually


class Rig:
    def __init__(self, server: EmbeddedMariaDB, database: str, interrupt: Interrupt) -> None:
        self.server, self.database, self.interrupt = server, database, interrupt
        self._opened: list[MySqlConnection | BinlogClient] = []
        self.sql = self.connect()

    def address(self, **changes: Any) -> MySqlAddress:
        given: dict[str, Any] = {"host": self.server.host, "port": self.server.port, "user": self.server.user} | changes
        given.setdefault("password", Password(self.server.password))
        return MySqlAddress(product="MariaDB", connect_timeout_s=WAIT_S, **given)

    def connect(self, **changes: Any) -> MySqlConnection:
        connection = MySqlConnection.open(self.address(**changes), self.interrupt)
        self._opened.append(connection)
        return connection

    def stream(self, start: BinlogStart, *, server_id: int = 4711, **settings: Any) -> BinlogClient:
        settings = {"ends_at_end": True, **settings}
        client = BinlogClient.open(self.connect(), start, BinlogClientSettings(server_id=server_id, **settings))
        self._opened.append(client)
        return client

    def events(self, start: BinlogStart, **settings: Any) -> list[Any]:
        return [event for part in read_all(self.stream(start, **settings)) for event in part]

    def close(self) -> None:
        for one in self._opened:
            one.close()


def read_all(client: BinlogClient) -> Iterator[list[Any]]:
    decoder = client.decoder()
    while not client.ended:
        yield [decoder.decode(data) for data in client.read(WAIT_S)]


def read_to_end(rig: Rig, start: BinlogStart) -> tuple[list[Any], BinlogPosition]:
    """Returns the events and the position after them. After a new file, the server also writes a checkpoint at some time."""
    deadline = Deadline("the server to write nothing")
    server = read_server(rig.sql)
    while True:
        before = read_position(rig.sql, server)
        events = rig.events(start)
        if read_position(rig.sql, server) == before:
            return events, before
        deadline.check()


def read_on(client: BinlogClient) -> None:
    """Reads until an error ends the stream."""
    deadline = Deadline("an error")
    while True:
        deadline.check()
        client.read(1.0)


def kill_until_gone(connection: MySqlConnection, thread: int) -> None:
    """Kills a thread of the server until an error says that it is gone."""
    deadline = Deadline("an error")
    while True:
        deadline.check()
        connection.execute(f"KILL {thread}")


@contextmanager
def interrupted_while_busy(rig: Rig, thread: int) -> Iterator[MySqlConnection]:
    """Sets the interrupt as soon as the server runs a statement of this thread, or streams to it. Yields a connection with
    another interrupt, to use after that."""
    own = Interrupt()
    watching = MySqlConnection.open(rig.address(), own)
    busy = "SELECT 1 FROM information_schema.processlist WHERE id = %s AND command IN ('Query', 'Binlog Dump')"

    def run() -> None:
        eventually(lambda: watching.query(busy, (thread,)), "a busy thread", pause_s=0)
        rig.interrupt.set()

    interrupter = threading.Thread(target=run, name="interrupter")
    interrupter.start()
    try:
        yield watching
    finally:
        interrupter.join(WAIT_S)
        watching.close()
        own.close()


def wait_for_end_of(connection: MySqlConnection, thread: int) -> None:
    """Waits until the server has ended a connection."""
    running = "SELECT 1 FROM information_schema.processlist WHERE id = %s"
    eventually(lambda: not connection.query(running, (thread,)), "the end of the query")


def purge(connection: MySqlConnection, file: str) -> None:
    """Removes the files before this one. The server keeps them until a checkpoint, which it writes soon."""
    deadline = Deadline("the server to remove old files")
    while read_files(connection)[0].name != file:
        connection.execute(f"PURGE BINARY LOGS TO '{file}'")
        deadline.check()


def rows_of(events: list[Any]) -> list[tuple[Any, ...]]:
    decoders: dict[TableMap, RowDecoder] = {}
    found: list[tuple[Any, ...]] = []
    for event in events:
        if isinstance(event, RowsEvent) and event.table is not None:
            decoder = decoders.setdefault(event.table, RowDecoder(event.table))
            found += decoder.rows(event)
    return found


@pytest.fixture
def rig(mariadb: EmbeddedMariaDB, mariadb_database: str) -> Iterator[Rig]:
    interrupt = Interrupt()
    rig = Rig(mariadb, mariadb_database, interrupt)
    rig.sql.execute(f"USE {mariadb_database}")
    rig.sql.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
    yield rig
    rig.close()
    interrupt.close()


def test_state_and_catalog_are_read(rig: Rig) -> None:
    server = read_server(rig.sql)
    check_server(rig.sql, server)
    assert (server.is_mariadb, server.version[0], server.server_id, server.uses_gtids) == (True, 11, 1, True)
    assert (server.row_image, server.has_full_metadata, server.lower_case_table_names) == ("FULL", False, 0)
    position = read_position(rig.sql, server)
    assert read_files(rig.sql)[-1].name == position.file
    assert str(read_executed(rig.sql, server)) == position.gtids
    assert read_replication_source(rig.sql, server) is None
    rig.sql.execute("CREATE VIEW w AS SELECT id FROM t")
    rig.sql.execute("CREATE TABLE `two``keys` (b INT, a INT, PRIMARY KEY (a, b)) ENGINE=InnoDB")
    tables = read_tables(rig.sql, [rig.database])
    assert [(table.name, table.engine) for table in tables] == [("t", "InnoDB"), ("two`keys", "InnoDB")]
    keys = read_primary_keys(rig.sql, [(table.database, table.name) for table in tables])
    assert keys == {(rig.database, "t"): ("id",), (rig.database, "two`keys"): ("a", "b")}
    assert (read_create_table(rig.sql, rig.database, "two`keys") or "").startswith("CREATE TABLE `two``keys` (")
    assert read_create_table(rig.sql, rig.database, "none") is None
    assert read_create_table(rig.sql, "no_database", "none") is None
    databases = {database.name: database.charset for database in read_databases(rig.sql)}
    assert databases[rig.database] == "utf8mb4"
    assert "mysql" not in databases


def test_session_does_not_depend_on_the_server(rig: Rig) -> None:
    rows = rig.sql.query("SELECT @@time_zone, @@sql_mode, @@character_set_results, %s, %s, %s", ("a'b\\c\0", None, 7))
    assert rows == [("+00:00", "STRICT_ALL_TABLES", "utf8mb4", "a'b\\c\0", None, "7")]


@pytest.mark.parametrize(
    ("changes", "expected", "message"),
    [
        ({"password": Password("wrong")}, ConfigError, "rejected the password of user sluice"),
        ({"port": 1}, UnreachableError, "cannot reach MariaDB at 127.0.0.1:1.*database.port"),
        ({"tls": TlsSettings("required")}, ConfigError, "no TLS connection.*database.ssl.mode"),
        ({"host": "169.254.169.254"}, ConfigError, "not allowed on this worker"),
        ({"initial_statements": ("SELECT nothing",)}, MySqlServerError, "rejected SELECT nothing"),
    ],
)
def test_failed_connections_say_what_to_do(rig: Rig, changes: dict[str, Any], expected: type[Exception], message: str) -> None:
    with pytest.raises(expected, match=message):
        rig.connect(**changes)


def test_missing_privileges_are_named(rig: Rig, unique_name: Callable[[str], str]) -> None:
    user = unique_name("u")
    rig.sql.execute(f"CREATE USER {user} IDENTIFIED BY 'pass'")
    try:
        weak = {"user": user, "password": Password("pass")}
        with pytest.raises(ConfigError, match=f"GRANT BINLOG MONITOR ON .* TO '{user}'"):
            rig.connect(**weak).query("SHOW MASTER STATUS")
        with pytest.raises(ConfigError, match=f"GRANT SELECT ON .*TO '{user}'"):
            rig.connect(**weak).query(f"SELECT * FROM {rig.database}.t")
        with pytest.raises(ConfigError, match="REPLICATION SLAVE"):
            BinlogClient.open(rig.connect(**weak), FilePosition(""), BinlogClientSettings(4712))
    finally:
        rig.sql.execute(f"DROP USER {user}")


def test_queries_end_at_their_timeout_and_when_interrupted(rig: Rig) -> None:
    connection = rig.connect()
    with pytest.raises(QueryTimeoutError, match=r"database\.query\.timeout\.ms"):
        connection.query("SELECT SLEEP(1000)", timeout_s=0.01)
    assert connection.is_closed
    wait_for_end_of(rig.sql, connection.thread_id)
    connection = rig.connect()
    with interrupted_while_busy(rig, connection.thread_id) as watching:
        with pytest.raises(WaitInterrupted):
            connection.query("SELECT SLEEP(1000)")
        wait_for_end_of(watching, connection.thread_id)


def test_lost_connections_are_retriable(rig: Rig) -> None:
    connection = rig.connect()
    rig.sql.execute(f"KILL {connection.thread_id}")
    with pytest.raises(ConnectionLostError):
        connection.query("SELECT 1")


@pytest.mark.long
def test_rows_are_read_as_a_stream_and_stopped(rig: Rig) -> None:
    stream = rig.sql.stream("SELECT seq FROM seq_1_to_500000")
    with rig.sql.guarded("reading"):
        stream.advance()
    assert stream.data
    rig.sql.stop(stream)
    assert rig.sql.query("SELECT 1") == [("1",)]


def test_stream_by_position_and_by_gtid(rig: Rig) -> None:
    server = read_server(rig.sql)
    start = read_position(rig.sql, server)
    rig.sql.execute("INSERT INTO t VALUES (1, 'a'), (2, REPEAT('x', 17000000))")
    rig.sql.execute("FLUSH BINARY LOGS")
    rig.sql.execute("INSERT INTO t VALUES (3, 'c')")
    events, end = read_to_end(rig, FilePosition(start.file, start.position))
    assert [(row[0], len(row[1])) for row in rows_of(events)] == [(1, 1), (2, 17_000_000), (3, 1)]
    assert not [event for event in events if isinstance(event, RowsQuery)]
    assert len({event.file for event in events if isinstance(event, Rotate)}) == 2
    tracker = BinlogPositionTracker(start, MariaDbGtidPosition.parse(start.gtids or ""))
    for event in events:
        if isinstance(event, RowsEvent):
            tracker.finish_rows(event.header)
        else:
            tracker.track(event)
    assert tracker.position == end

    middle = MariaDbGtidPosition.parse(start.gtids or "")  # of all domains: other tests may have written others
    middle.advance(next(event.gtid for event in events if isinstance(event, MariaDbGtidEvent)))
    assert [row[0] for row in rows_of(rig.events(middle, annotates=True))] == [3]
    annotated = rig.events(middle, annotates=True)
    assert [event.sql for event in annotated if isinstance(event, RowsQuery)] == [b"INSERT INTO t VALUES (3, 'c')"]


def rows_from(rig: Rig, start: BinlogPosition, *, by_gtid: bool, most: int = 1000) -> tuple[list[int], BinlogPosition]:
    """The first columns of at most some rows from a position on, and the position after them."""
    gtids = MariaDbGtidPosition.parse(start.gtids or "")
    tracker = BinlogPositionTracker(start, gtids)
    found: list[int] = []
    for event in rig.events(gtids if by_gtid else FilePosition(start.file, start.position)):
        if not isinstance(event, RowsEvent):
            tracker.track(event)
            continue
        rows = rows_of([event])
        for number in range(tracker.skipped_rows(len(rows)), len(rows)):
            found.append(rows[number][0])
            if len(found) == most:
                return found, tracker.position_in_rows(number + 1)
        tracker.finish_rows(event.header)
    return found, tracker.position


@pytest.mark.parametrize("by_gtid", [True, False])
@pytest.mark.long
def test_xa_transactions_are_read_once_with_a_restart_after_every_row(rig: Rig, by_gtid: bool) -> None:
    server = read_server(rig.sql)
    start = read_position(rig.sql, server)
    for first, end in ((1, "XA COMMIT 'x'"), (10, "XA COMMIT 'x' ONE PHASE"), (20, "XA ROLLBACK 'x'"), (30, "XA COMMIT 'x'")):
        rig.sql.execute("XA START 'x'")
        rig.sql.execute(f"INSERT INTO t VALUES ({first}, 'a'), ({first + 1}, 'b')")
        rig.sql.execute(f"INSERT INTO t VALUES ({first + 2}, 'c')")
        rig.sql.execute("XA END 'x'")
        if "ONE PHASE" not in end:
            rig.sql.execute("XA PREPARE 'x'")
        rig.sql.execute(end)
    rows, end_position = rows_from(rig, start, by_gtid=by_gtid)
    # What was prepared is in the log, also if it is rolled back afterwards.
    assert rows == [1, 2, 3, 10, 11, 12, 20, 21, 22, 30, 31, 32]
    assert end_position == read_position(rig.sql, server)
    for cut in range(1, len(rows)):
        read, position = rows_from(rig, start, by_gtid=by_gtid, most=cut)
        rest, last = rows_from(rig, position, by_gtid=by_gtid)
        assert read + rest == rows, position
        assert last == end_position


def test_lost_positions_are_told_apart(rig: Rig) -> None:
    server = read_server(rig.sql)
    start = read_position(rig.sql, server)
    rig.sql.execute("INSERT INTO t VALUES (1, 'a')")
    rig.sql.execute("FLUSH BINARY LOGS")
    end = read_position(rig.sql, server)
    # Since 11.4, MariaDB keeps files as long as fewer replicas are connected.
    rig.sql.execute("SET GLOBAL slave_connections_needed_for_purge = 0")
    purge(rig.sql, end.file)
    rig.sql.execute("SET GLOBAL slave_connections_needed_for_purge = DEFAULT")
    beyond = MariaDbGtidPosition.parse(end.gtids or "")
    beyond.advance(MariaDbGtid.parse("0-1-999999999"))
    for lost, expected in (
        (FilePosition(start.file, start.position), PositionLostError),
        (MariaDbGtidPosition.parse(start.gtids or ""), PositionLostError),
        (MariaDbGtidPosition(), PositionLostError),
        (FilePosition(end.file, 1 << 30), ServerReplacedError),
        (beyond, ServerReplacedError),
    ):
        with pytest.raises(PositionLostError, match=r"snapshot\.mode=when_needed") as e:
            rig.events(lost)
        assert type(e.value) is expected, lost
    assert find_lost_position(rig.sql, server, start, by_gtid=True) is None
    assert type(find_lost_position(rig.sql, server, start, by_gtid=False)) is PositionLostError
    ahead = BinlogPosition(end.file, 1 << 30)
    assert type(find_lost_position(rig.sql, server, ahead, by_gtid=False)) is ServerReplacedError
    assert type(find_lost_position(rig.sql, server, end, by_gtid=False, server_uuid="other")) is ServerReplacedError
    assert find_lost_position(rig.sql, server, end, by_gtid=False) is None


def test_second_replica_with_the_same_id_ends_the_first(rig: Rig) -> None:
    first = rig.stream(FilePosition(""), ends_at_end=False)
    assert first.read(WAIT_S)
    second = rig.stream(FilePosition(""), ends_at_end=False, heartbeat_s=0.01)
    assert second.read(WAIT_S)
    with pytest.raises(DuplicateServerIdError, match="another replica with the server ID"):
        read_on(first)
    assert "server ID 4711 on host" in describe_replicas(rig.sql, 4711)
    # Heartbeats keep the stream alive; closing it over another connection ends the server's thread.
    eventually(lambda: 27 in {data[4] for data in second.read(WAIT_S)}, "a heartbeat", pause_s=0)
    thread = second.thread_id
    second.close(over=rig.sql)
    with pytest.raises(MySqlServerError, match="Unknown thread id"):
        kill_until_gone(rig.sql, thread)


def test_sessions_of_a_task_share_the_configuration(rig: Rig) -> None:
    config = {
        "topic.prefix": "shop",
        "database.hostname": rig.server.host,
        "database.port": str(rig.server.port),
        "database.user": rig.server.user,
        "database.password": rig.server.password,
        "database.server.id": "4714",
        "database.initial.statements": "SET @mine = 5",
        "schema.history.internal.kafka.topic": "history",
        "include.query": "true",
    }
    sessions = MySqlSessions(parse_config(config, is_mariadb=True))
    try:
        assert sessions.catalog().query("SELECT @mine") == [("5",)]
        position = read_position(rig.sql, read_server(rig.sql))
        rig.sql.execute("INSERT INTO t VALUES (1, 'a')")
        client = sessions.stream(FilePosition(position.file, position.position), ends_at_end=True)
        events = [event for part in read_all(client) for event in part]
        assert [event.sql for event in events if isinstance(event, RowsQuery)] == [b"INSERT INTO t VALUES (1, 'a')"]
        other = rig.stream(FilePosition(""), server_id=4714, ends_at_end=False)
        assert other.read(WAIT_S)
        error = sessions.explain_duplicate(DuplicateServerIdError("ended"))
        assert "database.server.id=4714 is used twice; the server lists server ID 4714 on host" in str(error)
        sessions.catalog().close()
        assert sessions.catalog().query("SELECT 1") == [("1",)]
    finally:
        sessions.close_catalog()
        sessions.interrupt.close()


def test_stream_ends_when_the_server_restarts_or_the_task_stops(rig: Rig) -> None:
    server = read_server(rig.sql)
    position = read_position(rig.sql, server)
    client = rig.stream(FilePosition(position.file, position.position), ends_at_end=False)
    client.read(WAIT_S)
    rig.server.stop()
    with pytest.raises(ConnectionLostError):
        read_on(client)
    rig.server.start()
    rig.sql = rig.connect()
    rig.sql.execute(f"CREATE TABLE {rig.database}.after_restart (id INT)")
    events = rig.events(FilePosition(position.file, position.position))
    assert [event.sql for event in events if isinstance(event, Query)][-1].endswith(b"after_restart (id INT)")
    client = rig.stream(FilePosition(""), ends_at_end=False)
    with interrupted_while_busy(rig, client.thread_id), pytest.raises(WaitInterrupted):
        read_on(client)
