"""Maps with schemas: the batch path reads what the exact path reads, or leaves it to it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.converters.json.converter import JsonConverter
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import SinkRecord
from connectors.spark.decode.json import NotBatchable
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.topic_decoder import DECODE_ERRORS, TopicDecoder

_DATA = "org.apache.kafka.connect.data"
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.one_of(TEXTS, st.sampled_from(['"m":{', "\\", '{"m":{"a":1}}', "],[", "null"])),
    "int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
}


def decoder() -> TopicDecoder:
    key, value = JsonConverter(), JsonConverter()
    key.configure({"schemas.enable": "true"}, True)
    value.configure({"schemas.enable": "true"}, False)
    return TopicDecoder(
        "t", key, value, key_schemas=True, value_schemas=True, fill_defaults=False, key_name="id",
        needs_names=False, needs_keys=False,
    )  # fmt: skip


def message(schema: Any, payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":"), ensure_ascii=False).encode()


def struct(**fields: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"field": n, "optional": True, **s} for n, s in fields.items()]}


def map_of(value: Any, key: str = "string") -> dict[str, Any]:
    return {"type": "map", "keys": {"type": key}, "values": {"optional": True, **value}}


def buffer(values: list[bytes]) -> RawBuffer:
    return RawBuffer("t", [0] * len(values), list(range(len(values))), [None] * len(values), list(values))


def rows(decode: Any, values: list[bytes]) -> list[Any]:
    found: list[Any] = [None] * len(values)
    for part in decode(buffer(values), 0):
        for offset, row in zip(part.meta["offset"].to_pylist(), part.image.to_pylist(), strict=True):
            found[offset] = row
    return found


@st.composite
def schemas(draw: Any, depth: int = 2) -> dict[str, Any]:
    kinds = ["leaf"] if not depth else ["leaf", "map", "map", "array", "struct"]
    kind = draw(st.sampled_from(kinds))
    if kind == "map":
        return map_of(draw(schemas(depth - 1)), draw(st.sampled_from(["string", "int32", "boolean"])))
    if kind == "array":
        return {"type": "array", "items": {"optional": True, **draw(schemas(depth - 1))}}
    if kind == "struct":
        return struct(**{n: draw(schemas(depth - 1)) for n in draw(st.sets(st.sampled_from(["a", "m", "value"]), min_size=1))})
    return {"type": draw(st.sampled_from(sorted(LEAVES)))}


def values_of(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    kind = schema["type"]
    found: st.SearchStrategy[Any]
    if kind == "struct":
        found = st.fixed_dictionaries({f["field"]: values_of(f) for f in schema["fields"]})
    elif kind == "array":
        found = st.lists(values_of(schema["items"]), max_size=3)
    elif kind == "map":
        keys = LEAVES[schema["keys"]["type"]]
        found = st.dictionaries(keys, values_of(schema["values"]), max_size=3)
        if schema["keys"]["type"] != "string":
            found = found.map(lambda members: [[k, v] for k, v in members.items()])
    else:
        return st.one_of(st.none(), LEAVES[kind])
    return st.one_of(st.none(), found)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_batch_path_reads_maps_like_the_exact_path(data: Any) -> None:
    schema = struct(id={"type": "int32"}, m=map_of(data.draw(schemas())), other=data.draw(schemas()))
    payload = st.fixed_dictionaries({f["field"]: values_of(f) for f in schema["fields"]})
    values = [message(schema, p) for p in data.draw(st.lists(payload, min_size=1, max_size=4))]
    exact = rows(decoder().decode_exactly, values)
    try:
        assert rows(decoder().decode_batch, values) == exact
    except (NotBatchable, *DECODE_ERRORS):
        pass  # test_usual_maps_take_the_batch_path says what must not end here
    assert rows(decoder().decode_raw, values) == exact


@pytest.mark.parametrize(
    ("schema", "payloads"),
    [
        (map_of({"type": "string"}), [{"a": "x", "": None, '"m":{': '"m":{}'}, {}, None]),
        (map_of({"type": "double"}), [{"a": 0.1, "b": 1e300}, {"value": -0.0}]),
        (map_of({"type": "int32"}, "int32"), [[[1, 2], [-3, None]], []]),
        (map_of({"type": "int64"}, "boolean"), [[[True, 9223372036854775807]]]),
        (map_of({"type": "array", "items": {"type": "string", "optional": True}}), [{"a": ["],", None], "b": [], "c": None}]),
        (map_of(struct(m={"type": "string"}, n={"type": "int32"})), [{"a": {"m": "{", "n": 1}, "m": None}]),
        (map_of(map_of({"type": "int32"})), [{"a": {"b": 1}, "m": {}}, {"a": None}]),
        ({"type": "array", "items": {**map_of({"type": "string"}), "optional": True}}, [[{"a": "b"}, {}, None], []]),
        (map_of({"type": "bytes", "name": f"{_DATA}.Decimal", "parameters": {"scale": "2"}}), [{"a": "AQ=="}]),
        (map_of({"type": "int32", "name": f"{_DATA}.Date"}), [{"a": 20000}]),
    ],
)  # fmt: skip
def test_usual_maps_take_the_batch_path(schema: Any, payloads: list[Any]) -> None:
    whole = struct(id={"type": "int32"}, m=schema)
    values = [message(whole, {"id": i, "m": p}) for i, p in enumerate(payloads)]
    assert rows(decoder().decode_batch, values) == rows(decoder().decode_exactly, values)


def test_maps_are_rewritten_in_change_events_and_single_values() -> None:
    row = struct(id={"type": "int32"}, m=map_of({"type": "string"}))
    source = {"field": "source", **struct(ts_ms={"type": "int64"})}
    fields = [{"field": "before", "optional": True, **row}, {"field": "after", "optional": True, **row}, source]
    envelope = {"type": "struct", "fields": [*fields, {"field": "op", "type": "string"}]}
    after = {"before": None, "after": {"id": 1, "m": {"a": "b"}}, "source": {"ts_ms": 5}, "op": "c"}
    values = [message(envelope, after), message(envelope, {**after, "before": after["after"], "after": None, "op": "d"})]
    assert rows(decoder().decode_batch, values) == [{"id": 1, "m": [("a", "b")]}] * 2
    assert rows(decoder().decode_batch, [message(map_of({"type": "int32"}), {"a": 1})]) == [{"value": [("a", 1)]}]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"a":1,"a":2}', "field a occurs twice"),
        ('[["a",1],["a",2]]', "a map has the key 'a' twice"),
        ("[[null,1]]", "field m"),
        ('[{"key":"a","value":1}]', "neither an object nor an array of pairs"),
        (' [{"key":"a","value":1}]', "neither an object nor an array of pairs"),
        ('{"a":"1"}', '"1" is not a whole number'),
        ('{"a":1.5}', "1.5 is not a whole number"),
        ('{"a":{"b":1}}', "an object is not a whole number"),
    ],
)
def test_map_that_cannot_be_read_is_refused_by_its_record(text: str, error: str) -> None:
    schema = struct(id={"type": "int32"}, m=map_of({"type": "int32"}))
    good = message(schema, {"id": 0, "m": {"a": 1}})
    bad = message(schema, {"id": 1, "m": 0})[:-3] + text.encode() + b"}}"
    with pytest.raises(DataError, match=error) as raised:
        decoder().decode_raw(buffer([good, bad]), 0)
    assert "offset 1" in raised.value.message


def test_blanks_and_ambiguous_names_need_the_exact_path() -> None:
    schema = struct(id={"type": "int32"}, m=map_of({"type": "int32"}))
    spaced = message(schema, {"id": 1, "m": 0})[:-3] + b'{"a": 1}}}'
    with pytest.raises(NotBatchable):
        decoder().decode_batch(buffer([spaced]), 0)
    assert rows(decoder().decode_raw, [spaced]) == [{"id": 1, "m": [("a", 1)]}]
    both = struct(m=map_of({"type": "int32"}), s=struct(m={"type": "string"}))
    value = message(both, {"m": {"a": 1}, "s": {"m": "x"}})
    with pytest.raises(NotBatchable):
        decoder().decode_batch(buffer([value]), 0)
    assert rows(decoder().decode_raw, [value]) == [{"m": [("a", 1)], "s": {"m": "x"}}]


def test_table_type_is_a_map() -> None:
    schema = struct(m=map_of({"type": "int32"}, "int32"))
    (part,) = decoder().decode_batch(buffer([message(schema, {"m": [[1, 2]]})]), 0)
    assert part.image.schema.field("m").type == pa.map_(pa.int32(), pa.int32())


def test_null_key_of_another_converter_is_refused_by_its_record() -> None:
    map_schema = SchemaBuilder.map(Schema.OPTIONAL_STRING, Schema.INT32).build()
    schema = Schema(Type.STRUCT, fields=[("id", Schema.INT32), ("m", map_schema)])
    maps: list[dict[str | None, int]] = [{"a": 1}, {None: 1, "b": 2}]
    records = [SinkRecord("t", 0, None, None, schema, Struct(schema, [at, m]), at) for at, m in enumerate(maps)]
    with pytest.raises(DataError, match=r"offset 1: field m: .*key"):
        decoder().decode_records(records)
