"""Cases of converters.jsonl: one conversion to or from bytes."""

from __future__ import annotations

import base64
import json
from typing import Any

from connect.errors import ConnectError
from connect.plugins import Plugins
from connect.record_format import data_from_json, data_to_json
from tests.conformance.compare import comparable_data, expected_error, raised_error

PLUGINS = Plugins.discover()


def matches(case: dict[str, Any]) -> bool:
    return case.get("op") in ("fromConnect", "toConnect") and "class" in case


def run(case: dict[str, Any]) -> tuple[Any, Any]:
    expected = case["expected"]
    try:
        actual = _convert(case)
    except ConnectError as e:
        return expected_error(expected), raised_error(e, expected)
    if case["op"] == "toConnect":
        return comparable_data(expected), comparable_data(actual)
    return _comparable_bytes(expected, case), _comparable_bytes(actual, case)


def _convert(case: dict[str, Any]) -> Any:
    as_header = case["as"] == "header"
    converter: Any
    if as_header:
        converter = PLUGINS.new_header_converter(case["class"])
        converter.configure({**case["config"], "converter.type": "header"}, False)
    else:
        converter = PLUGINS.new_converter(case["class"])
        converter.configure(case["config"], case["isKey"])
    topic = case["topic"]
    if case["op"] == "fromConnect":
        given = data_from_json(case["input"])
        if as_header:
            data = converter.from_connect_header(topic, case["header"], given.schema, given.value)
        else:
            # Batches are written by other code than single values: both must agree.
            data = converter.from_connect_data(topic, given.schema, given.value)
            batch = converter.encode_batch(topic, given.schema, [given.value] * 5)
            assert batch == [data] * 5, f"batch {batch[0]!r}, single {data!r}"
        return None if data is None else {"base64": base64.b64encode(data).decode()}
    data = None if case["input"] is None else base64.b64decode(case["input"]["base64"])
    if as_header:
        return data_to_json(*converter.to_connect_header(topic, case["header"], data))
    result = data_to_json(*converter.to_connect_data(topic, data))
    again = [data_to_json(*one) for one in converter.decode_batch(topic, [data] * 3)]
    assert again == [result] * 3, f"batch {again[0]!r}, single {result!r}"
    return result


def _comparable_bytes(shown: Any, case: dict[str, Any]) -> Any:
    if not isinstance(shown, dict) or "base64" not in shown:
        return shown
    data = base64.b64decode(shown["base64"])
    if case["class"].endswith("JsonConverter"):
        return {"json": json.loads(data), "text": data.decode()}
    return {"base64": shown["base64"]}
