"""Runs the source task with a real MariaDB, as a worker does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from connectors.mysql import MariaDbSourceTask
from sluice.embedded.mariadb import EmbeddedMariaDB
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

    def kill_readers(self) -> None:
        """Ends the connections that read the binary log."""
        for (number,) in self.sql("select id from information_schema.processlist where command = 'Binlog Dump'"):
            with contextlib.suppress(pymysql.OperationalError):  # it has ended meanwhile
                self.sql(f"kill {number}")

    def begin(self, **changes: str) -> None:
        """Starts to stream from now on."""
        self.start(snapshot_mode="no_data", **changes)
        self.until("streaming")


@pytest.fixture
def source(mariadb: EmbeddedMariaDB, mariadb_database: str, tmp_path: Path) -> Iterator[MariaDbRunningSource]:
    made = MariaDbRunningSource(mariadb, mariadb_database, tmp_path / "history.jsonl")
    yield made
    made.kill()
