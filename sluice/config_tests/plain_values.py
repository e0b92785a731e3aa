"""Values of records as they are written in YAML and JSON by people, for comparing.

Structs and maps are mappings, numbers are numbers; a decimal is its text, an instant ISO 8601 text, bytes base64 text.
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


def plain_of(value: Any) -> Any:
    """The plain form of a value of a record."""
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
            return {f.name: plain_of(member) for f, member in zip(value.schema.fields or (), value.values, strict=True)}
        case dict():
            return {key if isinstance(key, str) else str(plain_of(key)): plain_of(member) for key, member in value.items()}
        case list() | tuple():
            return [plain_of(member) for member in value]
    return str(value)


def plain_record(record: ConnectRecord) -> dict[str, Any]:
    """A record's members in plain form."""
    node: dict[str, Any] = {"topic": record.topic, "partition": record.partition, "timestamp": record.timestamp}
    if isinstance(record, SinkRecord):
        node["offset"] = record.offset
    node["key"], node["value"] = plain_of(record.key), plain_of(record.value)
    # Of headers with the same name the last one shows, as consumers mostly read them.
    node["headers"] = {header.key: plain_of(header.value) for header in record.headers or ()}
    return node


def at_path(node: Any, path: str) -> Any:
    """What lies at a dotted path, ABSENT when nothing does. A name with dots in it is found too."""
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
    """Equal, with 1, 1.0 and true told apart."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return expected.keys() == actual.keys() and all(is_same(expected[key], actual[key]) for key in expected)
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(is_same(a, b) for a, b in zip(expected, actual, strict=True))
    if isinstance(expected, bool | int | float) and isinstance(actual, bool | int | float):
        return type(expected) is type(actual) and (expected == actual or (expected != expected and actual != actual))
    return bool(expected == actual)
