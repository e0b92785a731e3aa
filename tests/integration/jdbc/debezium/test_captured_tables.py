"""A captured table and its copy: events of our PostgreSQL source, as bytes of a topic, written by Debezium's sink."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from connect.converters.json.converter import JsonConverter
from connect.record import SinkRecord, SourceRecord
from tests.integration.jdbc.debezium.conftest import Copy
from tests.integration.postgres.conftest import Source

TYPES: dict[str, Sequence[str]] = {
    "smallint": ("-32768",), "bigint": ("9223372036854775807",), "real": ("0.1",),
    "double precision": ("5e-324",), "boolean": ("true",), "numeric(10,2)": ("12345678.90",),
    "numeric": ("123456789012345678901234567890.123456789", "0.00"), "text": ("a'\"\\\n\u20ac", ""), "varchar(20)": ("x",),
    "char(5)": ("ab",), "bytea": ("\\x00ff", "\\x"), "date": ("0001-01-01", "9999-12-31"),
    "time": ("23:59:59.999999", "24:00:00"),
    "timetz": ("12:34:56.789123+00",), "timestamp": ("2024-02-29 12:34:56.789123", "0044-03-15 12:00:00"),
    "timestamp(3)": ("2024-02-29 12:34:56.789",), "timestamptz": ("2024-02-29 12:34:56.789123+02",),
    "interval": ("1 hour 2.000003 seconds",), "json": ('{"a":  1}',), "jsonb": ('{"a": [1, null]}',),
    "uuid": ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",), "inet": ("10.0.0.1/8", "::1"), "cidr": ("10.0.0.0/8",),
    "macaddr": ("08:00:2b:01:02:03",), "bit(1)": ("1",), "bit(12)": ("101000001111",), "bit varying": ("10100011",),
    "int4range": ("[1,5)", "empty"), "tstzrange": ('["2024-01-01 00:00:00+00",)',), "oid": ("4294967295",), "money": ("12.50",),
    "integer[]": ("{1,NULL,3}", "{}"), "text[]": ('{a,"b,c",NULL}',), "point": ("(1.5,-2)",), "mood": ("sad",),
}  # fmt: skip
TABLE = ", ".join(f"c{place} {type}" for place, type in enumerate(TYPES))


class Pipe:
    """Carries a source's records to a sink by way of JSON with schemas."""

    def __init__(self) -> None:
        self._converters = [JsonConverter(), JsonConverter()]
        for converter, is_key in zip(self._converters, (True, False), strict=True):
            converter.configure({"schemas.enable": "true"}, is_key=is_key)
        self._offset = 0

    def carried(self, records: Sequence[SourceRecord]) -> list[SinkRecord]:
        return [self._carried(record) for record in records]

    def _carried(self, record: SourceRecord) -> SinkRecord:
        key, value = self._converters
        topic = record.topic
        k = key.to_connect_data(topic, key.from_connect_data(topic, record.key_schema, record.key))
        v = value.to_connect_data(topic, value.from_connect_data(topic, record.value_schema, record.value))
        self._offset += 1
        return SinkRecord(topic, 0, k.schema, k.value, v.schema, v.value, self._offset - 1)


@pytest.fixture
def source(copy: Copy) -> Iterator[Source]:
    made = Source(copy.server, copy.database)
    yield made
    made.kill()


def all_rows(copy: Copy, table: str) -> list[tuple[Any, ...]]:
    names = ", ".join(f'"{name}"::text' for name in copy.columns(table) if name != "id")
    return copy.rows(f"SELECT id, {names} FROM {table} ORDER BY id")


def captured_types(copy: Copy, source: Source, **config: str) -> list[SinkRecord]:
    copy.run("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    copy.run("CREATE SCHEMA copy")
    copy.run(f"CREATE TABLE types(id int PRIMARY KEY, {TABLE})")
    for number in range(3):
        values = [texts[number] if number < len(texts) else None for texts in TYPES.values()]
        marks = ", ".join("NULL" if value is None else "'" + value.replace("'", "''") + "'" for value in values)
        copy.run(f"INSERT INTO types VALUES ({number}, {marks})")
    source.start(**config)
    return Pipe().carried(source.read(3))


def differing(copy: Copy) -> dict[str, list[tuple[str, str]]]:
    """By type what the copy has and what the captured table has, where these are not equal."""
    found: dict[str, list[tuple[str, str]]] = {}
    for ours, theirs in zip(all_rows(copy, "copy.types"), all_rows(copy, "types"), strict=True):
        for place, type in enumerate(TYPES, 1):
            if ours[place] != theirs[place]:
                found.setdefault(type, []).append((ours[place], theirs[place]))
    return found


def test_every_type_is_copied_to_a_table_like_the_captured_one(copy: Copy, source: Source) -> None:
    records = captured_types(copy, source)
    copy.run("CREATE TABLE copy.types (LIKE types INCLUDING ALL)")
    with copy.debezium(collection__name__format="copy.${source.table}", schema__evolution="none") as sink:
        sink.put(*records)
    assert differing(copy) == {}


def test_every_type_is_copied_to_a_table_that_the_sink_creates(copy: Copy, source: Source) -> None:
    records = captured_types(copy, source)
    with copy.debezium(collection__name__format="copy.${source.table}") as sink:
        sink.put(*records)
    # What the events do not tell, so that the original makes the same columns: boolean, text and decimal.
    assert differing(copy) == {
        "bit(1)": [("true", "1")],
        "char(5)": [("ab   ", "ab")],
        "inet": [("::1", "::1/128")],
        "money": [("12.50", "$12.50")],
    }


def test_changes_of_a_captured_table_are_applied(copy: Copy, source: Source) -> None:
    copy.run("CREATE SCHEMA copy")
    copy.run("CREATE TABLE people(id int PRIMARY KEY, name text NOT NULL, big text NOT NULL, note text)")
    copy.run("ALTER TABLE people ALTER big SET STORAGE EXTERNAL, ALTER note SET STORAGE EXTERNAL")
    copy.run("INSERT INTO people SELECT n, 'x', repeat('b', 20000), repeat('n', 20000) FROM generate_series(1, 20) n")
    pipe = Pipe()
    source.start(skipped_operations="none")
    with copy.debezium(collection__name__format="copy.${source.table}") as sink:
        sink.put(*pipe.carried(source.read(20)))
        assert all_rows(copy, "copy.people") == all_rows(copy, "people")

        copy.run("UPDATE people SET name = 'y' WHERE id < 10")  # big and note do not come with these
        copy.run("UPDATE people SET note = 'short' WHERE id = 3")
        copy.run("DELETE FROM people WHERE id = 4")
        copy.run("UPDATE people SET id = 100 WHERE id = 5")
        copy.run("INSERT INTO people VALUES (200, 'new', 'b', NULL)")
        sink.put(*pipe.carried(source.read(16)))
        assert all_rows(copy, "copy.people") == all_rows(copy, "people")

        copy.run("ALTER TABLE people ADD COLUMN age int")
        copy.run("UPDATE people SET age = id WHERE id < 3")
        sink.put(*pipe.carried(source.read(2)))
        assert all_rows(copy, "copy.people") == all_rows(copy, "people")

        copy.run("TRUNCATE people")
        copy.run("INSERT INTO people VALUES (1, 'after', 'b', NULL, 1)")
        sink.put(*pipe.carried(source.read(1)))
        assert all_rows(copy, "copy.people") == all_rows(copy, "people") == [(1, "after", "b", None, "1")]
