"""The Debezium sink on SQLite."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import ConnectError, DataError
from connect.sink import ErrantRecordReporter
from connect.testing.harness import MemoryReporter
from tests.unit.connectors.jdbc.debezium_rig import (
    ENVELOPE,
    KEY,
    KEYED,
    ROW,
    SOURCE,
    UNAVAILABLE,
    DebeziumSink,
    Events,
    envelope,
)
from tests.unit.connectors.jdbc.sink_rig import File, reported


class Database(File):
    def debezium(self, *, reporter: ErrantRecordReporter | None = None, **config: str) -> DebeziumSink:
        """A sink that upserts and deletes by the record's key, unless told otherwise."""
        changes = {key.replace("__", "."): value for key, value in config.items()}
        return DebeziumSink({"connection.url": self.url, **KEYED, **changes}, reporter=reporter)

    def people(self) -> list[tuple[Any, ...]]:
        return self.rows("SELECT id, name, notes FROM people ORDER BY id")


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return Database(tmp_path)


# --- change events


def test_a_table_follows_its_events(db: Database) -> None:
    events = Events()
    with db.debezium() as sink:
        sink.put(events.read(1, "a", None), events.create(2, "b", None), events.create(3, "c", "x"))
        sink.put(events.update(2, "b2", "y"), events.delete(1), events.tombstone(1), events.create(4, "d", None))
    assert db.people() == [(2, "b2", "y"), (3, "c", "x"), (4, "d", None)]


def test_the_last_change_of_a_key_counts(db: Database) -> None:
    events = Events()
    with db.debezium() as sink:
        sink.put(
            events.create(1, "first", None), events.delete(1), events.tombstone(1), events.create(1, "again", None),
            events.create(2, "x", None), events.delete(2),
        )  # fmt: skip
    assert db.people() == [(1, "again", None)]


def test_truncates_empty_the_table_in_their_place(db: Database) -> None:
    events = Events()
    with db.debezium() as sink:
        sink.put(events.create(1, "a", None), events.truncate(), events.create(2, "b", None))
    assert db.people() == [(2, "b", None)]


def test_deletes_truncates_and_tombstones_are_skipped_unless_enabled(db: Database) -> None:
    events = Events()
    with db.debezium(delete__enabled="false", truncate__enabled="false") as sink:
        sink.put(events.create(1, "a", None), events.delete(1), events.tombstone(1), events.truncate())
    assert db.people() == [(1, "a", None)]


def test_tombstone_without_a_table_deletes_nothing(db: Database) -> None:
    events = Events()
    with db.debezium() as sink:
        sink.put(events.tombstone(1), events.delete(2))
        sink.put(events.create(3, "c", None))
    assert db.people() == [(3, "c", None)]


def test_inserts_without_a_key_keep_every_event(db: Database) -> None:
    events = Events()
    with db.debezium(insert__mode="insert", primary__key__mode="none", delete__enabled="false") as sink:
        sink.put(events.create(1, "a", None), events.update(1, "a2", None))
    assert db.people() == [(1, "a", None), (1, "a2", None)]


def test_updates_change_existing_rows(db: Database) -> None:
    db.rows("CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT, notes TEXT)")
    db.rows("INSERT INTO people VALUES (1, 'old', 'x')")
    events = Events()
    with db.debezium(insert__mode="update") as sink:
        sink.put(events.create(1, "new", None), events.create(2, "b", None))
    assert db.people() == [(1, "new", None)]


