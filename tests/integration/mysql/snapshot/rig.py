"""Takes snapshots of a real MariaDB, and streams from their positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from connect.record import SourceRecord
from connectors.cdc.schema.filters import Filters, name_matches
from connectors.mysql.config import MySqlConfig, parse_config
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.offsets import BinlogPosition
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.history.ddl_selection import DdlSelection
from connectors.mysql.schema.history.history import SchemaHistory
from connectors.mysql.schema.history.store import MemoryHistoryStore
from connectors.mysql.schema.tables import TableStructures
from connectors.mysql.server import read_server
from connectors.mysql.sessions import MySqlSessions
from connectors.mysql.snapshot.session import MySqlSnapshotSession
from connectors.mysql.streaming.change_events import BinlogEventBuilder
from connectors.mysql.streaming.observers import BinlogObservers
from connectors.mysql.streaming.session import BinlogStream
from connectors.mysql.streaming.structure_changes import StructureChanges
from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.support.waiting import Deadline


class SourceAttempt:
    """The parts of one life of a task."""

    def __init__(self, config: Mapping[str, str], store: MemoryHistoryStore) -> None:
        self.settings: MySqlConfig = parse_config(config, is_mariadb=True)
        self.sessions = MySqlSessions(self.settings)
        self.server = read_server(self.sessions.catalog())
        filters = Filters(self.settings.capture)
        self.tables = MySqlCapturedTables(self.settings, filters)
        self.selection = DdlSelection(
            self.settings.history, self.tables.captures, lambda name: name_matches(self.settings.capture.schema_include, name)
        )
        history = SchemaHistory(store, {"server": self.settings.topic_prefix}, self.settings.history)
        self.structures = TableStructures(history, self.selection.is_stored)
        self.structures.set_server(self.server)
        self.snapshot = MySqlSnapshotSession(self.settings, self.tables, self.structures, self.sessions, self.server, "1.0")

    def read_all(self) -> list[SourceRecord]:
        """Reads the snapshot to its end."""
        found: list[SourceRecord] = []
        deadline = Deadline("the end of the snapshot", self.snapshot.progress)
        while not self.snapshot.done:
            deadline.check()
            found += self.snapshot.read()
        return found

    def read_some(self, count: int) -> list[SourceRecord]:
        """Reads whole batches of rows."""
        found: list[SourceRecord] = []
        deadline = Deadline(f"{count} rows", self.snapshot.progress)
        while len(found) < count:
            deadline.check()
            found += [record for record in self.snapshot.read() if is_row(record)]
        return found

    def stream(self, begin: BinlogPosition, stop: BinlogPosition) -> list[SourceRecord]:
        """Reads the changes between two positions."""
        builder = BinlogEventBuilder(self.settings, "1.0")
        changes = StructureChanges(self.settings, self.structures, self.tables, self.selection, builder, self.sessions.catalog)
        stream = BinlogStream(self.settings, self.tables, changes, self.sessions, builder, BinlogObservers())
        stream.start(self.server, begin, stop)
        found: list[SourceRecord] = []
        deadline = Deadline("the end of the changes", lambda: stream.position)
        while not stream.is_at_stop:
            deadline.check()
            stream.read()
            found += stream.take_records()
        stream.disconnect()
        return found

    def close(self) -> None:
        """The task dies."""
        self.snapshot.close()
        self.sessions.close_catalog()
        self.sessions.interrupt.close()


class SnapshotSource:
    """One connector: its configuration, its schema history, and its attempts."""

    def __init__(self, server: EmbeddedMariaDB, database: str) -> None:
        self.server, self.database = server, database
        self.store = MemoryHistoryStore()
        self.config = {
            "topic.prefix": "shop",
            "database.hostname": server.host,
            "database.port": str(server.port),
            "database.user": server.user,
            "database.password": server.password,
            "database.server.id": "4712",
            "database.include.list": database,
            "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
            "schema.history.internal.store.only.captured.databases.ddl": "true",
            "include.schema.changes": "false",
        }
        self._opened: list[SourceAttempt] = []
        self.sql = self.connect()

    def connect(self) -> MySqlConnection:
        attempt = self.attempt()
        connection = attempt.sessions.open()
        connection.execute(f"USE {self.database}")
        return connection

    def attempt(self, **changes: str) -> SourceAttempt:
        """A task; keyword names have ``_`` for ``.``."""
        self.config.update({key.replace("_", "."): value for key, value in changes.items()})
        made = SourceAttempt(self.config, self.store)
        self._opened.append(made)
        return made

    def take(self, **changes: str) -> list[SourceRecord]:
        """Takes a whole snapshot."""
        attempt = self.attempt(**changes)
        attempt.snapshot.start()
        return attempt.read_all()

    def execute(self, *statements: str) -> None:
        for sql in statements:
            self.sql.execute(sql)

    def rows(self, table: str, columns: str = "id, v") -> list[tuple[str | None, ...]]:
        return sorted(self.sql.query(f"SELECT {columns} FROM {table}"), key=repr)

    def close(self) -> None:
        for attempt in self._opened:
            attempt.close()
        self.sql.close()


def is_row(record: SourceRecord) -> bool:
    return record.topic != "shop"


def table_of(record: SourceRecord) -> str:
    return record.topic.rpartition(".")[2]


def replay(records: Iterable[SourceRecord], table: str, *names: str) -> list[tuple[str | None, ...]]:
    """The rows that a consumer of a topic has, as the server prints them."""
    rows: dict[str, tuple[str | None, ...]] = {}
    for record in records:
        if table_of(record) != table or record.value is None:
            continue
        if record.value["op"] == "t":
            rows.clear()
            continue
        key, after = repr(record.key.as_dict()), record.value["after"]
        if after is None:
            rows.pop(key, None)
        else:
            values = after.as_dict()
            rows[key] = tuple(None if values.get(name) is None else str(values[name]) for name in names or ("id", "v"))
    return sorted(rows.values(), key=repr)


def values_of(records: Iterable[SourceRecord], table: str, name: str = "id") -> list[Any]:
    """A column of the rows that were read of a table."""
    return [record.value["after"][name] for record in records if table_of(record) == table and record.value["op"] == "r"]


def markers(records: Iterable[SourceRecord], *, plain: bool = False) -> list[tuple[str, str]]:
    """The markers of rows that are not just ``true``, with their tables."""
    found = [(table_of(record), record.value["source"]["snapshot"]) for record in records]
    return [pair for pair in found if plain or pair[1] != "true"]
