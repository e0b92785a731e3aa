"""Types of values without a schema."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connect.data.logical import FarInstant
from connectors.spark.decode.json import NotBatchable
from connectors.spark.decode.schema_inference import InferredSchema, TopicContent, dump, find_unserializable_member
from connectors.spark.decode.table_fields import TableFields


def test_types_without_a_schema_are_conservative_and_then_fixed() -> None:
    shape = InferredSchema(content=TopicContent(envelope=False))
    shape.parse([b'{"a":1,"when":"2026-01-01 00:00:00","n":null,"l":[],"o":{"x":1.5}}'], None)
    assert {f.name: f.type for f in shape.row} == {
        "a": pa.int64(),
        "when": pa.string(),
        "l": pa.list_(pa.string()),
        "o": pa.struct([("x", pa.float64())]),
    }
    shape.parse([b'{"n":true}'], None)
    assert shape.row.field("n").type == pa.bool_()
    with pytest.raises(ValueError, match="int64"):
        shape.parse([b'{"a":1.5}'], None)
    shape.know_table(TableFields({"d": pa.float64()}))
    with pytest.raises(NotBatchable):
        shape.parse([b'{"d":9007199254740993}'], None)


def test_the_error_for_a_far_instant_without_a_schema_names_the_field() -> None:
    value = {"a": 1, "b": [FarInstant(1 << 60)]}
    with pytest.raises(TypeError, match="an instant outside the years 1 to 9999"):
        dump(value)
    assert find_unserializable_member(value) == "b"
