"""The sink on SQLite: rows that are written, errant rows, and error messages."""

from __future__ import annotations

import logging
import sqlite3
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.errors import ConnectError, DataError, RetriableError
from connect.testing import check_sink_connector
from connect.testing.harness import MemoryReporter
from connectors.jdbc import AivenJdbcSink, JdbcSink
from connectors.jdbc.dialects.sqlite import SqliteDialect
from tests.support.waiting import WAIT_S
from tests.unit.connectors.jdbc.sink_rig import KEY, OLDER, PERSON, File, Records, Sink, put_all, reported

UPSERT = {"insert__mode": "upsert", "pk__mode": "record_key", "delete__enabled": "true", "auto__create": "true"}


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path)


@pytest.fixture
def people() -> Records:
    return Records()


@pytest.mark.parametrize("connector", [JdbcSink, AivenJdbcSink])
def test_sink_passes_the_conformance_suite(connector: type[JdbcSink], file: File, people: Records) -> None:
    config = {
        "name": "s", "topics": "people", "connection.url": file.url, "auto.create": "true", "insert.mode": "upsert",
        "pk.mode": "record_key",
    }  # fmt: skip
    check_sink_connector(connector, config, [people.keyed(i, "x", i) for i in range(5)])
    assert file.rows("SELECT count(*) FROM people") == [(5,)]


def test_a_table_is_created_from_the_schema_with_its_key(file: File, people: Records) -> None:
    with file.sink(UPSERT) as sink:
        sink.put(people.keyed(1, "Ann", 30))
    assert [(name, kind, notnull, pk) for _, name, kind, notnull, _, pk in file.rows("PRAGMA table_info(people)")] == [
        ("id", "INTEGER", 1, 1), ("name", "TEXT", 0, 0), ("age", "INTEGER", 0, 0),
    ]  # fmt: skip
    assert file.rows("SELECT * FROM people") == [(1, "Ann", 30)]


def test_error_explains_dots_in_topic_names(file: File) -> None:
    orders = Records("shop.orders")
    with file.sink(UPSERT) as sink, pytest.raises(ConnectError, match=r'unknown database "?shop"?; a dot separates .*as in "'):
        sink.put(orders.keyed(1, "Ann", 30))
    with file.sink(table__name__format="${topic}") as sink, pytest.raises(ConnectError, match="is missing and auto-creation"):
        sink.put(orders.one(1, "Ann", 30))
    with file.sink(UPSERT, table__name__format='"${topic}"') as sink:
        sink.put(orders.keyed(1, "Ann", 30))
    assert file.rows('SELECT * FROM "shop.orders"') == [(1, "Ann", 30)]


def test_upsert_keeps_columns_missing_in_the_record(file: File, people: Records) -> None:
    with file.sink(UPSERT) as sink:
        sink.put(people.keyed(1, "Ann", 30))
        sink.put(people.keyed(1, "Anna", schema=OLDER))
    assert file.rows("SELECT * FROM people") == [(1, "Anna", 30)]


def test_batch_has_the_same_result_as_single_records(file: File, people: Records) -> None:
    with file.sink(UPSERT) as sink:
        sink.put(people.keyed(1, "old", 1), people.keyed(2, "old", 2), people.keyed(9, "old", 9))
        sink.put(
            people.keyed(1, "new", 1), people.tombstone(1),  # deleted
            people.tombstone(2), people.keyed(2, "back", schema=OLDER),  # another row: its age is gone
            people.keyed(3, "first", 3), people.keyed(3, "second", 3),
            people.tombstone(4),
        )  # fmt: skip
    assert file.rows("SELECT * FROM people ORDER BY id") == [(2, "back", None), (3, "second", 3), (9, "old", 9)]


def test_inserts_keep_every_row_in_order(file: File, people: Records) -> None:
    with file.sink(auto__create="true") as sink:
        sink.put(people.one(1, "a", 1), people.one(1, "b", schema=OLDER), people.one(1, "c", 1))
    assert file.rows("SELECT name, age FROM people ORDER BY rowid") == [("a", 1), ("b", None), ("c", 1)]


