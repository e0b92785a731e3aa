"""The nine-column table of the benchmarks of MariaDB, and the source that reads it."""

from __future__ import annotations

from sluice.embedded.mariadb import EmbeddedMariaDB


def create_customers(server: EmbeddedMariaDB, rows: int) -> None:
    """Creates the table with its rows."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE customers(id bigint PRIMARY KEY, first_name varchar(60) NOT NULL, last_name varchar(60), "
            "email varchar(120), balance decimal(12,2), score double, active boolean, created_at timestamp(6) NOT NULL, "
            "notes text)"
        )
        cursor.execute(
            "INSERT INTO customers SELECT seq, CONCAT('first', seq), CONCAT('last', seq), CONCAT('user', seq, '@example.com'), "
            f"MOD(seq, 10000) / 100, RAND() * 5, MOD(seq, 2), NOW(6), REPEAT('x', 40) FROM seq_1_to_{rows}"
        )


def mariadb_source_config(server: EmbeddedMariaDB, **more: str) -> dict[str, str]:
    """A configuration of Debezium's connector."""
    return {
        "name": "bench",
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "tasks.max": "1",
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "database.server.id": "7001",
        "topic.prefix": "bench",
        "table.include.list": f"{server.database}.customers",
        "include.schema.changes": "false",
        "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
        **more,
    }
