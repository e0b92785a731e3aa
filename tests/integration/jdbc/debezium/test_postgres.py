"""The Debezium sink on PostgreSQL: tables as recorded from Debezium, and updates with unavailable values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from connect.data.logical import decimal_schema
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import DataError
from tests.integration.jdbc.debezium.conftest import Copy
from tests.unit.connectors.jdbc.debezium_rig import KEY, UNAVAILABLE, Events


def named(name: str, type: Type, **parameters: str) -> Schema:
    return Schema(type, optional=True, name=f"io.debezium.{name}", version=1, parameters=parameters or None)


def told(type: Type, source: str, length: str = "") -> Schema:
    parameters = {"__debezium.source.column.type": source, "__debezium.source.column.length": length}
    return Schema(type, optional=True, parameters={key: value for key, value in parameters.items() if value})


MAP = Schema(Type.MAP, optional=True, key_schema=Schema.STRING, value_schema=Schema.STRING)
ID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
VARIABLE = Schema(
    Type.STRUCT, optional=True, name="io.debezium.data.VariableScaleDecimal", version=1,
    fields=[("scale", Schema.INT32), ("value", Schema.BYTES)],
)  # fmt: skip

# Field, schema, value; then the type and the value (as text) that 3.6.0.Final was recorded to make of them.
RECORDED: list[tuple[str, Schema, Any, str, str]] = [
    ("d2", decimal_schema(2, optional=True), Decimal("1.50"), "numeric(38,2)", "1.50"),
    ("bits", named("data.Bits", Type.BYTES, length="12"), b"\x0f\x0a", "bit(12)", "101000001111"),
    ("en", named("data.Enum", Type.STRING, allowed="a,b"), "a", "text", "a"),
    ("js", named("data.Json", Type.STRING), '{"a": 1}', "json", '{"a": 1}'),
    ("uu", named("data.Uuid", Type.STRING), ID, "uuid", ID),
    ("far", named("time.Date", Type.INT32), 106762939, "date", "294276-12-31"),
    ("old", named("time.Date", Type.INT32), -171597, "date", "1500-03-09"),
    ("dmtime", named("time.MicroTime", Type.INT64), 45296789123, "time(6) without time zone", "12:34:56.789123"),
    ("dntime", named("time.NanoTime", Type.INT64), 45296789123456, "time(6) without time zone", "12:34:56.789123"),
    ("dts", named("time.Timestamp", Type.INT64), 1709210096789, "timestamp(6) without time zone", "2024-02-29 12:34:56.789"),
    ("dnts", named("time.NanoTimestamp", Type.INT64), 1709210096123456789, "timestamp(6) without time zone",
     "2024-02-29 12:34:56.123457"),
    ("zt", named("time.ZonedTime", Type.STRING), "12:34:56.789123Z", "time(6) with time zone", "12:34:56.789123+00"),
    ("zts", named("time.ZonedTimestamp", Type.STRING), "2024-02-29T12:34:56.123456+02:00", "timestamp(6) with time zone",
     "2024-02-29 10:34:56.123456+00"),
    ("year", named("time.Year", Type.INT32), 2024, "integer", "2024"),
    ("mdur", named("time.MicroDuration", Type.INT64), 3661000001, "interval", "01:01:01.000001"),
    ("ivl", named("time.Interval", Type.STRING), "P1Y2M3DT4H5M6.78S", "text", "P1Y2M3DT4H5M6.78S"),
    ("idate", named("time.IsoDate", Type.STRING), "2024-02-29Z", "text", "2024-02-29Z"),
    ("its", named("time.IsoTimestamp", Type.STRING), "2024-02-29T12:34:56.123456Z", "text", "2024-02-29T12:34:56.123456Z"),
    ("numbers", Schema(Type.ARRAY, optional=True, value_schema=Schema.OPTIONAL_INT32), [1, 2], "integer[]", "{1,2}"),
    ("words", Schema(Type.ARRAY, optional=True, value_schema=Schema.OPTIONAL_STRING), ["a", "b,c"], "text[]", '{a,"b,c"}'),
    ("bp", told(Type.STRING, "BPCHAR", "5"), "x", "character(5)", "x    "),
    ("nvc", told(Type.STRING, "NVARCHAR", "20"), "x", "character varying(20)", "x"),
    ("mon", told(Type.STRING, "MONEY"), "12.50", "money", "$12.50"),
    ("oid", told(Type.INT64, "OID"), 5, "oid", "5"),
    ("inet", told(Type.STRING, "INET"), "10.0.0.1", "inet", "10.0.0.1/32"),
    ("rng", told(Type.STRING, "INT4RANGE"), "[1,5)", "int4range", "[1,5)"),
    ("mac", told(Type.STRING, "MACADDR"), "08:00:2b:01:02:03", "macaddr", "08:00:2b:01:02:03"),
    # The original rounds the first to tens, makes the second a double, and cannot make the third.
    ("d0", decimal_schema(0, optional=True), Decimal(12345), "numeric(38,0)", "12345"),
    ("vsd", VARIABLE, Struct(VARIABLE, [3, b"\x05\xdc"]), "numeric", "1.500"),
    ("map", MAP, {"a": "1"}, "jsonb", '{"a": "1"}'),
]  # fmt: skip


def test_columns_and_values_equal_debeziums(copy: Copy) -> None:
    row = Schema(Type.STRUCT, fields=[("id", Schema.INT32), *((name, schema) for name, schema, *_ in RECORDED)])
    events = Events(row=row)
    with copy.debezium() as sink:
        sink.put(events.create(1, *(value for _, _, value, *_ in RECORDED)))
        sink.put(events.update(1, *(value for _, _, value, *_ in RECORDED)), events.create(2, *[None] * len(RECORDED)))
    assert copy.columns("people") == {"id": "integer NOT NULL", **{name: type for name, _, _, type, _ in RECORDED}}
    shown = ", ".join(f'"{name}"::text' for name, *_ in RECORDED)
    values = [text.rstrip() if type.startswith("character(") else text for *_, type, text in RECORDED]
    assert copy.rows(f"SELECT {shown} FROM people ORDER BY id") == [tuple(values), (None,) * len(RECORDED)]


def test_names_without_quotes_are_lower_case_and_nothing_else_changes(copy: Copy) -> None:
    row = (
        SchemaBuilder.struct()
        .field("Id", Schema.INT32)
        .field("MyCol", Schema.OPTIONAL_STRING)
        .field("_Under", Schema.OPTIONAL_STRING)
        .field("select", Schema.OPTIONAL_STRING)
        .build()
    )
    key = SchemaBuilder.struct().field("Id", Schema.INT32).build()
    record = Events("Srv.My-Topic").record(key, Struct(key, [1]), row, Struct(row, [1, "a", "b", "c"]))
    with copy.debezium() as sink:
        sink.put(record)
    assert copy.rows('SELECT id, mycol, _under, "select" FROM "srv_my-topic"') == [(1, "a", "b", "c")]
    with copy.debezium(quote__identifiers="true") as sink:
        sink.put(record)
    assert copy.rows('SELECT "Id", "MyCol", "_Under", "select" FROM "Srv_My-Topic"') == [(1, "a", "b", "c")]


def test_existing_tables_are_found_in_their_schema(copy: Copy) -> None:
    copy.run("CREATE SCHEMA lake; CREATE TABLE lake.people(id int PRIMARY KEY, name text, notes text, other int DEFAULT 9)")
    events = Events()
    with copy.debezium(schema__evolution="none", collection__name__format="LAKE.${source.table}") as sink:
        sink.put(events.create(1, "a", None), events.create(2, "b", None), events.delete(1))
    assert copy.rows("SELECT * FROM lake.people") == [(2, "b", None, 9)]


def test_update_keeps_a_required_unavailable_value(copy: Copy) -> None:
    row = SchemaBuilder.struct().field("id", Schema.INT32).field("big", Schema.STRING).field("n", Schema.INT32).build()
    events = Events(row=row)
    with copy.debezium() as sink:
        sink.put(events.create(1, "x" * 10_000, 1), events.create(2, "y", 1))
        sink.put(events.update(1, UNAVAILABLE, 2), events.update(2, "z", 2), events.update(3, UNAVAILABLE, 2))
    assert copy.columns("people")["big"] == "text NOT NULL"
    assert copy.rows("SELECT id, length(big), n FROM people ORDER BY id") == [(1, 10_000, 2), (2, 1, 2)]


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_identity_columns_take_the_values_of_the_source(copy: Copy, mode: str) -> None:
    copy.run("CREATE TABLE people(id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text, notes text)")
    events = Events()
    with copy.debezium(insert__mode=mode) as sink:
        sink.put(events.create(7, "a", None))
        sink.put(*[events.create(number, "b", None) for number in range(10, 50)])
    assert copy.rows("SELECT count(*), min(id), max(id) FROM people") == [(41, 7, 49)]


def test_truncates_and_deletes_keep_their_order_in_a_transaction(copy: Copy) -> None:
    events = Events()
    with copy.debezium() as sink:
        sink.put(*[events.create(number, "x", None) for number in range(1000)])
        sink.put(
            events.create(5000, "x", None),
            events.truncate(),
            events.create(1, "a", None),
            events.delete(1),
            events.create(2, "b", None),
        )
        with pytest.raises(DataError, match="out of range"):
            sink.put(events.truncate(), events.create(2**40, "x", None))
    assert copy.rows("SELECT * FROM people") == [(2, "b", None)]


def test_columns_are_added_but_a_required_one_is_rejected(copy: Copy) -> None:
    wider = SchemaBuilder.struct().field("id", Schema.INT32).field("age", Schema.INT32.replace(default=5)).build()
    must = SchemaBuilder.struct().field("id", Schema.INT32).field("must", Schema.INT32).build()
    with copy.debezium() as sink:
        sink.put(Events().create(1, "a", None), Events(row=wider).create(2, 7))
        with pytest.raises(DataError, match="is not optional and does not have a default"):
            sink.put(Events(row=must).create(3, 1))
    assert copy.rows("SELECT id, name, age FROM people ORDER BY id") == [(1, "a", 5), (2, None, 7)]
    assert copy.columns("people")["age"] == "integer NOT NULL"


def test_a_tombstone_of_a_plain_row_deletes_it(copy: Copy) -> None:
    events = Events()
    with copy.debezium(insert__mode="insert") as sink:
        sink.put(
            events.flat(1, "a", None),
            events.tombstone(1),
            events.flat(2, "b", None),
            events.record(KEY, Struct(KEY, [2]), None, None),
        )
    assert copy.rows("SELECT * FROM people") == []