def test_updates_create_no_rows(file: File, people: Records) -> None:
    file.rows("CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT, age INTEGER, note TEXT)")
    file.rows("INSERT INTO people VALUES(1, 'a', 1, 'kept')")
    with file.sink(insert__mode="update", pk__mode="record_value", pk__fields="id") as sink:
        sink.put(people.one(1, "b", 2), people.one(2, "c", 3))
    assert file.rows("SELECT * FROM people") == [(1, "b", 2, "kept")]


def test_replay_with_kafka_coordinates_as_key_is_idempotent(file: File, people: Records) -> None:
    batch = [people.one(i, "x", i) for i in range(3)]
    with file.sink(auto__create="true", insert__mode="upsert", pk__mode="kafka") as sink:
        sink.put(*batch)
        sink.put(*batch)
    assert file.rows("SELECT __connect_topic, __connect_partition, __connect_offset, id FROM people") == [
        ("people", 0, i, i) for i in range(3)
    ]


def test_several_tables_are_written_in_one_transaction(file: File) -> None:
    file.rows("CREATE TABLE p_b(id INTEGER, name TEXT, age INTEGER CHECK (age < 9))")
    a, b = Records("a"), Records("b")
    with file.sink(auto__create="true", table__name__format="p_${topic}") as sink:
        with pytest.raises(ConnectError):
            sink.put(a.one(1, "x", 1), b.one(1, "x", 10))
        assert file.rows("SELECT count(*) FROM p_a") == [(0,)]
        sink.put(a.one(1, "x", 1), b.one(1, "x", 1), a.one(2, "x", 1))
    assert file.rows("SELECT (SELECT count(*) FROM p_a), (SELECT count(*) FROM p_b)") == [(2, 1)]


def test_fields_outside_of_the_whitelist_are_not_written(file: File, people: Records) -> None:
    with file.sink(UPSERT, fields__whitelist="age") as sink:
        sink.put(people.keyed(1, "x", 2))
    assert [row[1] for row in file.rows("PRAGMA table_info(people)")] == ["id", "age"]


# --- evolution


def test_columns_are_added_while_old_and_new_schemas_alternate(file: File, people: Records) -> None:
    batch = [
        people.keyed(i, f"n{i}", i * 10) if i % 3 == 0 else people.keyed(i, f"n{i}", schema=OLDER) for i in range(12)
    ]  # fmt: skip
    with file.sink(UPSERT, auto__evolve="true") as sink:
        sink.put(people.keyed(0, "first", schema=OLDER))
        put_all(sink, batch, 5)
    assert file.rows("SELECT * FROM people ORDER BY id") == [(i, f"n{i}", i * 10 if i % 3 == 0 else None) for i in range(12)]


def test_columns_match_ignoring_case_if_none_matches_exactly(file: File, people: Records) -> None:
    file.rows("CREATE TABLE people(ID INTEGER PRIMARY KEY, Name TEXT, age INTEGER)")
    with file.sink(UPSERT) as sink:
        sink.put(people.keyed(1, "Ann", 30))
    assert file.rows("SELECT * FROM people") == [(1, "Ann", 30)]


def told(sink: Sink, *records: Any) -> str:
    with pytest.raises(ConnectError) as caught:
        sink.put(*records)
    return caught.value.message


def test_error_for_a_missing_table_names_the_nearest_one(file: File, people: Records) -> None:
    file.rows("CREATE TABLE peoples(id INTEGER)")
    with file.sink() as sink:
        message = told(sink, people.one(1, "x", 2))
    assert 'Table "people" is missing and auto-creation is disabled' in message
    assert "peoples" in message
    assert "auto.create=true" in message


