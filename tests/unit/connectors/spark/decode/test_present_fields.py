"""Records without a schema: a missing field differs from one that is null, on every way of decoding."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.converters.json.converter import JsonConverter
from connect.record import SinkRecord
from connectors.spark.decode.change_batch import FIELDS, ChangeBatch
from connectors.spark.decode.present_fields import fields_of, rows_with
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.topic_decoder import TopicDecoder

NAMES = ["a", "b", "c é"]
rows = st.dictionaries(st.sampled_from(NAMES), st.none() | st.integers(-5, 5))


def decoder(*, schemas: bool = False, defaults: bool = False, fill: bool = True) -> TopicDecoder:
    converter = JsonConverter()
    converter.configure({"schemas.enable": str(schemas).lower(), "replace.null.with.default": str(fill).lower()}, is_key=False)
    return TopicDecoder(
        "t", converter, converter, key_schemas=schemas, value_schemas=schemas, fill_defaults=fill, key_name=None,
        needs_names=False, needs_keys=False, tells_missing=True, wants_defaults=defaults,
    )  # fmt: skip


def buffer(documents: list[Any]) -> RawBuffer:
    lines: list[bytes | None] = [json.dumps(d).encode() for d in documents]
    return RawBuffer("t", [0] * len(lines), list(range(len(lines))), [None] * len(lines), lines)


def decode(way: str, documents: list[Any]) -> list[ChangeBatch]:
    if way == "records":
        records = [SinkRecord("t", 0, None, None, None, d, i) for i, d in enumerate(documents)]
        return decoder().decode_records(records)
    found = decoder()
    return found.decode_batch(buffer(documents), 0) if way == "batch" else found.decode_exactly(buffer(documents), 0)


@pytest.mark.parametrize("way", ["batch", "exactly", "records"])
@settings(max_examples=40, deadline=None)
@given(st.lists(rows, min_size=1, max_size=8), st.booleans())
def test_the_fields_of_each_record_are_known(way: str, given_rows: list[dict[str, Any]], envelopes: bool) -> None:
    given_rows = [{"id": 0, "s": {"x": 1}}, *given_rows]
    documents: list[Any] = given_rows
    if envelopes:
        documents = [{"op": "d" if i % 3 else "c", "source": {}, "before": r, "after": r} for i, r in enumerate(given_rows)]
    (batch,) = decode(way, documents)
    for offset, text in zip(batch.meta["offset"].to_pylist(), batch.meta[FIELDS].to_pylist(), strict=True):
        columns = set(batch.image.column_names)
        assert fields_of(text) & columns == given_rows[offset].keys() & columns
    masks = rows_with(batch.meta[FIELDS], NAMES)
    for name in set(NAMES) & set(batch.image.column_names):
        assert [bool(one) for one in masks[name]] == [name in row for row in given_rows]


SCHEMA = {
    "type": "struct",
    "fields": [
        {"field": "id", "type": "int64"},
        {"field": "n", "type": "int32", "optional": True, "default": 7},
        {"field": "p", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"},
         "optional": True, "default": "AfQ="},
        {"field": "x", "type": "string", "optional": True},
    ],
}  # fmt: skip


@pytest.mark.parametrize("way", ["batch", "exactly", "records"])
@pytest.mark.parametrize("fill", [True, False])
def test_defaults_of_fields_come_with_the_records_and_replace_nulls_only_if_the_converter_does(way: str, fill: bool) -> None:
    document = {"schema": SCHEMA, "payload": {"id": 1, "n": None, "p": None, "x": None}}
    found = decoder(schemas=True, defaults=True, fill=fill)
    data = json.dumps(document, separators=(",", ":")).encode()
    raw = RawBuffer("t", [0], [0], [None], [data])
    if way == "records":
        converter = JsonConverter()
        converter.configure({"schemas.enable": "true", "replace.null.with.default": str(fill).lower()}, is_key=False)
        value = converter.to_connect_data("t", data)
        (batch,) = found.decode_records([SinkRecord("t", 0, None, None, value.schema, value.value, 0)])
    else:
        (batch,) = found.decode_batch(raw, 0) if way == "batch" else found.decode_exactly(raw, 0)
    assert {n: str(v.as_py()) for n, v in batch.defaults.items()} == {"n": "7", "p": "5.00"}
    assert (batch.image["n"][0].as_py() == 7) == fill
    assert batch.filter(batch.image["id"].is_valid()).slice(range(1)).defaults == batch.defaults
