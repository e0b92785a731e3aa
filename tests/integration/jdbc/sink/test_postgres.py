"""The sink task on PostgreSQL: schema evolution, several tasks, errant rows, broken connections."""

from __future__ import annotations

import threading

import pytest

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.errors import ConnectError, RetriableError
from connect.testing.harness import MemoryReporter
from connectors.jdbc import JdbcSink
from tests.integration.jdbc.shops import PostgresShop
from tests.integration.jdbc.sink.conftest import UPSERT
from tests.support.waiting import WAIT_S, eventually
from tests.unit.connectors.jdbc.sink_rig import KEY, OLDER, Records, reported


def test_validation_tries_the_connection(shop: PostgresShop) -> None:
    config = {"name": "s", "topics": "people", **shop.keys}
    assert not [value.errors for value in JdbcSink().validate(config) if value.errors]
    wrong = JdbcSink().validate(config | {"connection.password": "wr0ng"})
    (errors,) = [value.errors for value in wrong if value.errors]
    assert "password authentication failed" in errors[0]
    assert "wr0ng" not in errors[0]


def test_a_table_is_created_altered_and_upserted_in_a_schema(shop: PostgresShop, people: Records) -> None:
    shop.run("CREATE SCHEMA crm")
    with shop.sink(UPSERT, auto__evolve="true", table__name__format="crm.${topic}") as sink:
        sink.put(people.keyed(1, "a", schema=OLDER))
        sink.put(people.keyed(1, "b", 2), people.keyed(2, "c", schema=OLDER), people.tombstone(7))
        sink.put(people.tombstone(2), people.keyed(3, "d", 4))
    assert shop.rows("SELECT * FROM crm.people ORDER BY id") == [(1, "b", 2), (3, "d", 4)]
    assert shop.rows(
        "SELECT column_name, data_type, is_nullable FROM information_schema.columns WHERE table_schema = 'crm' "
        "ORDER BY ordinal_position"
    ) == [("id", "integer", "NO"), ("name", "text", "YES"), ("age", "integer", "YES")]


def test_partitioned_tables_and_updatable_views_are_written_to(shop: PostgresShop, people: Records) -> None:
    shop.run("CREATE TABLE people(id int, name text, age int, PRIMARY KEY (id)) PARTITION BY RANGE (id)")
    shop.run("CREATE TABLE people_1 PARTITION OF people FOR VALUES FROM (0) TO (10)")
    shop.run("CREATE VIEW folk AS SELECT * FROM people")
    folk = Records("folk")
    with shop.sink(UPSERT, table__types="PARTITIONED TABLE,VIEW") as sink:
        sink.put(people.keyed(1, "a", 1), folk.keyed(2, "b", 2))
    assert shop.rows("SELECT * FROM people ORDER BY id") == [(1, "a", 1), (2, "b", 2)]


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_errant_rows_are_reported_and_the_others_are_written(shop: PostgresShop, people: Records, mode: str) -> None:
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name varchar(5) NOT NULL, age int CHECK (age < 100))")
    bad = {5: ("longer than five", 1), 77: (None, 1), 78: ("x", 200), 299: ("x\0", 1)}
    reporter = MemoryReporter()
    with shop.sink(UPSERT | {"insert__mode": mode}, errors__tolerance="all", reporter=reporter) as sink:
        sink.put(*[people.keyed(i, *bad.get(i, ("x", 1))) for i in range(300)])
    assert shop.rows("SELECT count(*), min(id), max(id) FROM people") == [(296, 0, 298)]
    told = dict(reported(reporter))
    assert sorted(told) == [5, 77, 78, 299]
    assert "value too long for type character varying(5)" in told[5]
    assert 'null value in column "name"' in told[77]
    assert "people_age_check" in told[78]


def test_without_tolerance_an_errant_row_prevents_its_whole_batch(shop: PostgresShop, people: Records) -> None:
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name text, age int CHECK (age < 100))")
    with shop.sink(UPSERT) as sink, pytest.raises(ConnectError) as caught:
        sink.put(*[people.keyed(i, "x", 200 if i == 7 else 1) for i in range(20)])
    assert caught.value.message.startswith("Record of topic people, partition 0, offset 7 cannot be written: ")
    assert "people_age_check" in caught.value.message
    assert shop.server.password not in caught.value.message
    assert shop.rows("SELECT count(*) FROM people") == [(0,)]


