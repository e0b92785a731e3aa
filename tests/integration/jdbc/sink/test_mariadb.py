"""The sink task on MariaDB, where CREATE and ALTER end transactions."""

from __future__ import annotations

import pytest

from connect.errors import ConnectError, RetriableError
from connect.testing.harness import MemoryReporter
from tests.integration.jdbc.shops import MariaDBShop
from tests.integration.jdbc.sink.conftest import UPSERT
from tests.unit.connectors.jdbc.sink_rig import OLDER, Records, reported


@pytest.fixture
def shop(mariadb_shop: MariaDBShop) -> MariaDBShop:
    return mariadb_shop


def test_a_table_is_created_altered_upserted_and_deleted_from(shop: MariaDBShop, people: Records) -> None:
    with shop.sink(UPSERT, auto__evolve="true") as sink:
        sink.put(people.keyed(1, "a", schema=OLDER))
        sink.put(
            people.keyed(1, "b", 2), people.keyed(2, "c", schema=OLDER), people.tombstone(7), people.keyed(1, "d", schema=OLDER)
        )
        sink.put(people.tombstone(2), people.keyed(3, "d", 4), people.tombstone(3), people.keyed(3, "e", schema=OLDER))
    assert shop.rows("SELECT * FROM people ORDER BY id") == [(1, "d", 2), (3, "e", None)]


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_errant_rows_are_reported_and_the_others_are_written(shop: MariaDBShop, people: Records, mode: str) -> None:
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name varchar(5) NOT NULL, age int CHECK (age < 100))")
    bad = {5: ("longer than five", 1), 77: (None, 1), 78: ("x", 200)}
    reporter = MemoryReporter()
    with shop.sink(UPSERT | {"insert__mode": mode}, errors__tolerance="all", reporter=reporter) as sink:
        sink.put(*[people.keyed(i, *bad.get(i, ("x", 1))) for i in range(300)])
    assert shop.rows("SELECT count(*) FROM people") == [(297,)]
    assert [offset for offset, _ in reported(reporter)] == [5, 77, 78]


def test_without_tolerance_an_errant_row_prevents_its_whole_batch(shop: MariaDBShop, people: Records) -> None:
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name text, age int CHECK (age < 100))")
    with shop.sink(UPSERT) as sink, pytest.raises(ConnectError, match="offset 7 cannot be written") as caught:
        sink.put(*[people.keyed(i, "x", 200 if i == 7 else 1) for i in range(20)])
    assert shop.server.password not in caught.value.message
    assert shop.rows("SELECT count(*) FROM people") == [(0,)]


def test_sink_survives_a_database_restart(shop: MariaDBShop, people: Records) -> None:
    with shop.sink(UPSERT, connection__attempts="1", max__retries="1000000") as sink:
        sink.put(people.keyed(1, "a", 1))
        shop.server.kill()
        with pytest.raises(RetriableError):
            sink.put(people.keyed(2, "b", 2))
        shop.server.start()
        sink.put(people.keyed(2, "b", 2))
        shop.server.restart()
        sink.put(people.keyed(3, "c", 3))
    shop.reconnect()
    assert shop.rows("SELECT id FROM people ORDER BY id") == [(1,), (2,), (3,)]


def test_dropped_table_is_created_again(shop: MariaDBShop, people: Records) -> None:
    with shop.sink(UPSERT) as sink:
        sink.put(people.keyed(1, "x", 1))
        shop.run("DROP TABLE people")
        sink.put(people.keyed(2, "y", 2))
    assert shop.rows("SELECT * FROM people") == [(2, "y", 2)]


def test_error_explains_a_dot_in_a_topic_if_the_database_is_missing(shop: MariaDBShop) -> None:
    with shop.sink(UPSERT) as sink, pytest.raises(ConnectError, match="a dot separates schema and table"):
        sink.put(Records("nowhere.people").keyed(1, "a", 1))
