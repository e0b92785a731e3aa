"""JsonSchemaConverter: values round-trip with Confluent's schemas, and invalid JSON is rejected."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connectors.registry.client import Reference, RegisteredSchema
from connectors.registry.json_schema.converter import JsonSchemaConverter

Make = Callable[..., JsonSchemaConverter]
_INNER = SchemaBuilder.struct().name("shop.Inner").field("n", Schema.INT32).field("s", Schema.OPTIONAL_STRING).build()
_WHEN = dt.datetime(2024, 2, 29, 12, 30, 15, 123000, tzinfo=dt.UTC)

CASES: list[tuple[Schema, Any]] = [
    (Schema.INT8, -128),
    (Schema.OPTIONAL_INT8, 127),
    (Schema.INT16, 32767),
    (Schema.INT32, -(2**31)),
    (Schema.INT64, 2**63 - 1),
    (Schema.OPTIONAL_INT64, -(2**63)),
    (Schema.FLOAT32, 0.10000000149011612),
    (Schema.FLOAT64, 1e300),
    (Schema.OPTIONAL_FLOAT64, math.inf),
    (Schema.BOOLEAN, True),
    (Schema.STRING, 'ä𝄞"\\\n'),
    (Schema.OPTIONAL_STRING, ""),
    (Schema.BYTES, b"\x00\xff"),
    (Schema.OPTIONAL_BYTES, b""),
    (decimal_schema(3), Decimal("-12345678901234567890.120")),
    (date_schema(), dt.date(2024, 2, 29)),
    (time_schema(optional=True), dt.time(23, 59, 59, 999000)),
    (timestamp_schema(), _WHEN),
    (SchemaBuilder.array(Schema.OPTIONAL_INT64).build(), [1, None, -3]),
    (SchemaBuilder.array(_INNER).optional().build(), [Struct(_INNER, [1, None])]),
    (SchemaBuilder.map(Schema.STRING, Schema.OPTIONAL_INT32).build(), {"a": 1, "b": None}),
    (SchemaBuilder.map(Schema.INT32, _INNER).build(), {7: Struct(_INNER, [7, "seven"])}),
    (SchemaBuilder.map(Schema.OPTIONAL_STRING, Schema.INT32).optional().build(), {None: 1, "x": 2}),
    (_INNER, Struct(_INNER, [-5, "text"])),
    (_INNER.as_optional(), Struct(_INNER.as_optional(), [-5, None])),
]


@pytest.mark.parametrize(("schema", "value"), CASES)
def test_values_round_trip(configured: Make, schema: Schema, value: Any) -> None:
    converter = configured(JsonSchemaConverter)
    back = converter.to_connect_data("t", converter.from_connect_data("t", schema, value))
    assert back.schema is not None
    assert back.schema == (schema.replace(version=1) if schema.version is None else schema)
    assert back.value == (Struct(back.schema, value.values) if isinstance(value, Struct) else value)


def test_every_type_round_trips_as_a_field_with_its_schema(configured: Make) -> None:
    schema = Schema(Type.STRUCT, name="shop.All", version=2, fields=[(f"f{i}", s) for i, (s, _) in enumerate(CASES)])
    value = Struct(schema, [0.5 if v == math.inf else v for _, v in CASES])  # infinity is valid under no JSON schema
    converter = configured(JsonSchemaConverter, **{"json.fail.invalid.schema": "true"})
    back = converter.to_connect_data("t", converter.from_connect_data("t", schema, value))
    assert back.schema == schema
    assert back.value.values == value.values


def test_schema_and_payload_are_confluents(configured: Make, registry: Any) -> None:
    schema = (
        SchemaBuilder.struct()
        .name("shop.Order")
        .field("id", Schema.INT64)
        .field("note", Schema(Type.STRING, optional=True, doc="free text"))
        .field("left", Schema(Type.INT32, default=3))
        .build()
    )
    data = configured(JsonSchemaConverter).from_connect_data("t", schema, Struct(schema, [1, None, None]))
    assert data == b'\0\0\0\0\x01{"id":1,"note":null,"left":3}'
    assert json.loads(registry.schema(1).text) == {
        "type": "object",
        "title": "shop.Order",
        "properties": {
            "id": {"type": "integer", "connect.index": 0, "connect.type": "int64"},
            "note": {"connect.index": 1, "oneOf": [{"type": "null"}, {"type": "string", "description": "free text"}]},
            "left": {"type": "integer", "default": 3, "connect.index": 2, "connect.type": "int32"},
        },
    }


def test_numeric_decimals_keep_every_digit(configured: Make) -> None:
    schema = Schema(Type.STRUCT, name="D", fields=[("d", decimal_schema(3))])
    converter = configured(JsonSchemaConverter, **{"decimal.format": "numeric"})
    data = converter.from_connect_data("t", schema, Struct(schema, [Decimal("12345678901234567890.120")]))
    assert data is not None
    assert data[5:] == b'{"d":12345678901234567890.120}'
    assert converter.to_connect_data("t", data).value.values == [Decimal("12345678901234567890.120")]


_UNION = Schema(
    Type.STRUCT,
    name="io.confluent.connect.json.OneOf",
    fields=[
        (f"io.confluent.connect.json.OneOf.field.{i}", s)
        for i, s in enumerate((Schema.OPTIONAL_STRING, Schema.OPTIONAL_INT32, _INNER.as_optional()))
    ],
)


@pytest.mark.parametrize("position", range(3))
def test_a_one_of_becomes_a_struct_with_one_field_set(configured: Make, position: int) -> None:
    values: list[Any] = [None] * 3
    values[position] = ["x", 5, Struct(_INNER.as_optional(), [1, "x"])][position]
    converter = configured(JsonSchemaConverter)
    back = converter.to_connect_data("t", converter.from_connect_data("t", _UNION, Struct(_UNION, values)))
    assert back.value.values == values


def _read(make: Make, registry: Any, node: Any, data: bytes, **configs: str) -> Any:
    number = registry.add(RegisteredSchema(-1, node if isinstance(node, str) else json.dumps(node), "JSON"))
    return make(JsonSchemaConverter, **configs).to_connect_data("t", b"\0" + struct.pack(">i", number) + data)


def test_plain_json_schema_is_read(configured: Make, registry: Any) -> None:
    node = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "definitions": {"price": {"type": "number"}},
        "properties": {
            "name": {"type": "string", "default": "?"},
            "color": {"type": "string", "enum": ["red", "green"]},
            "price": {"$ref": "#/definitions/price"},
            "tags": {"type": "array", "items": {"type": ["string", "null"]}},
            "size": {"allOf": [{"type": "object", "properties": {"w": {"type": "integer"}}, "required": ["w"]}]},
        },
        "required": ["price"],
    }
    payload = b'{"color":"red","price":2.5,"tags":["a",null],"size":{"w":3},"more":1}'
    schema, value = _read(configured, registry, node, payload, **{"use.optional.for.nonrequired": "true"})
    assert value.as_dict() == {"name": "?", "color": "red", "price": 2.5, "tags": ["a", None], "size": {"w": 3}}
    assert {f.name: (f.schema.type, f.schema.optional) for f in schema.fields} == {
        "name": (Type.STRING, True),
        "color": (Type.STRING, True),
        "price": (Type.FLOAT64, False),
        "tags": (Type.ARRAY, True),
        "size": (Type.STRUCT, True),
    }
    with pytest.raises(DataError, match="the schema has no property 'more', which would be left out"):
        _read(configured, registry, node, payload, **{"conversion.strict": "true", "use.optional.for.nonrequired": "true"})


def test_references_to_other_schemas_are_followed(configured: Make, registry: Any) -> None:
    registry.register("p", RegisteredSchema(-1, '{"definitions":{"p":{"type":"integer"}}}', "JSON"))
    text = '{"type":"object","properties":{"a":{"$ref":"price.json#/definitions/p"}}}'
    number = registry.add(RegisteredSchema(-1, text, "JSON", (Reference("price.json", "p", 1),)))
    converter = configured(JsonSchemaConverter, **{"json.fail.invalid.schema": "true"})
    head = b"\0" + struct.pack(">i", number)
    assert converter.to_connect_data("t", head + b'{"a":1}').value.as_dict() == {"a": 1}
    with pytest.raises(DataError, match=f"schema id {number}.*field a: not valid under the JSON schema: 'x' is not of type"):
        converter.to_connect_data("t", head + b'{"a":"x"}')


def test_data_without_a_schema_is_rejected(configured: Make) -> None:
    converter = configured(JsonSchemaConverter)
    assert converter.from_connect_data("t", None, None) is None
    with pytest.raises(DataError, match="JsonConverter writes it"):
        converter.from_connect_data("t", None, {"a": 1})


def test_the_latest_version_checks_what_is_written(configured: Make, registry: Any) -> None:
    node = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}}
    registry.register("t-value", RegisteredSchema(-1, json.dumps(node), "JSON"))
    old = {"auto.register.schemas": "false", "use.latest.version": "true"}
    schema = Schema(Type.STRUCT, fields=[("n", Schema.INT32)])
    converter = configured(JsonSchemaConverter, **old)
    assert converter.from_connect_data("t", schema, Struct(schema, [5])) == b'\0\0\0\0\x01{"n":5}'
    with pytest.raises(DataError, match="field n: not valid under the JSON schema: 6 is greater than the maximum"):
        converter.from_connect_data("t", schema, Struct(schema, [6]))
    lenient = configured(JsonSchemaConverter, **old, **{"latest.compatibility.strict": "false"})
    assert lenient.from_connect_data("t", schema, Struct(schema, [6])) == b'\0\0\0\0\x01{"n":6}'


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[Struct(_INNER, ["x", None])]], "field l.n: a whole number from .* is needed, not str 'x'"),
        ([[5]], "field l: a Struct is needed, not int 5"),
        ([5], "field l: a list is needed, not int 5"),
    ],
)
def test_the_error_for_an_invalid_value_names_its_field(configured: Make, value: Any, message: str) -> None:
    schema = Schema(Type.STRUCT, name="O", fields=[("l", SchemaBuilder.array(_INNER).build())])
    with pytest.raises(DataError, match=message):
        configured(JsonSchemaConverter).from_connect_data("t", schema, Struct(schema, value))


@pytest.mark.parametrize(
    ("node", "data", "loose"),
    [
        ({"type": "integer", "connect.type": "int8"}, b"300", 44),
        ({"type": "integer"}, b"1.9", 1),
        ({"type": "boolean"}, b'"true"', False),
        ({"type": "number"}, b'"x"', 0.0),
    ],
)
def test_lenient_conversions_are_errors_when_strict(configured: Make, registry: Any, node: Any, data: bytes, loose: Any) -> None:
    assert _read(configured, registry, node, data).value == loose
    with pytest.raises(DataError):
        _read(configured, registry, node, data, **{"conversion.strict": "true"})


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("{", "The JSON schema is no JSON"),
        ({}, "A JSON schema without a type"),
        (True, "says nothing of the type"),
        ({"type": "null"}, "null alone"),
        ({"type": "text"}, "The type 'text' of a JSON schema is not known"),
        ({"type": "array"}, "Array schema did not specify the items type"),
        ({"$ref": "#/nowhere"}, "leads nowhere"),
        ({"$ref": "#"}, "leads from one to the next without end"),
        ({"$ref": "http://example.com/x"}, "which is none of its references"),
        ({"type": "object", "properties": {"next": {"$ref": "#"}}}, "field next: The JSON schema  refers to itself"),
        ({"oneOf": []}, "need a list of schemas"),
        ({"type": "integer", "default": [1]}, "does not fit its JSON schema|Invalid"),
    ],
)
def test_invalid_schemas_are_rejected(configured: Make, registry: Any, node: Any, message: str) -> None:
    strict = {"conversion.strict": "true"}  # so that a default of another type is not read loosely
    with pytest.raises(DataError, match=message):
        _read(configured, registry, node, b"1", **strict)


_ANY = {
    "type": "object",
    "properties": {
        "i": {"type": "integer", "connect.type": "int16"},
        "f": {"type": "number", "connect.type": "float32"},
        "b": {"type": "string", "connect.type": "bytes"},
        "d": {"type": "number", "connect.type": "bytes", "title": "org.apache.kafka.connect.data.Decimal",
              "connect.parameters": {"scale": "2"}, "connect.version": 1},
        "l": {"type": "array", "items": {"oneOf": [{"type": "null"}, {"type": "string"}, {"type": "object"}]}},
        "m": {"type": "array", "connect.type": "map", "items": {"type": "object", "properties": {
            "key": {"type": "integer"}, "value": {"type": "boolean"}}}},
    },
}  # fmt: skip


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=40)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ifbdlmx"), inner, max_size=4),
        max_leaves=12,
    ).map(lambda node: json.dumps(node).encode())
)
def test_any_payload_is_a_value_or_a_data_error(configured: Make, registry: Any, data: bytes) -> None:
    for configs in ({}, {"conversion.strict": "true"}, {"json.fail.invalid.schema": "true"}):
        with contextlib.suppress(DataError):
            _read(configured, registry, _ANY, data, **configs)


@pytest.mark.parametrize(
    "payload", [b"[" * 100_000, b'{"l":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"i":1e999999999}', b'{"d":1e999999999}']
)
def test_hostile_json_is_rejected_quickly(configured: Make, registry: Any, payload: bytes) -> None:
    with contextlib.suppress(DataError):
        _read(configured, registry, _ANY, payload)


def test_a_missing_property_is_null_and_an_error_when_strict(configured: Make, registry: Any) -> None:
    node = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
    assert _read(configured, registry, node, b'{"a":1}').value.values == [1, None]
    with pytest.raises(DataError, match="field b: the property is missing and required"):
        _read(configured, registry, node, b'{"a":1}', **{"conversion.strict": "true"})
    with pytest.raises(DataError, match="field b: Invalid null value for required STRING field"):
        _read(configured, registry, node, b'{"a":1,"b":null}')