def test_broken_connection_is_reopened(shop: PostgresShop, people: Records) -> None:
    with shop.sink(UPSERT) as sink:
        sink.put(people.keyed(1, "a", 1))
        shop.end_sessions()
        sink.put(people.keyed(2, "b", 2))  # the broken one was idle: nobody notices
        shop.run("CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS "
                 "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$")  # fmt: skip
        shop.run("CREATE TRIGGER t BEFORE INSERT ON people FOR EACH ROW EXECUTE FUNCTION die()")
        batch = people.keyed(3, "c", 3), people.keyed(4, "d", 4)
        with pytest.raises(RetriableError):
            sink.put(*batch)
        assert sink.context.requested_timeout_ms == 5
        shop.run("DROP TRIGGER t ON people")
        sink.put(*batch)
    assert shop.rows("SELECT id FROM people ORDER BY id") == [(1,), (2,), (3,), (4,)]


def test_sink_survives_a_database_restart(shop: PostgresShop, people: Records) -> None:
    with shop.sink(UPSERT, connection__attempts="1", max__retries="1000000") as sink:
        sink.put(people.keyed(1, "a", 1))
        shop.connection.close()
        shop.server.stop()
        with pytest.raises(RetriableError, match="cannot be reached"):
            sink.put(people.keyed(2, "b", 2))
        shop.server.start()
        sink.put(people.keyed(2, "b", 2))
    shop.reconnect()
    assert shop.rows("SELECT id FROM people ORDER BY id") == [(1,), (2,)]


def test_statement_timeout_fails_the_task(shop: PostgresShop, people: Records) -> None:
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name text, age int)")
    shop.run("CREATE FUNCTION idle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$")
    shop.run("CREATE TRIGGER t BEFORE INSERT ON people FOR EACH ROW EXECUTE FUNCTION idle()")
    with shop.sink(UPSERT, statement__timeout__ms="2000") as sink:
        with pytest.raises(ConnectError, match="statement timeout") as caught:
            sink.put(people.keyed(1, "a", 1))
        assert not isinstance(caught.value, RetriableError)


def test_lock_timeout_is_retried(shop: PostgresShop, people: Records) -> None:
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name text, age int)")
    with shop.sink(UPSERT, statement__timeout__ms="2000") as sink:
        with shop.connection.transaction():
            shop.run("LOCK TABLE people")
            with pytest.raises(RetriableError, match="lock timeout"):
                sink.put(people.keyed(1, "a", 1))
        sink.put(people.keyed(1, "a", 1))
    assert shop.rows("SELECT * FROM people") == [(1, "a", 1)]


def test_errors_that_are_no_records_fault_fail_the_task_despite_tolerance(shop: PostgresShop, people: Records) -> None:
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name text, age int)")
    shop.run("CREATE ROLE reader LOGIN PASSWORD 'r'")
    shop.run("GRANT SELECT ON people TO reader")
    reporter = MemoryReporter()
    keys = {"connection.user": "reader", "connection.password": "r"}
    try:
        with (
            shop.sink(UPSERT | keys, errors__tolerance="all", reporter=reporter) as sink,
            pytest.raises(ConnectError) as caught,
        ):
            sink.put(people.keyed(1, "a", 1))
        assert "permission denied for table people" in caught.value.message
        assert not reporter.reported
    finally:
        shop.run("DROP OWNED BY reader")
        shop.run("DROP ROLE reader")


def test_dropped_table_is_created_and_altered_table_is_described_again(shop: PostgresShop, people: Records) -> None:
    with shop.sink(UPSERT, auto__evolve="true") as sink:
        sink.put(people.keyed(1, "x", 1))
        shop.run("DROP TABLE people")
        sink.put(people.keyed(2, "y", 2))
        shop.run("ALTER TABLE people DROP COLUMN age")
        sink.put(people.keyed(3, "z", 3))
        shop.run("ALTER TABLE people ALTER COLUMN age TYPE bigint")
        sink.put(people.keyed(4, "z", 4))
        shop.run("ALTER TABLE people ALTER COLUMN name TYPE varchar(10)")
        sink.put(people.keyed(5, "z", 5))
    assert shop.rows("SELECT id, name, age FROM people ORDER BY id") == [(2, "y", None), (3, "z", 3), (4, "z", 4), (5, "z", 5)]