def test_error_for_a_missing_column_lists_the_columns(file: File, people: Records) -> None:
    file.rows("CREATE TABLE people(id INTEGER, names TEXT, age INTEGER)")
    with file.sink() as sink:
        message = told(sink, people.one(1, "x", 2))
    assert (
        "Table \"people\" is missing fields ([SinkRecordField{schema=Schema{STRING}, name='name', isPrimaryKey=false}]) and "
        "auto-evolution is disabled (it has id, names, age); the nearest columns are names for name" in message
    )
    assert "auto.evolve=true" in message


def test_a_required_field_without_a_default_is_not_added(file: File, people: Records) -> None:
    file.rows("CREATE TABLE people(name TEXT, age INTEGER)")
    with file.sink(auto__evolve="true") as sink:
        message = told(sink, people.one(1, "x", 2))
    assert (
        "Cannot ALTER to add missing field SinkRecordField{schema=Schema{INT32}, name='id', isPrimaryKey=false}, as it is not "
        "optional and does not have a default value" in message
    )


def test_column_of_a_field_with_a_default_has_the_default(file: File, people: Records) -> None:
    newer = SchemaBuilder.struct().field("id", Schema.INT32).field("level", SchemaBuilder.int32().default(7).build()).build()
    with file.sink(UPSERT, auto__evolve="true") as sink:
        sink.put(people.keyed(1, "x", 1))
        sink.put(people.keyed(2, 8, schema=newer), people.keyed(3, None, schema=newer))
    assert file.rows("SELECT id, level FROM people ORDER BY id") == [(1, 7), (2, 8), (3, 7)]


def test_views_are_written_to_only_if_configured_and_never_altered(file: File, people: Records) -> None:
    file.rows("CREATE TABLE t(id INTEGER)")
    file.rows("CREATE VIEW people AS SELECT id FROM t")
    with file.sink(auto__evolve="true") as sink:
        assert '"people" is a VIEW, and table.types has' in told(sink, people.one(1, "x", 2))
    with file.sink(auto__evolve="true", table__types="VIEW") as sink:
        assert "columns cannot be added to a view" in told(sink, people.one(1, "x", 2))


def test_dropped_table_is_created_again(file: File, people: Records) -> None:
    with file.sink(UPSERT) as sink:
        sink.put(people.keyed(1, "x", 1))
        file.rows("DROP TABLE people")
        sink.put(people.keyed(2, "y", 2), people.tombstone(5))
    assert file.rows("SELECT * FROM people") == [(2, "y", 2)]


def test_delete_without_a_table_does_nothing(file: File, people: Records) -> None:
    with file.sink(UPSERT) as sink:
        sink.put(people.tombstone(1))
        assert file.rows("SELECT name FROM sqlite_master") == []
        sink.put(people.keyed(1, "x", 1))
    assert file.rows("SELECT * FROM people") == [(1, "x", 1)]


def test_tasks_can_create_and_alter_the_same_table_concurrently(file: File) -> None:
    both = Schema.OPTIONAL_STRING
    schemas = [
        SchemaBuilder.struct().field("id", Schema.INT32).field(f"f{i}", both).field("all", both).build() for i in range(4)
    ]  # fmt: skip
    failures: list[BaseException] = []
    barrier = threading.Barrier(len(schemas))

    def run(number: int) -> None:
        try:
            with file.sink(UPSERT, auto__evolve="true", max__retries="100") as sink:
                one = Records().record(KEY, Struct(KEY, [number]), schemas[number], Struct(schemas[number], [number, "x", "y"]))
                barrier.wait(WAIT_S)
                for _ in range(50):
                    try:
                        sink.put(one)
                        break
                    except RetriableError:
                        continue  # SQLite has one writer at a time
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(schemas))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not failures
    assert file.rows("SELECT id, f0, f1, f2, f3 FROM people ORDER BY id") == [
        (i, *("x" if j == i else None for j in range(4))) for i in range(4)
    ]


# --- refused records


