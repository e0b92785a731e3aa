"""The Avro codec agrees with fastavro in both directions, for any schema and value."""

from __future__ import annotations

import io
import json
from itertools import count
from typing import Any

import fastavro
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.data.types import INT_RANGES
from connectors.registry.avro.config import AvroConfig
from connectors.registry.avro.decode import compile_decoder
from connectors.registry.avro.encode import compile_encoder
from connectors.registry.avro.from_connect import avro_schema
from connectors.registry.avro.to_connect import connect_schema
from connectors.registry.avro.types import avro_text, parse_avro

_OPTIONS = AvroConfig()
_PRIMITIVES = [kind for kind in Type if kind.is_primitive]
_numbers = count()
_KEYS = [Schema.STRING, Schema.INT32, Schema.OPTIONAL_STRING, Schema.BOOLEAN]


@st.composite
def _schemas(draw: Any, depth: int = 3) -> Schema:
    """A schema. No two have the same name: Avro defines each once."""
    optional = draw(st.booleans())
    kind = draw(st.sampled_from(_PRIMITIVES if depth == 0 else [*_PRIMITIVES[:6], Type.ARRAY, Type.MAP, Type.STRUCT]))
    name = f"n.T{next(_numbers)}"
    if kind is Type.ARRAY:
        return Schema(kind, optional=optional, value_schema=draw(_schemas(depth - 1)))
    if kind is Type.MAP:
        key = draw(st.sampled_from(_KEYS))
        named = None if key is Schema.STRING else name
        return Schema(kind, optional=optional, name=named, key_schema=key, value_schema=draw(_schemas(depth - 1)))
    if kind is Type.STRUCT:
        fields = [(f"f{i}", draw(_schemas(depth - 1))) for i in range(draw(st.integers(0, 3)))]
        return Schema(kind, optional=optional, name=name, fields=fields)
    return Schema(kind, optional=optional)


_SCALARS: dict[Type, st.SearchStrategy[Any]] = {
    **{kind: st.integers(*INT_RANGES[kind]) for kind in INT_RANGES},
    Type.FLOAT32: st.floats(width=32, allow_nan=False),
    Type.FLOAT64: st.floats(allow_nan=False),
    Type.BOOLEAN: st.booleans(),
    Type.STRING: st.text(st.characters(exclude_categories=["Cs"]), max_size=70),
    Type.BYTES: st.binary(max_size=70),
}


def _values(schema: Schema | None) -> st.SearchStrategy[Any]:
    """Values of the schema, in fastavro's form: dicts for structs, lists of entries for maps without text keys."""
    assert schema is not None
    if schema.type is Type.STRUCT:
        made: st.SearchStrategy[Any] = st.fixed_dictionaries({f.name: _values(f.schema) for f in schema.fields or ()})
    elif schema.type is Type.ARRAY:
        made = st.lists(_values(schema.value_schema), max_size=3)
    elif schema.type is Type.MAP:
        made = st.dictionaries(_values(schema.key_schema), _values(schema.value_schema), max_size=3)
        if not _is_native(schema):
            made = made.map(lambda found: [{"key": k, "value": v} for k, v in found.items()])
    else:
        made = _SCALARS[schema.type]
    return st.none() | made if schema.optional else made


def _is_native(schema: Schema) -> bool:
    return schema.key_schema is not None and schema.key_schema.type is Type.STRING and not schema.key_schema.optional


def _connect(schema: Schema | None, value: Any) -> Any:
    """Fastavro's form as Connect's."""
    assert schema is not None
    if value is None:
        return None
    if schema.type is Type.STRUCT:
        return Struct(schema, [_connect(f.schema, value[f.name]) for f in schema.fields or ()])
    if schema.type is Type.ARRAY:
        return [_connect(schema.value_schema, v) for v in value]
    if schema.type is Type.MAP:
        pairs = value.items() if isinstance(value, dict) else ((e["key"], e["value"]) for e in value)
        return {k: _connect(schema.value_schema, v) for k, v in pairs}
    return value


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_encoder_and_decoder_agree_with_fastavro(data: st.DataObject) -> None:
    fields = [(f"a{i}", data.draw(_schemas())) for i in range(2)]
    schema = Schema(Type.STRUCT, name="top.T", fields=fields)
    text = avro_text(avro_schema(schema, _OPTIONS))
    avro = parse_avro(text)
    assert connect_schema(avro, _OPTIONS) == schema
    theirs = fastavro.parse_schema(json.loads(text))
    plain = data.draw(_values(schema))
    value = _connect(schema, plain)
    (written,) = compile_encoder(schema, avro, _OPTIONS, False)([value])
    stream = io.BytesIO(written)
    assert fastavro.schemaless_reader(stream, theirs, None) == plain
    assert stream.read() == b""
    by_them = io.BytesIO()
    fastavro.schemaless_writer(by_them, theirs, plain)
    assert compile_decoder(avro, schema, True)(by_them.getvalue(), 0).value == value
