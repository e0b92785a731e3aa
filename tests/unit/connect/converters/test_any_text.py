"""Whatever the bytes of a header or value are: they are read, or refused with a DataError, and in bounded time and memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connect.converters.byte_array import ByteArrayConverter
from connect.converters.simple_header import SimpleHeaderConverter
from connect.converters.string import StringConverter
from connect.data import values_conversion as conversion
from connect.data.values import convert_to_string, infer_schema, parse_string, parse_string_strictly
from connect.errors import DataError

PIECES = st.sampled_from(
    [*'[]{},:"\\ \t+-.eE0159x', "null", "true", "false", "1e400", "9" * 30, "2024-02-30", "12:34:56.789Z",
     "2024-02-28T12:34:56.789Z", "1e-2147483648", "1e2147483647", "1e2147483648", "٣", "é", "\ud800", '"a":', "[1,2.5]"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=30)


@settings(derandomize=True, deadline=None)
@given(TEXTS)
def test_any_text_is_parsed_and_its_value_can_be_written(text: str) -> None:
    schema, value = parse_string(text)
    written = convert_to_string(schema, value)
    assert (written is None) is (value is None)
    infer_schema(value)


@settings(derandomize=True, deadline=None)
@given(TEXTS)
def test_strict_parsing_gives_the_same_value_or_fails(text: str) -> None:
    with contextlib.suppress(DataError):
        assert repr(parse_string_strictly(text)) == repr(parse_string(text))


@settings(derandomize=True, deadline=None)
@given(TEXTS)
def test_any_text_is_converted_or_rejected(text: str) -> None:
    for convert in (
        conversion.convert_to_boolean, conversion.convert_to_long, conversion.convert_to_float, conversion.convert_to_list,
        conversion.convert_to_map, conversion.convert_to_date, conversion.convert_to_time, conversion.convert_to_timestamp,
    ):  # fmt: skip
        with contextlib.suppress(DataError):
            convert(None, text)
    with contextlib.suppress(DataError):
        conversion.convert_to_decimal(None, text, 2)


@settings(derandomize=True, deadline=None)
@given(st.binary(max_size=40), st.sampled_from(["UTF-8", "UTF-16", "UTF-32", "US-ASCII", "Shift_JIS"]), st.booleans())
@example(b"\xed\xa0\x80", "UTF-8", True)
@example(b"\xff\xfe\x00", "UTF-16", True)
def test_any_bytes_are_decoded_or_rejected(data: bytes, encoding: str, strict: bool) -> None:
    made = StringConverter()
    made.configure({"converter.encoding": encoding, "conversion.strict": str(strict).lower()}, False)
    with contextlib.suppress(DataError):
        read = made.to_connect_data("t", data)
        assert made.decode_batch("t", [data]) == [read]
        made.from_connect_data("t", *read)
    assert ByteArrayConverter().to_connect_data("t", data).value == data


BIG = {
    "lists that never end": "[" * 100_000,
    "lists in lists": "[" * 100_000 + "]" * 100_000,
    "maps that never end": '{"a":' * 50_000,
    "a large exponent": "1e999999999",
    "a larger exponent": "1e" + "9" * 100_000,
    "a small exponent": "-1e-2147483647",
    "many digits": "9" * 200_000,
    "many decimals": "0." + "3" * 200_000,
    "many quotes": '"' * 50_000,
    "many blanks": "[" + " " * 50_000,
    "many colons": "1:" * 30_000,
    "many backslashes": "\\" * 50_000,
    "many halves of pairs": "\ud800" * 10_000,
    "many elements that fail at the end": "[1" + ",1" * 2000,
}


@pytest.mark.parametrize("text", BIG.values(), ids=BIG.keys())
def test_large_texts_are_limited(text: str) -> None:
    strict = SimpleHeaderConverter()
    strict.configure({"conversion.strict": "true"})
    readers: tuple[Callable[[], Any], ...] = (
        lambda: SimpleHeaderConverter().to_connect_header("t", "h", text.encode("utf-8", "surrogatepass")),
        lambda: strict.to_connect_header("t", "h", text.encode("utf-8", "surrogatepass")),
        lambda: conversion.convert_to_long(None, text),
        lambda: conversion.convert_to_double(None, text),
        lambda: conversion.convert_to_decimal(None, text, 0),
        lambda: conversion.convert_to_date(None, text),
    )
    for read in readers:
        with contextlib.suppress(DataError):
            assert read() is not None


def test_too_deep_value_is_rejected_in_writing() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    try:
        with pytest.raises(DataError, match="nested too deeply"):
            SimpleHeaderConverter().from_connect_header("t", "h", None, deep)
        with pytest.raises(DataError, match="nested too deeply"):
            StringConverter().from_connect_data("t", None, deep)
        with pytest.raises(DataError, match="a deeply nested value"):
            conversion.convert_to_long(None, deep)
    finally:
        while deep:  # from the outside in: freeing it at once would need as deep a stack
            deep = deep.pop()
