"""Pipelines from one database to another through topics, in one worker process."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pymysql
import pytest

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.mariadb import EmbeddedMariaDB
from sluice.embedded.postgres import EmbeddedPostgres
from tests.integration.worker.test_process import Process
from tests.support.registry import EmbeddedRegistry
from tests.support.waiting import WAIT_S, eventually

Name = Callable[[str], str]
Row = tuple[Any, ...]
JSON = "org.apache.kafka.connect.json.JsonConverter"
AVRO = "io.confluent.connect.avro.AvroConverter"
SOURCE = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector", "mode": "bulk", "poll.interval.ms": "3600000",
    "key.columns": "auto", "tasks.max": "2",
}  # fmt: skip
SINK = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector", "insert.mode": "upsert", "pk.mode": "record_key",
    "auto.create": "true", "consumer.override.metadata.max.age.ms": "500",
}  # fmt: skip
WIDE = (
    "id {key}, flag boolean, small smallint, large bigint, precise {double}, amount decimal(12, 3), digits decimal(20, 0), "
    "words {text}, data {bytes}, day date, clock {time}, moment {moment}"
)
MOMENT = dt.datetime(2024, 2, 29, 12, 34, 56, 789000)
ROWS: list[Row] = [
    (1, True, -32768, 2**63 - 1, 3.141592653589793, Decimal("123456789.125"), Decimal("12345678901234567890"),
     "h\u00e9llo \U0001f600 'q\" \\ \n", b"\0\xff\x10", dt.date(2024, 2, 29), dt.time(23, 59, 59, 999000), MOMENT),
    (2, *[None] * 11),
    (3, False, 0, -(2**63), 1e300, Decimal("-0.001"),
     Decimal(0), "", b"", dt.date(1970, 1, 1), dt.time(), dt.datetime(1969, 12, 31)),
]  # fmt: skip


class Pipelines:
    """A worker, with connectors that end with their test."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.names: list[str] = []

    def _ask(self, method: str, path: str, body: Any = None) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.process.port}/connectors/{path}",
            None if body is None else json.dumps(body).encode(),
            {"content-type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=WAIT_S):
            pass

    def add(self, name: str, *parts: dict[str, str]) -> None:
        self._ask("PUT", f"{name}/config", {key: value for part in parts for key, value in part.items()})
        self.names.append(name)

    def await_written(self, sink: str, count: int) -> None:
        """Until offsets of so many records are committed."""

        def written() -> bool:
            offsets = self.process.get(f"/connectors/{sink}/offsets")["offsets"]
            return bool(sum(entry["offset"]["kafka_offset"] for entry in offsets) >= count)

        eventually(written, f"{sink} wrote {count} records", explain=self.process.text)

    def end(self) -> None:
        while self.names:
            self._ask("DELETE", self.names.pop())


@pytest.fixture(scope="module")
def process(_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    _broker.start()
    settings = {"key.converter": JSON, "value.converter": JSON, "task.executors": "0"}
    one = Process(tmp_path_factory.mktemp("pipelines"), _broker.bootstrap, **settings)
    one.start().wait_ready()
    yield one
    assert one.end() == 0


@pytest.fixture
def pipelines(process: Process) -> Iterator[Pipelines]:
    made = Pipelines(process)
    yield made
    made.end()


@pytest.fixture
def shop(postgres: EmbeddedPostgres, database: str) -> Iterator[psycopg.Connection[Any]]:
    with postgres.connect(database) as connection:
        yield connection


@pytest.fixture
def market(mariadb: EmbeddedMariaDB, mariadb_database: str) -> Iterator[pymysql.connections.Connection[Any]]:
    with closing(mariadb.connect(mariadb_database)) as connection:
        yield connection


def keys_of(server: EmbeddedPostgres | EmbeddedMariaDB, database: str) -> dict[str, str]:
    kind = "postgresql" if isinstance(server, EmbeddedPostgres) else "mysql"
    url = f"jdbc:{kind}://{server.host}:{server.port}/{database}"
    return {"connection.url": url, "connection.user": server.user, "connection.password": server.password}


def execute(connection: pymysql.connections.Connection[Any], statement: str, rows: list[Row] | None = None) -> list[Row]:
    with connection.cursor() as cursor:
        if rows is None:
            cursor.execute(statement)
        else:
            cursor.executemany(statement, rows)
        found = [] if cursor.description is None else list(cursor.fetchall())
    connection.commit()
    return found


def like_python(row: Row) -> Row:
    """PyMySQL's times are durations, and its booleans numbers."""
    clock = None if row[10] is None else (dt.datetime.min + row[10]).time()
    return (row[0], None if row[1] is None else bool(row[1]), *row[2:10], clock, *row[11:])


@pytest.mark.long
def test_postgresql_to_mariadb_and_back_with_avro(
    pipelines: Pipelines, postgres: EmbeddedPostgres, mariadb: EmbeddedMariaDB, registry: EmbeddedRegistry, database: str,
    mariadb_database: str, shop: psycopg.Connection[Any], market: pymysql.connections.Connection[Any], unique_name: Name,
) -> None:  # fmt: skip
    wide = WIDE.format(key="int PRIMARY KEY", double="float8", text="text", bytes="bytea", time="time", moment="timestamp(3)")
    shop.execute(f"CREATE TABLE wide({wide})".encode())
    shop.cursor().executemany(f"INSERT INTO wide VALUES ({', '.join(['%s'] * 12)})".encode(), ROWS)
    shop.execute("CREATE TABLE pairs(a int, b text, v text, PRIMARY KEY (b, a))")
    shop.execute("INSERT INTO pairs SELECT g, 'k' || g % 7, 'v' FROM generate_series(1, 40) g")
    there, back = unique_name("there"), unique_name("back")
    pipelines.add(f"{there}-source", SOURCE, keys_of(postgres, database), {"topic.prefix": f"{there}_"})
    topics = {"topics": f"{there}_wide,{there}_pairs", "table.name.format": "${topic}"}
    pipelines.add(f"{there}-sink", SINK, keys_of(mariadb, mariadb_database), topics)
    pipelines.await_written(f"{there}-sink", 43)
    assert [like_python(row) for row in execute(market, f"SELECT * FROM `{there}_wide` ORDER BY id")] == ROWS
    assert len(execute(market, f"SELECT DISTINCT a, b FROM `{there}_pairs`")) == 40

    avro = {f"{kind}.converter": AVRO for kind in ("key", "value")}
    avro |= {f"{kind}.converter.schema.registry.url": registry.url for kind in ("key", "value")}
    pipelines.add(f"{back}-source", SOURCE, avro, keys_of(mariadb, mariadb_database), {"topic.prefix": f"{back}."})
    wide_back, pairs_back = f"{back}.{there}_wide", f"{back}.{there}_pairs"
    tables = {"topics.to.tables.mapping": f"{wide_back}:copy,{pairs_back}:pairs2"}
    topics = {"topics": f"{wide_back},{pairs_back}", **tables}
    pipelines.add(f"{back}-sink", SINK, avro, keys_of(postgres, database), topics)
    pipelines.await_written(f"{back}-sink", 43)
    columns = "id, flag::int::boolean, small, large, precise, amount, digits, words, data, day, clock, moment"
    assert shop.execute(f"SELECT {columns} FROM copy ORDER BY id".encode()).fetchall() == ROWS
    assert shop.execute("SELECT * FROM pairs EXCEPT SELECT * FROM pairs2").fetchall() == []


@pytest.mark.long
def test_sqlite_to_duckdb_and_back(pipelines: Pipelines, tmp_path: Path, unique_name: Name) -> None:
    first, second, third = tmp_path / "first.db", tmp_path / "second.duckdb", tmp_path / "third.db"
    types = {"double": "DOUBLE", "text": "TEXT", "bytes": "BLOB", "time": "TEXT", "moment": "TIMESTAMP"}
    with closing(sqlite3.connect(first)) as shop, shop:
        shop.execute(f"CREATE TABLE wide({WIDE.format(key='INTEGER PRIMARY KEY', **types)})")
        texts = [tuple(str(v) if isinstance(v, Decimal | dt.date | dt.time) else v for v in row) for row in ROWS]
        digits = [(*row[:6], 5, *row[7:]) for row in texts]
        shop.executemany(f"INSERT INTO wide VALUES ({', '.join('?' * 12)})", digits)
    there, back = unique_name("there"), unique_name("back")
    pipelines.add(f"{there}-source", SOURCE, {"connection.url": f"jdbc:sqlite:{first}", "topic.prefix": f"{there}_"})
    pipelines.add(f"{there}-sink", SINK, {"connection.url": f"jdbc:duckdb:{second}", "topics": f"{there}_wide"})
    pipelines.await_written(f"{there}-sink", 3)
    pipelines.end()  # one process has a DuckDB file at a time
    expected = [(*row[:6], Decimal(5), *row[7:10], row[10] if row[10] is None else str(row[10]), row[11]) for row in ROWS]
    with closing(duckdb.connect(str(second))) as market:
        assert market.execute(f'SELECT * FROM "{there}_wide" ORDER BY id').fetchall() == expected
    pipelines.add(f"{back}-source", SOURCE, {"connection.url": f"jdbc:duckdb:{second}", "topic.prefix": f"{back}-"})
    pipelines.add(f"{back}-sink", SINK, {"connection.url": f"jdbc:sqlite:{third}", "topics": f"{back}-{there}_wide"})
    pipelines.await_written(f"{back}-sink", 3)
    with closing(sqlite3.connect(third)) as copy:
        query = "SELECT id, flag, small, large, precise, amount, words, data, clock, day, moment FROM"
        found = copy.execute(f'{query} "{back}-{there}_wide" ORDER BY id').fetchall()
    millis = [None if row[9] is None else (row[9] - dt.date(1970, 1, 1)).days * 86_400_000 for row in ROWS]
    assert [row[:5] for row in found] == [row[:5] for row in ROWS]
    assert [row[6:9] for row in found] == [(row[7], row[8], row[10]) for row in expected]
    assert [row[9] for row in found] == millis