def checked(file: File) -> None:
    file.rows("CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT, age INTEGER CHECK (age < 100))")


def test_errant_rows_are_reported_with_the_database_error_and_the_others_are_written(file: File, people: Records) -> None:
    checked(file)
    reporter = MemoryReporter()
    batch = [people.keyed(i, "x", 200 if i in (3, 17, 18) else 1) for i in range(50)]
    with file.sink(UPSERT, errors__tolerance="all", reporter=reporter) as sink:
        sink.put(*batch)
        progress = sink.task.progress()
    assert file.rows("SELECT count(*), max(age) FROM people") == [(47, 1)]
    assert [offset for offset, _ in reported(reporter)] == [3, 17, 18]
    assert all("CHECK constraint failed" in words for _, words in reported(reporter))
    assert (progress["written"], progress["refused"]) == (47, 3)


def test_earlier_change_of_a_key_is_kept_if_a_later_one_is_rejected(file: File, people: Records) -> None:
    checked(file)
    reporter = MemoryReporter()
    with file.sink(UPSERT, errors__tolerance="all", reporter=reporter) as sink:
        sink.put(people.keyed(1, "good", 1), people.keyed(1, "bad", 200), people.keyed(2, "good", 1), people.tombstone(2))
    assert file.rows("SELECT * FROM people") == [(1, "good", 1)]
    assert [offset for offset, _ in reported(reporter)] == [1]


def test_only_the_duplicate_row_is_rejected(file: File, people: Records) -> None:
    checked(file)
    reporter = MemoryReporter()
    file.rows("INSERT INTO people VALUES(2, 'there', 1)")
    with file.sink(pk__mode="record_key", errors__tolerance="all", reporter=reporter) as sink:
        sink.put(*[people.keyed(i, "new", 1) for i in range(4)])
    assert file.rows("SELECT id, name FROM people ORDER BY id") == [(0, "new"), (1, "new"), (2, "there"), (3, "new")]
    assert [offset for offset, _ in reported(reporter)] == [2]
    assert "UNIQUE constraint failed" in reported(reporter)[0][1]


def test_without_tolerance_nothing_of_a_failed_batch_is_written(file: File, people: Records) -> None:
    checked(file)
    with file.sink(UPSERT) as sink:
        message = told(sink, *[people.keyed(i, "x", 200 if i == 7 else 1) for i in range(20)])
    assert file.rows("SELECT count(*) FROM people") == [(0,)]
    assert message.startswith("Record of topic people, partition 0, offset 7 cannot be written: ")
    assert "people" in message.partition(": ")[2]
    assert "CHECK constraint failed" in message


def test_without_a_reporter_errant_records_are_counted_and_logged(
    file: File, people: Records, caplog: pytest.LogCaptureFixture
) -> None:
    checked(file)
    with file.sink(UPSERT, errors__tolerance="all") as sink, caplog.at_level(logging.WARNING):
        sink.put(people.keyed(1, "x", 200), people.keyed(2, "x", 1))
        assert sink.task.progress()["refused"] == 1
    assert "Skipped 1 errant records" in caplog.text
    assert "offset 0" in caplog.text


def test_without_savepoints_a_batch_with_errant_rows_takes_several_transactions(
    file: File, people: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteDialect, "savepoints", False)
    checked(file)
    reporter = MemoryReporter()
    batch = [people.keyed(i, "x", 200 if i in (3, 17, 18) else 1) for i in range(50)]
    with file.sink(UPSERT, errors__tolerance="all", batch__size="8", reporter=reporter) as sink:
        sink.put(*batch)
        sink.put(people.keyed(1, "good", 1), people.keyed(1, "bad", 200), people.tombstone(2))
    assert file.rows("SELECT count(*), max(age) FROM people") == [(46, 1)]
    assert file.rows("SELECT name FROM people WHERE id = 1") == [("good",)]
    assert [offset for offset, _ in reported(reporter)] == [3, 17, 18, 51]


