"""The converters of single numbers and booleans."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect import Schema
from connect.converters.api import Converter, HeaderConverter
from connect.converters.boolean import BooleanConverter
from connect.converters.number import DoubleConverter, FloatConverter, IntegerConverter, LongConverter, ShortConverter
from connect.errors import ConfigError, DataError
from connect.java.sized_numbers import Float32, Int8, Int16, Int32
from connect.plugins import Plugins

ALL = (ShortConverter, IntegerConverter, LongConverter, FloatConverter, DoubleConverter, BooleanConverter)


def configured(kind: type[Any], is_key: bool = False) -> Any:
    made = kind()
    made.configure({}, is_key)
    return made


@pytest.mark.parametrize(
    ("kind", "schema", "value", "data"),
    [
        (ShortConverter, Schema.INT16, -2, b"\xff\xfe"),
        (ShortConverter, None, Int16(258), b"\x01\x02"),
        (IntegerConverter, Schema.OPTIONAL_INT32, 70000, b"\x00\x01\x11\x70"),
        (IntegerConverter, None, Int32(5), b"\x00\x00\x00\x05"),
        (LongConverter, Schema.INT64, -(2**63), b"\x80" + bytes(7)),
        (LongConverter, None, 5, bytes(7) + b"\x05"),
        (FloatConverter, Schema.FLOAT32, 1.5, b"\x3f\xc0\x00\x00"),
        (FloatConverter, None, Float32(-0.0), b"\x80\x00\x00\x00"),
        (DoubleConverter, Schema.FLOAT64, 0.1, b"\x3f\xb9\x99\x99\x99\x99\x99\x9a"),
        (DoubleConverter, None, math.inf, b"\x7f\xf0" + bytes(6)),
        (BooleanConverter, Schema.BOOLEAN, True, b"\x01"),
        (BooleanConverter, None, False, b"\x00"),
    ],
)
def test_value_is_written_like_kafkas_serializer(kind: type[Any], schema: Any, value: Any, data: bytes) -> None:
    made = configured(kind)
    assert made.from_connect_data("t", schema, value) == data
    assert made.from_connect_header("t", "h", schema, value) == data
    assert made.encode_batch("t", schema, [value, value]) == [data, data]
    assert made.encode_batch("t", schema, [value, None]) == [data, None]
    read = made.to_connect_data("t", data)
    assert read.value == value
    assert read.schema.optional
    assert made.decode_batch("t", [data, None, data]) == [read, (read.schema, None), read]
    assert made.decode_batch("t", [data, data]) == [read, read]
    assert made.to_connect_header("t", "h", data) == read


@pytest.mark.parametrize(
    ("kind", "schema", "value", "message"),
    [
        (ShortConverter, Schema.INT32, 5, "Failed to serialize to short (was class java.lang.Integer): "),
        (ShortConverter, None, 5, "Failed to serialize to short (was class java.lang.Long): "),
        (IntegerConverter, None, Int16(5), "Failed to serialize to integer (was class java.lang.Short): "),
        (IntegerConverter, Schema.STRING, "5", "Failed to serialize to integer (was class java.lang.String): "),
        (LongConverter, None, Int8(5), "Failed to serialize to long (was class java.lang.Byte): "),
        (LongConverter, Schema.BOOLEAN, True, "Failed to serialize to long (was class java.lang.Boolean): "),
        (FloatConverter, None, 1.5, "Failed to serialize to float (was class java.lang.Double): "),
        (DoubleConverter, Schema.FLOAT32, 1.5, "Failed to serialize to double (was class java.lang.Float): "),
        (DoubleConverter, None, {}, "Failed to serialize to double (was class java.util.LinkedHashMap): "),
        (BooleanConverter, Schema.INT8, 1, "Invalid schema type for BooleanConverter: INT8"),
        (BooleanConverter, Schema.OPTIONAL_STRING, None, "Invalid schema type for BooleanConverter: STRING"),
        (BooleanConverter, None, 1, "BooleanConverter is not compatible with objects of type class java.lang.Long"),
        (BooleanConverter, Schema.BOOLEAN, "x", "BooleanConverter is not compatible with objects of type class java.lang.String"),
        (ShortConverter, Schema.INT16, 40000, "Failed to serialize to short: 40000 is too large for 2 bytes"),
        (FloatConverter, Schema.FLOAT32, 1e300, "Failed to serialize to float: 1e+300 is too large for 4 bytes"),
    ],
)
def test_value_of_another_type_is_rejected(kind: type[Any], schema: Any, value: Any, message: str) -> None:
    made = configured(kind)
    calls: tuple[Callable[[], object], ...] = (
        lambda: made.from_connect_data("t", schema, value),
        lambda: made.from_connect_header("t", "h", schema, value),
        lambda: made.encode_batch("t", schema, [value, value]),
    )
    for call in calls:
        with pytest.raises(DataError) as raised:
            call()
        assert raised.value.message == message


@pytest.mark.parametrize(
    ("kind", "data", "message", "cause"),
    [
        (ShortConverter, b"\x01", "Failed to deserialize short: ", "Size of data received by ShortDeserializer is not 2"),
        (IntegerConverter, b"", "Failed to deserialize integer: ", "Size of data received by IntegerDeserializer is not 4"),
        (LongConverter, bytes(9), "Failed to deserialize long: ", "Size of data received by LongDeserializer is not 8"),
        (FloatConverter, bytes(8), "Failed to deserialize float: ", "Size of data received by Deserializer is not 4"),
        (DoubleConverter, bytes(4), "Failed to deserialize double: ", "Size of data received by Deserializer is not 8"),
        (BooleanConverter, b"", "Failed to deserialize boolean: ", "Size of data received by BooleanDeserializer is not 1"),
        (BooleanConverter, b"\xff", "Failed to deserialize boolean: ", "Unexpected byte received by BooleanDeserializer: -1"),
    ],
)
def test_invalid_bytes_are_rejected_with_the_reason(kind: type[Any], data: bytes, message: str, cause: str) -> None:
    made = configured(kind)
    calls: tuple[Callable[[], object], ...] = (
        lambda: made.to_connect_data("t", data),
        lambda: made.decode_batch("t", [data, data]),
    )
    for call in calls:
        with pytest.raises(DataError) as raised:
            call()
        assert raised.value.message == message
        assert str(raised.value.__cause__) == cause


@pytest.mark.parametrize("kind", ALL)
def test_null_remains_null(kind: type[Any]) -> None:
    made = configured(kind)
    assert made.encode_batch("t", None, [None, None]) == [None, None]
    assert [read.value for read in made.decode_batch("t", [None, None])] == [None, None]
    assert made.encode_batch("t", None, []) == []
    assert made.decode_batch("t", []) == []


@pytest.mark.parametrize("kind", ALL)
def test_converters_have_java_names_and_short_names(kind: type[Any]) -> None:
    plugins = Plugins.discover()
    name = kind.__name__
    for written in (f"org.apache.kafka.connect.converters.{name}", name, name.removesuffix("Converter")):
        created = [type(plugins.new_converter(written)), type(plugins.new_header_converter(written))]
        assert created == [kind, kind]
    assert issubclass(kind, Converter)
    assert issubclass(kind, HeaderConverter)


def test_the_type_of_a_header_converter_is_checked() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value header2 for configuration converter\.type"):
        IntegerConverter().configure({"converter.type": "header2"})


@settings(derandomize=True, deadline=None)
@given(st.binary(max_size=10))
def test_any_bytes_are_read_or_rejected(data: bytes) -> None:
    for kind in ALL:
        made = configured(kind)
        try:
            read = made.to_connect_data("t", data)
        except DataError:
            continue
        written = made.from_connect_data("t", read.schema, read.value)
        assert written == data or read.value != read.value


@settings(derandomize=True, deadline=None)
@given(
    st.integers() | st.floats() | st.booleans() | st.text(max_size=3) | st.none(),
    st.sampled_from([Schema.INT16, Schema.FLOAT32, None]),
)
def test_any_value_is_written_or_rejected(value: Any, schema: Schema | None) -> None:
    for kind in ALL:
        made = configured(kind)
        try:
            data = made.from_connect_data("t", schema, value)
        except DataError:
            continue
        assert made.encode_batch("t", schema, [value] * 2) == [data] * 2
