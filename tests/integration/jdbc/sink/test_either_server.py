"""The sink task on PostgreSQL and MariaDB: common behavior."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.errors import RetriableError
from connect.testing import check_sink_connector
from connect.testing.harness import MemoryReporter
from connectors.jdbc import JdbcSink
from tests.integration.jdbc.shops import PostgresShop, Shop
from tests.integration.jdbc.sink.conftest import UPSERT
from tests.support.waiting import WAIT_S
from tests.unit.connectors.jdbc.sink_rig import KEY, OLDER, Records, put_all

CHANGES = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.one_of(
            st.none(), st.tuples(st.sampled_from(["a", "b", "too long"]), st.one_of(st.none(), st.integers(0, 9), st.just(200)))
        ),
    ),
    max_size=25,
)  # fmt: skip


@pytest.fixture(params=["postgres", "mariadb"])
def shop(request: pytest.FixtureRequest) -> Shop:
    made: Shop = request.getfixturevalue(f"{request.param}_shop")
    return made


def test_sink_passes_the_conformance_suite(shop: Shop, people: Records) -> None:
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


NASTY = [
    'x"; DROP TABLE victim; --', "x`; DROP TABLE victim; --", "x'; DROP TABLE victim; --", "a b", "select", "%s %(a)s ? :p1 $1",
    "\\", "ö" * 30,
]  # fmt: skip


@pytest.mark.parametrize("name", [NASTY[0], *(pytest.param(name, marks=pytest.mark.long) for name in NASTY[1:])])
def test_names_with_special_characters_are_safe(shop: Shop, name: str) -> None:
    shop.run("CREATE TABLE victim(a int)")
    topic = Records(name.lstrip('"'))
    schema = SchemaBuilder.struct().field("id", Schema.INT32).field(name, Schema.OPTIONAL_STRING).build()
    with shop.sink(UPSERT, auto__evolve="true") as sink:
        sink.put(topic.keyed(1, "v", schema=OLDER))
        sink.put(topic.keyed(1, "w", schema=schema), topic.keyed(2, "w", schema=schema), topic.tombstone(1))
    assert shop.tables() == sorted(["victim", topic.topic])
    assert shop.rows("SELECT count(*) FROM victim") == [(0,)]


@pytest.mark.long
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=CHANGES, most=st.integers(1, 30), batch_size=st.integers(1, 7))
def test_the_table_has_the_last_good_change_of_each_key(shop: Shop, changes: Any, most: int, batch_size: int) -> None:
    shop.run("DROP TABLE IF EXISTS people")
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name varchar(3), age int CHECK (age < 100))")
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
    reporter = MemoryReporter()
    with shop.sink(UPSERT, errors__tolerance="all", reporter=reporter, batch__size=str(batch_size)) as sink:
        put_all(sink, records, most)
    assert {row[0]: row[1:] for row in shop.rows("SELECT id, name, age FROM people")} == expected


def test_tasks_can_create_and_alter_the_same_table_concurrently(shop: Shop) -> None:
    tries = 1 if isinstance(shop, PostgresShop) else 10  # CREATE and ALTER end transactions of MariaDB
    failures: list[BaseException] = []
    barrier = threading.Barrier(4)
    schemas = [
        SchemaBuilder.struct().field("id", Schema.INT32).field(f"f{i}", Schema.OPTIONAL_STRING)
        .field("shared", Schema.OPTIONAL_STRING).build()
        for i in range(4)
    ]  # fmt: skip

    def run(number: int) -> None:
        try:
            with shop.sink(UPSERT, auto__evolve="true") as sink:
                schema = schemas[number]
                one = Records().record(KEY, Struct(KEY, [number]), schema, Struct(schema, [number, "x", "y"]))
                barrier.wait(WAIT_S)
                for left in reversed(range(tries)):
                    try:
                        sink.put(one)
                        break
                    except RetriableError:
                        if not left:
                            raise
        except BaseException as e:
            failures.append(e)

    for _ in range(5):
        shop.run("DROP TABLE IF EXISTS people")
        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert not failures
        assert shop.rows("SELECT id, f0, f1, f2, f3, shared FROM people ORDER BY id") == [
            (i, *("x" if j == i else None for j in range(4)), "y") for i in range(4)
        ]
