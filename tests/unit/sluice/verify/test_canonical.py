"""Equal values have equal forms on both sides, and different values have different ones."""

from __future__ import annotations

import base64
import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.data import logical
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.verification import ColumnType
from sluice.verify.canonical import column_forms, text_of_time

EPOCH = dt.datetime(1970, 1, 1)
DAY_US = 86_400_000_000
MICROS = Schema(Type.INT64, name="io.debezium.time.MicroTimestamp", version=1)
ZONED = Schema(Type.STRING, name="io.debezium.time.ZonedTimestamp", version=1)
DATE = Schema(Type.INT32, name="io.debezium.time.Date", version=1)
TIME = Schema(Type.INT64, name="io.debezium.time.MicroTime", version=1)
JSON = Schema(Type.STRING, name="io.debezium.data.Json", version=1)
BITS = Schema(Type.BYTES, name="io.debezium.data.Bits", version=1, parameters={"length": "5"})


def forms(schema: Schema | None, target: ColumnType, expected: Any, actual: Any) -> tuple[Any, Any]:
    found = column_forms(schema, target)
    return found.of_expected([expected])[0], found.of_actual([actual])[0]


def assert_equal(schema: Schema | None, target: ColumnType, expected: Any, actual: Any) -> None:
    left, right = forms(schema, target, expected, actual)
    assert left == right
    assert not str(left).startswith("\0")


def assert_different(schema: Schema | None, target: ColumnType, expected: Any, actual: Any) -> None:
    left, right = forms(schema, target, expected, actual)
    assert left != right


@given(st.datetimes(min_value=dt.datetime(1, 1, 2), max_value=dt.datetime(9999, 12, 30)))
def test_timestamps_are_equal_as_numbers_texts_and_objects(moment: dt.datetime) -> None:
    since = moment - EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    for actual in (moment, micros, moment.isoformat(), moment.isoformat(sep=" ")):
        assert_equal(MICROS, ColumnType.TIMESTAMP, micros, actual)
    zone = dt.timezone(dt.timedelta(hours=5, minutes=30))
    zoned = moment.replace(tzinfo=dt.UTC)
    assert_equal(ZONED, ColumnType.TIMESTAMP, f"{moment.isoformat()}Z", zoned)
    if 2 < moment.year < 9998:
        assert_equal(ZONED, ColumnType.TIMESTAMP, f"{moment.isoformat()}Z", str(zoned.astimezone(zone)))
    assert_different(MICROS, ColumnType.TIMESTAMP, micros, micros + 1)
    assert_equal(MICROS, ColumnType.INTEGER, micros, micros)


@given(st.integers(-800_000, 4_000_000))
def test_dates_survive_their_text_in_any_year(days: int) -> None:
    text = text_of_time("date", days)
    if not text.startswith("-"):
        assert_equal(DATE, ColumnType.DATE, days, text)
    assert_equal(DATE, ColumnType.DATE, days, days)
    assert_different(DATE, ColumnType.DATE, days, days + 1)


@pytest.mark.parametrize(
    ("text", "micros"),
    [("-01:00:00", -3_600_000_000), ("838:59:59", 3_020_399_000_000), ("-838:59:59", -3_020_399_000_000), ("24:00:00", DAY_US)],
)
def test_times_of_mysql_are_equal_as_numbers_texts_and_objects(text: str, micros: int) -> None:
    for actual in (text, f"{text}.000000", dt.timedelta(microseconds=micros)):
        assert_equal(TIME, ColumnType.TEXT, micros, actual)
    assert_different(TIME, ColumnType.TEXT, -micros, text)
    assert text_of_time("time", micros * 1000) == text


def test_dates_before_christ_are_those_of_postgres() -> None:
    assert_equal(DATE, ColumnType.DATE, -735_160, "0044-03-15 BC")
    assert_equal(DATE, ColumnType.DATE, 2_147_483_647, "5881580-07-11")


@given(st.integers(-(10**30), 10**30).map(lambda unscaled: logical.bytes_to_decimal(logical.int_to_bytes(unscaled), 6)))
def test_decimals_are_equal_by_value_in_numbers_and_by_digits_in_text(number: Decimal) -> None:
    schema = logical.decimal_schema(6)
    assert_equal(schema, ColumnType.DECIMAL, number, f"{number:f}000")
    assert_equal(schema, ColumnType.TEXT, number, f"{number:f}")
    assert_different(schema, ColumnType.TEXT, number, f"{number:f}0")
    assert_different(schema, ColumnType.DECIMAL, number, f"{number:f}1")


@given(st.floats())
def test_doubles_are_equal_by_their_bits(number: float) -> None:
    assert_equal(Schema.FLOAT64, ColumnType.DOUBLE, number, number)
    if number == number and abs(number) < 1e300:
        (bits,) = struct.unpack("<q", struct.pack("<d", number))
        (other,) = struct.unpack("<d", struct.pack("<q", bits ^ 1))
        assert_different(Schema.FLOAT64, ColumnType.DOUBLE, number, other)


def test_zeros_differ_by_their_sign_only_where_tables_keep_it() -> None:
    assert_different(Schema.FLOAT64, ColumnType.DOUBLE, -0.0, 0.0)
    found = column_forms(Schema.FLOAT64, ColumnType.DOUBLE, negative_zero=False)
    assert found.of_expected([-0.0]) == found.of_actual([0.0])


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers_are_equal_in_columns_of_other_types(number: int) -> None:
    assert_equal(Schema.INT64, ColumnType.INTEGER, number, number)
    assert_equal(Schema.INT64, ColumnType.DECIMAL, number, Decimal(number))
    assert_equal(Schema.INT64, ColumnType.TEXT, number, str(number))
    assert_different(Schema.INT64, ColumnType.INTEGER, number, number + 1)


