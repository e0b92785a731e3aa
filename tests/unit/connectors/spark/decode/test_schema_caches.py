"""Schemas, and what is derived from them, are remembered up to a limit."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from connect.converters.json.converter import JsonConverter
from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.record import SinkRecord
from connectors.spark.config import parse_config
from connectors.spark.decode import layouts
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.recently_used import MAX_SCHEMAS, RecentlyUsed
from connectors.spark.decode.topic_decoder import TopicDecoder
from connectors.spark.delivery.topic_decoders import TopicDecoders


def decoder(*, schemas: bool) -> TopicDecoder:
    converter = JsonConverter()
    converter.configure({"schemas.enable": str(schemas).lower()}, is_key=False)
    return TopicDecoder(
        "t", converter, converter, key_schemas=schemas, value_schemas=schemas, fill_defaults=False, key_name=None,
        needs_names=False, needs_keys=True,
    )  # fmt: skip


def message(number: int) -> bytes:
    schema = {"type": "struct", "fields": [{"field": f"c{number}", "type": "int32", "optional": True}]}
    return json.dumps({"schema": schema, "payload": {f"c{number}": 1}}, separators=(",", ":")).encode()


def buffer(count: int) -> RawBuffer:
    messages = [message(number) for number in range(count)]
    return RawBuffer("t", [0] * count, list(range(count)), list(messages), list(messages))


@pytest.mark.parametrize("exactly", [False, True])
def test_layouts_of_a_topic_with_many_schemas_are_found_once(exactly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    detected: list[Schema] = []
    detect = layouts.detect_layout

    def spy(schema: Schema, *arguments: Any, **more: Any) -> Any:
        detected.append(schema)
        return detect(schema, *arguments, **more)

    monkeypatch.setattr(layouts, "detect_layout", spy)
    topic = decoder(schemas=True)
    for _ in range(3):
        found = topic.decode_exactly(buffer(60), 0) if exactly else topic.decode_raw(buffer(60), 0)
        assert sum(one.num_rows for one in found) == 60
    assert len(detected) == 60


def test_layouts_of_schemas_that_were_not_used_for_long_are_dropped() -> None:
    topic = decoder(schemas=True)
    for start in range(MAX_SCHEMAS + 10):
        schema = SchemaBuilder.struct().field(f"c{start}", Schema.INT32).build()
        topic.decode_records([SinkRecord("t", 0, schema, Struct(schema, [1]), schema, Struct(schema, [1]), start)])
    schemas = topic._records._schemas
    assert len(schemas._layouts) == len(schemas._key_columns) == MAX_SCHEMAS


def test_the_values_that_were_used_last_are_kept() -> None:
    cache: RecentlyUsed[int, str] = RecentlyUsed(2)
    for key in (1, 2, 1, 3):
        assert cache.get(key, partial("made {}".format, key)) == f"made {key}"
    assert list(cache.newest_first()) == ["made 3", "made 1"]
    cache.drop(lambda key: key == 3)
    assert list(cache.newest_first()) == ["made 1"]
    with pytest.raises(ZeroDivisionError):
        cache.get(4, lambda: str(1 // 0))
    assert len(cache) == 1


def test_decoders_of_names_that_a_transformation_gives_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.spark.delivery.topic_decoders._MAX_DECODERS", 3)
    config = parse_config({"name": "lake", "topics": "t", "table.location": "/lake"})
    decoders = TopicDecoders(config, JsonConverter(), JsonConverter(), lambda topic: None)
    first = decoders.get("t", "t")
    for day in range(5):
        decoders.get("t", f"t-{day}")
    assert decoders.get("t", "t-4") is decoders.get("t", "t-4")
    assert decoders.get("t", "t") is not first
    assert len(decoders._decoders) == 3
