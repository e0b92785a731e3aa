"""How connectors of PostgreSQL reach a database of the tests."""

from __future__ import annotations

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