@given(st.text(), st.text())
def test_texts_are_equal_only_if_all_characters_are(one: str, other: str) -> None:
    assert_equal(Schema.STRING, ColumnType.TEXT, one, one) if not one.startswith("\0") else None
    if one != other:
        assert_different(Schema.STRING, ColumnType.TEXT, one, other)


@given(st.binary())
def test_bytes_are_equal_as_objects_and_as_texts(data: bytes) -> None:
    assert_equal(Schema.BYTES, ColumnType.BYTES, data, memoryview(data))
    assert_equal(None, ColumnType.BYTES, base64.b64encode(data).decode(), data)
    assert_different(Schema.BYTES, ColumnType.BYTES, data, data + b"\0")


def test_null_differs_from_empty_and_zero() -> None:
    for schema, target, value in (
        (Schema.STRING, ColumnType.TEXT, ""),
        (Schema.INT64, ColumnType.INTEGER, 0),
        (Schema.BYTES, ColumnType.BYTES, b""),
        (Schema.BOOLEAN, ColumnType.BOOLEAN, False),
    ):
        assert_different(schema, target, value, None)
        assert_different(schema, target, None, value)


def test_json_is_equal_as_a_document_in_json_columns_and_as_a_text_in_text_columns() -> None:
    assert_equal(JSON, ColumnType.JSON, '{"a": 1, "b": [1.50, null]}', '{"b":[1.5,null],"a":1}')
    assert_equal(JSON, ColumnType.JSON, '{"a": 12345678901234567890.123}', '{"a":12345678901234567890.1230}')
    assert_different(JSON, ColumnType.JSON, '{"a": 1}', '{"a": "1"}')
    assert_different(JSON, ColumnType.JSON, '{"a": null}', "{}")
    assert_different(JSON, ColumnType.TEXT, '{"a": 1}', '{"a":1}')


def test_arrays_are_compared_by_element() -> None:
    numbers = Schema(Type.ARRAY, value_schema=Schema.OPTIONAL_INT32)
    assert_equal(numbers, ColumnType.ARRAY, [1, None, 2], [1, None, 2])
    assert_different(numbers, ColumnType.ARRAY, [1, None], [1])
    assert_different(numbers, ColumnType.ARRAY, [], None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, []),
        ({"a": {}}, {"a": []}),
        ("number:5", 5),
        ("bytes:00", b"\0"),
        (["a"], "a"),
        ([["a", 1]], {"a": 1}),
        ([["a", 1]], [("a", 1)]),
        (True, "True"),
        (None, "None"),
        ("1970-01-01", dt.date(1970, 1, 1)),
    ],
)
def test_nested_values_of_different_kinds_differ(one: Any, other: Any) -> None:
    assert_different(None, ColumnType.NESTED, [one], [other])
    assert_different(None, ColumnType.NESTED, {"a": one}, {"a": other})


def test_nested_values_are_equal_whatever_stores_them() -> None:
    schema = Schema(Type.STRUCT, fields=[("b", Schema.INT32), ("a", Schema.OPTIONAL_STRING)])
    assert_equal(schema, ColumnType.NESTED, Struct(schema, [1, None]), {"a": None, "b": Decimal("1.0")})
    map_ = Schema(Type.MAP, key_schema=Schema.STRING, value_schema=Schema.INT32)
    assert_equal(map_, ColumnType.NESTED, {"x": 1, "y": 2}, [("y", 2), ("x", 1)])
    assert_equal(map_, ColumnType.NESTED, {}, {})


def test_number_that_a_column_of_32_bits_does_not_hold_differs() -> None:
    single = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    assert_different(Schema.FLOAT64, ColumnType.FLOAT, 0.1, single)
    assert_different(Schema.FLOAT64, ColumnType.FLOAT, 0.1, 0.1)  # as a driver reads the shortest text
    assert_equal(Schema.FLOAT64, ColumnType.FLOAT, 0.5, 0.5)
    assert_equal(Schema.FLOAT64, ColumnType.FLOAT, single, 0.1)
    assert_equal(Schema.FLOAT32, ColumnType.FLOAT, 0.1, single)


def test_other_types_have_common_forms() -> None:
    assert_equal(TIME, ColumnType.TEXT, 36_000_000_001, "10:00:00.000001")
    assert_equal(TIME, ColumnType.TIME, 86_400_000_000, "24:00:00")
    assert_equal(BITS, ColumnType.TEXT, b"\x05", "00101")
    assert_equal(BITS, ColumnType.BYTES, b"\x05", b"\x05")
    assert_equal(Schema.BOOLEAN, ColumnType.INTEGER, True, 1)
    assert_equal(Schema.FLOAT32, ColumnType.DOUBLE, 0.1, struct.unpack("<f", struct.pack("<f", 0.1))[0])
    assert_equal(logical.timestamp_schema(), ColumnType.TIMESTAMP, dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "2024-01-01 00:00:00")
    assert_equal(logical.date_schema(), ColumnType.DATE, dt.date(2024, 1, 1), dt.date(2024, 1, 1))


@pytest.mark.parametrize("actual", ["abc", b"abc", [1], {"a": 1}, dt.date(2024, 1, 1), float("nan"), 1.5])
def test_a_value_of_another_type_differs_and_raises_nothing(actual: Any) -> None:
    assert_different(Schema.INT64, ColumnType.INTEGER, 1, actual)


def test_types_without_a_common_form_are_not_compared() -> None:
    point = Schema(Type.STRUCT, name="io.debezium.data.geometry.Point", fields=[("x", Schema.FLOAT64)])
    assert not column_forms(point, ColumnType.TEXT).is_comparable
