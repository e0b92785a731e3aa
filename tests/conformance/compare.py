"""Decides when results are equal: RECORD_FORMAT.md, "Comparing", and the classes of errors."""

from __future__ import annotations

import json
from typing import Any

from connect.errors import ConfigError, ConnectError, DataError, SchemaError
from connect.java.sized_numbers import round_to_float32

_CLASSES: dict[str, type[ConnectError]] = {
    "DataException": DataError,
    "SchemaBuilderException": SchemaError,
    "SchemaProjectorException": SchemaError,
    "ConfigException": ConfigError,
    "SerializationException": ConnectError,
    "ConnectException": ConnectError,
}
_ACCIDENTS = ("NullPointerException", "ClassCastException")


def expected_error(expected: Any) -> Any:
    """Returns the expected error in comparable form. Where the original fails by accident, any error counts as equal."""
    error = expected.get("error") if isinstance(expected, dict) else None
    if error is None:
        return expected
    if error["class"] in _ACCIDENTS:
        return {"error": "any"}
    shown = {"class": error["class"]}
    if error.get("compareMessage", True):
        shown["message"] = error["message"]
    return {"error": shown}


def raised_error(error: ConnectError, expected: Any) -> Any:
    """Returns a raised error in the same form. Its class is equal if it is a subclass of the counterpart of the expected one."""
    wanted = expected.get("error") if isinstance(expected, dict) else None
    if wanted is None:
        return {"error": {"class": type(error).__name__, "message": error.message}}
    if wanted["class"] in _ACCIDENTS:
        return {"error": "any"}
    fits = isinstance(error, _CLASSES.get(wanted["class"], ConnectError))
    shown = {"class": wanted["class"] if fits else type(error).__name__}
    if wanted.get("compareMessage", True):
        shown["message"] = error.message
    return {"error": shown}


def comparable_data(node: Any) -> Any:
    """Returns a ``{"schema", "payload"}`` pair in comparable form: without the order of maps, floats distinct from integers."""
    if node is None:
        return {"schema": None, "payload": None}
    return {"schema": node["schema"], "payload": comparable(_rounded(node["schema"], node["payload"]))}


def _rounded(schema: Any, payload: Any) -> Any:
    """Rounds numbers of float32 schemas: their text may be the shortest or the full one."""
    if schema is None or payload is None:
        return payload
    kind = schema["type"]
    if kind == "float" and isinstance(payload, int | float):
        return round_to_float32(float(payload))
    if kind == "array" and isinstance(payload, list):
        return [_rounded(schema["items"], element) for element in payload]
    if kind == "map" and isinstance(payload, list):
        return [[_rounded(schema["keys"], key), _rounded(schema["values"], element)] for key, element in payload]
    if kind == "map" and "$t" not in payload:
        return {key: _rounded(schema["values"], element) for key, element in payload.items()}
    if kind == "struct" and isinstance(payload, dict):
        fields = {field["field"]: field for field in schema["fields"]}
        return {key: _rounded(fields.get(key), element) for key, element in payload.items()}
    return payload


def comparable(payload: Any) -> Any:
    if isinstance(payload, bool) or payload is None or isinstance(payload, str):
        return payload
    if isinstance(payload, float):
        return f"float {payload!r}"
    if isinstance(payload, int):
        return f"int {payload}"
    if isinstance(payload, list):
        return [comparable(element) for element in payload]
    if payload.get("$t") == "float32":
        value = payload["v"]
        return {"$t": "float32", "v": value if isinstance(value, str) else round_to_float32(float(value))}
    if payload.get("$t") == "map":
        return {"$t": "map", "v": sorted((comparable(pair) for pair in payload["v"]), key=json.dumps)}
    return {key: comparable(payload[key]) for key in sorted(payload)}
