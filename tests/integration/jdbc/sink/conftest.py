"""A PostgreSQL database for sinks to write to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from connect.sink import ErrantRecordReporter
from sluice.embedded.postgres import EmbeddedPostgres
from tests.unit.connectors.jdbc.sink_rig import Sink


class Shop:
    """The test's database, seen by a connection of its own."""

    def __init__(self, server: EmbeddedPostgres, database: str) -> None:
        self.server = server
        self.database = database
        self.connection: psycopg.Connection[Any] = server.connect(database)

    def run(self, statement: str) -> None:
        self.connection.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(query).fetchall()

    def reconnect(self) -> None:
        self.connection.close()
        self.connection = self.server.connect(self.database)

    @property
    def keys(self) -> dict[str, str]:
        """Of a connector."""
        return {
            "connection.url": f"jdbc:postgresql://{self.server.host}:{self.server.port}/{self.database}",
            "connection.user": self.server.user,
            "connection.password": self.server.password,
        }

    def sink(self, *, reporter: ErrantRecordReporter | None = None, **config: str) -> Sink:
        return Sink({**self.keys, **{key.replace("__", "."): value for key, value in config.items()}}, reporter=reporter)

    def end_sessions(self) -> None:
        """Breaks the connections of sinks, as an operator would."""
        self.run(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.fixture
def shop(postgres: EmbeddedPostgres, database: str) -> Iterator[Shop]:
    made = Shop(postgres, database)
    yield made
    made.connection.close()


Name = Callable[[str], str]
