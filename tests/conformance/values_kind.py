"""Cases of values.jsonl: one call of the text forms of values."""

from __future__ import annotations

from typing import Any

from compare import comparable, comparable_data, expected_error, raised_error

from connect.data.values import convert_to_string, infer_schema, parse_string
from connect.errors import ConnectError
from connect.record_format import data_from_json, data_to_json, schema_to_json

OPERATIONS = ("parseString", "convertToString", "inferSchema")


def matches(case: dict[str, Any]) -> bool:
    return case.get("op") in OPERATIONS and "class" not in case


def run(case: dict[str, Any]) -> tuple[Any, Any]:
    expected = case["expected"]
    try:
        if case["op"] == "parseString":
            return comparable_data(expected), comparable_data(data_to_json(*parse_string(case["input"])))
        given = data_from_json(case["input"])
        if case["op"] == "inferSchema":
            return expected, schema_to_json(infer_schema(given.value))
        return comparable(expected), convert_to_string(given.schema, given.value)
    except ConnectError as e:
        return expected_error(expected), raised_error(e, expected)