def test_messages_and_schema_changes_are_skipped_with_a_warning(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    change = SchemaBuilder.struct().name("io.debezium.connector.mysql.SchemaChangeValue").field("ddl", Schema.STRING).build()
    events = Events()
    with db.debezium() as sink, caplog.at_level(logging.WARNING):
        sink.put(events.event("m", None, None), events.record(None, None, change, Struct(change, ["DROP TABLE x"])))
        sink.put(events.event("m", None, None), events.create(1, "a", None))
    assert db.people() == [(1, "a", None)]
    assert sum("Ignored the record of topic 'people'" in record.getMessage() for record in caplog.records) == 2


def test_events_of_two_versions_of_a_table_in_one_batch(db: Database) -> None:
    wider = (
        SchemaBuilder.struct()
        .field("id", Schema.INT32)
        .field("name", Schema.OPTIONAL_STRING)
        .field("age", Schema.OPTIONAL_INT32)
        .build()
    )
    old, new = Events(), Events(row=wider)
    with db.debezium() as sink:
        sink.put(old.create(1, "a", "n"), new.create(2, "b", 7), new.update(1, "a2", 8), old.create(3, "c", "m"))
    assert db.rows("SELECT * FROM people ORDER BY id") == [(1, "a2", "n", 8), (2, "b", None, 7), (3, "c", "m", None)]


def test_an_envelope_may_lack_its_name(db: Database) -> None:
    schema = envelope(ROW, None)
    value = Struct(schema, [None, Struct(ROW, [1, "a", None]), Struct(SOURCE, ["d", "s", "t"]), "c", None])
    with db.debezium() as sink:
        sink.put(Events().record(KEY, Struct(KEY, [1]), schema, value))
    assert db.people() == [(1, "a", None)]


def test_the_data_of_a_cloud_event_is_the_change(db: Database) -> None:
    schema = SchemaBuilder.struct().name("srv.sch.people.CloudEvents.Envelope").field("id", Schema.STRING)
    cloud = schema.field("data", ENVELOPE).build()
    event = Events().create(1, "a", None)
    with db.debezium() as sink:
        sink.put(Events().record(event.key_schema, event.key, cloud, Struct(cloud, ["name:x", event.value])))
    assert db.people() == [(1, "a", None)]


# --- plain rows


def test_flat_rows_need_no_envelope(db: Database) -> None:
    events = Events()
    with db.debezium() as sink:
        sink.put(events.flat(1, "a", None), events.flat(2, "b", None), events.tombstone(1))
    assert db.people() == [(2, "b", None)]


def test_fields_that_transformations_add_are_columns(db: Database) -> None:
    row = SchemaBuilder.struct().field("id", Schema.INT32).field("__deleted", Schema.STRING).field("__op", Schema.STRING).build()
    with db.debezium() as sink:
        sink.put(Events().flat(1, "true", "d", schema=row))
    assert db.rows('SELECT id, "__deleted", "__op" FROM people') == [(1, "true", "d")]


# --- keys


def test_kafka_key_is_topic_partition_and_offset(db: Database) -> None:
    events = Events()
    with db.debezium(primary__key__mode="kafka", primary__key__fields="ignored", delete__enabled="false") as sink:
        sink.put(events.create(1, "a", None))
        sink.put(events.create(1, "b", None))
    assert db.rows("SELECT * FROM people") == [("people", 0, 0, 1, "a", None), ("people", 0, 1, 1, "b", None)]


def test_record_value_key_of_a_delete_comes_from_the_row_before_it(db: Database) -> None:
    events = Events()
    with db.debezium(primary__key__mode="record_value", primary__key__fields="id") as sink:
        sink.put(events.create(1, "a", None), events.create(2, "b", None), events.delete(1), events.tombstone(1))
    assert db.people() == [(2, "b", None)]


def test_headers_are_the_key(db: Database) -> None:
    row = SchemaBuilder.struct().field("name", Schema.OPTIONAL_STRING).build()
    events = Events(row=row)
    records = [events.create("a"), events.create("b"), events.create("a2")]
    for record, number in zip(records, (1, 2, 1), strict=True):
        record.ensure_headers().add("nr", number, Schema.INT32)
    with db.debezium(primary__key__mode="record_header") as sink:
        sink.put(*records)
        with pytest.raises(DataError, match="'record_header' cannot have empty message headers"):
            sink.put(events.create("c"))
    assert db.rows("SELECT nr, name FROM people ORDER BY nr") == [(1, "a2"), (2, "b")]


def test_some_of_the_headers_are_the_key(db: Database) -> None:
    record = Events().create(1, "a", None)
    record.ensure_headers().add("trace", "x", Schema.STRING).add("nr", 5, Schema.INT32)
    with db.debezium(primary__key__mode="record_header", primary__key__fields="nr") as sink:
        sink.put(record)
    assert db.rows("SELECT * FROM people") == [(5, 1, "a", None)]


def test_primitive_key_needs_a_column_name(db: Database) -> None:
    row = SchemaBuilder.struct().field("v", Schema.OPTIONAL_STRING).build()
    record = Events().record(Schema.INT32, 5, row, Struct(row, ["x"]))
    with db.debezium(primary__key__fields="nr") as sink:
        sink.put(record)
    assert db.rows("SELECT nr, v FROM people") == [(5, "x")]
    with db.debezium() as sink, pytest.raises(DataError, match=r"primary\.key\.fields must name its column"):
        sink.put(record)


def test_columns_are_the_key_first_and_then_the_row(db: Database) -> None:
    key = SchemaBuilder.struct().field("a", Schema.INT32).field("b", Schema.INT32).build()
    row = SchemaBuilder.struct().field("z", Schema.OPTIONAL_INT32).field("b", Schema.OPTIONAL_INT32).build()
    with db.debezium() as sink:
        sink.put(Events().record(key, Struct(key, [1, 2]), row, Struct(row, [3, 99])))
    assert db.rows("SELECT * FROM people") == [(1, 2, 3)]
    assert [name for _, name, *_ in db.rows("PRAGMA table_info(people)")] == ["a", "b", "z"]


def test_error_names_a_missing_key_field(db: Database) -> None:
    with (
        db.debezium(primary__key__fields="nope") as sink,
        pytest.raises(DataError, match=r"primary.key.fields has nope.*it has id"),
    ):
        sink.put(Events().create(1, "a", None))


# --- fields and names


def test_lists_of_fields_narrow_the_row_and_the_key(db: Database) -> None:
    with db.debezium(field__include__list="people:id,name,other:notes") as sink:
        sink.put(Events().create(1, "a", "n"))
    assert [name for _, name, *_ in db.rows("PRAGMA table_info(people)")] == ["id", "name"]
    with db.debezium(field__exclude__list="id") as sink, pytest.raises(DataError, match="no key fields defined"):
        sink.put(Events().create(2, "a", "n"))


def test_tables_are_named_after_fields_of_the_source(db: Database) -> None:
    people, orders = Events(table="people"), Events(table="orders")
    with db.debezium(collection__name__format="${source.schema}_${source.table}") as sink:
        sink.put(people.create(1, "a", None), orders.create(1, "o", None), people.create(2, "b", None))
        sink.put(people.flat(3, "skipped", None), people.tombstone(1))
    assert db.rows("SELECT id FROM sch_people ORDER BY id") == [(1,), (2,)]
    assert db.rows("SELECT name FROM sch_orders") == [("o",)]


def test_event_whose_source_lacks_a_field_of_the_table_name_is_rejected(db: Database) -> None:
    with (
        db.debezium(collection__name__format="${source.collection}") as sink,
        pytest.raises(DataError, match=r"\$\{source.collection\}"),
    ):
        sink.put(Events().create(1, "a", None))


def test_reserved_words_and_special_characters_are_valid_names(db: Database) -> None:
    row = SchemaBuilder.struct().field("select", Schema.INT32).field('a "b"; --', Schema.OPTIONAL_STRING).build()
    key = SchemaBuilder.struct().field("select", Schema.INT32).build()
    with db.debezium(topics="order") as sink:
        sink.put(Events("order").record(key, Struct(key, [1]), row, Struct(row, [1, "x"])))
    assert db.rows('SELECT "select", "a ""b""; --" FROM "order"') == [(1, "x")]


# --- values that the source left out


def test_unavailable_value_keeps_the_stored_value(db: Database) -> None:
    events = Events()
    with db.debezium() as sink:
        sink.put(events.create(1, "a", "long"), events.create(2, "b", "longer"))
        sink.put(events.update(1, "a2", UNAVAILABLE), events.update(2, "b2", "short"), events.update(3, "c", UNAVAILABLE))
    assert db.people() == [(1, "a2", "long"), (2, "b2", "short"), (3, "c", None)]


def test_unavailable_value_keeps_the_stored_value_within_a_batch(db: Database) -> None:
    events = Events()
    with db.debezium() as sink:
        sink.put(
            events.update(1, UNAVAILABLE, UNAVAILABLE), events.create(2, "b", "long"), events.update(2, "b2", UNAVAILABLE),
            events.update(2, UNAVAILABLE, "new"), events.flat(3, "c", UNAVAILABLE),
        )  # fmt: skip
    assert db.people() == [(1, None, None), (2, "b2", "new"), (3, "c", None)]


REQUIRED = SchemaBuilder.struct().field("id", Schema.INT32).field("name", Schema.STRING).field("n", Schema.INT32).build()


def test_row_with_a_required_unavailable_value_is_updated_but_never_inserted(db: Database) -> None:
    events = Events(row=REQUIRED)
    with db.debezium() as sink:
        sink.put(events.update(1, UNAVAILABLE, 1))
        sink.put(events.create(2, "long", 1), events.update(2, UNAVAILABLE, 2), events.update(3, UNAVAILABLE, 3))
    assert db.rows("SELECT * FROM people") == [(2, "long", 2)]


def test_row_with_only_a_known_key_is_not_written(db: Database) -> None:
    row = SchemaBuilder.struct().field("id", Schema.INT32).field("name", Schema.STRING).build()
    events = Events(row=row)
    with db.debezium() as sink:
        sink.put(events.create(1, "long"), events.update(1, UNAVAILABLE), events.update(2, UNAVAILABLE))
    assert db.rows("SELECT * FROM people") == [(1, "long")]


def test_bytes_maps_and_arrays_have_placeholders_of_their_own(db: Database) -> None:
    builder = SchemaBuilder.struct().field("id", Schema.INT32).field("b", Schema.OPTIONAL_BYTES)
    texts = Schema(Type.ARRAY, optional=True, value_schema=Schema.OPTIONAL_STRING)
    numbers = Schema(Type.ARRAY, optional=True, value_schema=Schema.OPTIONAL_INT64)
    row = builder.field("t", texts).field("i", numbers).build()
    events = Events(row=row)
    word = UNAVAILABLE.encode()
    with db.debezium() as sink:
        sink.put(events.create(1, b"x", ["a"], [1, 2]))
        sink.put(events.update(1, word, [UNAVAILABLE], list(word)))
    assert db.rows("SELECT * FROM people") == [(1, b"x", '["a"]', "[1,2]")]


def test_inserted_row_may_contain_the_placeholder_as_value(db: Database) -> None:
    with db.debezium() as sink:
        sink.put(Events().create(1, "a", UNAVAILABLE))
    assert db.people() == [(1, "a", UNAVAILABLE)]


def test_placeholder_can_be_changed_or_disabled(db: Database) -> None:
    events = Events()
    with db.debezium(unavailable__value__placeholder="~") as sink:
        sink.put(events.create(1, "a", "long"), events.update(1, "a2", "~"))
    assert db.people() == [(1, "a2", "long")]
    with db.debezium(unavailable__value__placeholder="") as sink:
        sink.put(events.update(1, "a3", UNAVAILABLE))
    assert db.people() == [(1, "a3", UNAVAILABLE)]


# --- what cannot be written


def test_errant_event_goes_to_the_dead_letter_queue_and_the_others_are_written(db: Database) -> None:
    reporter, events = MemoryReporter(), Events()
    db.rows("CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT CHECK (name <> 'bad'), notes TEXT)")
    with db.debezium(reporter=reporter, errors__tolerance="all") as sink:
        sink.put(
            events.create(1, "a", None), events.create(2, "bad", None), events.event("c", None, None),
            events.event("?", None, None),
            events.record(KEY, None, ENVELOPE, events.create(8, "x", None).value), events.record(None, None, None, {"id": 9}),
            events.create(3, "c", None), events.delete(1),
        )  # fmt: skip
    assert db.people() == [(3, "c", None)]
    found = dict(reported(reporter))
    assert sorted(found) == [1, 2, 3, 5, 6]
    assert "CHECK constraint failed" in found[1]
    assert "lacks the row ('after'" in found[2]
    assert "has op '?'" in found[3]
    assert "lacks its key" in found[5]
    assert "its value has no schema" in found[6]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (Events().record(None, None, ROW, Struct(ROW, [1, "a", None])), "'record_key' cannot have null schema"),
        (Events().record(KEY, Struct(KEY, [1]), Schema.STRING, "text"), "its value is STRING, and only a struct has columns"),
    ],
)
def test_record_that_cannot_become_a_row_fails_the_task(db: Database, record: Any, words: str) -> None:
    with db.debezium() as sink, pytest.raises(DataError, match=words):
        sink.put(record)


