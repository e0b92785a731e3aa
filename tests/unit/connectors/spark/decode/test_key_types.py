"""Records whose keys have other types of one field are decoded together: a tombstone has only a key, and a topic may have those
of an altered primary key, or of several tables."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from connect.converters.json.converter import JsonConverter
from connect.record import SinkRecord
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.topic_decoder import TopicDecoder

ROW = {"type": "struct", "fields": [{"field": "v", "type": "string", "optional": True}]}


def with_schema(schema: dict[str, Any], payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def key(kind: str, value: Any) -> bytes:
    return with_schema({"type": "struct", "fields": [{"field": "id", "type": kind}]}, {"id": value})


KEYS = [key("int32", 1), key("int64", 2**40), None, key("int32", 3), key("string", "x"), key("int64", 5)]
VALUES = [None, None, with_schema(ROW, {"v": "a"}), None, None, with_schema(ROW, {"v": "b"})]


def decoder() -> tuple[TopicDecoder, JsonConverter]:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, is_key=False)
    made = TopicDecoder(
        "t", converter, converter, key_schemas=True, value_schemas=True, fill_defaults=False, key_name=None, needs_names=False,
        needs_keys=True,
    )  # fmt: skip
    return made, converter


def found(batches: list[ChangeBatch]) -> dict[int, tuple[str, Any, pa.DataType | None]]:
    """By offset: the operation, the key, and its type."""
    result = {}
    for batch in batches:
        for at in range(batch.num_rows):
            column = None if batch.keys is None else batch.keys["id"]
            value = None if column is None else column[at].as_py()
            type_ = None if column is None or value is None else column.type
            result[batch.meta["offset"][at].as_py()] = (batch.meta["op"][at].as_py(), value, type_)
    return result


EXPECTED = {
    0: ("tombstone", 1, pa.int32()),
    1: ("tombstone", 2**40, pa.int64()),
    2: (None, None, None),
    3: ("tombstone", 3, pa.int32()),
    4: ("tombstone", "x", pa.string()),
    5: (None, 5, pa.int64()),
}


@pytest.mark.parametrize("way", ["batch", "exactly", "records"])
def test_keys_of_several_types_are_decoded_in_one_batch(way: str) -> None:
    made, converter = decoder()
    if way == "records":
        read = [(converter.to_connect_data("t", k), converter.to_connect_data("t", v)) for k, v in zip(KEYS, VALUES, strict=True)]
        records = [SinkRecord("t", 0, k.schema, k.value, v.schema, v.value, at) for at, (k, v) in enumerate(read)]
        batches = made.decode_records(records)
    else:
        raw = RawBuffer("t", [0] * len(KEYS), list(range(len(KEYS))), list(KEYS), list(VALUES))
        batches = made.decode_batch(raw, 0) if way == "batch" else made.decode_exactly(raw, 0)
    assert found(batches) == EXPECTED
    images: dict[int, Any] = {}
    for batch in batches:
        if "v" in batch.image.column_names:
            images |= dict(zip(batch.meta["offset"].to_pylist(), batch.image["v"].to_pylist(), strict=True))
    assert images == {2: "a", 5: "b"}


@pytest.mark.parametrize("exactly", [True, False])
def test_keys_with_other_fields_do_not_lend_them_to_each_other(exactly: bool) -> None:
    both = {"type": "struct", "fields": [{"field": "id", "type": "int32"}, {"field": "x", "type": "int32", "optional": True}]}
    keys = [key("int32", 1), with_schema(both, {"id": 2, "x": None}), None, key("int32", 3)]
    raw = RawBuffer("t", [0] * 4, list(range(4)), keys, [with_schema(ROW, {"v": "a"})] * 4)
    made, _ = decoder()
    batches = made.decode_exactly(raw, 0) if exactly else made.decode_batch(raw, 0)
    fields = {
        offset: [] if batch.keys is None else batch.keys.column_names
        for batch in (one.without_empty_keys() for one in batches)
        for offset in batch.meta["offset"].to_pylist()
    }
    assert fields == {0: ["id"], 1: ["id", "x"], 2: ["id"], 3: ["id"]}
