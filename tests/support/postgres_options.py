"""Configs of connectors of PostgreSQL for a database of the tests."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.embedded.postgres import EmbeddedPostgres


def postgres_options(server: EmbeddedPostgres, database: str) -> dict[str, str]:
    return {
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "database.dbname": database,
        "plugin.name": "pgoutput",
    }


def postgres_source(server: EmbeddedPostgres, database: str, **options: str) -> dict[str, str]:
    """A source whose topics, slot, and publication have the database's name. It recovers quickly."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        **postgres_options(server, database),
        "topic.prefix": database,
        "slot.name": database,
        "publication.name": database,
        "status.update.interval.ms": "100",
        "slot.retry.delay.ms": "200",
        "retriable.restart.connector.wait.ms": "200",
        **dotted(options),
    }


def dotted(options: Mapping[str, str]) -> dict[str, str]:
    """Keys of a connector for names of Python's arguments."""
    return {key.replace("_", "."): value for key, value in options.items()}
