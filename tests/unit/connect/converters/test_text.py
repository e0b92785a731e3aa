"""StringConverter, ByteArrayConverter and SimpleHeaderConverter."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect import Schema, Struct, Type
from connect.converters.byte_array import ByteArrayConverter
from connect.converters.simple_header import SimpleHeaderConverter
from connect.converters.string import StringConverter
from connect.data.logical import END_OF_DAY, decimal_schema, time_schema
from connect.errors import ConfigError, DataError


def string_converter(encoding: str = "UTF-8") -> StringConverter:
    made = StringConverter()
    made.configure({"converter.encoding": encoding}, False)
    return made


STRUCT = Schema(Type.STRUCT, fields=[("a", Schema.INT32), ("f", Schema.OPTIONAL_FLOAT32), ("s", Schema.OPTIONAL_STRING)])


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (Schema.STRING, "é", "é"),
        (Schema.FLOAT32, 0.1, "0.1"),
        (Schema.FLOAT64, 1e7, "1.0E7"),
        (Schema.FLOAT64, 5e-324, "4.9E-324"),
        (Schema.BOOLEAN, True, "true"),
        (None, {"a": 1, "b": None}, "{a=1, b=null}"),
        (None, [1, "x", 2.5], "[1, x, 2.5]"),
        (STRUCT, Struct(STRUCT, [1, 0.1, None]), "Struct{a=1,f=0.1}"),
        (decimal_schema(2), decimal.Decimal("-0.00"), "0.00"),
        (None, decimal.Decimal("1E+3"), "1E+3"),
        (time_schema(), END_OF_DAY, "Fri Jan 02 00:00:00 UTC 1970"),
        (None, dt.date(2017, 1, 1), "Sun Jan 01 00:00:00 UTC 2017"),
    ],
)
def test_values_are_written_like_javas_to_string(schema: Schema | None, value: Any, text: str) -> None:
    assert string_converter().encode_batch("t", schema, [value, None]) == [text.encode(), None]


def test_equal_bytes_have_equal_text() -> None:
    first, second = string_converter().encode_batch("t", Schema.BYTES, [b"ab", bytearray(b"ab")])
    assert first == second
    assert first is not None
    assert first.startswith(b"[B@")


@given(st.text())
def test_text_round_trips_except_unpaired_surrogates(text: str) -> None:
    made = string_converter()
    written = made.encode_batch("t", Schema.STRING, [text])[0]
    expected = "".join("?" if "\ud800" <= c <= "\udfff" else c for c in text)
    assert made.decode_batch("t", [written])[0] == (Schema.OPTIONAL_STRING, expected)


@pytest.mark.parametrize(
    ("encoding", "data", "text"),
    [
        ("utf8", b"\xed\xa0\x80", "�"),
        ("UTF-8", b"\xed\xa0", "�"),
        ("UTF-8", b"\xe0\x80\x80", "���"),
        ("UTF-8", b"a\xf4\x90\x80\x80", "a����"),
        ("UTF-8", b"\xc3", "�"),
        ("UTF-16", b"\x00a", "a"),
        ("UTF-16", b"\xff\xfea\x00", "a"),
        ("UTF-16", b"\x00", "�"),
        ("US-ASCII", b"\xe9", "�"),
        ("ISO-8859-1", b"\xe9", "é"),
    ],
)
def test_malformed_bytes_are_replaced_as_in_java(encoding: str, data: bytes, text: str) -> None:
    assert string_converter(encoding).to_connect_data("t", data).value == text


def test_utf_16_has_a_byte_order_mark_unless_empty() -> None:
    assert string_converter("UTF-16").encode_batch("t", None, ["a", ""]) == [b"\xfe\xff\x00a", b""]


@pytest.mark.parametrize("name", ["bogus", "hex", ""])
def test_an_unknown_charset_is_a_config_error(name: str) -> None:
    with pytest.raises(ConfigError, match=f"Unsupported encoding {name}"):
        string_converter(name)


def test_byte_array_converter_accepts_only_bytes() -> None:
    made = ByteArrayConverter()
    made.configure({}, False)
    assert made.encode_batch("t", Schema.BYTES, [b"a", None, memoryview(b"b")]) == [b"a", None, b"b"]
    with pytest.raises(DataError, match=r"java\.lang\.String"):
        made.encode_batch("t", None, ["a"])
    with pytest.raises(DataError, match="Invalid schema type for ByteArrayConverter: INT32"):
        made.encode_batch("t", Schema.INT32, [1])


@given(st.binary(max_size=40))
def test_any_header_is_read(data: bytes) -> None:
    SimpleHeaderConverter().to_connect_header("t", "h", data)


def test_headers_round_trip_with_their_type() -> None:
    made = SimpleHeaderConverter()
    for schema, value in ((Schema.INT8, 5), (Schema.BOOLEAN, True), (Schema.STRING, "x y"), (Schema.FLOAT32, 1.5)):
        assert made.to_connect_header("t", "h", made.from_connect_header("t", "h", schema, value)) == (schema, value)


def test_too_deep_header_remains_text() -> None:
    text = "[" * 50_000
    assert SimpleHeaderConverter().to_connect_header("t", "h", text.encode()).value == text
