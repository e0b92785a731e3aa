"""Drives the dialect against the real database, as the source and the sink do."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from connect.data.schema import Schema
from connectors.jdbc.catalog import JdbcTable
from connectors.jdbc.database import ConnectionSettings, Database, Session
from connectors.jdbc.dialects.dialect import Dialect, RowReader
from connectors.jdbc.options import InsertMode, ReadOptions, SinkField, WriteOptions
from connectors.jdbc.sql import Sql
from connectors.jdbc.table_name import TableName
from connectors.jdbc.urls.connection_url import parse_connection_url
from sluice.embedded.postgres import EmbeddedPostgres
from tests.support.waiting import eventually


class Desk:
    """One database with a session of the product's, and a connection of the test's own."""

    def __init__(self, server: EmbeddedPostgres, name: str) -> None:
        self.server = server
        self.name = name
        self.database = self.open()
        self.session = self.database.session()
        self.own: psycopg.Connection[Any] = server.connect(name, autocommit=True)

    def open(self, **settings: Any) -> Database:
        url = f"jdbc:postgresql://{self.server.host}:{self.server.port}/{self.name}"
        target = parse_connection_url(url, self.server.user, self.server.password, {})
        return Database(ConnectionSettings(target, attempts=1, pool_size=4, **settings))

    @property
    def dialect(self) -> Dialect:
        return self.database.dialect

    def sql(self, text: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Runs SQL in a connection of the test; returns the rows, if any."""
        cursor = self.own.execute(text, parameters or None)
        return cursor.fetchall() if cursor.description else []

    def asleep(self) -> None:
        """Returns when the session is in pg_sleep."""
        pid = self.session.driver.info.backend_pid
        sleeps = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
        eventually(lambda: self.sql(sleeps, pid), "pg_sleep")

    @staticmethod
    def table_name(name: str) -> TableName:
        return TableName(name)

    def table(self, name: str, session: Session | None = None) -> JdbcTable:
        return self.dialect.find(session or self.session, TableName(name))

    def read(
        self, query: str, options: ReadOptions | None = None, table: JdbcTable | None = None
    ) -> tuple[Sequence[tuple[str, Schema]], list[list[Any]]]:  # fmt: skip
        """The fields and all rows of a query."""
        reader = self.dialect.reader(self.session, Sql(query), options or ReadOptions(), table)
        rows = self.drain(reader)
        reader.close()
        self.session.commit()
        return reader.fields, rows

    @staticmethod
    def drain(reader: RowReader) -> list[list[Any]]:
        rows: list[list[Any]] = []
        while part := reader.read(1000).values:
            rows += part
        return rows

    def write(
        self,
        name: str,
        fields: Sequence[tuple[str, Schema]],
        rows: Sequence[Sequence[Any]],
        *,
        mode: InsertMode = InsertMode.UPSERT,
        keys: Sequence[str] = ("k",),
        options: WriteOptions | None = None,
    ) -> None:
        """Writes and commits; what fails is rolled back."""
        chosen = sink_fields(fields, keys)
        writer = self.dialect.writer(self.table(name), chosen, mode, options or WriteOptions())
        try:
            writer.write(self.session, rows)
        except BaseException:
            self.session.rollback()
            raise
        self.session.commit()

    def delete(self, name: str, fields: Sequence[tuple[str, Schema]], rows: Sequence[Sequence[Any]]) -> None:
        keys = sink_fields(fields, [field for field, _ in fields])
        self.dialect.deleter(self.table(name), keys, WriteOptions()).write(self.session, rows)
        self.session.commit()

    def close(self) -> None:
        self.session.close()
        self.database.close()
        self.own.close()


def sink_fields(fields: Sequence[tuple[str, Schema]], keys: Sequence[str]) -> list[SinkField]:
    return [SinkField(name, schema, name in keys) for name, schema in fields]


@pytest.fixture(scope="module")  # tests of other files kill the server
def _shared_desk(_postgres: EmbeddedPostgres) -> Iterator[Desk]:
    _postgres.start()
    name = f"db_{uuid.uuid4().hex[:8]}"
    _postgres.create_database(name)
    made = Desk(_postgres, name)
    yield made
    made.close()
    _postgres.start()
    _postgres.drop_database(name)


@pytest.fixture
def desk(_shared_desk: Desk) -> Iterator[Desk]:
    """A database for all tests of a file, with nothing in its schema ``public``."""
    _shared_desk.session.rollback()
    _shared_desk.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    yield _shared_desk
    _shared_desk.session.rollback()
