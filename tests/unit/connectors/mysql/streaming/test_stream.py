"""A stream across connections, with a server that sends what a test says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connect.record import SourceRecord
from connectors.cdc.offsets import source_partition
from connectors.cdc.schema.filters import Filters
from connectors.mysql.config import parse_config
from connectors.mysql.offsets import BinlogPosition
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.history.ddl_selection import DdlSelection
from connectors.mysql.schema.history.history import SchemaHistory
from connectors.mysql.schema.history.store import MemoryHistoryStore
from connectors.mysql.schema.tables import TableStructures
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
)
from tests.unit.connectors.mysql.streaming.scripted_server import (
    CONFIG,
    FIRST,
    SECOND,
    SERVER,
    Connection,
    ScriptedSessions,
)


class ScriptedStream:
    """The stream of a task. Each connection has batches of events."""

    def __init__(self, *connections: Connection, **config: str) -> None:
        settings = parse_config({**CONFIG, **{key.replace("_", "."): value for key, value in config.items()}})
        self.sessions = sessions = ScriptedSessions(settings)
        sessions.connections = list(connections)
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

    def create(*connections: Connection, **config: str) -> ScriptedStream:
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
