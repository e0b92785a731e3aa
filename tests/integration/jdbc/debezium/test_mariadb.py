"""The Debezium sink on MariaDB: columns as recorded from Debezium, and changes of events."""

from __future__ import annotations

import pytest

from connect.data.schema import Schema, SchemaBuilder, Type
from tests.integration.jdbc.debezium.conftest import MariaDBCopy
from tests.unit.connectors.jdbc.debezium_rig import UNAVAILABLE, Events


@pytest.fixture
def copy(mariadb_copy: MariaDBCopy) -> MariaDBCopy:
    return mariadb_copy


def named(name: str, type: Type, **parameters: str) -> Schema:
    return Schema(type, optional=True, name=f"io.debezium.{name}", version=1, parameters=parameters or None)


def test_columns_and_values_equal_debeziums(copy: MariaDBCopy) -> None:
    builder = SchemaBuilder.struct().field("id", Schema.INT32).field("s", Schema.OPTIONAL_STRING)
    builder.field("by", Schema.OPTIONAL_BYTES).field("b", Schema.OPTIONAL_BOOLEAN)
    builder.field("en", named("data.Enum", Type.STRING, allowed="a,b")).field("bits", named("data.Bits", Type.BYTES, length="12"))
    builder.field("dts", named("time.Timestamp", Type.INT64)).field("dnts", named("time.NanoTimestamp", Type.INT64))
    builder.field("zts", named("time.ZonedTimestamp", Type.STRING)).field("year", named("time.Year", Type.INT32))
    events = Events(row=builder.build())
    with copy.debezium() as sink:
        sink.put(
            events.create(
                1, "\u20ac", b"\x00\xff", True, "b", b"\x0f\x0a", 1709210096789, 1709210096123456789,
                "2024-02-29T12:34:56.123456+02:00", 2024,
            )
        )  # fmt: skip
    types = dict(copy.rows("SELECT column_name, column_type FROM information_schema.columns WHERE table_schema = database()"))
    assert types == {
        "id": "int(11)", "s": "longtext", "by": "longblob", "b": "tinyint(1)", "en": "enum('a','b')", "bits": "bit(12)",
        "dts": "datetime(6)", "dnts": "datetime(6)", "zts": "timestamp(6)", "year": "year(4)",
    }  # fmt: skip
    found = copy.rows("SELECT s, hex(`by`), b, en, bin(bits), dts, dnts, zts, year FROM people")
    assert [*map(str, found[0])] == [
        "\u20ac", "00FF", "1", "b", "101000001111", "2024-02-29 12:34:56.789000", "2024-02-29 12:34:56.123456",
        "2024-02-29 10:34:56.123456", "2024",
    ]  # fmt: skip


def test_a_table_follows_its_events(copy: MariaDBCopy) -> None:
    events = Events()
    with copy.debezium() as sink:
        sink.put(*[events.read(number, "x", "long") for number in range(100)])
        sink.put(events.truncate(), events.create(1, "a", "long"), events.create(2, "b", None), events.create(3, "c", None))
        sink.put(events.update(1, "a2", UNAVAILABLE), events.delete(2), events.tombstone(2))
    assert copy.rows("SELECT * FROM people ORDER BY id") == [(1, "a2", "long"), (3, "c", None)]
