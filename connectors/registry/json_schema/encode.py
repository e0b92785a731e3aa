"""Encodes Connect values to JSON."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from math import isfinite
from typing import Any

import orjson

from connect.data.logical import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    decimal_scale,
    decimal_to_bytes,
)
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.data.types import INT_RANGES
from connect.errors import DataError, SchemaError
from connect.java.number_text import decimal_text, float_text
from connect.java.sized_numbers import round_to_float32
from connect.strict import STRICT
from connectors.registry.json_schema.config import JsonSchemaConfig, is_native_map, is_union
from connectors.registry.values import (
    mismatch_error,
    raise_mismatch,
    require_bytes,
    require_date_days,
    require_decimal,
    require_integer,
    require_time_millis,
    require_timestamp_millis,
    within_field,
)

Write = Callable[[Any], Any]
"""Converts a value to an object that the JSON codec can write. Raises DataError."""
ABSENT: Any = object()
"""Marks a null of a required field, which is omitted as in the original."""


def compile_writer(schema: Schema, options: JsonSchemaConfig) -> Write:
    """Builds the writer of one schema."""
    return _writer(schema, options)


def json_value(schema: Schema, value: Any, options: JsonSchemaConfig) -> Any:
    """The value as parsed JSON."""
    return orjson.loads(json_bytes(_writer(schema, options)(value)))


def json_bytes(node: Any) -> bytes:
    """Serializes JSON. Raises DataError for invalid text and for integers beyond 64 bits."""
    try:
        return orjson.dumps(node)
    except (TypeError, orjson.JSONEncodeError) as e:
        raise DataError(f"the value cannot be written as JSON: {e}") from e


def _writer(schema: Schema | None, options: JsonSchemaConfig) -> Write:
    if schema is None:
        raise SchemaError("An array or map without the schema of its elements cannot be written with JSON Schema")
    write = _present(schema, options)
    default = None if options.ignore_default else schema.default
    if default is not None:
        written = write(default)
        return lambda value: written if value is None else write(value)
    absent = None if schema.optional else ABSENT
    return lambda value: absent if value is None else write(value)


def _present(schema: Schema, options: JsonSchemaConfig) -> Write:
    """Builds the writer of values that are not None."""
    logical = _logical(schema, options)
    if logical is not None:
        return logical
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return _integer(*INT_RANGES[schema.type])
        case Type.FLOAT32:
            return lambda value: _float(value, narrow=True, strict=options.strict)
        case Type.FLOAT64:
            return lambda value: (
                value
                if type(value) is float and -math.inf < value < math.inf
                else _float(value, narrow=False, strict=options.strict)
            )
        case Type.BOOLEAN:
            return lambda value: value if value is True or value is False else raise_mismatch("a boolean", value)
        case Type.STRING:
            return lambda value: value if type(value) is str else _text(value)
        case Type.BYTES:
            return lambda value: base64.b64encode(require_bytes(value)).decode()
        case Type.ARRAY:
            return _list(_element(schema.value_schema, options))
        case Type.MAP:
            return _map(schema, options)
        case _:
            return _union(schema, options) if is_union(schema) else _struct(schema, options)


def _integer(low: int, high: int) -> Write:
    def write(value: Any) -> int:
        return value if type(value) is int and low <= value <= high else require_integer(value, low, high)

    return write


def _float(value: Any, *, strict: bool, narrow: bool = False) -> Any:
    if not isinstance(value, float):
        raise mismatch_error("a float", value)
    if not isfinite(value):
        if strict:
            raise DataError(f"JSON has no number for {value} ({STRICT} is on)")
        # As in Jackson.
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return float(float_text(round_to_float32(value))) if narrow else float(value)


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, str) else raise_mismatch("text", value)


def _element(schema: Schema | None, options: JsonSchemaConfig) -> Write:
    write = _writer(schema, options)

    def element(value: Any) -> Any:
        made = write(value)
        return None if made is ABSENT else made

    return element


def _list(element: Write) -> Write:
    def write(value: Any) -> Any:
        return [element(v) for v in value] if isinstance(value, list) else raise_mismatch("a list", value)

    return write


def _map(schema: Schema, options: JsonSchemaConfig) -> Write:
    key, element = _element(schema.key_schema, options), _element(schema.value_schema, options)
    if is_native_map(schema):
        return lambda value: (
            {_text(k): element(v) for k, v in value.items()} if isinstance(value, dict) else raise_mismatch("a dict", value)
        )

    def write(value: Any) -> Any:
        if not isinstance(value, dict):
            raise mismatch_error("a dict", value)
        return [{"key": key(k), "value": element(v)} for k, v in value.items()]

    return write


def _struct(schema: Schema, options: JsonSchemaConfig) -> Write:
    members = [(f.name, _writer(f.schema, options)) for f in schema.fields or ()]

    def write(value: Any) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for (name, member), cell in zip(members, _cells(value, schema), strict=True):
            try:
                written = member(cell)
            except DataError as e:
                raise within_field(name, e) from e
            if written is not ABSENT:
                made[name] = written
        return made

    return write


def _union(schema: Schema, options: JsonSchemaConfig) -> Write:
    members = [(f.name, _present(f.schema, options)) for f in schema.fields or ()]

    def write(value: Any) -> Any:
        for (name, member), cell in zip(members, _cells(value, schema), strict=True):
            if cell is not None:
                try:
                    return member(cell)
                except DataError as e:
                    raise within_field(name, e) from e
        return None

    return write


def _cells(value: Any, schema: Schema) -> list[Any]:
    if not isinstance(value, Struct):
        raise mismatch_error("a Struct", value)
    if value.schema is not schema and value.schema != schema:
        raise DataError("Mismatching schema.")
    return value.values


def _logical(schema: Schema, options: JsonSchemaConfig) -> Write | None:
    match schema.name:
        case name if name == DECIMAL:
            if options.numeric_decimals:
                return lambda value: orjson.Fragment(_number(value))
            scale = decimal_scale(schema)
            return lambda value: base64.b64encode(decimal_to_bytes(require_decimal(value), scale)).decode()
        case name if name == DATE:
            return lambda value: require_date_days(value)
        case name if name == TIME:
            return lambda value: require_time_millis(value)
        case name if name == TIMESTAMP:
            return lambda value: require_timestamp_millis(value)
    return None


def _number(value: Any) -> str:
    return decimal_text(require_decimal(value))
