"""The shape of a stored record: what is equal in every run. Ignores generations, workers, times, and counts.

Also an independent implementation of Java's partitioner, to check the product's.
"""

from __future__ import annotations

import json
from typing import Any

_RANDOM = "<free>"
_FREE_NUMBERS = frozenset({"seqno"})
"""Offset fields that depend on the run time of a source."""


def murmur2_partition(key: bytes, partitions: int) -> int:
    """Returns the partition of a key according to Java's default partitioner."""
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def is_compact(text: str) -> bool:
    """Whether JSON text has Jackson's format: no spaces, and no unnecessary escapes."""
    return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False) == text


def shape_of(topic: str, key: str, value: str | None) -> str:
    """Returns key and value without the ignored parts. ``topic`` is the topic's role."""
    if value is None:
        return f"{key} -> tombstone"
    parsed = json.loads(value)
    match topic:
        case "configs":
            shape = _config_shape(key, parsed)
        case "status":
            shape = _status_shape(parsed)
        case _:
            shape = {name: _RANDOM if name in _FREE_NUMBERS and _is_count(one) else one for name, one in parsed.items()}
    return f"{key} -> {json.dumps(shape, ensure_ascii=False)}"


def state_of(value: str | None) -> str | None:
    """Returns the state in a status record, ``topic`` for an active topic, or None for a tombstone."""
    return None if value is None else str(json.loads(value).get("state", "topic"))


def _config_shape(key: str, parsed: dict[str, Any]) -> dict[str, Any]:
    if key == "session-key":
        return {**parsed, "key": len(parsed["key"]), "creation-timestamp": _kind(parsed["creation-timestamp"])}
    if key.startswith(("task-", "connector-")):
        # Java writes them from hash maps, without a defined order.
        return {**parsed, "properties": dict(sorted(parsed["properties"].items()))}
    return parsed


def _status_shape(parsed: dict[str, Any]) -> dict[str, Any]:
    """Keeps the order of members, which is fixed in status records."""
    if "topic" in parsed:
        free = {"task": _kind(parsed["topic"]["task"]), "discoverTimestamp": _kind(parsed["topic"]["discoverTimestamp"])}
        return {"topic": {**parsed["topic"], **free}}
    shape = {
        **parsed,
        "trace": _kind(parsed["trace"]),
        "worker_id": _kind(parsed["worker_id"]),
        "generation": _kind(parsed["generation"]),
    }
    if parsed["state"] == "UNASSIGNED":  # whether Apache knows the version here depends on timing
        shape["version"] = _RANDOM
    return shape


def _kind(value: Any) -> str:
    return type(value).__name__


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0
