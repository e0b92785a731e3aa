"""The sink task on a real PostgreSQL: evolution, several tasks, refused rows, broken connections."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.errors import ConnectError, RetriableError
from connect.testing import check_sink_connector
from connect.testing.harness import MemoryReporter
from connectors.jdbc import JdbcSink
from tests.integration.jdbc.sink.conftest import Shop
from tests.integration.worker.conftest import eventually
from tests.unit.connectors.jdbc.sink_rig import KEY, OLDER, Records, put_all, reported

UPSERT = {"insert__mode": "upsert", "pk__mode": "record_key", "delete__enabled": "true", "auto__create": "true"}


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


def test_validation_tries_the_connection(shop: Shop) -> None:
    config = {"name": "s", "topics": "people", **shop.keys}
    assert not [value.errors for value in JdbcSink().validate(config) if value.errors]
    wrong = JdbcSink().validate(config | {"connection.password": "wr0ng"})
    (errors,) = [value.errors for value in wrong if value.errors]
    assert "password authentication failed" in errors[0]
    assert "wr0ng" not in errors[0]


def test_a_table_is_created_altered_and_upserted_in_a_schema(shop: Shop, people: Records) -> None:
    shop.run("CREATE SCHEMA crm")
    with shop.sink(**UPSERT, auto__evolve="true", table__name__format="crm.${topic}") as sink:
        sink.put(people.keyed(1, "a", schema=OLDER))
        sink.put(people.keyed(1, "b", 2), people.keyed(2, "c", schema=OLDER), people.tombstone(7))
        sink.put(people.tombstone(2), people.keyed(3, "d", 4))
    assert shop.rows("SELECT * FROM crm.people ORDER BY id") == [(1, "b", 2), (3, "d", 4)]
    assert shop.rows(
        "SELECT column_name, data_type, is_nullable FROM information_schema.columns WHERE table_schema = 'crm' "
        "ORDER BY ordinal_position"
    ) == [("id", "integer", "NO"), ("name", "text", "YES"), ("age", "integer", "YES")]


def test_partitioned_tables_and_updatable_views_are_written_to(shop: Shop, people: Records) -> None:
    shop.run("CREATE TABLE people(id int, name text, age int, PRIMARY KEY (id)) PARTITION BY RANGE (id)")
    shop.run("CREATE TABLE people_1 PARTITION OF people FOR VALUES FROM (0) TO (10)")
    shop.run("CREATE VIEW folk AS SELECT * FROM people")
    folk = Records("folk")
    with shop.sink(**UPSERT, table__types="PARTITIONED TABLE,VIEW") as sink:
        sink.put(people.keyed(1, "a", 1), folk.keyed(2, "b", 2))
    assert shop.rows("SELECT * FROM people ORDER BY id") == [(1, "a", 1), (2, "b", 2)]


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_refused_rows_are_reported_and_all_others_land(shop: Shop, people: Records, mode: str) -> None:
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name varchar(5) NOT NULL, age int CHECK (age < 100))")
    bad = {5: ("longer than five", 1), 77: (None, 1), 78: ("x", 200), 299: ("x\0", 1)}
    reporter = MemoryReporter()
    with shop.sink(**(UPSERT | {"insert__mode": mode}), errors__tolerance="all", reporter=reporter) as sink:
        sink.put(*[people.keyed(i, *bad.get(i, ("x", 1))) for i in range(300)])
    assert shop.rows("SELECT count(*), min(id), max(id) FROM people") == [(296, 0, 298)]
    told = dict(reported(reporter))
    assert sorted(told) == [5, 77, 78, 299]
    assert "value too long for type character varying(5)" in told[5]
    assert 'null value in column "name"' in told[77]
    assert "people_age_check" in told[78]


def test_a_refused_row_that_is_not_tolerated_leaves_nothing(shop: Shop, people: Records) -> None:
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name text, age int CHECK (age < 100))")
    with shop.sink(**UPSERT) as sink, pytest.raises(ConnectError) as caught:
        sink.put(*[people.keyed(i, "x", 200 if i == 7 else 1) for i in range(20)])
    assert caught.value.message.startswith("Record of topic people, partition 0, offset 7 cannot be written: ")
    assert "people_age_check" in caught.value.message
    assert shop.server.password not in caught.value.message
    assert shop.rows("SELECT count(*) FROM people") == [(0,)]


def test_a_broken_connection_is_made_again(shop: Shop, people: Records) -> None:
    with shop.sink(**UPSERT) as sink:
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


def test_a_restart_of_the_database_is_survived(shop: Shop, people: Records) -> None:
    with shop.sink(**UPSERT, connection__attempts="1", max__retries="1000000") as sink:
        sink.put(people.keyed(1, "a", 1))
        shop.connection.close()
        shop.server.stop()
        with pytest.raises(RetriableError, match="cannot be reached"):
            sink.put(people.keyed(2, "b", 2))
        shop.server.start()
        sink.put(people.keyed(2, "b", 2))
    shop.reconnect()
    assert shop.rows("SELECT id FROM people ORDER BY id") == [(1,), (2,)]


def test_a_statement_that_takes_too_long_ends_the_task(shop: Shop, people: Records) -> None:
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name text, age int)")
    shop.run("CREATE FUNCTION idle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$")
    shop.run("CREATE TRIGGER t BEFORE INSERT ON people FOR EACH ROW EXECUTE FUNCTION idle()")
    with shop.sink(**UPSERT, statement__timeout__ms="2000") as sink:
        with pytest.raises(ConnectError, match="statement timeout") as caught:
            sink.put(people.keyed(1, "a", 1))
        assert not isinstance(caught.value, RetriableError)


def test_a_lock_that_is_held_too_long_is_waited_for_again(shop: Shop, people: Records) -> None:
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name text, age int)")
    with shop.sink(**UPSERT, statement__timeout__ms="2000") as sink:
        with shop.connection.transaction():
            shop.run("LOCK TABLE people")
            with pytest.raises(RetriableError, match="lock timeout"):
                sink.put(people.keyed(1, "a", 1))
        sink.put(people.keyed(1, "a", 1))
    assert shop.rows("SELECT * FROM people") == [(1, "a", 1)]


def test_what_no_record_is_to_blame_for_ends_the_task_though_failures_are_tolerated(shop: Shop, people: Records) -> None:
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name text, age int)")
    shop.run("CREATE ROLE reader LOGIN PASSWORD 'r'")
    shop.run("GRANT SELECT ON people TO reader")
    reporter = MemoryReporter()
    keys = {"connection.user": "reader", "connection.password": "r"}
    try:
        with (
            shop.sink(**UPSERT, errors__tolerance="all", reporter=reporter, **keys) as sink,
            pytest.raises(ConnectError) as caught,
        ):
            sink.put(people.keyed(1, "a", 1))
        assert "permission denied for table people" in caught.value.message
        assert not reporter.reported
    finally:
        shop.run("DROP OWNED BY reader")
        shop.run("DROP ROLE reader")


def test_a_table_that_is_dropped_comes_back_and_one_that_is_altered_is_looked_at_again(shop: Shop, people: Records) -> None:
    with shop.sink(**UPSERT, auto__evolve="true") as sink:
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


def test_two_tasks_upsert_the_same_rows_of_one_table(shop: Shop) -> None:
    """Each writes its keys in another order, so that they may end up waiting for each other: the database then ends one."""
    failures: list[BaseException] = []

    def run(keys: list[int], name: str) -> None:
        people = Records()
        try:
            with shop.sink(**UPSERT, auto__evolve="true") as sink:
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
        thread.join(60)
    assert not failures
    assert shop.rows("SELECT count(*), count(age) FROM people") == [(400, 200)]
    assert shop.rows("SELECT DISTINCT name IN ('a14', 'b14') FROM people WHERE id < 1000") == [(True,)]


def test_tasks_that_add_the_same_columns_at_once_all_go_on(shop: Shop) -> None:
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
                barrier.wait(20)
                sink.put(Records().raw(KEY, Struct(KEY, [number]), schema, Struct(schema, [number, "x", "y"])))
        except BaseException as e:
            failures.append(e)

    for _ in range(5):
        shop.run("DROP TABLE IF EXISTS people")
        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not failures
        assert shop.rows("SELECT id, f0, f1, f2, f3, shared FROM people ORDER BY id") == [
            (i, *("x" if j == i else None for j in range(4)), "y") for i in range(4)
        ]


def test_a_put_that_waits_for_a_lock_is_ended_when_the_task_stops_and_nothing_of_it_happens(shop: Shop, people: Records) -> None:
    with shop.sink(**UPSERT) as sink:
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
            writer.join(30)
            assert not writer.is_alive()
        assert [type(error) for error in ended] == [RetriableError]
        assert shop.rows("SELECT name FROM people") == [("a",)]


def test_a_put_that_waits_for_a_lock_goes_on_when_it_is_free(shop: Shop, people: Records) -> None:
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name text, age int)")
    with shop.sink(**UPSERT) as sink:
        thread = threading.Thread(target=sink.put, args=(people.keyed(1, "a", 1),))
        with shop.connection.transaction():
            shop.run("LOCK TABLE people")
            thread.start()
            eventually(lambda: bool(shop.rows("SELECT 1 FROM pg_locks WHERE NOT granted")), "the sink waits")
        thread.join(30)
    assert shop.rows("SELECT * FROM people") == [(1, "a", 1)]


NASTY = ['x"; DROP TABLE victim; --', "x'; DROP TABLE victim; --", "a b", "select", "%s %(a)s ? :p1 $1", "\\", "ö" * 30]


@pytest.mark.parametrize("name", NASTY)
def test_names_are_names_and_nothing_else(shop: Shop, name: str) -> None:
    shop.run("CREATE TABLE victim(a int)")
    topic = Records(name.lstrip('"'))
    schema = SchemaBuilder.struct().field("id", Schema.INT32).field(name, Schema.OPTIONAL_STRING).build()
    with shop.sink(**UPSERT, auto__evolve="true") as sink:
        sink.put(topic.keyed(1, "v", schema=OLDER))
        sink.put(topic.keyed(1, "w", schema=schema), topic.keyed(2, "w", schema=schema), topic.tombstone(1))
    tables = [row[0] for row in shop.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
    assert sorted(tables) == sorted(["victim", topic.topic])
    assert shop.rows("SELECT count(*) FROM victim") == [(0,)]


CHANGES = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.one_of(
            st.none(), st.tuples(st.sampled_from(["a", "b", "too long"]), st.one_of(st.none(), st.integers(0, 9), st.just(200)))
        ),
    ),
    max_size=25,
)  # fmt: skip


@settings(max_examples=35, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    with shop.sink(**UPSERT, errors__tolerance="all", reporter=reporter, batch__size=str(batch_size)) as sink:
        put_all(sink, records, most)
    assert {row[0]: row[1:] for row in shop.rows("SELECT id, name, age FROM people")} == expected


def test_what_the_server_refuses_is_told_with_what_to_do(shop: Shop, people: Records) -> None:
    shop.run("CREATE TABLE people(id int PRIMARY KEY, name text, age int)")
    with (
        shop.sink(**UPSERT, max__retries="0", statement__timeout__ms="2000") as sink,
        shop.server.connect(shop.database) as other,
    ):
        other.autocommit = False
        other.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(ConnectError, match=r"lock timeout \(SQLSTATE 55P03\); another session holds a lock"):
            sink.put(people.keyed(1, "a", 1))
    shop.run(f"ALTER DATABASE {shop.database} SET default_transaction_read_only = on")
    with (
        shop.sink(**UPSERT, max__retries="0") as sink,
        pytest.raises(
            ConnectError, match=r"read-only transaction \(SQLSTATE 25006\); the server or this database takes no writes"
        ),
    ):
        sink.put(people.keyed(1, "a", 1))
    wide = SchemaBuilder.struct().field("id", Schema.INT32)
    for number in range(1600):
        wide.field(f"f{number}", Schema.OPTIONAL_INT32)
    schema = wide.build()
    shop.run(f"ALTER DATABASE {shop.database} SET default_transaction_read_only = off")
    with (
        shop.sink(**UPSERT, table__name__format="wide", max__retries="0") as sink,
        pytest.raises(ConnectError, match=r"at most 1600 columns \(SQLSTATE 54011\); leave out fields"),
    ):
        sink.put(people.raw(KEY, Struct(KEY, [1]), schema, Struct(schema, [1, *[None] * 1600])))
