"""Shared by the benchmarks of the JDBC connectors: a ten-column table in three databases."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.environment import BenchmarkEnvironment
from sluice.embedded.mariadb import EmbeddedMariaDB
from sluice.embedded.postgres import EmbeddedPostgres

COLUMNS = ("id", "name", "email", "city", "balance", "score", "visits", "active", "created_at", "notes")

_ROW = (
    "{id} AS id, {cat}('name ', {id}) AS name, {cat}('user', {id}, '@example.com') AS email, 'Springfield' AS city, "
    "{money} AS balance, {id} / 7.0 AS score, {id} % 1000 AS visits, {even} AS active, {moment} AS created_at, "
    "'a note of some forty bytes, as people write' AS notes"
)


@dataclass
class Target:
    """A database with the table ``people``. ``connect`` gives a connection of the plain driver."""

    name: str
    url: str
    """For ``connection.url``, with user and password."""
    connect: Callable[[], Any]
    mark: str
    """Of a parameter, in the driver's SQL."""
    create: str
    fill: str
    """INSERT ... SELECT with a place for the number of rows."""
    upsert: str

    def create_table(self) -> None:
        with contextlib.closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute("DROP TABLE IF EXISTS people")
            cursor.execute(self.create)
            connection.commit()

    def fill_table(self, rows: int) -> None:
        self.create_table()
        with contextlib.closing(self.connect()) as connection:
            connection.cursor().execute(self.fill.replace("{rows}", str(rows)))
            connection.commit()

    def count(self) -> int:
        with contextlib.closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT count(*) FROM people")
            return int(cursor.fetchone()[0])

    def upsert_rows(self, cursor: Any, rows: Sequence[Sequence[Any]]) -> None:
        cursor.executemany(self.upsert, rows)


def _insert(mark: str) -> str:
    return f"INSERT INTO people ({', '.join(COLUMNS)}) VALUES ({', '.join([mark] * len(COLUMNS))})"


def _on_conflict() -> str:
    return " ON CONFLICT (id) DO UPDATE SET " + ", ".join(f"{c} = excluded.{c}" for c in COLUMNS[1:])


@contextlib.contextmanager
def postgres(here: BenchmarkEnvironment) -> Iterator[Target]:
    import psycopg

    with EmbeddedPostgres(here.home / "jdbc-postgres", dies_with_parent=True) as server:
        row = _ROW.format(id="i", cat="concat", money="(i % 10000)::numeric(12,2) / 100", even="i % 2 = 0", moment="now()")
        yield Target(
            "postgresql",
            f"jdbc:postgresql://{server.host}:{server.port}/{server.database}?user={server.user}&password={server.password}",
            lambda: psycopg.connect(server.dsn()),
            "%s",
            "CREATE TABLE people (id bigint PRIMARY KEY, name text NOT NULL, email text, city text, balance numeric(12,2),"
            " score double precision, visits int, active boolean, created_at timestamptz, notes text)"
            " WITH (autovacuum_enabled=off)",
            f"INSERT INTO people SELECT {row} FROM generate_series(1::bigint, {{rows}}) i",
            _insert("%s") + _on_conflict(),
        )


@contextlib.contextmanager
def mariadb(here: BenchmarkEnvironment) -> Iterator[Target]:
    with EmbeddedMariaDB(here.home / "jdbc-mariadb", dies_with_parent=True) as server:
        server.create_database("bench")
        row = _ROW.format(id="seq", cat="concat", money="(seq % 10000) / 100", even="seq % 2 = 0", moment="now(3)")
        yield Target(
            "mariadb",
            f"jdbc:mariadb://{server.host}:{server.port}/bench?user={server.user}&password={server.password}",
            lambda: server.connect("bench", autocommit=False),
            "%s",
            "CREATE TABLE people (id bigint PRIMARY KEY, name varchar(100) NOT NULL, email varchar(100), city varchar(100),"
            " balance decimal(12,2), score double, visits int, active boolean, created_at datetime(3), notes varchar(200))",
            f"INSERT INTO people SELECT {row} FROM (SELECT seq FROM seq_1_to_{{rows}}) numbers",
            _insert("%s") + " ON DUPLICATE KEY UPDATE " + ", ".join(f"{c} = VALUES({c})" for c in COLUMNS[1:]),
        )


@contextlib.contextmanager
def sqlite(here: BenchmarkEnvironment) -> Iterator[Target]:
    path: Path = here.home / "people.db"
    row = (
        "id, 'name ' || id, 'user' || id || '@example.com', 'Springfield', (id % 10000) / 100.0, id / 7.0, id % 1000,"
        " id % 2 = 0, 1700000000000 + id, 'a note of some forty bytes, as people write'"
    )
    yield Target(
        "sqlite",
        f"jdbc:sqlite:{path}",
        lambda: sqlite3.connect(path),
        "?",
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT, city TEXT, balance REAL, score REAL,"
        " visits INTEGER, active INTEGER, created_at INTEGER, notes TEXT)",
        "WITH RECURSIVE numbers(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM numbers WHERE id < {rows})"
        f" INSERT INTO people SELECT {row} FROM numbers",
        _insert("?") + _on_conflict(),
    )


TARGETS = {"postgresql": postgres, "mariadb": mariadb, "sqlite": sqlite}
