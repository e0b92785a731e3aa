"""Databases that the Debezium sink writes to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect.sink import ErrantRecordReporter
from sluice.embedded.mariadb import EmbeddedMariaDB
from sluice.embedded.postgres import EmbeddedPostgres
from tests.integration.jdbc.shops import MariaDBShop, PostgresShop, Shop, dotted
from tests.unit.connectors.jdbc.debezium_rig import KEYED, DebeziumSink


class Copying(Shop):
    """The test's database, and sinks into it that upsert and delete by the record's key unless told otherwise."""

    @property
    def keys(self) -> dict[str, str]:
        keys = super().keys
        return {**keys, "connection.username": keys["connection.user"]}

    def debezium(self, *, reporter: ErrantRecordReporter | None = None, **config: str) -> DebeziumSink:
        return DebeziumSink({**self.keys, **KEYED, **dotted(config)}, reporter=reporter)


class Copy(Copying, PostgresShop):
    def columns(self, table: str) -> dict[str, str]:
        """Types by name, with NOT NULL where the column has it."""
        query = (
            "SELECT attname, format_type(atttypid, atttypmod) || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END "
            f"FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
        return dict(self.rows(query))


class MariaDBCopy(Copying, MariaDBShop):
    scheme = "mariadb"


@pytest.fixture
def copy(postgres: EmbeddedPostgres, empty_database: str) -> Iterator[Copy]:
    made = Copy(postgres, empty_database)
    yield made
    made.close()


@pytest.fixture
def mariadb_copy(mariadb: EmbeddedMariaDB, mariadb_database: str) -> Iterator[MariaDBCopy]:
    made = MariaDBCopy(mariadb, mariadb_database)
    yield made
    made.close()
