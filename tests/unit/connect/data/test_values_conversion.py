"""Values from one type to another. What is expected was given by Apache Kafka Connect 4.3.1, unless a comment says otherwise."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect import Schema, Struct, Type
from connect.data import values_conversion as conversion
from connect.data.logical import END_OF_DAY, FarInstant, date_schema, decimal_schema, instant_of, time_schema, timestamp_schema
from connect.errors import DataError
from connect.java.sized_numbers import Float32, Int8, Int16, Int32

D = decimal.Decimal
STRUCT = Schema(Type.STRUCT, fields=[("a", Schema.INT32)])
NOON = instant_of(1_700_000_000_000)


@pytest.mark.parametrize(
    ("convert", "schema", "value", "expected"),
    [
        (conversion.convert_to_boolean, None, "true", True),
        (conversion.convert_to_boolean, None, "0.9", False),
        (conversion.convert_to_boolean, Schema.FLOAT64, 256.5, True),
        (conversion.convert_to_byte, Schema.INT32, 300, Int8(44)),
        (conversion.convert_to_byte, Schema.STRING, "1e2", Int8(100)),
        (conversion.convert_to_short, Schema.FLOAT64, 3.5e38, Int16(-1)),
        (conversion.convert_to_integer, None, D("2147483648.5"), Int32(-(2**31))),
        (conversion.convert_to_integer, date_schema(), dt.date(2017, 1, 1), Int32(17167)),
        (conversion.convert_to_long, Schema.FLOAT64, float("inf"), 2**63 - 1),
        (conversion.convert_to_long, None, D("99999999999999999999.99"), 7766279631452241919),
        (conversion.convert_to_long, None, D("1E+70"), 0),
        (conversion.convert_to_long, time_schema(), END_OF_DAY, 86_400_000),
        (conversion.convert_to_float, Schema.INT64, 1099511627781, Float32(1.099511627776e12)),
        (conversion.convert_to_float, None, "1e400", Float32("inf")),
        (conversion.convert_to_double, None, ".5", 0.5),
        (conversion.convert_to_double, timestamp_schema(), NOON, 1.7e12),
        (conversion.convert_to_list, None, "[1, 300]", [1, 300]),
        (conversion.convert_to_map, None, '{"a":1}', {"a": 1}),
        (conversion.convert_to_struct, STRUCT, Struct(STRUCT, [1]), Struct(STRUCT, [1])),
        (conversion.convert_to_date, timestamp_schema(), instant_of(-1), dt.date(1970, 1, 1)),
        (conversion.convert_to_date, None, NOON, NOON),
        (conversion.convert_to_date, None, "2024-05-06", dt.date(2024, 5, 6)),
        (conversion.convert_to_date, Schema.STRING, "1e3", dt.date(1972, 9, 27)),
        (conversion.convert_to_date, Schema.INT32, 2**31 - 1, FarInstant((2**31 - 1) * 86_400_000)),
        (conversion.convert_to_time, timestamp_schema(), NOON, dt.time(22, 13, 20)),
        (conversion.convert_to_time, Schema.INT64, 2**32 + 5, dt.time(0, 0, 0, 5000)),
        (conversion.convert_to_timestamp, date_schema(), dt.date(1970, 1, 2), instant_of(86_400_000)),
        (conversion.convert_to_timestamp, time_schema(), dt.time(1), instant_of(3_600_000)),
        (conversion.convert_to_timestamp, Schema.FLOAT64, -129.9, instant_of(-129)),
    ],
)
def test_values_are_converted_like_apache(convert: Any, schema: Schema | None, value: Any, expected: Any) -> None:
    found = convert(schema, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (None, D("1.50"), "1.50"),
        (None, "1E+3", "1E+3"),
        (None, "0e00000000000000005", "0E+5"),
        (None, "٣", "3"),
        (Schema.INT64, 2**63 - 1, "9.223372036854776E+18"),
        (Schema.FLOAT64, 2e23, "1.9999999999999998E+23"),
        (Schema.BYTES, b"\x02\x96", "6.62"),
    ],
)
def test_decimals_keep_their_scale_and_numbers_go_through_a_double(schema: Schema | None, value: Any, text: str) -> None:
    found = conversion.convert_to_decimal(schema, value, 2)
    assert str(found) == text


@pytest.mark.parametrize(
    ("convert", "schema", "value", "message"),
    [
        (conversion.convert_to_boolean, Schema.STRING, "abc", "Unable to convert abc (class java.lang.String) to Schema{STRING}"),
        (conversion.convert_to_byte, None, True, "Unable to convert true (class java.lang.Boolean) to a number"),
        (conversion.convert_to_long, None, {}, "Unable to convert {} (class java.util.LinkedHashMap) to a number"),
        (conversion.convert_to_long, None, FarInstant(253_402_300_800_000),
         "Unable to convert Sat Jan 01 00:00:00 UTC 10000 (class java.util.Date) to a number"),
        (conversion.convert_to_double, None, " 5", "Unable to convert  5 (class java.lang.String) to a number"),
        (conversion.convert_to_list, Schema.INT8, 127, "Unable to convert 127 (class java.lang.Byte) to Schema{ARRAY}"),
        (conversion.convert_to_list, None, "5", "Unable to convert 5 (class java.lang.Byte) to Schema{ARRAY}"),
        (conversion.convert_to_map, None, None, "Unable to convert a null value to a schema that requires a value"),
        (conversion.convert_to_struct, None, "x", "Unable to convert x (class java.lang.String) to Schema{STRUCT}"),
        (conversion.convert_to_date, Schema.STRING, "2024-05-06",
         "Unable to convert Mon May 06 00:00:00 UTC 2024 (class java.util.Date) to Schema{STRING}"),
        (conversion.convert_to_time, Schema.INT64, -1,
         "Time values must use number of milliseconds greater than 0 and less than 86400000"),
        (conversion.convert_to_timestamp, None, None, "Unable to convert a null value to a schema that requires a value"),
        # The original fails by accident from here on.
        (conversion.convert_to_date, None, "null",
         "Unable to convert the text 'null': it stands for a null, and a value is required"),
        (conversion.convert_to_long, None, 2**63,
         "Unable to convert 9223372036854775808: an integer of Connect has 64 bits at most"),
        (conversion.convert_to_double, None, D("NaN"), "Unable to convert NaN: a decimal of Connect is a number"),
    ],
)  # fmt: skip
def test_conversion_error_names_the_value(convert: Any, schema: Schema | None, value: Any, message: str) -> None:
    with pytest.raises(DataError) as raised:
        convert(schema, value)
    assert raised.value.message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1_000", 'Character _ is neither a decimal digit number, decimal point, nor "e" notation exponential mark.'),
        ("2024-05-06T12:34:56.789Z", 'Character array is missing "e" notation exponential mark.'),
        ("1.2.3", "Character array contains more than one decimal point."),
        ("-", "No digits found."),
        (".e1", "No digits found."),
        ("1e5x", "Not a digit."),
        ("1e99999999999", "Too many nonzero exponent digits."),
        ("1e2147483648", "Exponent overflow."),
        ("0.1e-2147483648", "Scale out of range."),
        ("1e", "No exponent digits."),  # the original has no message here
        ("", "An empty text is no number."),  # nor here
    ],
)
def test_invalid_decimal_texts_are_rejected(text: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        conversion.convert_to_decimal(None, text, 0)
    assert raised.value.message == message


def test_finer_than_a_millisecond_is_an_error() -> None:
    with pytest.raises(DataError, match="more than milliseconds"):
        conversion.convert_to_long(time_schema(), dt.time(0, 0, 0, 1))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.binary(max_size=4)
    | st.decimals() | st.datetimes() | st.dates() | st.times(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
SCHEMAS = st.sampled_from([None, Schema.INT8, Schema.STRING, date_schema(), time_schema(), timestamp_schema(), decimal_schema(2)])
CONVERSIONS = [getattr(conversion, name) for name in dir(conversion) if name.startswith("convert_to_")]


@settings(derandomize=True, deadline=None)
@given(VALUES, SCHEMAS)
def test_conversions_raise_only_data_errors(value: Any, schema: Schema | None) -> None:
    for convert in CONVERSIONS:
        with contextlib.suppress(DataError):
            convert(schema, value, *([2] if convert is conversion.convert_to_decimal else []))
