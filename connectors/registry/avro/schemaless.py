"""Encodes data without a schema in Avro: as the record ``Anything``, of which one field is set."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from connect.data.schema import Type
from connect.data.types import INT_RANGES
from connect.errors import DataError
from connect.java.sized_numbers import Float32, Int8, Int16, Int32
from connect.record import SchemaAndValue
from connectors.registry.values import shorten
from connectors.registry.varint import read_int, read_long, write_long

_FIELDS = ("boolean", "bytes", "double", "float", "int", "long", "string", "array", "map")
_MAX_DEPTH = 200
_NULL = b"\0" * len(_FIELDS)


def encode_anything(values: Sequence[Any]) -> list[bytes]:
    """Encodes values without a schema. Raises DataError."""
    return [_encode(v, 0) for v in values]


def decode_anything(data: bytes, at: int) -> SchemaAndValue:
    """Decodes a value without a schema. Raises DataError."""
    try:
        value, _ = _decode(data, at, 0)
    except (IndexError, struct.error) as e:
        raise DataError(f"the data ends before the value does; the payload has {len(data)} bytes") from e
    except TypeError as e:
        raise DataError("a map whose keys are lists or maps cannot be held") from e
    return SchemaAndValue(None, value)


def _encode(value: Any, depth: int) -> bytes:
    if depth > _MAX_DEPTH:
        raise DataError(f"the value is nested more than {_MAX_DEPTH} levels deep")
    if value is None:
        return _NULL
    position, data = _field(value, depth)
    return b"\0" * position + b"\2" + data + b"\0" * (len(_FIELDS) - 1 - position)


def _field(value: Any, depth: int) -> tuple[int, bytes]:
    """The index of the field for the value, and its encoded bytes."""
    if isinstance(value, bool):
        return 0, b"\1" if value else b"\0"
    if isinstance(value, Int8 | Int16 | Int32):
        return 4, write_long(value)
    if isinstance(value, int):
        low, high = INT_RANGES[Type.INT64]
        if not low <= value <= high:
            raise DataError(f"{shorten(value)} does not fit into 64 bits")
        return 5, write_long(value)
    if isinstance(value, Float32):
        return 3, struct.pack("<f", value)
    if isinstance(value, float):
        return 2, struct.pack("<d", value)
    if isinstance(value, str):
        try:
            text = value.encode()
        except UnicodeEncodeError as e:
            raise DataError("the text contains an unpaired surrogate, which UTF-8 cannot encode") from e
        return 6, write_long(len(text)) + text
    if isinstance(value, list):
        return 7, _block(len(value), [_encode(v, depth + 1) for v in value])
    if isinstance(value, dict):
        return 8, _block(len(value), [_encode(k, depth + 1) + _encode(v, depth + 1) for k, v in value.items()])
    raise DataError(f"Unknown type for schemaless data: {type(value).__name__}. Data of this type needs a schema")


def _block(count: int, items: list[bytes]) -> bytes:
    return write_long(count) + b"".join(items) + b"\0" if items else b"\0"


def _decode(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > _MAX_DEPTH:
        raise DataError(f"the value is nested more than {_MAX_DEPTH} levels deep")
    found: Any = None
    for name in _FIELDS:
        branch = data[at]
        at += 1
        if branch == 2:
            value, at = _read(name, data, at, depth)
            if found is None:  # as in the original: the first field that is set
                found = value
        elif branch != 0:
            raise DataError(f"field {name} of schemaless data is neither null nor set")
    return found, at


def _read(name: str, data: bytes, at: int, depth: int) -> tuple[Any, int]:
    match name:
        case "boolean":
            if data[at] > 1:
                raise DataError(f"a boolean is 0 or 1, not {data[at]}")
            return data[at] == 1, at + 1
        case "double":
            return struct.unpack_from("<d", data, at)[0], at + 8
        case "float":
            return Float32(struct.unpack_from("<f", data, at)[0]), at + 4
        case "int" | "long":
            number, at = _number(data, at, name)
            return (Int32(number) if name == "int" else number), at
        case "string" | "bytes":
            size, at = _number(data, at, "long")
            if not 0 <= size <= len(data) - at:
                raise IndexError
            part = data[at : at + size]
            return (part.decode(errors="replace") if name == "string" else part), at + size
        case _:
            return _collection(data, at, depth, name == "map")


def _collection(data: bytes, at: int, depth: int, is_map: bool) -> tuple[Any, int]:
    """Decodes a list or a dict from blocks of items; an empty block ends them."""
    items: list[Any] = []
    entries: dict[Any, Any] = {}
    while True:
        count, at = _number(data, at, "long")
        if count == 0:
            return (entries if is_map else items), at
        if count < 0:
            count = -count
            _, at = _number(data, at, "long")
        if count * len(_FIELDS) > len(data) - at:  # each item has at least one byte per field
            raise IndexError
        for _ in range(count):
            item, at = _decode(data, at, depth + 1)
            if is_map:
                entries[item], at = _decode(data, at, depth + 1)
            else:
                items.append(item)


def _number(data: bytes, at: int, kind: str) -> tuple[int, int]:
    first = data[at]
    at += 1
    if first > 127:
        first, at = read_int(data, at, first) if kind == "int" else read_long(data, at, first)
    return (first >> 1) ^ -(first & 1), at
