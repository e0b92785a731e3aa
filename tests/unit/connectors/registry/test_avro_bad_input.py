"""Any input of AvroConverter gives a value or DataError: no crash, no hang, and memory in proportion to the payload."""

from __future__ import annotations

import contextlib
import json
import resource
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connect.errors import DataError
from connect.record import SchemaAndValue
from connectors.registry.avro.config import AvroConfig
from connectors.registry.avro.converter import AvroConverter
from connectors.registry.avro.decode import compile_decoder
from connectors.registry.avro.schemaless import decode_anything
from connectors.registry.avro.to_connect import connect_schema
from connectors.registry.avro.types import parse_avro
from connectors.registry.client import RegisteredSchema

_RECORD = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "s", "type": ["null", "string"]},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "list", "type": {"type": "array", "items": {"type": "map", "values": ["int", "string", "boolean"]}}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "x", "type": {"type": "fixed", "name": "X", "size": 3}},
        {"name": "f", "type": ["float", "double"]},
        {"name": "none", "type": {"type": "array", "items": {"type": "record", "name": "Empty", "fields": []}}},
    ],
}
_GOOD = (
    b"\x0a\x02\x06abc\x04\x01\x02\x08\x02\x80\xa0\xb7\xe6\xeb[\x06\x02\x04\x02a\x00\x02\x02b\x02\x02x\x00\x00\x02xyz\x02"
    + struct.pack("<d", 1.5)
    + b"\x04\x00"
)


def _decoder(text: object, strict: bool = False) -> Callable[[bytes, int], SchemaAndValue]:
    avro = parse_avro(json.dumps(text))
    schema = connect_schema(avro, AvroConfig())
    assert schema is not None
    return compile_decoder(avro, schema, strict)


def _only_data_errors(decode: Callable[[bytes, int], SchemaAndValue], data: bytes) -> None:
    with contextlib.suppress(DataError):
        decode(data, 0)


def test_the_valid_payload_is_decoded() -> None:
    value = _decoder(_RECORD, strict=True)(_GOOD, 0).value
    unions = [{name: union.as_dict() for name, union in one.items()} for one in value["list"]]
    nothing = {"int": None, "string": None, "boolean": None}
    assert unions == [{"a": {**nothing, "int": 1}, "b": {**nothing, "string": "x"}}]
    assert len(value["none"]) == 2


_PLAIN, _STRICT = _decoder(_RECORD), _decoder(_RECORD, strict=True)


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=80))
def test_random_bytes_raise_only_data_errors(data: bytes) -> None:
    _only_data_errors(_PLAIN, data)
    _only_data_errors(_STRICT, data)
    _only_data_errors(decode_anything, data)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, len(_GOOD) - 1), st.integers(0, 7), st.integers(0, len(_GOOD)))
def test_flipped_bits_and_truncated_payloads_raise_only_data_errors(place: int, bit: int, end: int) -> None:
    broken = bytearray(_GOOD)
    broken[place] ^= 1 << bit
    _only_data_errors(_PLAIN, bytes(broken))
    _only_data_errors(_PLAIN, bytes(broken[:end]))


@pytest.mark.parametrize("end", range(len(_GOOD)))
def test_the_error_for_a_truncated_payload_names_the_field(end: int) -> None:
    with pytest.raises(DataError, match=r"^field \w+.*: the data ends before the value does"):
        _PLAIN(_GOOD[:end], 0)


_HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
_NEGATIVE = b"\x01"


