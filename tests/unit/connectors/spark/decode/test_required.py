"""Null where a schema requires a value is refused like by JsonConverter, on both ways to read JSON, and never a tombstone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connect.converters.json.converter import JsonConverter
from connect.errors import DataError
from connectors.spark.decode.change_batch import NO_COLUMN
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.topic_decoder import TopicDecoder

INT = {"type": "int32", "optional": False}
OPTIONAL_INT = {"type": "int32", "optional": True}
WITH_DEFAULT = {"type": "int32", "optional": False, "default": 7}


def struct(optional: bool = False, **fields: Any) -> dict[str, Any]:
    return {"type": "struct", "optional": optional, "fields": [{"field": name, **one} for name, one in fields.items()]}


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "optional": True, "items": element}


def map_(value: Any) -> dict[str, Any]:
    return {"type": "map", "optional": True, "keys": {"type": "string"}, "values": value}


ENVELOPE = {
    **struct(
        before=struct(True, id=INT), after=struct(True, id=INT), op={"type": "string"}, source=struct(True, db=OPTIONAL_INT)
    ),
    "name": "shop.Envelope",
}


def event(op: str, before: Any, after: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "source": None}


def decode(schema: dict[str, Any], payload: Any, *, fills: bool, exactly: bool) -> list[dict[str, Any] | None]:
    """The rows of a good record of the schema and this one."""
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true", "replace.null.with.default": str(fills).lower()}, is_key=False)
    decoder = TopicDecoder(
        "t", converter, converter, key_schemas=True, value_schemas=True, fill_defaults=fills, key_name=None, needs_names=False,
        needs_keys=False,
    )  # fmt: skip
    value = json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()
    raw = RawBuffer("t", [0], [4], [None], [value])
    found = decoder.decode_exactly(raw, 0) if exactly else decoder.decode_raw(raw, 0)
    return [row if row.keys() != {NO_COLUMN} else None for batch in found for row in batch.image.to_pylist()]


REFUSED = [
    pytest.param(struct(id=INT), {"id": None}, "field id", id="a field"),
    pytest.param(struct(id=INT, n=OPTIONAL_INT), {"n": 1}, "field id", id="a missing field"),
    pytest.param(struct(s=struct(True, id=INT)), {"s": {"id": None}}, "field s.id", id="a nested field"),
    pytest.param(struct(s=struct(id=INT)), {"s": None}, "field s", id="a nested struct"),
    pytest.param(struct(l=array(INT)), {"l": [1, None]}, r"field l\[1\]", id="an element"),
    pytest.param(struct(l=array(struct(id=INT))), {"l": [{"id": None}]}, r"field l\[0\].id", id="a field of an element"),
    pytest.param(struct(m=map_(INT)), {"m": {"a": None}}, r'field m\["a"\]', id="a value of a map"),
    pytest.param(struct(id=INT), None, "", id="a row"),
    pytest.param(INT, None, "", id="a single value"),
    pytest.param(ENVELOPE, event("c", None, {"id": None}), "field id", id="a field of an event"),
    pytest.param(ENVELOPE, event("d", {"id": None}, None), "field id", id="a field of a deleted row"),
]
READ = [
    pytest.param(struct(id=OPTIONAL_INT), {"id": None}, {"id": None}, id="an optional field"),
    pytest.param(struct(s=struct(True, id=INT)), {"s": None}, {"s": None}, id="a nested struct"),
    pytest.param(struct(l=array(INT), m=map_(INT)), {"l": None, "m": None}, {"l": None, "m": None}, id="no list and no map"),
    pytest.param(struct(l=array(OPTIONAL_INT)), {"l": [None]}, {"l": [None]}, id="an optional element"),
    pytest.param(struct(True, id=INT), None, None, id="an optional row"),
    pytest.param(ENVELOPE, event("d", {"id": 1}, None), {"id": 1}, id="a deleted row"),
]


@pytest.mark.parametrize("exactly", [False, True])
@pytest.mark.parametrize(("schema", "payload", "field"), REFUSED)
def test_null_is_refused_where_a_value_is_required(schema: dict[str, Any], payload: Any, field: str, exactly: bool) -> None:
    with pytest.raises(DataError, match=rf"offset 4.*{field}.*null, and the schema requires a value of type"):
        decode(schema, payload, fills=True, exactly=exactly)
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, is_key=False)
    with pytest.raises(DataError, match="Invalid null value for required"):
        converter.to_connect_data("t", json.dumps({"schema": schema, "payload": payload}).encode())


@pytest.mark.parametrize("exactly", [False, True])
@pytest.mark.parametrize(("schema", "payload", "row"), READ)
def test_null_is_read_where_it_is_optional(schema: dict[str, Any], payload: Any, row: Any, exactly: bool) -> None:
    assert decode(schema, payload, fills=True, exactly=exactly) == [row]


@pytest.mark.parametrize("exactly", [False, True])
def test_a_default_replaces_null_only_if_the_converter_says_so(exactly: bool) -> None:
    assert decode(struct(id=WITH_DEFAULT), {"id": None}, fills=True, exactly=exactly) == [{"id": 7}]
    with pytest.raises(DataError, match="field id: null"):
        decode(struct(id=WITH_DEFAULT), {"id": None}, fills=False, exactly=exactly)
