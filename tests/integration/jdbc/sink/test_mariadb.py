"""The sink task on a real MariaDB, where CREATE and ALTER end transactions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.errors import ConnectError, RetriableError
from connect.sink import ErrantRecordReporter
from connect.testing import check_sink_connector
from connect.testing.harness import MemoryReporter
from connectors.jdbc import JdbcSink
from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.unit.connectors.jdbc.sink_rig import KEY, OLDER, Records, Sink, put_all, reported

UPSERT = {"insert__mode": "upsert", "pk__mode": "record_key", "delete__enabled": "true", "auto__create": "true"}


class Shop:
    """The test's database, seen by a connection of its own."""

    def __init__(self, server: EmbeddedMariaDB, database: str) -> None:
        self.server = server
        self.database = database
        self.connection: pymysql.Connection[Any] = server.connect(database)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    @property
    def keys(self) -> dict[str, str]:
        return {
            "connection.url": f"jdbc:mysql://{self.server.host}:{self.server.port}/{self.database}",
            "connection.user": self.server.user,
            "connection.password": self.server.password,
        }

    def sink(self, *, reporter: ErrantRecordReporter | None = None, **config: str) -> Sink:
        return Sink({**self.keys, **{key.replace("__", "."): value for key, value in config.items()}}, reporter=reporter)


@pytest.fixture
def shop(mariadb: EmbeddedMariaDB, mariadb_database: str) -> Iterator[Shop]:
    made = Shop(mariadb, mariadb_database)
    yield made
    made.connection.close()


@pytest.fixture
def people() -> Records:
    return Records()


def test_it_is_a_good_sink(shop: Shop, people: Records) -> None:
    config = {
        "name": "s",
        "topics": "people",
        **shop.keys,
        "auto.create": "true",
        "insert.mode": "upsert",
        "pk.mode": "record_key",
    }
    check_sink_connector(JdbcSink, config, [people.keyed(i, "x", i) for i in range(5)])
    assert shop.rows("SELECT count(*) FROM people") == [(5,)]


def test_a_table_is_created_altered_upserted_and_deleted_from(shop: Shop, people: Records) -> None:
    with shop.sink(**UPSERT, auto__evolve="true") as sink:
        sink.put(people.keyed(1, "a", schema=OLDER))
        sink.put(
            people.keyed(1, "b", 2), people.keyed(2, "c", schema=OLDER), people.tombstone(7), people.keyed(1, "d", schema=OLDER)
        )
        sink.put(people.tombstone(2), people.keyed(3, "d", 4), people.tombstone(3), people.keyed(3, "e", schema=OLDER))
    assert shop.rows("SELECT * FROM people ORDER BY id") == [(1, "d", 2), (3, "e", None)]


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_refused_rows_are_reported_and_all_others_land(shop: Shop, people: Records, mode: str) -> None:
    shop.rows("CREATE TABLE people(id int PRIMARY KEY, name varchar(5) NOT NULL, age int CHECK (age < 100))")
    bad = {5: ("longer than five", 1), 77: (None, 1), 78: ("x", 200)}
    reporter = MemoryReporter()
    with shop.sink(**(UPSERT | {"insert__mode": mode}), errors__tolerance="all", reporter=reporter) as sink:
        sink.put(*[people.keyed(i, *bad.get(i, ("x", 1))) for i in range(300)])
    assert shop.rows("SELECT count(*) FROM people") == [(297,)]
    assert [offset for offset, _ in reported(reporter)] == [5, 77, 78]


def test_a_refused_row_that_is_not_tolerated_leaves_nothing(shop: Shop, people: Records) -> None:
    shop.rows("CREATE TABLE people(id int PRIMARY KEY, name text, age int CHECK (age < 100))")
    with shop.sink(**UPSERT) as sink, pytest.raises(ConnectError, match="offset 7 cannot be written") as caught:
        sink.put(*[people.keyed(i, "x", 200 if i == 7 else 1) for i in range(20)])
    assert shop.server.password not in caught.value.message
    assert shop.rows("SELECT count(*) FROM people") == [(0,)]


