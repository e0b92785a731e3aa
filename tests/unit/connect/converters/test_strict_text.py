"""What StringConverter and SimpleHeaderConverter lose in silence, and refuse with ``conversion.strict=true``."""

from __future__ import annotations

from typing import Any

import pytest

from connect import Schema, Struct, Type
from connect.converters.simple_header import SimpleHeaderConverter
from connect.converters.string import StringConverter
from connect.errors import DataError


def string_converter(encoding: str, strict: str) -> StringConverter:
    made = StringConverter()
    made.configure({"converter.encoding": encoding, "conversion.strict": strict}, False)
    return made


def header_converter(strict: str) -> SimpleHeaderConverter:
    made = SimpleHeaderConverter()
    made.configure({"conversion.strict": strict})
    return made


@pytest.mark.parametrize(
    ("encoding", "text", "written", "message"),
    [
        ("UTF-8", "a\ud800", b"a?", "The charset UTF-8 has no character U+D800, which is at position 1 of the text"),
        ("US-ASCII", "é", b"?", "The charset US-ASCII has no character U+00E9, which is at position 0 of the text"),
        (
            "UTF-16",
            "\udc00",
            b"\xfe\xff\xff\xfd",
            "The charset UTF-16 has no character U+DC00, which is at position 0 of the text",
        ),
    ],
)
def test_strict_encoding_rejects_characters_outside_the_charset(encoding: str, text: str, written: bytes, message: str) -> None:
    assert string_converter(encoding, "false").encode_batch("t", None, [text]) == [written]
    with pytest.raises(DataError) as raised:
        string_converter(encoding, "true").encode_batch("t", Schema.STRING, ["fine", text])
    assert raised.value.message == message


@pytest.mark.parametrize(
    ("encoding", "data", "text"),
    [("UTF-8", b"a\xff", "a\ufffd"), ("UTF-16", b"\x00a\x00", "a\ufffd"), ("US-ASCII", b"\xe9", "\ufffd")],
)
def test_strict_decoding_rejects_malformed_bytes(encoding: str, data: bytes, text: str) -> None:
    assert string_converter(encoding, "false").decode_batch("t", [data])[0].value == text
    with pytest.raises(DataError, match=f"The bytes are no text in the charset {encoding}, from position"):
        string_converter(encoding, "true").decode_batch("t", [data])


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16", "UTF-32", "ISO-8859-1", "windows-1252"])
def test_text_within_the_charset_round_trips(encoding: str) -> None:
    strict, lenient = string_converter(encoding, "true"), string_converter(encoding, "false")
    written = strict.encode_batch("t", None, ["é1", "", None])
    assert written == lenient.encode_batch("t", None, ["é1", "", None])
    assert strict.decode_batch("t", written) == lenient.decode_batch("t", written)


ROW = Schema(Type.STRUCT, fields=[("a", Schema.BYTES)])


@pytest.mark.parametrize("value", [b"x", [1, [b"x"]], {"a": memoryview(b"x")}, Struct(ROW, [b"x"])])
def test_strict_text_rejects_bytes(value: Any) -> None:
    assert string_converter("UTF-8", "false").from_connect_data("t", None, value) is not None
    with pytest.raises(DataError, match="A value with bytes in it cannot be written as text without loss"):
        string_converter("UTF-8", "true").from_connect_data("t", None, value)


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("0.1234567890123", "0.1234567890123 is read as 0.12345679"),
        ("123456789.5", "123456789.5 is read as 1.23456792E8"),
        ("1,5", "what follows 1 is dropped"),
        ("12:34:56Z", "what follows 12 is dropped"),
        ("2024-02-28]", "what follows 2024-02-28 is dropped"),
        ("2024-02-30", "2024-02-30 is read as 2024-03-01"),
        ("[2024-02-30]", "2024-02-30 is read as 2024-03-01"),
        ('["2024-1-1xx"]', "2024-1-1xx is read as 2024-01-01"),
        ("25:00:00.000Z", "25:00:00.000Z is read as 01:00:00.000Z of another day"),
        ("[16777217, 2.5]", "16777217 is read as 1.6777216E7"),
        ("[0.1, 1e300]", "0.1 is read as 0.10000000149011612"),
        ('{"a":1,"a":2}', "the key a is there twice, and the first value is dropped"),
    ],
)
def test_strict_header_rejects_lossy_inference(text: str, loss: str) -> None:
    assert header_converter("false").to_connect_header("t", "h", text.encode()).schema is not None
    with pytest.raises(DataError) as raised:
        header_converter("true").to_connect_header("t", "h", text.encode())
    assert raised.value.message == f'Header "h": The text {text!r} cannot be read without loss: {loss} (conversion.strict=true)'


@pytest.mark.parametrize(
    "text",
    ["300", "1.0", "1e3", "0.1", "+5", "1e400", "true", "", " ", "abc", "NaN", "[1, 2.5]", '{"a":1,"b":[]}', "2024-02-29",
     "0000-01-01", "12:34:56.789Z", "2024-05-06T12:34:56.789Z", '["12:34:56.789Z"]', "[1,5", "[x, 1,5", '"12:30"'],
)  # fmt: skip
def test_lossless_headers_read_as_without_strict(text: str) -> None:
    data = text.encode()
    assert header_converter("true").to_connect_header("t", "h", data) == header_converter("false").to_connect_header(
        "t", "h", data
    )


def test_strict_headers_reject_invalid_utf_8_and_surrogates() -> None:
    assert header_converter("false").to_connect_header("t", "h", b"a\xff").value == "a\ufffd"
    with pytest.raises(DataError, match='Header "h": The bytes are no text in the charset UTF-8, from position 1 on'):
        header_converter("true").to_connect_header("t", "h", b"a\xff")
    assert header_converter("false").from_connect_header("t", "h", None, "\ud800") == b"?"
    with pytest.raises(DataError, match='Header "h": The charset UTF-8 has no character'):
        header_converter("true").from_connect_header("t", "h", None, "\ud800")
    assert header_converter("true").from_connect_header("t", "h", None, None) is None
    assert header_converter("true").to_connect_header("t", "h", None) == (None, None)
