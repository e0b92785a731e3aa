"""Databases for sinks to write to, and records for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sluice.embedded.mariadb import EmbeddedMariaDB
from sluice.embedded.postgres import EmbeddedPostgres
from tests.integration.jdbc.shops import MariaDBShop, PostgresShop
from tests.unit.connectors.jdbc.sink_rig import Records

UPSERT = {"insert__mode": "upsert", "pk__mode": "record_key", "delete__enabled": "true", "auto__create": "true"}
Name = Callable[[str], str]


@pytest.fixture
def postgres_shop(postgres: EmbeddedPostgres, empty_database: str) -> Iterator[PostgresShop]:
    made = PostgresShop(postgres, empty_database)
    yield made
    made.close()


@pytest.fixture
def mariadb_shop(mariadb: EmbeddedMariaDB, mariadb_database: str) -> Iterator[MariaDBShop]:
    made = MariaDBShop(mariadb, mariadb_database)
    yield made
    made.close()


@pytest.fixture
def shop(postgres_shop: PostgresShop) -> PostgresShop:
    """The database of tests that do not say otherwise."""
    return postgres_shop


@pytest.fixture
def people() -> Records:
    return Records()
