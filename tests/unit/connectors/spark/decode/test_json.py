"""Prefixes of JSON messages with a schema."""

from __future__ import annotations

import json

import pytest

from connectors.spark.decode.json import JsonSchemas, NotBatchable, split_by_prefix


def test_the_prefix_ends_where_the_schema_ends() -> None:
    schema = {"type": "struct", "fields": [{"field": "p", "type": "int32", "default": {"x": 1, "payload": 2}}]}
    text = json.dumps(schema, separators=(",", ":")).encode()
    message = b'{"schema":' + text + b',"payload":{"p":1}}'
    schemas = JsonSchemas()
    assert schemas.find_prefix(message).text == message[: -len(b'{"p":1}}')]
    groups, nulls = split_by_prefix([message, None, message], schemas)
    assert [(positions, payloads) for _, positions, payloads in groups] == [([0, 2], [b'{"p":1}'] * 2)]
    assert nulls == [1]
    with pytest.raises(NotBatchable):
        schemas.find_prefix(b'{"payload":1,"schema":{"type":"int32"}}')
