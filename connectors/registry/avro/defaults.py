"""Converts default values between Connect and the JSON of Avro schemas."""

from __future__ import annotations

import math
from typing import Any

from connect.data.logical import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    bytes_to_decimal,
    date_of,
    date_to_days,
    decimal_scale,
    decimal_to_bytes,
    instant_of,
    millis_to_time,
    time_to_millis,
    timestamp_to_millis,
)
from connect.data.schema import Schema, Type
from connect.data.struct import Struct, validate_value
from connect.data.types import INT_RANGES
from connect.errors import DataError
from connect.java.number_text import float_text
from connect.java.sized_numbers import round_to_float32
from connectors.registry.avro.config import AvroConfig
from connectors.registry.avro.names import is_union, scrub

_FROM_STORED: dict[str, Any] = {DATE: date_of, TIME: millis_to_time, TIMESTAMP: instant_of}
_TO_STORED: dict[str, Any] = {DATE: date_to_days, TIME: time_to_millis, TIMESTAMP: timestamp_to_millis}


def parse_default(schema: Schema, node: Any, options: AvroConfig) -> Any:
    """Parses a default. Raises DataError if it does not fit the schema."""
    value = _value(schema, node, options)
    if value is not None:
        validate_value(schema, value)
    return value


def _value(schema: Schema, node: Any, options: AvroConfig) -> Any:
    if node is None:
        return None
    kind = schema.type
    if kind in INT_RANGES:
        low, high = INT_RANGES[kind]
        if isinstance(node, bool) or not isinstance(node, int) or not low <= node <= high:
            raise DataError(f"{node!r} is no default for {kind.name}")
        return _FROM_STORED[schema.name](node) if schema.name in _FROM_STORED else node
    if kind in (Type.FLOAT32, Type.FLOAT64):
        if node in ("NaN", "Infinity", "-Infinity"):
            return float(node)
        if isinstance(node, bool) or not isinstance(node, int | float):
            raise DataError(f"{node!r} is no default for {kind.name}")
        return round_to_float32(float(node)) if kind is Type.FLOAT32 else float(node)
    if kind is Type.BYTES:
        if not isinstance(node, str):
            raise DataError(f"{node!r} is no default for BYTES; Avro writes bytes as text")
        try:
            data = node.encode("latin-1")
        except UnicodeEncodeError as e:
            raise DataError(f"{node!r} is no default for BYTES: it has characters beyond U+00FF") from e
        return bytes_to_decimal(data, decimal_scale(schema)) if schema.name == DECIMAL else data
    if kind is Type.ARRAY and isinstance(node, list) and schema.value_schema is not None:
        return [_value(schema.value_schema, n, options) for n in node]
    if kind is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        if isinstance(node, dict):
            return {k: _value(schema.value_schema, n, options) for k, n in node.items()}
        if isinstance(node, list) and all(isinstance(n, list) and len(n) == 2 for n in node):
            return {_value(schema.key_schema, k, options): _value(schema.value_schema, n, options) for k, n in node}
    if kind is Type.STRUCT and is_union(schema):
        # A default has the first type of its union.
        first = (schema.fields or (None,))[0]
        return None if first is None else Struct(schema).put(first, _value(first.schema, node, options))
    if kind is Type.STRUCT and isinstance(node, dict):
        struct = Struct(schema)
        for field in schema.fields or ():
            found = node.get(scrub(field.name) if options.scrub_names else field.name)
            struct.put(field, field.schema.default if found is None else _value(field.schema, found, options))
        return struct
    if isinstance(node, str | bool):
        return node  # checked against the schema by the caller
    raise DataError(f"{node!r} is no default for {kind.name}")


def dump_default(schema: Schema, value: Any, options: AvroConfig) -> Any:
    """Converts a default to JSON. Raises DataError if it does not fit the schema."""
    if value is None:
        return None
    if schema.name == DECIMAL and schema.type is Type.BYTES:
        return decimal_to_bytes(value, decimal_scale(schema)).decode("latin-1")
    if schema.name in _TO_STORED:
        return _TO_STORED[schema.name](value)
    match schema.type:
        case Type.FLOAT32 if math.isfinite(value):
            return float(float_text(value))
        case Type.FLOAT32 | Type.FLOAT64 if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Type.BYTES:
            return bytes(value).decode("latin-1")
        case Type.ARRAY:
            return [_json_of(schema.value_schema, v, options) for v in value]
        case Type.MAP:
            keys = schema.key_schema
            if keys is not None and keys.type is Type.STRING and (not keys.optional or options.optional_map_keys):
                return {k: _json_of(schema.value_schema, v, options) for k, v in value.items()}
            return [[_json_of(keys, k, options), _json_of(schema.value_schema, v, options)] for k, v in value.items()]
        case Type.STRUCT if is_union(schema):
            first = (schema.fields or (None,))[0]
            return None if first is None else dump_default(first.schema, value.get(first), options)
        case Type.STRUCT:
            return {
                scrub(f.name) if options.scrub_names else f.name: dump_default(f.schema, value.get(f), options)
                for f in schema.fields or ()
            }
        case _:
            return value


def _json_of(schema: Schema | None, value: Any, options: AvroConfig) -> Any:
    if schema is None:
        raise DataError("a default within an array or map without schema")
    return dump_default(schema, value, options)
