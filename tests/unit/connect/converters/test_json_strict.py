"""JsonConverter with ``conversion.strict``: what is lost in silence otherwise is an error that names the field."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from connect.converters.json.converter import JsonConverter
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError

INT8 = {"type": "int8"}
NOT_KEPT = [
    ({"type": "int8"}, "300", "300 is not between -128 and 127"),
    ({"type": "int8"}, '"a"', "'a' is no whole number"),
    ({"type": "int16"}, "true", "true is no whole number"),
    ({"type": "int32"}, "1.9", "1.9 is no whole number"),
    ({"type": "int64"}, "9223372036854775808", "is not between"),
    ({"type": "int64"}, "1e400", "is no whole number"),
    ({"type": "float"}, "16777217", "has more digits than float keeps"),
    ({"type": "float"}, "1e39", "beyond its range"),
    ({"type": "double"}, '"nan"', "'nan' is no number"),
    ({"type": "double"}, "0.12345678901234567890", "has more digits than double keeps"),
    ({"type": "boolean"}, "1", "1 is neither true nor false"),
    ({"type": "string", "optional": True}, "128", "128 is no text"),
    ({"type": "bytes", "optional": True}, "1", "1 is no base64 text"),
    ({"type": "array", "items": INT8}, '{"a": 1}', "an object is no array"),
    ({"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"}, "18446744073709551616", "is not between"),
]
KEPT = [
    ({"type": "int8"}, "-128"),
    ({"type": "int32"}, "1.0"),
    ({"type": "float"}, "0.1"),
    ({"type": "double"}, "1.10"),
    ({"type": "double"}, "3"),
    ({"type": "string"}, '"x"'),
    ({"type": "array", "items": {"type": "double"}}, "[1, 2.5, 1e300]"),
]


def converter(**settings: str) -> JsonConverter:
    made = JsonConverter()
    made.configure({"conversion.strict": "true", **settings}, False)
    return made


def lenient(**settings: str) -> JsonConverter:
    made = JsonConverter()
    made.configure(settings, False)
    return made


def message(schema: dict[str, Any], payload: str) -> bytes:
    struct = {"type": "struct", "fields": [{**schema, "field": "f"}]}
    return f'{{"schema":{json.dumps(struct)},"payload":{{"f":{payload}}}}}'.encode()


@pytest.mark.parametrize(("schema", "payload", "why"), NOT_KEPT)
def test_loss_is_an_error_that_names_the_field(schema: dict[str, Any], payload: str, why: str) -> None:
    data = message(schema, payload)
    lenient().to_connect_data("t", data)  # the original's way
    for read in (lambda: converter().to_connect_data("t", data), lambda: converter().decode_batch("t", [data] * 3)):
        with pytest.raises(DataError, match='Field "f"') as raised:
            read()
        assert why in raised.value.message
        assert "conversion.strict" in raised.value.message


@pytest.mark.parametrize(("schema", "payload"), KEPT)
def test_lossless_values_read_as_without_strict(schema: dict[str, Any], payload: str) -> None:
    data = message(schema, payload)
    assert converter().decode_batch("t", [data] * 3) == lenient().decode_batch("t", [data] * 3)


@pytest.mark.parametrize("type_", ["float", "double"])
@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_words_for_non_finite_numbers_are_read(type_: str, word: str) -> None:
    data = message({"type": type_}, f'"{word}"')
    assert lenient().to_connect_data("t", data).value.get("f") == 0.0
    for read in (converter().to_connect_data("t", data), *converter().decode_batch("t", [data] * 9)):
        assert str(read.value.get("f")) == str(float(word))


@pytest.mark.parametrize("payload", ["-0.0", "5.684341886080802E-14"])
@pytest.mark.parametrize("count", [1, 9])
def test_doubles_keep_their_bits(payload: str, count: int) -> None:
    read = converter().decode_batch("t", [message({"type": "double"}, payload)] * count)
    assert {r.value.get("f").hex() for r in read} == {float(payload).hex()}


@pytest.mark.parametrize("payload", ["-0.0", "1.4E-45", "9.671407E24", "9.6714065E24", "3.4028235E38", "0.1"])
def test_floats_keep_their_bits(payload: str) -> None:
    (read,) = converter().decode_batch("t", [message({"type": "float"}, payload)])
    assert struct.pack(">f", read.value.get("f")) == struct.pack(">f", float(payload))


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ('{"a":{"b":[1,18446744073709551616]}}', 'Field "a.b[1]": 18446744073709551616 is beyond 64 bits'),
        ('{"a":0.1234567890123456789}', 'Field "a": 0.1234567890123456789 has more digits than a double keeps'),
        ('{"a":1,"a":2}', "Field 'a' is there twice"),
        ('{"a":1} {"b":2}', "Something follows the JSON value"),
        ("18446744073709551616", "The value: 18446744073709551616 is beyond 64 bits"),
    ],
)
def test_without_schemas(payload: str, why: str) -> None:
    settings = {"schemas.enable": "false"}
    lenient(**settings).to_connect_data("t", payload.encode())
    with pytest.raises(DataError) as raised:
        converter(**settings).decode_batch("t", [b'{"a":1}', payload.encode()])
    assert why in raised.value.message


@pytest.mark.parametrize("payload", [b'{"a":1.5,"b":"x"}', b'{ "a" : 1e3, "b" : 10000000.0 }', b"0", b'"\\u00e9"', b"[1.10]"])
def test_lossless_schemaless_values_read_as_without_strict(payload: bytes) -> None:
    settings = {"schemas.enable": "false"}
    assert converter(**settings).decode_batch("t", [payload, None]) == lenient(**settings).decode_batch("t", [payload, None])


def test_unknown_member_is_an_error() -> None:
    data = b'{"schema":{"type":"struct","fields":[{"type":"int8","field":"a"}]},"payload":{"a":1,"b":2}}'
    assert lenient().to_connect_data("t", data).value.as_dict() == {"a": 1}
    with pytest.raises(DataError, match='Field "b": 2 has no field in the schema and would be left out'):
        converter().decode_batch("t", [data])


def test_schema_member_of_wrong_type_is_an_error() -> None:
    data = b'{"schema":{"type":"int8","version":"1"},"payload":1}'
    schema = lenient().to_connect_data("t", data).schema
    assert schema is not None
    assert schema.version is None
    with pytest.raises(DataError, match="Schema member version is STRING"):
        converter().to_connect_data("t", data)


def test_default_is_read_strictly() -> None:
    data = b'{"schema":{"type":"int8","default":300},"payload":1}'
    lenient().to_connect_data("t", data)
    with pytest.raises(DataError, match="300 is not between"):
        converter().to_connect_data("t", data)


def test_duplicate_key_in_a_map_of_pairs_is_an_error() -> None:
    schema = {"type": "map", "keys": {"type": "int8"}, "values": {"type": "string"}}
    data = message(schema, '[[1,"a"],[1,"b"]]')
    lenient().to_connect_data("t", data)
    with pytest.raises(DataError, match="second value of the same key"):
        converter().to_connect_data("t", data)


@pytest.mark.parametrize("schema", [None, Schema(Type.FLOAT64), Schema(Type.FLOAT32)])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_and_infinity_are_errors_in_strict_writing(schema: Schema | None, value: float) -> None:
    assert lenient(**{"schemas.enable": "false"}).from_connect_data("t", schema, value) in (b'"NaN"', b'"Infinity"')
    strict = converter(**{"schemas.enable": "false"})
    for write in (
        lambda: strict.from_connect_data("t", schema, value),
        lambda: strict.encode_batch("t", schema, [1.5, value] * 4),
    ):
        with pytest.raises(DataError, match="JSON has no number for"):
            write()


def test_error_in_writing_names_the_field() -> None:
    schema = SchemaBuilder.struct().field("price", Schema(Type.FLOAT64)).build()
    with pytest.raises(DataError, match='for field: "price"'):
        converter().from_connect_data("t", schema, Struct(schema, [float("nan")]))


def test_null_key_is_an_error_in_strict_writing() -> None:
    keys = SchemaBuilder.map(Schema.OPTIONAL_STRING, Schema.INT8).build()
    schema = SchemaBuilder.struct().field("m", keys).build()
    row = Struct(schema, [{"a": 1, None: 2}])
    assert lenient(**{"schemas.enable": "false"}).from_connect_data("t", schema, row) == b'{"m":{"a":1,"null":2}}'
    with pytest.raises(DataError, match='no null key: "null" would take its place for field: "m"'):
        converter(**{"schemas.enable": "false"}).from_connect_data("t", schema, row)


def test_bytes_that_are_not_utf_8_are_rejected() -> None:
    strict = converter(**{"schemas.enable": "false"})
    for data in (b'"a\xc0\x80"', b"{} \xff", '"\ud83dx"'.encode("utf-16-le", "surrogatepass")):
        lenient(**{"schemas.enable": "false"}).to_connect_data("t", data)
        with pytest.raises(DataError, match="serialization error"):
            strict.to_connect_data("t", data)


def test_value_of_conversion_strict_is_checked() -> None:
    with pytest.raises(ConfigError, match=r"conversion\.strict"):
        converter(**{"conversion.strict": "perhaps"})
