"""Runs the stream and the signals of a source with a real MariaDB."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from pymysql.connections import Connection

from connect.errors import BadRequestError
from connect.record import SourceRecord
from connect.source import SourceTaskContext
from connectors.cdc.offsets import source_partition
from connectors.cdc.schema.filters import Filters
from connectors.cdc.signals.actions import Signal, find_problem
from connectors.cdc.signals.blocking import RequestedSnapshots
from connectors.mysql.catalog import read_create_table, read_tables
from connectors.mysql.config import MySqlConfig, parse_config
from connectors.mysql.incremental.chunks import FollowedStream
from connectors.mysql.offsets import BinlogPosition, parse_offset, stream_offset, with_server
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.ddl import DdlKind, TableDdlChange, parse_create_table
from connectors.mysql.schema.history.ddl_selection import DdlSelection
from connectors.mysql.schema.history.history import SchemaHistory
from connectors.mysql.schema.history.store import MemoryHistoryStore
from connectors.mysql.schema.model import TableId
from connectors.mysql.schema.tables import TableStructures
from connectors.mysql.server import read_position, read_server
from connectors.mysql.sessions import MySqlSessions
from connectors.mysql.signals.session import create_mysql_signals
from connectors.mysql.streaming.change_events import BinlogEventBuilder
from connectors.mysql.streaming.observers import BinlogObservers
from connectors.mysql.streaming.session import BinlogStream
from connectors.mysql.streaming.structure_changes import StructureChanges
from tests.support.mariadb import EmbeddedMariaDB


class NoSnapshots(RequestedSnapshots[Any, Any]):
    """Takes no blocking snapshots."""

    def _open(self, request: Any, point: Any) -> None:
        raise AssertionError("no blocking snapshot was requested")


class Running:
    """What runs between two kills."""

    def __init__(self, settings: MySqlConfig, store: MemoryHistoryStore, stored: dict[str, Any] | None) -> None:
        self.settings = settings
        filters = Filters(settings.capture)
        self.sessions = MySqlSessions(settings)
        self.tables = MySqlCapturedTables(settings, filters)
        self.observers = BinlogObservers()
        history = SchemaHistory(store, source_partition(settings.topic_prefix), settings.history)
        selection = DdlSelection(settings.history, self.tables.captures, filters.captures_schema)
        self.structures = TableStructures(history, selection.is_stored)
        builder = BinlogEventBuilder(settings, "1.0")
        changes = StructureChanges(settings, self.structures, self.tables, selection, builder, self.sessions.catalog)
        self.stream = BinlogStream(settings, self.tables, changes, self.sessions, builder, self.observers)
        self.server = read_server(self.sessions.catalog())
        self.signals = create_mysql_signals(
            settings, self.observers, self.tables, self.structures, self.sessions,
            FollowedStream(lambda: self.stream.tracker, lambda: self.server), NoSnapshots(self.observers), "1.0",
        )  # fmt: skip
        self.structures.set_server(self.server)
        self.signals.load(stored or {})
        if stored is None:
            position = read_position(self.sessions.catalog(), self.server)
            self._record_structure(position)
        else:
            position = parse_offset(stored).position
            assert self.structures.recover(stored) > 0
        self.stream.start(self.server, position)

    def _record_structure(self, position: BinlogPosition) -> None:
        sql = self.sessions.catalog()
        for info in read_tables(sql):
            id = TableId(info.database, info.name)
            if self.tables.captures(id):
                text = read_create_table(sql, *id)
                table = parse_create_table(text, id.database, self.structures.context())
                change = TableDdlChange(DdlKind.CREATE, id, table, text)
                self.structures.record([change], stream_offset(position, 0, 0), id.database, text, ts_ms=0)

    def poll(self) -> list[SourceRecord]:
        self.signals.advance()
        self.stream.read()
        return list(self.signals.add_notifications(self.stream.take_records(), self.stream.position_offset))

    def progress(self) -> Mapping[str, Any]:
        return self.signals.progress()

    def signal(self, signal_id: str, type_: str, data: str | None) -> None:
        signal = Signal(signal_id, type_, data)
        if (problem := find_problem(signal)) is not None:
            raise BadRequestError(problem)
        self.signals.receive(signal)

    def close(self) -> None:
        self.stream.disconnect()
        self.signals.close()
        self.signals.close_channels()
        self.sessions.close_catalog()
        self.sessions.interrupt.close()


class SignaledSource:
    """One connector's life: its configuration, its stored offset, and what runs now."""

    def __init__(self, server: EmbeddedMariaDB, database: str) -> None:
        self.server = server
        self.database = database
        self.stored: dict[str, Any] | None = None
        self._history = MemoryHistoryStore()
        self._running: Running | None = None
        self.config = {
            "topic.prefix": "shop",
            "database.hostname": server.host,
            "database.port": str(server.port),
            "database.user": server.user,
            "database.password": server.password,
            "database.server.id": "5811",
            "database.include.list": database,
            "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
            "signal.data.collection": f"{database}.signals",
            "poll.interval.ms": "20",
        }

    @property
    def task(self) -> Running:
        assert self._running is not None
        return self._running

    def start(self, context: SourceTaskContext | None = None, **changes: str) -> None:
        """Starts; keyword names have ``_`` for ``.``."""
        self.config.update({key.replace("_", "."): value for key, value in changes.items()})
        self._running = Running(parse_config(self.config, is_mariadb=True), self._history, self.stored)
        if context is not None:
            self._running.signals.open_channels(context, self.stored or {})

    def poll(self) -> list[SourceRecord]:
        return self.task.poll()

    def quiet(self) -> list[SourceRecord]:
        """What comes until the stream has been silent for three polls."""
        found: list[SourceRecord] = []
        silent = 0
        while silent < 3:
            records = self.poll()
            silent = 0 if records else silent + 1
            found += records
        return found

    def read(self, count: int, timeout_s: float = 20) -> list[SourceRecord]:
        """At least ``count`` records, and what comes in a moment's silence after them."""
        found: list[SourceRecord] = []
        deadline = time.monotonic() + timeout_s
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records"
            found += self.poll()
        return found + self.quiet()

    def store(self, record: SourceRecord) -> None:
        """The worker stores the offset of this record, the last one that it has sent, and tells the task."""
        assert record.source_offset is not None
        self.stored = with_server(record.source_offset, self.task.server.uuid)
        self.task.signals.offsets_stored([(record.source_partition or {}, self.stored)])

    def store_position(self) -> None:
        """The worker stores the position of the stream, because all records are sent."""
        offset = self.task.stream.position_offset()
        assert offset is not None
        self.stored = with_server(offset, self.task.server.uuid)
        self.task.signals.offsets_stored([({}, self.stored)])

    def kill(self) -> None:
        """Connections go, nothing is told to anyone."""
        if self._running is not None:
            self._running.close()
            self._running = None

    def sql(self) -> Connection[Any]:
        return self.server.connect(self.database)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Runs SQL in a session of its own."""
        with self.sql() as connection, connection.cursor() as cursor:
            cursor.execute(sql, tuple(values) or None)
            return list(cursor.fetchall())


@pytest.fixture
def source(mariadb: EmbeddedMariaDB, mariadb_database: str) -> Iterator[SignaledSource]:
    made = SignaledSource(mariadb, mariadb_database)
    made.execute("CREATE TABLE signals (id VARCHAR(80) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048))")
    yield made
    made.kill()


@pytest.fixture
def unique_topic(unique_name: Callable[[str], str]) -> str:
    return unique_name("signals")
