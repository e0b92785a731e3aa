"""Runs the source task with a real MariaDB, as a worker does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.cdc.interrupt import Interrupt
from connectors.mysql import MariaDbSourceTask
from connectors.mysql.catalog import read_create_table, read_tables
from connectors.mysql.config import parse_config
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.offsets import stream_offset, with_server
from connectors.mysql.schema.history.history import SchemaHistory
from connectors.mysql.schema.history.store import FileHistoryStore
from connectors.mysql.schema.tables import TableStructures
from connectors.mysql.server import read_position, read_server
from tests.support.mariadb import EmbeddedMariaDB
from tests.support.source_runner import RunningSource


class MariaDbRunningSource(RunningSource):
    """A source of MariaDB."""

    task_class = MariaDbSourceTask

    def __init__(self, server: EmbeddedMariaDB, database: str, history: Path) -> None:
        self.server = server
        self.database = database
        super().__init__(
            {
                "database.hostname": server.host,
                "database.port": str(server.port),
                "database.user": server.user,
                "database.password": server.password,
                "database.server.id": "5001",
                "topic.prefix": "shop",
                "database.include.list": database,
                "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
                "schema.history.internal.file.filename": str(history),
                "include.schema.changes": "false",
                "poll.interval.ms": "50",
            }
        )

    def sql(self, *statements: str, **options: Any) -> list[tuple[Any, ...]]:
        """Runs statements; returns the rows of the last one."""
        rows: list[tuple[Any, ...]] = []
        with self.server.connect(self.database, **options) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = list(cursor.fetchall())
            connection.commit()
        return rows

    def begin(self, **changes: str) -> None:
        """Starts to stream from now on."""
        self._store_structure()
        self.start(**changes)
        self.until("streaming")

    def _store_structure(self) -> None:
        settings = parse_config(self.config, is_mariadb=True)
        interrupt = Interrupt()
        connection = MySqlConnection.open(settings.address, interrupt)
        try:
            server, position = read_server(connection), None
            position = read_position(connection, server)
            offset = with_server(stream_offset(position, 0, 0), server.uuid)
            history = SchemaHistory(FileHistoryStore(Path(settings.history.file)), {"server": "shop"}, settings.history)
            structures = TableStructures(history, lambda ddl, database, tables: True)
            structures.set_server(server)
            for table in read_tables(connection, [self.database]):
                ddl = read_create_table(connection, table.database, table.name)
                structures.record(structures.changes_of(ddl, self.database), offset, self.database, ddl, ts_ms=0)
            self.offsets.stored = offset
            history.initialize_storage()
        finally:
            connection.close()
            interrupt.close()


@pytest.fixture
def source(mariadb: EmbeddedMariaDB, mariadb_database: str, tmp_path: Path) -> Iterator[MariaDbRunningSource]:
    made = MariaDbRunningSource(mariadb, mariadb_database, tmp_path / "history.jsonl")
    yield made
    made.kill()
