"""One PostgreSQL database for the tests of a process: to empty it takes a tenth of the time that a new one takes."""

from __future__ import annotations

import uuid

import pytest
from psycopg import sql

from sluice.embedded.postgres import EmbeddedPostgres

_EMPTY = """
DO $$
DECLARE
    found text;
BEGIN
    FOR found IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', found);
    END LOOP;
    CREATE SCHEMA public;
    GRANT USAGE ON SCHEMA public TO PUBLIC;
END $$
"""


@pytest.fixture(scope="session")
def _jdbc_database(_postgres: EmbeddedPostgres) -> str:
    _postgres.start()
    name = f"jdbc_{uuid.uuid4().hex[:8]}"
    _postgres.create_database(name)
    return name  # the server is removed with the session


@pytest.fixture
def postgres_server(_postgres: EmbeddedPostgres) -> EmbeddedPostgres:
    """The session's PostgreSQL, running."""
    _postgres.start()
    return _postgres


@pytest.fixture
def empty_database(postgres_server: EmbeddedPostgres, _jdbc_database: str) -> str:
    """The name of a database without tables, settings, and sessions."""
    ends = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"
    with postgres_server.connect("postgres", autocommit=True) as connection:
        connection.execute(ends, [_jdbc_database])
        connection.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(sql.Identifier(_jdbc_database)))
    with postgres_server.connect(_jdbc_database, autocommit=True) as connection:
        connection.execute(_EMPTY)
    return _jdbc_database
