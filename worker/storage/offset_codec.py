"""Keys and values of stored source offsets: compact JSON, as Apache's ``OffsetStorageWriter`` writes it.

A key is ``["<connector>",{<partition>}]``, a value ``{<offset>}``. Java readers look keys up by their bytes, so keys are written
exactly like Java's, including the order of members and the format of numbers and characters; Sluice looks up the parsed value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from connect.converters.json.value_writer import WriteOptions, write_value
from connect.errors import DataError
from connect.java.hash_order import hash_map_order

_AS_JAVA = WriteOptions()

PartitionId = tuple[tuple[str, Any, type], ...] | None
"""A source partition as a dict key: its members with their types, sorted (1, 1.0, and True are different partitions)."""


class ParsedKey(NamedTuple):
    """A stored key."""

    connector: str
    partition: dict[str, Any] | None


def partition_id(partition: Mapping[str, Any] | None) -> PartitionId:
    """Returns the same ID for equal partitions, whatever the order of their members."""
    if partition is None:
        return None
    return tuple(sorted((key, value, value.__class__) for key, value in partition.items()))


def encode_key(connector: str, partition: Mapping[str, Any] | None) -> bytes:
    """Returns the key's bytes. Raises DataError if the partition is not a flat map of str to primitives."""
    _require_flat(partition)
    # Java's connectors and REST API store partitions in a HashMap (a single member has one order anyway).
    ordered = None if partition is None else {key: partition[key] for key in hash_map_order(partition)}
    return _dumps([connector, ordered])


def encode_value(offset: Mapping[str, Any] | None) -> bytes | None:
    """Returns the value's bytes; None, which deletes, stays None."""
    _require_flat(offset)
    return None if offset is None else _dumps(dict(offset))


def decode_key(data: bytes) -> ParsedKey | None:
    """Returns None for a key with another shape."""
    try:
        parsed = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    match parsed:
        case [str(connector), dict(partition)]:
            return ParsedKey(connector, partition)
        case [str(connector), None]:
            return ParsedKey(connector, None)
        case _:
            return None


def decode_value(data: bytes | None) -> dict[str, Any] | None:
    """Returns the offset. Raises DataError for anything but null or an object."""
    if data is None:
        return None
    try:
        parsed = orjson.loads(data)
    except orjson.JSONDecodeError as e:
        raise DataError(f"a stored offset is not JSON: {e}") from e
    if parsed is None or isinstance(parsed, dict):
        return parsed
    raise DataError("a stored offset is not a JSON object")


_SCHEMA_TYPES: Mapping[type, str] = {list: "ARRAY", dict: "MAP"}
"""The names of JSON values that are not primitives."""


def _require_flat(data: Mapping[str, Any] | None) -> None:
    for key, value in (data or {}).items():
        if not isinstance(key, str):
            raise DataError("Offsets may only use String keys")
        is_long = not isinstance(value, int) or -(1 << 63) <= value < 1 << 63
        if not is_long or not isinstance(value, str | int | float | bool | bytes | None):
            kind = _SCHEMA_TYPES.get(type(value), type(value).__name__) if is_long else "class java.math.BigInteger"
            raise DataError(f"Offsets may only contain primitive types as values, but field {key} contains {kind}")


def _dumps(value: Any) -> bytes:
    return write_value(None, value, _AS_JAVA).encode()
