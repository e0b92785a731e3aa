"""A stream across connections, with a server that sends what a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from connect.record import SourceRecord
from connectors.cdc.errors import ConnectionLostError
from connectors.cdc.offsets import source_partition
from connectors.cdc.retries import RetrySchedule
from connectors.cdc.schema.filters import Filters
from connectors.cdc.states import CaptureState
from connectors.mysql import MySqlSourceTask
from connectors.mysql.binlog import BinlogDecoder
from connectors.mysql.binlog_client import BinlogClient, BinlogStart
from connectors.mysql.config import parse_config
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.offsets import BinlogPosition, StoredBinlogOffset
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.history.ddl_selection import DdlSelection
from connectors.mysql.schema.history.history import SchemaHistory
from connectors.mysql.schema.history.store import MemoryHistoryStore
from connectors.mysql.schema.tables import TableStructures
from connectors.mysql.server import ServerInfo, resume_position
from connectors.mysql.sessions import MySqlSessions
from connectors.mysql.streaming.change_events import BinlogEventBuilder
from connectors.mysql.streaming.observers import BinlogMark, BinlogObservers
from connectors.mysql.streaming.session import BinlogStream
from connectors.mysql.streaming.structure_changes import StructureChanges
from tests.support.source_runner import shown
from tests.unit.connectors.mysql.streaming.logged_transactions import (
    EXPECTED,
    FILE,
    UUID,
    heartbeat,
    stream_start,
    transaction,
    with_checksum,
)

SERVER = ServerInfo("8.4.3", (8, 4, 3), False, {"gtid_mode": "ON", "server_uuid": "new"})
CONFIG = {
    "topic.prefix": "shop",
    "database.hostname": "h",
    "database.user": "u",
    "database.server.id": "5",
    "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
    "poll.interval.ms": "1",
}
FIRST = [with_checksum(data) for data in transaction(6, 1000, is_compressed=False)]
SECOND = [with_checksum(data) for data in transaction(7, 2000, is_compressed=False)]


class ScriptedClient(BinlogClient):
    """Sends batches of events, one each time that it is read."""

    def __init__(self, batches: Sequence[Sequence[bytes]]) -> None:
        self.batches = list(batches)

    def decoder(self) -> BinlogDecoder:
        return BinlogDecoder(master_checksum="CRC32")

    def read(self, timeout_s: float) -> list[bytes]:
        return list(self.batches.pop(0)) if self.batches else []

    def close(self, over: MySqlConnection | None = None) -> None:
        self.batches.clear()


class CatalogConnection(MySqlConnection):
    """A connection of a server that has purged nothing. Statements that change something lose it."""

    def __init__(self) -> None:
        """Nothing is opened."""

    def query(
        self, sql: str, params: Sequence[str | int | None] = (), *, timeout_s: float | None = None
    ) -> list[tuple[str | None, ...]]:
        return [("",)]

    def execute(self, sql: str, *, timeout_s: float | None = None) -> None:
        raise ConnectionLostError(f"lost the connection while it ran {sql}")


class ScriptedSessions(MySqlSessions):
    """Connections to a server whose log is a script."""

    connections: list[list[Sequence[bytes]]]
    starts: list[BinlogStart]

    def catalog(self) -> MySqlConnection:
        return CatalogConnection()

    def stream(self, start: BinlogStart, *, ends_at_end: bool = False) -> BinlogClient:
        self.starts.append(start)
        return ScriptedClient(self.connections.pop(0))


class ScriptedStream:
    """The stream of a task. Each connection has batches of events."""

    def __init__(self, *connections: list[Sequence[bytes]], **config: str) -> None:
        settings = parse_config({**CONFIG, **{key.replace("_", "."): value for key, value in config.items()}})
        self.sessions = sessions = ScriptedSessions(settings)
        sessions.connections, sessions.starts = list(connections), []
        filters = Filters(settings.capture)
        tables = MySqlCapturedTables(settings, filters)
        history = SchemaHistory(MemoryHistoryStore(), source_partition("shop"), settings.history)
        selection = DdlSelection(settings.history, tables.captures, filters.captures_schema)
        structures = TableStructures(history, selection.is_stored)
        structures.set_server(SERVER)
        ddl = "CREATE TABLE t (id INT, n INT, PRIMARY KEY (id))"
        structures.record(structures.changes_of(ddl, "db"), {"file": FILE, "pos": 4}, "db", ddl, ts_ms=0)
        builder = BinlogEventBuilder(settings, "1")
        changes = StructureChanges(settings, structures, tables, selection, builder, sessions.catalog)
        self.observers = BinlogObservers()
        self.stream = BinlogStream(settings, tables, changes, sessions, builder, self.observers)

    def read(self) -> list[tuple[Any, ...]]:
        """Reads one batch."""
        self.stream.read()
        return [shown(record) for record in self.stream.take_records()]


Script = Callable[..., ScriptedStream]


@pytest.fixture
def script() -> Iterator[Script]:
    """Creates streams, which end with the test."""
    created: list[ScriptedStream] = []

    def create(*connections: list[Sequence[bytes]], **config: str) -> ScriptedStream:
        created.append(ScriptedStream(*connections, **config))
        return created[-1]

    yield create
    for scripted in created:
        scripted.sessions.interrupt.close()


OLD_SERVER = "binlog.000042"


@pytest.mark.parametrize("file", [OLD_SERVER, "mysql-bin.000001", "binlog.000001"])
def test_stop_on_a_new_server_is_not_that_place_in_the_files_of_the_old_one(script: Script, file: str) -> None:
    scripted = script([[*stream_start(4), *FIRST[:3]], [*FIRST[3:], *SECOND]])
    stop = BinlogPosition(FILE, 1600, f"{UUID}:1-6")
    scripted.stream.start(SERVER, BinlogPosition(file, 90_000, f"{UUID}:1-5"), stop)
    assert not scripted.stream.is_at_stop
    assert scripted.read() == []
    assert not scripted.stream.is_at_stop
    assert scripted.read() == EXPECTED
    assert scripted.stream.is_at_stop


@pytest.mark.parametrize("file", [OLD_SERVER, "binlog.000001"])
def test_stop_is_reached_at_once_if_its_transactions_are_known(script: Script, file: str) -> None:
    scripted = script([stream_start(4)])
    gtids = f"{UUID}:1-6"
    scripted.stream.start(SERVER, BinlogPosition(file, 90_000, gtids), BinlogPosition(FILE, 1600, gtids))
    assert scripted.read() == []
    assert scripted.stream.is_at_stop


def test_heartbeats_say_that_the_stop_is_reached(script: Script) -> None:
    scripted = script([stream_start(4), [heartbeat(1599)], [heartbeat(1600)]])
    scripted.stream.start(SERVER, BinlogPosition(FILE, 1600, f"{UUID}:1-6"), BinlogPosition(FILE, 1600))
    reached = []
    for _ in range(3):
        assert scripted.read() == []
        reached.append(scripted.stream.is_at_stop)
    assert reached == [False, False, True]


def test_stop_in_the_file_where_the_stream_begins_needs_no_gtids(script: Script) -> None:
    scripted = script([stream_start(1000), FIRST, SECOND], gtid_ignore_on_recovery="true")
    scripted.stream.start(SERVER, BinlogPosition(FILE, 1000), BinlogPosition(FILE, 1600))
    assert scripted.read() == []
    assert not scripted.stream.is_at_stop
    assert scripted.read() == EXPECTED
    assert scripted.stream.is_at_stop


def test_mark_on_a_new_server_is_not_that_place_in_the_files_of_the_old_one(script: Script) -> None:
    scripted = script([stream_start(4), FIRST])
    scripted.stream.start(SERVER, BinlogPosition(OLD_SERVER, 90_000, f"{UUID}:1-5"))
    found = SourceRecord({"server": "shop"}, {}, "shop.db.t", key="chunk")
    scripted.observers.mark = BinlogMark(FILE, 1600)
    scripted.observers.on_mark = lambda offset: [found]
    for _ in range(2):
        scripted.stream.read()
    *changes, last = scripted.stream.take_records()
    assert [shown(record) for record in changes] == EXPECTED
    assert last is found


def test_position_in_files_of_the_old_server_is_not_stored_for_the_new_one(script: Script) -> None:
    scripted = script([[], stream_start(4)], heartbeat_interval_ms="1")
    scripted.stream.start(SERVER, BinlogPosition(OLD_SERVER, 90_000, f"{UUID}:1-5"))
    scripted.stream.read()
    assert list(scripted.stream.take_records()) == []
    assert scripted.stream.position_offset() is None
    records: list[SourceRecord] = []
    while not records:
        scripted.stream.read()
        records += scripted.stream.take_records()
    expected = {"gtids": f"{UUID}:1-5", "file": FILE, "pos": 1000}
    assert [record.source_offset for record in records] == [expected]
    assert scripted.stream.position_offset() == expected


def test_transaction_that_another_server_takes_over_is_repeated_from_its_beginning(script: Script) -> None:
    """Even if its files have the same names, so that the transaction seems to be at the same place."""
    scripted = script([[*stream_start(4), *FIRST[:4]]], [[*stream_start(4), *FIRST, *SECOND]])
    capture = StreamCapture(scripted, BinlogPosition(FILE, 1000, f"{UUID}:1-5"))
    assert [shown(record) for record in capture.read()] == EXPECTED[:2]
    position = scripted.stream.position
    assert position is not None
    assert (position.events, position.tx_gtid) == (3, f"{UUID}:6")
    capture.disconnect()
    stored = StoredBinlogOffset(position, True, server_uuid="old")
    scripted.stream.start(SERVER, resume_position(stored, SERVER))
    assert scripted.read() == EXPECTED * 2


class StreamCapture:
    """A capture that only streams, as far as a task looks at it."""

    def __init__(self, scripted: ScriptedStream, position: BinlogPosition) -> None:
        self.stream = scripted.stream
        self.position = position
        self.sessions = scripted.sessions
        self.signals: Any = SimpleNamespace()
        self.state = CaptureState.STARTING
        self.has_more = False

    def check(self) -> None:
        """The server is as it must be."""

    def read(self) -> Sequence[SourceRecord]:
        if not self.stream.is_open:
            self.stream.start(SERVER, self.stream.position or self.position)
        self.stream.read()
        return self.take_records()

    def take_records(self) -> Sequence[SourceRecord]:
        return self.stream.take_records()

    def is_loaded(self) -> bool:
        return True

    def update_offsets(self, offsets: Any) -> Any:
        return offsets

    def offsets_stored(self, offsets: Any) -> bool:
        return False

    def progress(self) -> Mapping[str, Any]:
        return {}

    def disconnect(self) -> None:
        self.stream.disconnect()


def test_rows_that_a_failing_heartbeat_follows_are_not_lost(script: Script) -> None:
    scripted = script(
        [[*stream_start(4), *FIRST]], [[*stream_start(4), *SECOND]],
        heartbeat_interval_ms="1", heartbeat_action_query="UPDATE beats SET n = n + 1",
    )  # fmt: skip
    capture = StreamCapture(scripted, BinlogPosition(FILE, 1000, f"{UUID}:1-5"))
    task = MySqlSourceTask()
    task._begin(capture, RetrySchedule(-1, 0.0), 0.0, 0.0)
    found: list[tuple[Any, ...]] = []
    while len(scripted.sessions.starts) < 2 or len(found) < 2 * len(EXPECTED):
        found += [shown(record) for record in task.poll() or ()]
        assert len(scripted.sessions.starts) <= 2, found
    assert found == EXPECTED * 2
    assert [str(start) for start in scripted.sessions.starts] == [f"{UUID}:1-5", f"{UUID}:1-6"]