@pytest.mark.parametrize("bad", [0, 7, 19])
def test_without_savepoints_and_tolerance_nothing_of_a_failed_batch_is_written(
    file: File, people: Records, monkeypatch: pytest.MonkeyPatch, bad: int
) -> None:
    monkeypatch.setattr(SqliteDialect, "savepoints", False)
    checked(file)
    with file.sink(UPSERT, batch__size="8") as sink:
        message = told(sink, *[people.keyed(i, "x", 200 if i >= bad else 1) for i in range(20)])
    assert file.rows("SELECT count(*) FROM people") == [(0,)]
    assert message.startswith(f"Record of topic people, partition 0, offset {bad} cannot be written: ")


def test_tombstone_without_deletes_is_errant(file: File, people: Records) -> None:
    reporter = MemoryReporter()
    keys = {**UPSERT, "delete__enabled": "false"}
    with file.sink(keys, errors__tolerance="all", reporter=reporter) as sink:
        sink.put(people.keyed(1, "x", 1), people.tombstone(1), people.keyed(2, "x", 1))
    assert file.rows("SELECT id FROM people ORDER BY id") == [(1,), (2,)]
    assert reported(reporter)[0][0] == 1
    assert "requires records with a non-null Struct value" in reported(reporter)[0][1]
    with file.sink(keys) as sink:
        assert told(sink, people.tombstone(1)).startswith("Record of topic people, partition 0, offset 3 cannot be written")


def test_records_with_fields_without_a_column_are_errant(file: File, people: Records) -> None:
    reporter = MemoryReporter()
    with file.sink(UPSERT, errors__tolerance="all", reporter=reporter) as sink:
        sink.put(people.keyed(0, "x", schema=OLDER), people.keyed(1, "x", 1))
        sink.put(people.keyed(2, "x", 1), people.keyed(3, "x", schema=OLDER))
    assert file.rows("SELECT id FROM people ORDER BY id") == [(0,), (3,)]
    assert [offset for offset, _ in reported(reporter)] == [1, 2]


def test_messages_can_hide_the_database_error(file: File, people: Records) -> None:
    file.rows("CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT CHECK (name <> 'Geheim'), age INTEGER)")
    secret = "Ge" + "heim"  # apart, for a traceback shows lines of code
    with file.sink(UPSERT, trim__sensitive__log="true") as sink, pytest.raises(ConnectError) as caught:
        sink.put(people.keyed(1, secret, 1))
    assert "trim.sensitive.log" in caught.value.message
    assert secret not in "".join(traceback.format_exception(caught.value))


def test_error_for_schemaless_values_names_the_setting(file: File, people: Records) -> None:
    with file.sink(auto__create="true") as sink:
        assert "value.converter.schemas.enable=true" in told(sink, people.record(None, None, None, {"id": 1}))


# --- failures of the database


def test_batch_is_retried_after_a_lost_connection(file: File, people: Records) -> None:
    checked(file)
    batch = [people.keyed(1, "x", 1), people.keyed(2, "y", 1)]
    holder = sqlite3.connect(file.path, isolation_level=None)
    with file.sink(UPSERT | {"connection.timeout": "0.05"}, max__retries="2") as sink:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(RetriableError, match="locked"):
            sink.put(*batch)
        assert sink.context.requested_timeout_ms == 5
        holder.execute("ROLLBACK")
        sink.put(*batch)
        assert file.rows("SELECT count(*) FROM people") == [(2,)]
        holder.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            with pytest.raises(RetriableError):
                sink.put(*batch)
        with pytest.raises(ConnectError, match=r"2 records could not be written in 3 attempts \(max.retries=2\)") as caught:
            sink.put(*batch)
        assert not isinstance(caught.value, RetriableError | DataError)
        holder.execute("ROLLBACK")
    holder.close()


def test_an_empty_batch_needs_no_database(tmp_path: Path) -> None:
    with Sink({"connection.url": f"jdbc:sqlite:{tmp_path}/x/y.db", "connection.attempts": "1"}) as sink:
        sink.put()


