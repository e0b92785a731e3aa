"""What of a stored record is the same on every run: its shape. Generations, workers, times and counts are free.

Also Java's choice of a partition, written down anew here, so that it proves the product's.
"""

from __future__ import annotations

import json
from typing import Any

_RANDOM = "<free>"
_FREE_NUMBERS = frozenset({"seqno"})
"""Members of offsets that depend on how long a source ran."""


def murmur2_partition(key: bytes, partitions: int) -> int:
    """The partition that Java's default partitioner gives to a key."""
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
    """Whether JSON text is written as Jackson writes it: no blanks, nothing escaped that need not be."""
    return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False) == text


def shape_of(topic: str, key: str, value: str | None) -> str:
    """Key and value with all that is free taken out; equal shapes mean the same thing was said. ``topic`` is its role."""
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
    """What a status record leaves behind: the state, ``topic`` for an active topic, None for a tombstone."""
    return None if value is None else str(json.loads(value).get("state", "topic"))


def _config_shape(key: str, parsed: dict[str, Any]) -> dict[str, Any]:
    if key == "session-key":
        return {**parsed, "key": len(parsed["key"]), "creation-timestamp": _kind(parsed["creation-timestamp"])}
    if key.startswith(("task-", "connector-")):
        # They come out of Java's hash maps, where order is an accident.
        return {**parsed, "properties": dict(sorted(parsed["properties"].items()))}
    return parsed


def _status_shape(parsed: dict[str, Any]) -> dict[str, Any]:
    """Member order is kept: it is fixed in status records."""
    if "topic" in parsed:
        free = {"task": _kind(parsed["topic"]["task"]), "discoverTimestamp": _kind(parsed["topic"]["discoverTimestamp"])}
        return {"topic": {**parsed["topic"], **free}}
    shape = {
        **parsed,
        "trace": _kind(parsed["trace"]),
        "worker_id": _kind(parsed["worker_id"]),
        "generation": _kind(parsed["generation"]),
    }
    if parsed["state"] == "UNASSIGNED":  # Apache knows the version sometimes, by a race
        shape["version"] = _RANDOM
    return shape


def _kind(value: Any) -> str:
    return type(value).__name__


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0
