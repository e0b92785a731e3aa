"""Runs the source task with a real MariaDB, as a worker does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from connectors.mysql import MariaDbSourceTask
from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.support.source_runner import RunningSource
from tests.support.waiting import Deadline


class MariaDbRunningSource(RunningSource):
    """A source of MariaDB."""

    task_class = MariaDbSourceTask

    def __init__(self, server: EmbeddedMariaDB, database: str, history: Path) -> None:
        self.server = server
        self.database = database
        self.history = history
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

    def log_end(self) -> tuple[set[str], tuple[str, int]]:
        ((gtids,),) = self.sql("select @@gtid_binlog_pos")
        ((file, position, *_),) = self.sql("show master status")
        return set(gtids.split(",")), (file, position)

    def has_read(self, end: tuple[set[str], tuple[str, int]]) -> bool:
        progress = self._progress()
        gtids, position = end
        # Until the next event, a stream that begins at GTIDs does not know its place in the file.
        return (
            progress["phase"] == "done"
            or set(progress.get("gtids", "").split(",")) == gtids
            or (progress.get("file", ""), progress.get("pos", 0)) >= position
        )

    def kill_readers(self) -> None:
        """Ends the connections that read the binary log."""
        for (number,) in self.sql("select id from information_schema.processlist where command = 'Binlog Dump'"):
            with contextlib.suppress(pymysql.OperationalError):  # it has ended meanwhile
                self.sql(f"kill {number}")

    def purge_log(self) -> None:
        """Removes the files of the log with everything until now, once no connection reads them any more."""
        self.sql("flush binary logs")
        self.sql("set global slave_connections_needed_for_purge = 0")
        try:
            ((file, *_),) = self.sql("show master status")
            deadline = Deadline("the server to remove a file that no connection reads")
            while self.sql("show binary logs")[0][0] != file:
                deadline.check()
                self.kill_readers()
                self.sql(f"purge binary logs to '{file}'")
        finally:
            self.sql("set global slave_connections_needed_for_purge = 1")

    def begin(self, **changes: str) -> None:
        """Starts to stream from now on."""
        self.start(snapshot_mode="no_data", **changes)
        self.until("streaming")


@pytest.fixture
def source(mariadb: EmbeddedMariaDB, mariadb_database: str, tmp_path: Path) -> Iterator[MariaDbRunningSource]:
    made = MariaDbRunningSource(mariadb, mariadb_database, tmp_path / "history.jsonl")
    yield made
    made.kill()


@pytest.fixture
def settings(mariadb: EmbeddedMariaDB) -> Iterator[Callable[..., None]]:
    """Sets global variables until the test ends."""
    before: dict[str, str] = {}
    with mariadb.connect() as connection, connection.cursor() as cursor:

        def change(**values: str) -> None:
            for name, value in values.items():
                cursor.execute(f"SELECT @@GLOBAL.{name}")
                before.setdefault(name, str(cursor.fetchone()[0]))
                cursor.execute(f"SET GLOBAL {name} = {value}")

        yield change
        for name, value in before.items():
            cursor.execute(f"SET GLOBAL {name} = %s", (int(value) if value.isdigit() else value,))
