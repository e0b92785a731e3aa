"""Old keys in the headers of rows that a change of the primary key has created, in the forms that header converters write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connect.converters.json.converter import JsonConverter
from connect.converters.simple_header import SimpleHeaderConverter
from connect.data.headers import Header, Headers
from connect.data.struct import Struct
from connect.record import RawBatch, SinkRecord
from connectors.spark.decode.change_batch import OLD_KEY, ChangeBatch
from connectors.spark.decode.raw_buffer import RawBuffer, RawHeaders
from connectors.spark.decode.topic_decoder import TopicDecoder

NAME = "__debezium.oldkey"
KEY_SCHEMA = {"type": "struct", "optional": False, "fields": [{"type": "int32", "optional": False, "field": "id"}]}
WITH_SCHEMA = json.dumps({"schema": KEY_SCHEMA, "payload": {"id": 1}}).encode()
PLAIN = b'{"id":1}'


def converter(schemas: bool) -> JsonConverter:
    found = JsonConverter()
    found.configure({"schemas.enable": str(schemas).lower()}, True)
    return found


def decoder(*, schemas: bool) -> TopicDecoder:
    json_converter = converter(schemas)
    return TopicDecoder(
        "t", json_converter, converter(False), key_schemas=schemas, value_schemas=False, fill_defaults=False, key_name=None,
        needs_names=False, needs_keys=True,
    )  # fmt: skip


def record_key(id_: int, *, schemas: bool) -> bytes:
    payload = {"id": id_}
    return json.dumps({"schema": KEY_SCHEMA, "payload": payload} if schemas else payload).encode()


def event(op: str, id_: int) -> bytes:
    image = {"id": id_, "v": "a"}
    return json.dumps({"op": op, "before": None, "after": image, "source": {"ts_ms": 1}}).encode()


def old_keys(batch: ChangeBatch) -> list[Any] | None:
    return batch.meta[OLD_KEY].to_pylist() if OLD_KEY in batch.meta.column_names else None


@pytest.mark.parametrize("schemas", [True, False])
@pytest.mark.parametrize(
    ("header", "found"),
    [(PLAIN, {"id": 1}), (WITH_SCHEMA, {"id": 1}), (b"Struct{id=1}", None), (b"[1]", None), (None, None)],
)
def test_old_keys_of_raw_records(schemas: bool, header: bytes | None, found: Any) -> None:
    raw = RawBuffer("t")
    raw.add(RawBatch("t", 0, [0], [record_key(1, schemas=schemas)], [event("u", 1)], [0]))
    headers: list[RawHeaders] = [None, [("other", b"x"), (NAME, header)], [(NAME, PLAIN)]]
    keys: list[bytes | None] = [record_key(id_, schemas=schemas) for id_ in (2, 3, 4)]
    raw.add(RawBatch("t", 0, [1, 2, 3], keys, [event("c", 2), event("c", 3), event("u", 4)], [0, 0, 0], headers))
    (batch,) = decoder(schemas=schemas).decode_raw(raw, 0)
    assert old_keys(batch) == (None if found is None else [None, None, found, None])


def test_an_old_key_of_another_type_counts_as_none() -> None:
    raw = RawBuffer("t")
    raw.add(RawBatch("t", 0, [0], [record_key(1, schemas=True)], [event("c", 1)], [0], [[(NAME, b'{"id":"x"}')]]))
    (batch,) = decoder(schemas=True).decode_raw(raw, 0)
    assert old_keys(batch) is None


@pytest.mark.parametrize("header", [PLAIN, WITH_SCHEMA])
def test_old_keys_of_records(header: bytes) -> None:
    key = converter(True).to_connect_data("t", record_key(2, schemas=True))
    value = converter(False).to_connect_data("t", event("c", 2))
    read = SimpleHeaderConverter().to_connect_header("t", NAME, header)
    assert key.schema is not None
    own = Struct(key.schema, [1])
    for one in (Header(NAME, read.schema, read.value), Header(NAME, None, PLAIN.decode()), Header(NAME, key.schema, own)):
        record = SinkRecord("t", 0, key.schema, key.value, None, value.value, 0)
        record.headers = Headers([one])
        (batch,) = decoder(schemas=True).decode_records([record])
        assert old_keys(batch) == [{"id": 1}]


def test_headers_follow_their_records() -> None:
    raw = RawBuffer("t")
    raw.add(RawBatch("t", 0, [0, 1], [PLAIN, PLAIN], [b"{}", b"{}"], [0, 0], [None, [(NAME, PLAIN)]]))
    raw.add(RawBatch("t", 1, [5], [PLAIN], [b"{}"], [0]))
    assert raw.headers == [None, [(NAME, PLAIN)], None]
    assert raw.select([2, 1]).headers == [None, [(NAME, PLAIN)]]
    assert raw.slice(range(1, 3)).headers == [[(NAME, PLAIN)], None]
    assert raw.without_positions([0]).headers == [[(NAME, PLAIN)], None]