# --- names


NASTY = [
    'x"; DROP TABLE victim; --', "x'; DROP TABLE victim; --", "x`; DROP TABLE victim; --", "x]; DROP TABLE victim; --", "a b",
    "sélect", "from", "%s %(a)s ? :p1 $1", "x" * 300, "-- comment", "/* c */", "\\", "\n",
]  # fmt: skip


@pytest.mark.parametrize("name", NASTY)
def test_field_names_with_special_characters_are_safe(file: File, people: Records, name: str) -> None:
    file.rows("CREATE TABLE victim(a)")
    schema = SchemaBuilder.struct().field("id", Schema.INT32).field(name, Schema.OPTIONAL_STRING).build()
    with file.sink(UPSERT, auto__evolve="true") as sink:
        sink.put(people.keyed(1, "v", schema=schema), people.tombstone(2))
        sink.put(people.keyed(1, "w", schema=schema), people.keyed(3, "w", schema=schema))
    assert file.rows("SELECT * FROM people ORDER BY id") == [(1, "w"), (3, "w")]
    assert [row[1] for row in file.rows("PRAGMA table_info(people)")] == ["id", name]
    assert file.rows("SELECT count(*) FROM victim") == [(0,)]


@pytest.mark.parametrize("name", [name for name in NASTY if "." not in name and name[0] not in "\"'`[" and name.strip()])
def test_topic_names_with_special_characters_are_safe(file: File, name: str) -> None:
    file.rows("CREATE TABLE victim(a)")
    topic = Records(name)
    with file.sink(UPSERT) as sink:
        sink.put(topic.keyed(1, "v", 1))
        sink.put(topic.keyed(2, "v", 1), topic.tombstone(1))
    tables = [row[0] for row in file.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert tables == ["victim", name.strip()]
    assert file.rows("SELECT count(*) FROM victim") == [(0,)]


@pytest.mark.parametrize("name", ["nul\0nul", "\0"])
def test_invalid_names_are_rejected(file: File, people: Records, name: str) -> None:
    schema = SchemaBuilder.struct().field("id", Schema.INT32).field(name, Schema.OPTIONAL_STRING).build()
    with file.sink(UPSERT) as sink:
        assert "is not a valid name of a table or column" in told(sink, people.keyed(1, "v", schema=schema))
        assert "is not a valid name of a table or column" in told(sink, Records(name).keyed(1, "v", 1))


# --- any history of changes

CHANGES = st.lists(
    st.tuples(
        st.integers(0, 5), st.one_of(st.none(), st.tuples(st.text("ab", max_size=2), st.one_of(st.none(), st.integers(0, 9))))
    ),
    max_size=30,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=CHANGES, most=st.integers(1, 30), batch_size=st.integers(1, 7))
def test_the_table_has_the_last_change_of_each_key(tmp_path_factory: Any, changes: Any, most: int, batch_size: int) -> None:
    file = File(tmp_path_factory.mktemp("any"))
    people = Records()
    expected: dict[int, dict[str, Any]] = {}
    records = []
    for key, change in changes:
        if change is None:
            expected.pop(key, None)
            records.append(people.tombstone(key))
        elif change[1] is None:
            expected.setdefault(key, {"age": None})["name"] = change[0]
            records.append(people.keyed(key, change[0], schema=OLDER))
        else:
            expected[key] = {"name": change[0], "age": change[1]}
            records.append(people.keyed(key, *change))
    with file.sink(UPSERT, auto__evolve="true", batch__size=str(batch_size)) as sink:
        sink.put(people.keyed(99, "x", 1))
        put_all(sink, records, most)
    found = {row[0]: {"name": row[1], "age": row[2]} for row in file.rows("SELECT id, name, age FROM people WHERE id < 99")}
    assert found == expected
    assert PERSON.field("age") is not None
