"""One database for this folder's tests; each test makes tables of its own names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from connectors.jdbc.catalog import JdbcTable
from connectors.jdbc.database import ConnectionSettings, Database, Session
from connectors.jdbc.options import InsertMode, ReadOptions, SinkField, WriteOptions
from connectors.jdbc.sql import Sql
from connectors.jdbc.table_name import TableName
from connectors.jdbc.urls.connection_url import parse_connection_url
from sluice.embedded.mariadb import EmbeddedMariaDB

Connect = Callable[..., Database]
READ = ReadOptions()
WRITE = WriteOptions()


class Rig:
    """A session with short words for what tests do all the time."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.dialect = session.dialect

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.session.execute(Sql(statement), "preparing")
        self.session.commit()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        found = self.session.query(Sql(query), "looking")
        self.session.commit()
        return found

    def table(self, name: str) -> JdbcTable:
        found = self.dialect.describe(self.session, TableName(name))
        assert found is not None
        return found

    def read(self, source: str, options: ReadOptions = READ, most: int = 1000) -> tuple[list[tuple[str, Any]], list[list[Any]]]:
        """Fields and rows of a table, or of a query."""
        table = None if " " in source else self.table(source)
        query = Sql(source) if table is None else Sql("SELECT * FROM ", self.dialect.table_ref(table.name))
        reader = self.dialect.reader(self.session, query, options, table)
        found: list[list[Any]] = []
        while rows := reader.read(most).values:
            found += rows
        reader.close()
        self.session.commit()
        return list(reader.fields), found

    def write(
        self,
        table: str,
        fields: Sequence[SinkField],
        rows: Sequence[Sequence[Any]],
        mode: InsertMode = InsertMode.INSERT,
        options: WriteOptions = WRITE,
    ) -> None:
        self.dialect.writer(self.table(table), fields, mode, options).write(self.session, rows)
        self.session.commit()


@pytest.fixture(scope="module")
def own_database(_mariadb: EmbeddedMariaDB) -> Iterator[str]:
    """The name of the module's database."""
    _mariadb.start()
    name = "jdbc_mysql_tests"
    _mariadb.drop_database(name)
    _mariadb.create_database(name)
    yield name
    _mariadb.start()
    _mariadb.drop_database(name)


@pytest.fixture
def connect(mariadb: EmbeddedMariaDB, own_database: str) -> Iterator[Connect]:
    """Opens databases: ``connect("mariadb", statement_timeout_ms=100)`` by a URL of that driver."""
    opened: list[Database] = []

    def open(driver: str = "mysql", url: str | None = None, user: str | None = None, **settings: Any) -> Database:
        text = url or f"jdbc:{driver}://{mariadb.host}:{mariadb.port}/{own_database}"
        target = parse_connection_url(text, user or mariadb.user, mariadb.password, {})
        opened.append(Database(ConnectionSettings(target, attempts=1, **settings)))
        return opened[-1]

    yield open
    for one in opened:
        one.close()


@pytest.fixture(scope="module")
def _database(_mariadb: EmbeddedMariaDB, own_database: str) -> Iterator[Database]:
    target = parse_connection_url(
        f"jdbc:mysql://{_mariadb.host}:{_mariadb.port}/{own_database}", _mariadb.user, _mariadb.password, {}
    )
    database = Database(ConnectionSettings(target, attempts=1, pool_size=4))
    yield database
    database.close()


@pytest.fixture
def rig(mariadb: EmbeddedMariaDB, _database: Database) -> Iterator[Rig]:
    """A session of a pool that the module's tests share."""
    session = _database.session()
    yield Rig(session)
    session.close()


@pytest.fixture
def another(rig: Rig, _database: Database) -> Iterator[Rig]:
    """A second session."""
    session = _database.session()
    yield Rig(session)
    session.close()
