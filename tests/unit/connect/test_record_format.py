"""Records as JSON lose nothing."""

from __future__ import annotations

import json

import pytest

from connect import Header, Headers, Schema, SinkRecord, SourceRecord, Struct, Type
from connect.errors import DataError
from connect.java.sized_numbers import Float32, Int8
from connect.record_format import record_from_json, record_to_json, schema_from_json


def test_sink_record_round_trips() -> None:
    schema = Schema(
        Type.STRUCT,
        name="s",
        doc="d",
        parameters={"a": "b"},
        fields=[("a", Schema(Type.INT32, default=3)), ("f", Schema.FLOAT64)],
    )
    headers = Headers([Header("h", Schema.STRING, "v"), Header("n", None, [Int8(1), Float32(0.5), b"x", {"k": None}])])
    record = SinkRecord("t", 1, Schema.STRING, "k", schema, Struct(schema, [None, float("inf")]), 7, 5, "CreateTime", headers)
    node = json.loads(json.dumps(record_to_json(record)))
    again = record_from_json(node)
    assert isinstance(again, SinkRecord)
    assert (again.value, again.value_schema, again.key, again.offset) == (record.value, schema, "k", 7)
    assert record_to_json(again) == node
    last = again.ensure_headers().last_with_name("n")
    assert last is not None
    assert [type(v) for v in last.value] == [Int8, Float32, bytes, dict]


def test_source_record_round_trips() -> None:
    record = SourceRecord({"file": "f"}, {"position": 3}, "t", None, None, None, Schema.STRING, "x")
    again = record_from_json(record_to_json(record))
    assert isinstance(again, SourceRecord)
    assert (again.source_partition, again.source_offset, again.value) == ({"file": "f"}, {"position": 3}, "x")


def test_invalid_schema_or_value_is_rejected() -> None:
    with pytest.raises(DataError, match="needs a type"):
        schema_from_json({"type": "int33"})
    with pytest.raises(DataError, match="is not a"):
        record_from_json({"topic": "t", "value": {"schema": {"type": "bytes"}, "payload": 5}})