def test_two_tasks_upsert_the_same_rows_of_one_table(shop: PostgresShop) -> None:
    """Each writes its keys in another order, so that they may end up waiting for each other: the database then ends one."""
    failures: list[BaseException] = []

    def run(keys: list[int], name: str) -> None:
        people = Records()
        try:
            with shop.sink(UPSERT, auto__evolve="true") as sink:
                for turn in range(15):
                    batch = [people.keyed(key, f"{name}{turn}", schema=OLDER) for key in keys]
                    batch += [people.keyed(1000 + key, name, turn) for key in keys]
                    for _ in range(20):
                        try:
                            sink.put(*batch)
                            break
                        except RetriableError:
                            continue
        except BaseException as e:
            failures.append(e)

    keys = list(range(200))
    threads = [threading.Thread(target=run, args=(order, name)) for order, name in ((keys, "a"), (keys[::-1], "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not failures
    assert shop.rows("SELECT count(*), count(age) FROM people") == [(400, 200)]
    assert shop.rows("SELECT DISTINCT name IN ('a14', 'b14') FROM people WHERE id < 1000") == [(True,)]


def test_stop_cancels_a_put_that_waits_for_a_lock_and_nothing_is_written(shop: PostgresShop, people: Records) -> None:
    with shop.sink(UPSERT) as sink:
        sink.put(people.keyed(1, "a", 1))
        ended: list[Exception] = []

        def put() -> None:
            try:
                sink.put(people.keyed(1, "late", 1))
            except ConnectError as e:
                ended.append(e)

        writer = threading.Thread(target=put)
        with shop.connection.transaction():
            shop.run("LOCK TABLE people")
            writer.start()
            eventually(lambda: bool(shop.rows("SELECT 1 FROM pg_locks WHERE NOT granted")), "the sink waits")
            sink.task.stop()
            writer.join(WAIT_S)
            assert not writer.is_alive()
        assert [type(error) for error in ended] == [RetriableError]
        assert shop.rows("SELECT name FROM people") == [("a",)]


def test_put_continues_when_a_lock_is_released(shop: PostgresShop, people: Records) -> None:
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name text, age int)")
    with shop.sink(UPSERT) as sink:
        thread = threading.Thread(target=sink.put, args=(people.keyed(1, "a", 1),))
        with shop.connection.transaction():
            shop.run("LOCK TABLE people")
            thread.start()
            eventually(lambda: bool(shop.rows("SELECT 1 FROM pg_locks WHERE NOT granted")), "the sink waits")
        thread.join(WAIT_S)
    assert shop.rows("SELECT * FROM people") == [(1, "a", 1)]


def test_error_of_the_server_says_what_to_do(shop: PostgresShop, people: Records) -> None:
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name text, age int)")
    with (
        shop.sink(UPSERT, max__retries="0", statement__timeout__ms="2000") as sink,
        shop.server.connect(shop.database) as other,
    ):
        other.autocommit = False
        other.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(ConnectError, match=r"lock timeout \(SQLSTATE 55P03\); another session holds a lock"):
            sink.put(people.keyed(1, "a", 1))
    shop.run(f"ALTER DATABASE {shop.database} SET default_transaction_read_only = on")
    with (
        shop.sink(UPSERT, max__retries="0") as sink,
        pytest.raises(ConnectError, match=r"read-only transaction \(SQLSTATE 25006\); the server or this database is read-only"),
    ):
        sink.put(people.keyed(1, "a", 1))
    wide = SchemaBuilder.struct().field("id", Schema.INT32)
    for number in range(1600):
        wide.field(f"f{number}", Schema.OPTIONAL_INT32)
    schema = wide.build()
    shop.run(f"ALTER DATABASE {shop.database} SET default_transaction_read_only = off")
    with (
        shop.sink(UPSERT, table__name__format="wide", max__retries="0") as sink,
        pytest.raises(ConnectError, match=r"at most 1600 columns \(SQLSTATE 54011\); omit fields"),
    ):
        sink.put(people.record(KEY, Struct(KEY, [1]), schema, Struct(schema, [1, *[None] * 1600])))


def test_error_for_an_upsert_without_a_unique_key_says_what_to_do(shop: PostgresShop, people: Records) -> None:
    shop.run("CREATE TABLE people(id int, name text, age int)")
    with shop.sink(UPSERT) as sink, pytest.raises(ConnectError, match="needs a primary key or unique index"):
        sink.put(people.keyed(1, "a", 1))