def test_a_restart_of_the_database_is_survived(shop: Shop, people: Records) -> None:
    with shop.sink(**UPSERT, connection__attempts="1", max__retries="1000000") as sink:
        sink.put(people.keyed(1, "a", 1))
        shop.server.kill()
        with pytest.raises(RetriableError):
            sink.put(people.keyed(2, "b", 2))
        shop.server.start()
        sink.put(people.keyed(2, "b", 2))
        shop.server.restart()
        sink.put(people.keyed(3, "c", 3))
    shop.connection = shop.server.connect(shop.database)
    assert shop.rows("SELECT id FROM people ORDER BY id") == [(1,), (2,), (3,)]


def test_a_table_that_is_dropped_comes_back(shop: Shop, people: Records) -> None:
    with shop.sink(**UPSERT) as sink:
        sink.put(people.keyed(1, "x", 1))
        shop.rows("DROP TABLE people")
        sink.put(people.keyed(2, "y", 2))
    assert shop.rows("SELECT * FROM people") == [(2, "y", 2)]


def test_tasks_that_create_and_alter_one_table_at_once_all_go_on(shop: Shop) -> None:
    failures: list[BaseException] = []
    barrier = threading.Barrier(4)
    schemas = [
        SchemaBuilder.struct().field("id", Schema.INT32).field(f"f{i}", Schema.OPTIONAL_STRING)
        .field("shared", Schema.OPTIONAL_STRING).build()
        for i in range(4)
    ]  # fmt: skip

    def run(number: int) -> None:
        try:
            with shop.sink(**UPSERT, auto__evolve="true") as sink:
                schema = schemas[number]
                one = Records().raw(KEY, Struct(KEY, [number]), schema, Struct(schema, [number, "x", "y"]))
                barrier.wait(20)
                for _ in range(10):
                    try:
                        sink.put(one)
                        break
                    except RetriableError:
                        continue
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert shop.rows("SELECT id, f0, f1, f2, f3, shared FROM people ORDER BY id") == [
        (i, *("x" if j == i else None for j in range(4)), "y") for i in range(4)
    ]


@pytest.mark.parametrize("name", ["x`; DROP TABLE victim; --", "x'; DROP TABLE victim; --", "select", "%s ? :p1", "\\"])
def test_names_are_names_and_nothing_else(shop: Shop, name: str) -> None:
    shop.rows("CREATE TABLE victim(a int)")
    topic = Records(name)
    schema = SchemaBuilder.struct().field("id", Schema.INT32).field(name, Schema.OPTIONAL_STRING).build()
    with shop.sink(**UPSERT, auto__evolve="true") as sink:
        sink.put(topic.keyed(1, "v", schema=OLDER))
        sink.put(topic.keyed(1, "w", schema=schema), topic.keyed(2, "w", schema=schema), topic.tombstone(1))
    assert sorted(row[0] for row in shop.rows("SHOW TABLES")) == sorted(["victim", name])
    assert shop.rows("SELECT count(*) FROM victim") == [(0,)]


CHANGES = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.one_of(st.none(), st.tuples(st.sampled_from(["a", "b", "too long"]), st.one_of(st.none(), st.just(1), st.just(200)))),
    ),
    max_size=25,
)  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=CHANGES, most=st.integers(1, 30), batch_size=st.integers(1, 7))
def test_the_table_has_the_last_good_change_of_each_key(shop: Shop, changes: Any, most: int, batch_size: int) -> None:
    shop.rows("DROP TABLE IF EXISTS people")
    shop.rows("CREATE TABLE people(id int PRIMARY KEY, name varchar(3), age int CHECK (age < 100))")
    people = Records()
    expected: dict[int, tuple[Any, Any]] = {}
    records = []
    for key, change in changes:
        if change is None:
            expected.pop(key, None)
            records.append(people.tombstone(key))
            continue
        name, age = change
        without_age = age is None
        records.append(people.keyed(key, name, schema=OLDER) if without_age else people.keyed(key, name, age))
        if name != "too long" and age != 200:
            expected[key] = (name, expected.get(key, (None, None))[1] if without_age else age)
    with shop.sink(**UPSERT, errors__tolerance="all", reporter=MemoryReporter(), batch__size=str(batch_size)) as sink:
        put_all(sink, records, most)
    assert {row[0]: row[1:] for row in shop.rows("SELECT id, name, age FROM people")} == expected