@pytest.mark.parametrize(
    ("text", "data", "message"),
    [
        ("string", _HUGE + b"abc", "the data ends before the value does"),
        ("string", _NEGATIVE + b"abc", "the data ends before the value does"),
        ("string", b"\xff" * 30, "a number of more than 64 bits"),
        ("int", b"\xff\xff\xff\xff\xff\x01", "a number of more than 32 bits"),
        ({"type": "array", "items": "int"}, _HUGE + b"\x02\x02", "the data ends before the value does"),
        ({"type": "array", "items": "int"}, b"\x01\x02\x02\x03", "the data ends before the value does"),
        ({"type": "map", "values": "int"}, _HUGE + b"\x02a\x02", "the data ends before the value does"),
        ({"type": "array", "items": {"type": "record", "name": "N", "fields": []}}, _HUGE + b"\0", "items that have no bytes"),
        (["null", "int", "string"], b"\x0a", "the union has 3 types and none has the number 5"),
        (["null", "int", "string"], b"\x01", "the union has 3 types and none has the number -1"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x04", "the enum has no symbol with the number 2"),
        ("boolean", b"\x07", "a boolean is 0 or 1, not 7"),
        ({"type": "int", "logicalType": "time-millis"}, b"\xfe\xff\xff\xff\x0f", "Time values must use"),
        (["null", {"type": "bytes", "logicalType": "decimal", "precision": 4}], b"\x02\x00", "a decimal without bytes"),
    ],
)
def test_false_lengths_and_numbers_are_rejected(text: object, data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        _decoder(text)(data, 0)


def test_false_sizes_allocate_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for items in ("int", "string", {"type": "map", "values": "bytes"}, {"type": "record", "name": "N", "fields": []}):
        _only_data_errors(_decoder({"type": "array", "items": items}), _HUGE + b"\x02" * 1000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kilobytes


def test_schemaless_data_cannot_be_nested_without_end() -> None:
    with pytest.raises(DataError, match="nested more than 200 levels deep"):
        decode_anything(b"\0\0\0\0\0\0\0\x02\x02" * 5000, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ('{"type": "recrod"}', "The Avro schema uses recrod, which is not defined"),
        ('{"type": "record", "name": "R"}', "The Avro record R has no fields"),
        ('{"type": "record", "fields": []}', "An Avro record without a name"),
        ('{"type": "array"}', "An Avro array without items"),
        ('{"type": "fixed", "name": "F", "size": -1}', "The Avro fixed F has no size"),
        ('["int", ["string"]]', "directly within a union"),
        ('"null"', "Standalone null schemas are not supported"),
        ('{"type": "array", "items": ' * 100 + '"int"' + "}" * 100, "nested more than 64 levels deep"),
        ("[" * 100_000 + "]" * 100_000, "is no JSON"),
        ('{"type": "int", "connect.type": "int7"}', "expected int8 or int16"),
        ('{"type": "int", "connect.version": "x"}', "Invalid Connect version found: x"),
        ('{"type": "int", "connect.parameters": {"a": 1}}', "must be an object of texts"),
    ],
)
def test_invalid_schemas_are_rejected(configured: Any, registry: Any, text: str, message: str) -> None:
    number = registry.add(RegisteredSchema(-1, text, "AVRO"))
    with pytest.raises(DataError, match=message):
        configured(AvroConverter).to_connect_data("t", b"\0" + struct.pack(">i", number) + b"\0")


def test_a_small_schema_cannot_ask_for_millions_of_parts() -> None:
    fields: list[Any] = [{"name": "a", "type": "int"}]
    for level in range(17):
        inner = {"type": "record", "name": f"L{level}", "fields": fields}
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"L{level}"}]
    with pytest.raises(DataError, match="has more than 100000 parts"):
        connect_schema(parse_avro(json.dumps({"type": "record", "name": "Top", "fields": fields})), AvroConfig())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=20))
def test_any_message_on_a_topic_is_a_value_or_a_data_error(configured: Any, registry: Any, data: bytes) -> None:
    registry.add(RegisteredSchema(-1, json.dumps(_RECORD), "AVRO"))
    converter = configured(AvroConverter)
    for payload in (data, b"\0\0\0\0\1" + data):
        with contextlib.suppress(DataError):
            converter.to_connect_data("orders", payload)
