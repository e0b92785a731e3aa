"""Debezium change events of a table, in JSON."""

from __future__ import annotations

import base64
import decimal
import json
from typing import Any

PLACEHOLDER = "__debezium_unavailable_value"


def field(name: str, kind: str, *, semantic: str | None = None, **parameters: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": kind, "optional": name != "id", "field": name}
    if semantic:
        schema |= {"name": semantic, "version": 1}
    if parameters:
        schema["parameters"] = parameters
    return schema


ROW = [
    field("id", "int64"),
    field("name", "string"),
    field("credit", "bytes", semantic="org.apache.kafka.connect.data.Decimal", scale="2"),
    field("made", "int64", semantic="io.debezium.time.MicroTimestamp"),
    field("seen", "string", semantic="io.debezium.time.ZonedTimestamp"),
    field("photo", "bytes"),
]
ADDED = field("level", "int32")


def decimal_bytes(value: decimal.Decimal) -> str:
    unscaled = int(f"{value:f}".replace(".", ""))
    return base64.b64encode(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)).decode()


def envelope(row: list[dict[str, Any]]) -> bytes:
    fields = [{"type": "struct", "optional": True, "field": n, "fields": row, "name": "s.t.Value"} for n in ("before", "after")]
    source = {
        "type": "struct",
        "optional": False,
        "field": "source",
        "fields": [field("ts_ms", "int64"), field("table", "string")],
    }
    schema = {"type": "struct", "name": "s.t.Envelope", "optional": False, "fields": [*fields, source, field("op", "string")]}
    return json.dumps(schema, separators=(",", ":")).encode()


KEY_SCHEMA = json.dumps({"type": "struct", "optional": False, "fields": [field("id", "int64")]}, separators=(",", ":")).encode()


def message(schema: bytes, payload: Any) -> bytes:
    return b'{"schema":' + schema + b',"payload":' + json.dumps(payload, separators=(",", ":")).encode() + b"}"


def change(op: str, before: Any, after: Any, row: list[dict[str, Any]], at: int = 0) -> bytes:
    return message(envelope(row), {"before": before, "after": after, "source": {"ts_ms": at, "table": "t"}, "op": op})


def key(id_: int) -> bytes:
    return message(KEY_SCHEMA, {"id": id_})


def fill(topic: Any, first: int, count: int, partition: int = 0) -> None:
    """Adds numbered inserts, in JSON without schemas."""
    for i in range(first, first + count):
        value = {"before": None, "after": {"id": i, "v": f"v{i}"}, "source": {"ts_ms": i, "table": topic.name}, "op": "c"}
        topic.add(json.dumps({"id": i}).encode(), json.dumps(value).encode(), partition)