def test_missing_tables_and_columns_are_errors_without_schema_evolution(db: Database) -> None:
    with db.debezium(schema__evolution="none") as sink, pytest.raises(DataError, match=r"set schema\.evolution=basic"):
        sink.put(Events().create(1, "a", None))
    db.rows("CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT)")
    with db.debezium(schema__evolution="none") as sink, pytest.raises(DataError, match=r"set schema\.evolution=basic"):
        sink.put(Events().create(1, "a", None))
    assert db.rows("SELECT * FROM people") == []


def test_topic_that_is_no_valid_table_name_fails_the_task(db: Database) -> None:
    with (
        db.debezium(collection__name__format='"${topic}') as sink,
        pytest.raises(ConnectError, match=r"collection\.name\.format"),
    ):
        sink.put(Events().create(1, "a", None))


def test_columns_with_defaults_are_not_nullable_if_the_field_is_required(db: Database) -> None:
    row = SchemaBuilder.struct().field("id", Schema.INT32).field("n", Schema.INT32.replace(default=7)).build()
    with db.debezium() as sink:
        sink.put(Events(row=row).create(1, 2))
    assert [(name, required, default) for _, name, _, required, default, _ in db.rows("PRAGMA table_info(people)")][1:] == [
        ("n", 1, "7")
    ]
