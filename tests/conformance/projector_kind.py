"""Cases of projector.jsonl: one value of a schema as a value of another."""

from __future__ import annotations

from typing import Any

from connect.data.projector import project
from connect.errors import ConnectError
from connect.record_format import data_from_json, payload_to_json, schema_from_json
from tests.conformance.compare import comparable_data, expected_error, raised_error


def matches(case: dict[str, Any]) -> bool:
    return "source" in case and "target" in case


def run(case: dict[str, Any]) -> tuple[Any, Any]:
    expected = case["expected"]
    source = data_from_json(case["source"])
    target = schema_from_json(case["target"])
    assert source.schema is not None
    assert target is not None
    try:
        actual = project(source.schema, source.value, target)
    except ConnectError as e:
        return expected_error(expected), raised_error(e, expected)
    return (
        comparable_data({"schema": case["target"], "payload": expected}),
        comparable_data({"schema": case["target"], "payload": payload_to_json(target, actual)}),
    )
