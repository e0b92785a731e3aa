"""Logical types of Connect and Debezium, and the conversion of their values."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from decimal import Decimal
from typing import Any

import pytest

from connect.data.logical import (
    END_OF_DAY,
    FarInstant,
    date_schema,
    decimal_schema,
    time_schema,
    timestamp_schema,
)
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connectors.jdbc.dialects import conversion
from connectors.jdbc.dialects.conversion import Geometry, to_python
from connectors.jdbc.dialects.logical_types import FieldKind, logical_type
from connectors.jdbc.dialects.text_values import to_json, to_text
from connectors.jdbc.options import Calendar, WriteOptions

OPTIONS = WriteOptions(calendar=Calendar.PROLEPTIC_GREGORIAN)
NEW_YORK = WriteOptions(zone=zoneinfo.ZoneInfo("America/New_York"))
AT = dt.datetime(2024, 2, 29, 12, 34, 56, 789000, tzinfo=dt.UTC)
WALL = AT.replace(tzinfo=None)


def named(type_: Type, name: str, **members: Any) -> Schema:
    return Schema(type_, name=name, version=1, **members)


VARIABLE = named(Type.STRUCT, "io.debezium.data.VariableScaleDecimal", fields=[("scale", Schema.INT32), ("value", Schema.BYTES)])
GEOMETRY = named(
    Type.STRUCT, "io.debezium.data.geometry.Geometry", fields=[("wkb", Schema.BYTES), ("srid", Schema.OPTIONAL_INT32)]
)
POINT = named(
    Type.STRUCT, "io.debezium.data.geometry.Point",
    fields=[("x", Schema.FLOAT64), ("y", Schema.FLOAT64), ("wkb", Schema.OPTIONAL_BYTES), ("srid", Schema.OPTIONAL_INT32)],
)  # fmt: skip

CASES: list[tuple[Schema, Any, FieldKind, Any]] = [
    (Schema.INT8, 5, FieldKind.INT8, 5),
    (Schema.BOOLEAN, True, FieldKind.BOOLEAN, True),
    (Schema.STRING, "x", FieldKind.STRING, "x"),
    (decimal_schema(2), Decimal("1.50"), FieldKind.DECIMAL, Decimal("1.50")),
    (VARIABLE, Struct(VARIABLE, [3, b"\xff\x85"]), FieldKind.DECIMAL, Decimal("-0.123")),
    (date_schema(), dt.date(2024, 2, 29), FieldKind.DATE, dt.date(2024, 2, 29)),
    (named(Type.INT32, "io.debezium.time.Date"), 19782, FieldKind.DATE, dt.date(2024, 2, 29)),
    (named(Type.STRING, "io.debezium.time.IsoDate"), "2024-02-29Z", FieldKind.DATE, dt.date(2024, 2, 29)),
    (time_schema(), dt.time(1, 2, 3, 4000), FieldKind.TIME, dt.time(1, 2, 3, 4000)),
    (time_schema(), END_OF_DAY, FieldKind.TIME, END_OF_DAY),
    (named(Type.INT32, "io.debezium.time.Time"), 3723004, FieldKind.TIME, dt.time(1, 2, 3, 4000)),
    (named(Type.INT64, "io.debezium.time.MicroTime"), 3723004005, FieldKind.TIME, dt.time(1, 2, 3, 4005)),
    (named(Type.INT64, "io.debezium.time.NanoTime"), 3723004005000, FieldKind.TIME, dt.time(1, 2, 3, 4005)),
    (named(Type.INT64, "io.debezium.time.MicroTime"), 86_400_000_000, FieldKind.TIME, END_OF_DAY),
    (named(Type.STRING, "io.debezium.time.IsoTime"), "01:02:03.004005Z", FieldKind.TIME, dt.time(1, 2, 3, 4005)),
    (named(Type.STRING, "io.debezium.time.ZonedTime"), "01:02:03+02:00", FieldKind.ZONED_TIME,
     dt.time(1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=2)))),
    (timestamp_schema(), AT, FieldKind.INSTANT, AT),
    (named(Type.INT64, "io.debezium.time.Timestamp"), 1709210096789, FieldKind.TIMESTAMP, WALL),
    (named(Type.INT64, "io.debezium.time.MicroTimestamp"), 1709210096789000, FieldKind.TIMESTAMP, WALL),
    (named(Type.INT64, "io.debezium.time.NanoTimestamp"), 1709210096789000000, FieldKind.TIMESTAMP, WALL),
    (named(Type.STRING, "io.debezium.time.IsoTimestamp"), "2024-02-29T12:34:56.789Z", FieldKind.TIMESTAMP, WALL),
    (named(Type.STRING, "io.debezium.time.ZonedTimestamp"), "2024-02-29T14:34:56.789+02:00", FieldKind.INSTANT, AT),
    (named(Type.INT32, "io.debezium.time.Year"), 2024, FieldKind.YEAR, 2024),
    (named(Type.STRING, "io.debezium.time.Interval"), "P1M", FieldKind.INTERVAL, "P1M"),
    (named(Type.INT64, "io.debezium.time.MicroDuration"), 7, FieldKind.DURATION, 7),
    (named(Type.STRING, "io.debezium.data.Json"), "{}", FieldKind.JSON, "{}"),
    (named(Type.STRING, "io.debezium.data.Uuid"), "u", FieldKind.UUID, "u"),
    (named(Type.STRING, "io.debezium.data.Xml"), "<a/>", FieldKind.XML, "<a/>"),
    (named(Type.BYTES, "io.debezium.data.Bits", parameters={"length": "5"}), b"\x05", FieldKind.BITS, "00101"),
    (named(Type.BYTES, "io.debezium.data.Bits", parameters={"length": "10"}), b"\x01\x02", FieldKind.BITS, "1000000001"),
    (GEOMETRY, Struct(GEOMETRY, [b"wkb", 4326]), FieldKind.GEOMETRY, Geometry(b"wkb", 4326)),
    (POINT, Struct(POINT, [1.0, 2.0, b"wkb", None]), FieldKind.GEOMETRY, Geometry(b"wkb", None)),
    (Schema(Type.ARRAY, value_schema=date_schema()), [dt.date(2024, 1, 1), None], FieldKind.ARRAY, [dt.date(2024, 1, 1), None]),
    (Schema(Type.MAP, key_schema=Schema.STRING, value_schema=VARIABLE), {"a": Struct(VARIABLE, [0, b"\x05"])}, FieldKind.MAP,
     {"a": Decimal(5)}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "kind", "expected"), CASES, ids=lambda case: getattr(case, "name", None))
def test_each_logical_type_converts_to_a_python_value(schema: Schema, value: Any, kind: FieldKind, expected: Any) -> None:
    logical = logical_type(schema, OPTIONS)
    convert = to_python(logical, OPTIONS, "Field f")
    assert logical.kind is kind
    found = value if convert is None else convert(value)
    assert found == expected
    assert type(found) is type(expected)


def test_enums_have_their_allowed_values() -> None:
    schema = named(Type.STRING, "io.debezium.data.Enum", parameters={"allowed": "a,b\\,c"})
    assert logical_type(schema, OPTIONS).allowed == ("a", "b,c")


def test_a_schema_name_on_another_type_is_ignored() -> None:
    assert logical_type(named(Type.STRING, "io.debezium.time.MicroTime"), OPTIONS).kind is FieldKind.STRING
    assert logical_type(named(Type.INT64, "my.own.Name"), OPTIONS).kind is FieldKind.INT64


def test_instants_convert_to_db_timezone_and_wall_times_do_not_change() -> None:
    instant, wall = (
        logical_type(timestamp_schema(), NEW_YORK),
        logical_type(named(Type.INT64, "io.debezium.time.Timestamp"), NEW_YORK),
    )
    assert conversion.to_wall(instant, NEW_YORK, "f")(AT) == dt.datetime(2024, 2, 29, 7, 34, 56, 789000)
    assert conversion.to_wall(wall, NEW_YORK, "f")(1709210096789) == WALL
    assert conversion.to_instant(instant, NEW_YORK, "f")(AT) == AT
    assert conversion.to_instant(wall, NEW_YORK, "f")(1709210096789) == AT + dt.timedelta(hours=5)


def test_dates_convert_by_date_timezone_and_calendar() -> None:
    logical = logical_type(date_schema(), OPTIONS)
    west = WriteOptions(date_zone=zoneinfo.ZoneInfo("America/New_York"))
    assert conversion.to_date(logical, west, "f")(dt.date(2024, 1, 1)) == dt.date(2023, 12, 31)
    assert conversion.to_date(logical, WriteOptions(), "f")(dt.date(1500, 1, 10)) == dt.date(1500, 1, 1)
    assert conversion.to_date(logical, OPTIONS, "f")(dt.date(1500, 1, 10)) == dt.date(1500, 1, 10)
    assert conversion.to_day(logical, OPTIONS, "f")(FarInstant(86_400_000 * 5_000_000)) == 5_000_000


@pytest.mark.parametrize("unit", [1000, 1])
def test_timestamp_fields_list_applies_to_numbers_and_text(unit: int) -> None:
    options = WriteOptions(string_timestamps=frozenset({"t"}), timestamp_unit_ns=unit)
    number = 1709210096789000000 // unit
    for schema, value in ((Schema.INT64, number), (Schema.STRING, str(number)), (Schema.STRING, "2024-02-29T12:34:56.789")):
        logical = logical_type(schema, options, "t")
        assert conversion.to_instant(logical, options, "f")(value) == AT
    assert logical_type(Schema.INT64, options, "other").kind is FieldKind.INT64


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        (named(Type.INT64, "io.debezium.time.NanoTimestamp"), 1, "finer than the microseconds"),
        (named(Type.INT64, "io.debezium.time.NanoTime"), 1, "finer than the microseconds"),
        (named(Type.INT64, "io.debezium.time.MicroTime"), -1, "not a time of day"),
        (named(Type.INT32, "io.debezium.time.Date"), 5_000_000, "outside the years"),
        (named(Type.STRING, "io.debezium.time.ZonedTimestamp"), "soon", "'soon' is not an ISO-8601"),
        (named(Type.STRING, "io.debezium.time.IsoDate"), "2023-02-29Z", "not a date"),
        (timestamp_schema(), FarInstant(1 << 60), "outside of the years"),
        (timestamp_schema(), dt.datetime(2024, 1, 1), "has no time zone"),
    ],
)
def test_values_beyond_pythons_range_are_rejected_with_the_field_name(schema: Schema, value: Any, words: str) -> None:
    convert = to_python(logical_type(schema, OPTIONS), OPTIONS, "Field f")
    assert convert is not None
    with pytest.raises(DataError, match=f"Field f: .*{words}"):
        convert(value)


STRUCT = Schema(
    Type.STRUCT,
    fields=[
        ("a", Schema.OPTIONAL_INT32),
        ("d", decimal_schema(20)),
        ("b", Schema.BYTES),
        ("t", timestamp_schema()),
        ("j", named(Type.STRING, "io.debezium.data.Json")),
        ("l", Schema(Type.ARRAY, value_schema=Schema.OPTIONAL_STRING)),
        ("m", Schema(Type.MAP, key_schema=Schema.INT32, value_schema=Schema.FLOAT64)),
    ],
)


def test_nested_values_convert_to_exact_json() -> None:
    value = Struct(
        STRUCT, [None, Decimal("12345678901234567890.00000000000000000001"), b"\x00\xff", AT, '{"x":1}', ['"', None], {1: 0.1}]
    )
    text = to_json(logical_type(STRUCT, OPTIONS), OPTIONS, "Field f")(value)
    assert text == (
        '{"a":null,"d":12345678901234567890.00000000000000000001,"b":"AP8=","t":"2024-02-29T12:34:56.789Z","j":{"x":1},'
        '"l":["\\"",null],"m":{"1":0.1}}'
    )
    with pytest.raises(DataError, match="JSON has no number for nan"):
        to_json(logical_type(Schema.FLOAT64, OPTIONS), OPTIONS, "Field f")(float("nan"))


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (Schema.BOOLEAN, False, "false"),
        (Schema.FLOAT64, 0.1, "0.1"),
        (decimal_schema(-2), Decimal("1E+2"), "100"),
        (date_schema(), dt.date(33, 1, 2), "0033-01-02"),
        (time_schema(), dt.time(1, 2, 3), "01:02:03.000"),
        (timestamp_schema(), AT, "2024-02-29T12:34:56.789Z"),
        (named(Type.INT64, "io.debezium.time.NanoTimestamp"), 1709210096789000001, "2024-02-29T12:34:56.789000001"),
    ],
)
def test_values_convert_to_text(schema: Schema, value: Any, expected: str) -> None:
    assert to_text(logical_type(schema, OPTIONS), OPTIONS, "Field f")(value) == expected


def test_bytes_cannot_be_written_to_text_columns() -> None:
    with pytest.raises(DataError, match="Field f is bytes, which cannot be written to a text column"):
        to_text(logical_type(Schema.BYTES, OPTIONS), OPTIONS, "Field f")
