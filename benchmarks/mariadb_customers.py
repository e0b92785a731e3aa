"""The nine-column table of the benchmarks of MariaDB, and the source that reads it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

from sluice.embedded.mariadb import EmbeddedMariaDB

_END = 0xFE
"""The first byte of the packet behind the last one."""


def read_packets(connection: Any) -> Iterator[bytes]:
    """Yields the packets of a result or of the binary log as PyMySQL receives them, by its methods without types."""
    while (packet := connection._read_packet().get_all_data())[0] != _END:
        yield packet


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


def changed_us(value: Mapping[str, Any]) -> int:
    """When the row was changed, in microseconds since 1970: MariaDB logs the time of a commit in seconds."""
    since = dt.datetime.fromisoformat(value["after"]["created_at"]) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return since // dt.timedelta(microseconds=1)
