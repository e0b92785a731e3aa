"""Values of logical types in every format."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from connect.data.logical import END_OF_DAY, FarInstant, date_of, date_schema, decimal_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connectors.registry.avro.converter import AvroConverter
from connectors.registry.json_schema.converter import JsonSchemaConverter
from connectors.registry.protobuf.converter import ProtobufConverter

Make = Callable[..., Any]
_KINDS = (AvroConverter, JsonSchemaConverter, ProtobufConverter)
_NOW = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (date_schema(), _NOW, "field x: a date is needed, not datetime"),
        (date_schema(), 5, "field x: a date is needed, not int 5"),
        (time_schema(), _NOW, "field x: a time is needed, not datetime"),
        (time_schema(), dt.time(1, 2, 3, 4), "field x: Time 01:02:03.000004 has more than milliseconds"),
        (timestamp_schema(), dt.date(2024, 1, 1), "field x: a datetime is needed, not date"),
        (timestamp_schema(), dt.datetime(2024, 1, 1), "field x: Timestamp 2024-01-01 00:00:00 has no time zone"),
        (timestamp_schema(), _NOW.replace(microsecond=1), "field x: Timestamp .* has more than milliseconds"),
        (decimal_schema(2), 1.5, "field x: a finite Decimal is needed, not float 1.5"),
        (decimal_schema(2), Decimal("NaN"), r"field x: a finite Decimal is needed, not Decimal Decimal\('NaN'\)"),
    ],
)
def test_the_error_for_another_type_names_the_field(
    configured: Make, kind: type[Any], schema: Schema, value: Any, message: str
) -> None:
    struct = Schema(Type.STRUCT, name="S", fields=[("x", schema)])
    with pytest.raises(DataError, match=message):
        configured(kind).from_connect_data("t", struct, Struct(struct, [value]))


@pytest.mark.parametrize("kind", [AvroConverter, JsonSchemaConverter])
def test_a_decimal_of_another_scale_is_rejected(configured: Make, kind: type[Any]) -> None:
    struct = Schema(Type.STRUCT, name="S", fields=[("x", decimal_schema(2))])
    with pytest.raises(DataError, match=r"field x: .*Schema has scale 2, value has scale 1"):
        configured(kind).from_connect_data("t", struct, Struct(struct, [Decimal("1.5")]))


@pytest.mark.parametrize("kind", [AvroConverter, JsonSchemaConverter])
def test_the_end_of_the_day_round_trips(configured: Make, kind: type[Any]) -> None:
    struct = Schema(Type.STRUCT, name="S", fields=[("a", time_schema())])
    converter = configured(kind)
    back = converter.to_connect_data("t", converter.from_connect_data("t", struct, Struct(struct, [END_OF_DAY])))
    assert back.value.values[0] is END_OF_DAY


@pytest.mark.parametrize("day", [-719_162, -719_163, -719_164, 2_932_896, 2_932_897, 2**31 - 1])
@pytest.mark.parametrize("kind", [AvroConverter, JsonSchemaConverter, ProtobufConverter])
def test_dates_outside_pythons_years_round_trip(configured: Make, kind: type[Any], day: int) -> None:
    struct = Schema(Type.STRUCT, name="S", fields=[("a", date_schema())])
    converter = configured(kind)
    back = converter.to_connect_data("t", converter.from_connect_data("t", struct, Struct(struct, [date_of(day)])))
    assert back.value.values == [date_of(day)]


@pytest.mark.parametrize("millis", [-62_135_596_800_001, 253_402_300_800_000, -9_223_372_036_832_400_000, 2**63 - 1])
@pytest.mark.parametrize("kind", [AvroConverter, JsonSchemaConverter, ProtobufConverter])
def test_timestamps_outside_pythons_years_round_trip(configured: Make, kind: type[Any], millis: int) -> None:
    struct = Schema(Type.STRUCT, name="S", fields=[("a", timestamp_schema())])
    converter = configured(kind)
    back = converter.to_connect_data("t", converter.from_connect_data("t", struct, Struct(struct, [FarInstant(millis)])))
    assert back.value.values == [FarInstant(millis)]


@pytest.mark.parametrize("kind", [AvroConverter, JsonSchemaConverter])
def test_schemas_keep_defaults_outside_pythons_years(configured: Make, kind: type[Any]) -> None:
    fields = [("d", date_schema(default=date_of(-719_164))), ("t", timestamp_schema(default=FarInstant(1 << 60)))]
    struct = Schema(Type.STRUCT, name="S", fields=fields)
    converter = configured(kind)
    back = converter.to_connect_data("t", converter.from_connect_data("t", struct, Struct(struct, [None, None])))
    assert back.schema is not None
    assert [field.schema.default for field in back.schema.fields or ()] == [date_of(-719_164), FarInstant(1 << 60)]


@pytest.mark.parametrize("kind", [AvroConverter, JsonSchemaConverter, ProtobufConverter])
def test_a_far_instant_with_a_time_is_not_a_date(configured: Make, kind: type[Any]) -> None:
    struct = Schema(Type.STRUCT, name="S", fields=[("x", date_schema())])
    with pytest.raises(DataError, match=r"field x: .*should not have any time fields"):
        configured(kind).from_connect_data("t", struct, Struct(struct, [FarInstant((1 << 60) + 1)]))


def test_the_encoding_of_null_depends_on_the_format(configured: Make) -> None:
    assert configured(AvroConverter).from_connect_data("t", Schema.OPTIONAL_STRING, None) is None
    assert configured(ProtobufConverter).from_connect_data("t", Schema.OPTIONAL_STRING, None) is None
    converter = configured(JsonSchemaConverter)
    assert converter.encode_batch("t", Schema.OPTIONAL_STRING, ["a", None]) == [b'\0\0\0\0\x01"a"', b"\0\0\0\0\x01null"]
    with_default = Schema(Type.STRING, default="d")
    data = converter.from_connect_data("u", with_default, None)
    assert data is not None
    assert data[5:] == b'"d"'
    assert converter.from_connect_data("t", Schema.STRING, None) is None
