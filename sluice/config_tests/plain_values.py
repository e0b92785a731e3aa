"""Plain form of record values, for comparison with values in YAML and JSON.

Structs and maps become mappings, decimals text, timestamps ISO 8601 text, and bytes base64 text.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
from collections.abc import Mapping
from typing import Any

from connect.data.logical import FarInstant
from connect.data.struct import Struct
from connect.java.number_text import decimal_text
from connect.record import ConnectRecord, SinkRecord

ABSENT = "(absent)"


def to_plain(value: Any) -> Any:
    """Returns the plain form of a record value."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float():
            return float(value)
        case decimal.Decimal():
            return decimal_text(value)
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat().replace("+00:00", "Z")
        case FarInstant():
            return value.millis
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case Struct():
            return {f.name: to_plain(member) for f, member in zip(value.schema.fields or (), value.values, strict=True)}
        case dict():
            return {key if isinstance(key, str) else str(to_plain(key)): to_plain(member) for key, member in value.items()}
        case list() | tuple():
            return [to_plain(member) for member in value]
    return str(value)


def plain_record(record: ConnectRecord) -> dict[str, Any]:
    """Returns a record's members in plain form."""
    node: dict[str, Any] = {"topic": record.topic, "partition": record.partition, "timestamp": record.timestamp}
    if isinstance(record, SinkRecord):
        node["offset"] = record.offset
    node["key"], node["value"] = to_plain(record.key), to_plain(record.value)
    # The last header of a name wins, as for most consumers.
    node["headers"] = {header.key: to_plain(header.value) for header in record.headers or ()}
    return node


def at_path(node: Any, path: str) -> Any:
    """Returns the value at a dotted path, or ABSENT. Names may contain dots."""
    if path == "":
        return node
    if isinstance(node, list):
        head, _, rest = path.partition(".")
        return at_path(node[int(head)], rest) if head.isdecimal() and int(head) < len(node) else ABSENT
    if not isinstance(node, Mapping):
        return ABSENT
    for name in sorted((name for name in node if path == name or path.startswith(f"{name}.")), key=len, reverse=True):
        found = at_path(node[name], path[len(name) + 1 :])
        if found is not ABSENT:
            return found
    return ABSENT


def is_same(expected: Any, actual: Any) -> bool:
    """Returns whether the values are equal; 1, 1.0, and true differ."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return expected.keys() == actual.keys() and all(is_same(expected[key], actual[key]) for key in expected)
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(is_same(a, b) for a, b in zip(expected, actual, strict=True))
    if isinstance(expected, bool | int | float) and isinstance(actual, bool | int | float):
        return type(expected) is type(actual) and (expected == actual or (expected != expected and actual != actual))
    return bool(expected == actual)
