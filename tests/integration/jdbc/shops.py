"""Databases for sinks to write to, seen by a connection of the test's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.sink import ErrantRecordReporter
from sluice.embedded.mariadb import EmbeddedMariaDB
from sluice.embedded.postgres import EmbeddedPostgres
from tests.unit.connectors.jdbc.sink_rig import Sink


def dotted(config: Mapping[str, str]) -> dict[str, str]:
    """Replaces ``__`` in key names with a dot, so that keyword arguments can name keys."""
    return {key.replace("__", "."): value for key, value in config.items()}


class Shop:
    """The test's database."""

    scheme = ""
    """Of its JDBC URL."""
    list_tables = ""

    def __init__(self, server: EmbeddedPostgres | EmbeddedMariaDB, database: str) -> None:
        self.server: EmbeddedPostgres | EmbeddedMariaDB = server
        self.database = database
        self.connection: Any = server.connect(database)

    def run(self, statement: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def tables(self) -> list[str]:
        """Names, sorted."""
        return sorted(row[0] for row in self.rows(self.list_tables))

    def reconnect(self) -> None:
        self.close()
        self.connection = self.server.connect(self.database)

    def close(self) -> None:
        self.connection.close()

    @property
    def keys(self) -> dict[str, str]:
        """Of a connector."""
        return {
            "connection.url": f"jdbc:{self.scheme}://{self.server.host}:{self.server.port}/{self.database}",
            "connection.user": self.server.user,
            "connection.password": self.server.password,
        }

    def sink(
        self, config: Mapping[str, str] = {}, /, *, reporter: ErrantRecordReporter | None = None, **more_config: str
    ) -> Sink:
        """Creates a sink; key names have ``__`` for ``.``."""
        return Sink({**self.keys, **dotted({**config, **more_config})}, reporter=reporter)


class PostgresShop(Shop):
    server: EmbeddedPostgres
    scheme = "postgresql"
    list_tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"

    def end_sessions(self) -> None:
        """Breaks the connections of sinks, as an operator would."""
        self.run(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


class MariaDBShop(Shop):
    server: EmbeddedMariaDB
    scheme = "mysql"
    list_tables = "SHOW TABLES"

    def close(self) -> None:
        if self.connection.open:  # PyMySQL does not close what the server has ended
            self.connection.close()
