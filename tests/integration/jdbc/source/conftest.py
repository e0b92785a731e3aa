"""Databases to read, and a connector that runs as in a worker: monitor, tasks, stored offsets."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from connect.record import SourceRecord
from connect.source import SourceTask
from connect.testing.harness import MemoryOffsets, SourceHarness
from connectors.jdbc import JdbcSource
from sluice.embedded.mariadb import EmbeddedMariaDB
from sluice.embedded.postgres import EmbeddedPostgres
from tests.support.waiting import WAIT_S, Deadline


class Database:
    """A database that one test uses alone."""

    def __init__(self, kind: str, config: Mapping[str, str], execute: Callable[[tuple[str, ...]], None], schema: str) -> None:
        self.kind, self.config, self._execute, self.schema = kind, dict(config), execute, schema

    def execute(self, *statements: str) -> None:
        self._execute(statements)

    def name(self, table: str) -> str:
        """Returns a table's qualified name, as in source offsets."""
        return f"{self.schema}.{table}" if self.schema else table


_numbers = iter(range(1_000_000))


def postgres_database(server: EmbeddedPostgres, name: str) -> Database:
    def connect(database: str) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host=server.host, port=server.port, user=server.user, password=server.password, dbname=database, autocommit=True
        )

    def execute(statements: tuple[str, ...]) -> None:
        with connect(name) as connection, connection.transaction():
            for statement in statements:
                connection.execute(statement.encode())

    with connect("postgres") as connection:
        # A statement that never gets its lock fails, instead of the whole test.
        connection.execute(f"ALTER DATABASE {name} SET lock_timeout = '{WAIT_S:g}s'".encode())
    config = {
        "connection.url": f"jdbc:postgresql://{server.host}:{server.port}/{name}",
        "connection.user": server.user,
        "connection.password": server.password,
    }
    return Database("postgres", config, execute, "public")


@pytest.fixture
def postgres(postgres_server: EmbeddedPostgres, empty_database: str) -> Database:
    return postgres_database(postgres_server, empty_database)


@pytest.fixture
def mariadb(_mariadb: EmbeddedMariaDB) -> Iterator[Database]:
    _mariadb.start()
    name = f"shop{next(_numbers)}"
    _mariadb.create_database(name)

    def execute(statements: tuple[str, ...]) -> None:
        connection = _mariadb.connect(
            name, init_command="SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES'), time_zone = '+00:00'"
        )
        with contextlib.closing(connection), connection.cursor() as cursor:
            for statement in statements:
                # Its TIMESTAMP has whole seconds and changes by itself.
                cursor.execute(statement.replace("TIMESTAMP", "DATETIME(6)"))

    config = {
        "connection.url": f"jdbc:mariadb://{_mariadb.host}:{_mariadb.port}/{name}",
        "connection.user": _mariadb.user,
        "connection.password": _mariadb.password,
    }
    yield Database("mariadb", config, execute, name)
    _mariadb.drop_database(name)


@pytest.fixture
def sqlite(tmp_path: Path) -> Database:
    path = tmp_path / "shop.db"

    def execute(statements: tuple[str, ...]) -> None:
        connection = sqlite3.connect(path, timeout=WAIT_S)
        with contextlib.closing(connection), connection:
            for statement in statements:
                connection.execute(statement)

    execute(("PRAGMA journal_mode=WAL",))
    return Database("sqlite", {"connection.url": f"jdbc:sqlite:{path}"}, execute, "")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Database:
    found: Database = request.getfixturevalue(request.param)
    return found


class Context:
    """The context that a worker gives a connector."""

    def __init__(self, offsets: MemoryOffsets) -> None:
        self._offsets = offsets
        self.reconfigured = threading.Semaphore(0)
        self.errors: list[Exception] = []
        self.failed = threading.Event()

    def request_task_reconfiguration(self) -> None:
        self.reconfigured.release()

    def raise_error(self, error: Exception) -> None:
        self.errors.append(error)
        self.failed.set()

    def offset_reader(self) -> MemoryOffsets:
        return self._offsets


class Source:
    """A connector with its tasks."""

    def __init__(self, config: Mapping[str, str], offsets: MemoryOffsets, tasks: int, kind: type[JdbcSource]) -> None:
        self.offsets = offsets
        self.context = Context(offsets)
        self._most = tasks
        self.connector = kind()
        self.connector.initialize(self.context)
        self.connector.start(config)
        self.harnesses: list[SourceHarness] = []
        self.deal()

    def deal(self) -> None:
        """Restarts the tasks with the current task configurations."""
        self.stop_tasks()
        for config in self.connector.task_configs(self._most):
            task = self.connector.task_class()()
            assert isinstance(task, SourceTask)
            harness = SourceHarness(task, config, self.offsets)
            self.harnesses.append(harness)
            harness.start()

    def await_deal(self, tasks: int | None = None) -> None:
        """Waits until the connector requests new tasks, then restarts them; with ``tasks``, repeats until there are so many."""
        while True:
            assert self.context.reconfigured.acquire(timeout=WAIT_S), "the connector did not ask for new tasks"
            self.deal()
            if tasks is None or len(self.harnesses) == tasks:
                return

    def poll(self) -> list[SourceRecord]:
        """Polls each task once."""
        return [record for harness in self.harnesses for record in harness.poll()]

    def read(self, count: int) -> list[SourceRecord]:
        """Polls until there are at least so many records."""
        return self.read_until(lambda found: len(found) >= count)

    def read_until(self, done: Callable[[list[SourceRecord]], bool]) -> list[SourceRecord]:
        found: list[SourceRecord] = []
        deadline = Deadline("records", lambda: f"there are {len(found)}")
        while not done(found):
            deadline.check()
            found += self.poll()
        return found

    def commit(self) -> None:
        for harness in self.harnesses:
            harness.commit()

    def stop_tasks(self) -> None:
        for harness in self.harnesses:
            harness.stop()
        self.harnesses = []

    def stop(self) -> None:
        self.stop_tasks()
        self.connector.stop()


class Sources:
    """Starts connectors, and stops those that still run at the end of a test."""

    def __init__(self) -> None:
        self._started: list[Source] = []

    def __call__(
        self,
        database: Database,
        keys: Mapping[str, str] = {},
        /,
        *,
        offsets: MemoryOffsets | None = None,
        tasks: int = 1,
        kind: type[JdbcSource] = JdbcSource,
        **more_keys: str,
    ) -> Source:
        """Starts a connector. Key names have ``_`` for ``.``; a value ``absent`` leaves a key out."""
        config = {
            "topic.prefix": "p-",
            "poll.interval.ms": "20",
            "connection.backoff.ms": "100",
            **database.config,
            **{name.replace("_", "."): value for name, value in {**keys, **more_keys}.items()},
        }
        config = {name: value for name, value in config.items() if value != "absent"}
        source = Source(config, offsets or MemoryOffsets(), tasks, kind)
        self._started.append(source)
        return source

    def stop(self) -> None:
        for source in self._started:
            source.stop()


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sources]:
    # One thread polls all tasks here, so a task with nothing to read would delay the others.
    monkeypatch.setattr("connectors.jdbc.source.task._POLL_TIMEOUT_S", 0.02)
    sources = Sources()
    yield sources
    sources.stop()


def rows(records: list[SourceRecord]) -> list[dict[str, Any]]:
    return [record.value.as_dict() for record in records]


def column(records: list[SourceRecord], name: str) -> list[Any]:
    return [record.value[name] for record in records]
