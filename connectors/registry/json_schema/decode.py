"""Decodes JSON to Connect values.

The C codec parses payloads first. Numbers that it cannot represent exactly, and JSON that it rejects, are parsed again with exact
numbers; values of another type are then converted as leniently as in the original, or rejected if strict.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import orjson

from connect.converters.json.parser import MISSING, parse_json
from connect.converters.json.strict_checks import check_lossless
from connect.converters.json.value_reader import ReadOptions, decode_base64, read_value
from connect.data.logical import DATE, DECIMAL, TIME, TIMESTAMP
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.data.types import INT_RANGES
from connect.errors import DataError, SchemaError
from connectors.registry.json_schema.config import JsonSchemaConfig, is_native_map, is_union
from connectors.registry.values import shorten, within_field

Read = Callable[[Any], Any]
"""Converts parsed JSON to a value. Raises DataError, and InexactNumber for a float where an exact number is needed."""
_LOGICAL = (DATE, TIME, TIMESTAMP, DECIMAL)


class InexactNumber(Exception):
    """The codec's number is not exact; the text must be parsed again."""


def parse(data: bytes, read: Read, strict: bool) -> Any:
    """Parses a payload. Raises DataError."""
    try:
        return read(orjson.loads(data))
    except (orjson.JSONDecodeError, InexactNumber, RecursionError):
        pass
    try:
        node = parse_json(data, strict=strict)
        if node is MISSING:
            raise DataError("the payload is empty; JSON is needed")
        return read(node)
    except RecursionError as e:
        raise DataError("the JSON is nested too deeply") from e


def compile_reader(schema: Schema, options: JsonSchemaConfig) -> Read:
    """Builds the reader of one schema."""
    read = _present(schema, options)
    default, optional, kind = schema.default, schema.optional, schema.type.name

    def value(node: Any) -> Any:
        if node is not None:
            return read(node)
        if default is not None:
            return default
        if optional:
            return None
        raise DataError(f"Invalid null value for required {kind} field")

    return value


def _present(schema: Schema, options: JsonSchemaConfig) -> Read:
    if schema.name in _LOGICAL:
        return _loose(schema, options)
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            low, high = INT_RANGES[schema.type]
            loose = _loose(schema, options)
            return lambda node: node if type(node) is int and low <= node <= high else loose(node)
        case Type.FLOAT64:
            loose = _loose(schema, options)
            return lambda node: node if type(node) is float else loose(node)
        case Type.BOOLEAN:
            loose = _loose(schema, options)
            return lambda node: node if node is True or node is False else loose(node)
        case Type.STRING:
            loose = _loose(schema, options)
            return lambda node: node if type(node) is str else loose(node)
        case Type.FLOAT32:
            return _loose(schema, options)
        case Type.BYTES:
            return _bytes(schema, options)
        case Type.ARRAY:
            return _list(_element(schema.value_schema, options))
        case Type.MAP:
            return _map(schema, options)
        case _:
            return _union(schema, options) if is_union(schema) else _struct(schema, options)


def _loose(schema: Schema, options: JsonSchemaConfig) -> Read:
    """Reads values of another type by the rules of JsonConverter."""
    strict = options.strict
    how = ReadOptions(strict=strict)
    required = schema.replace(optional=False, default=None)
    is_float = schema.type in (Type.FLOAT32, Type.FLOAT64)

    def read(node: Any) -> Any:
        if type(node) is float:
            raise InexactNumber
        if is_float and node in ("NaN", "Infinity", "-Infinity"):
            return float(node)  # how the encoder writes these numbers
        if strict:
            check_lossless(required, node)
        return read_value(required, node, how)

    return read


def _bytes(schema: Schema, options: JsonSchemaConfig) -> Read:
    def read(node: Any) -> Any:
        if type(node) is not str:
            if type(node) is float:
                raise InexactNumber
            raise DataError(f"bytes are text in base 64, not {shorten(node)}")
        try:
            return decode_base64(node)
        except ValueError as e:
            raise DataError(f"Invalid bytes field: {shorten(node)} is not base 64") from e

    return read


def _element(schema: Schema | None, options: JsonSchemaConfig) -> Read:
    if schema is None:
        raise SchemaError("An array or map without the schema of its elements")
    return compile_reader(schema, options)


def _list(element: Read) -> Read:
    def read(node: Any) -> list[Any]:
        if not isinstance(node, list):
            raise DataError(f"an array is needed, not {shorten(node)}")
        return [element(n) for n in node]

    return read


def _map(schema: Schema, options: JsonSchemaConfig) -> Read:
    key, element = _element(schema.key_schema, options), _element(schema.value_schema, options)

    def read_object(node: Any) -> dict[Any, Any]:
        if not isinstance(node, dict):
            raise DataError(f"Maps with string fields should be encoded as JSON objects, but found {shorten(node)}")
        return {k: element(n) for k, n in node.items()}

    def read_entries(node: Any) -> dict[Any, Any]:
        if not isinstance(node, list):
            raise DataError(f"Maps with non-string fields should be encoded as JSON array of objects, but found {shorten(node)}")
        made: dict[Any, Any] = {}
        for entry in node:
            if not isinstance(entry, dict) or entry.keys() != {"key", "value"}:
                raise DataError(f"Found invalid map entry, expected an object of key and value but found {shorten(entry)}")
            name = key(entry["key"])
            if isinstance(name, list | dict):
                raise DataError("a map whose keys are lists or maps cannot be held")
            made[name] = element(entry["value"])
        return made

    return read_object if is_native_map(schema) else read_entries


def _struct(schema: Schema, options: JsonSchemaConfig) -> Read:
    members = [(f.name, f.schema.default, f.schema.optional, compile_reader(f.schema, options)) for f in schema.fields or ()]
    known = frozenset(f.name for f in schema.fields or ())
    strict = options.strict

    def read(node: Any) -> Struct:
        if not isinstance(node, dict):
            raise DataError(f"Structs should be encoded as JSON objects, but found {shorten(node)}")
        values = []
        for name, default, optional, member in members:
            found = node.get(name, MISSING)
            if found is MISSING:
                # As in the original, a missing property is null even if its field is not optional.
                if strict and default is None and not optional:
                    raise DataError(f"field {name}: the property is missing and required")
                values.append(default)
                continue
            try:
                values.append(member(found))
            except DataError as e:
                raise within_field(name, e) from e
        if strict and not known >= node.keys():
            extra = next(name for name in node if name not in known)
            raise DataError(f"the schema has no property {extra!r}, which would be left out")
        return Struct(schema, values)

    return read


def _union(schema: Schema, options: JsonSchemaConfig) -> Read:
    fields = schema.fields or ()
    members = [_present(f.schema, options) for f in fields]

    def read(node: Any) -> Struct:
        best, most = -1, 0
        for index, field in enumerate(fields):
            if _is_simple_match(field.schema, node):
                best = index
                break
            matching = _matching_properties(field.schema, node)
            if matching > most:
                best, most = index, matching
        if best < 0:
            raise DataError(f"Did not find matching oneof field for data: {shorten(node)}")
        values: list[Any] = [None] * len(fields)
        try:
            values[best] = members[best](node)
        except DataError as e:
            raise within_field(fields[best].name, e) from e
        return Struct(schema, values)

    return read


def _is_simple_match(schema: Schema, node: Any) -> bool:
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return type(node) is int
        case Type.FLOAT32 | Type.FLOAT64:
            return type(node) in (int, float, Decimal)
        case Type.BOOLEAN:
            return isinstance(node, bool)
        case Type.STRING:
            return isinstance(node, str)
        case Type.BYTES:
            return isinstance(node, Decimal | float) if schema.name == DECIMAL else False
        case Type.ARRAY:
            return isinstance(node, list)
        case Type.MAP:
            return isinstance(node, dict | list)
        case _:
            return False


def _matching_properties(schema: Schema, node: Any) -> int:
    """The number of properties that object and struct share, including nested ones."""
    if schema.type is not Type.STRUCT or not isinstance(node, dict):
        return 0
    shared = [f for f in schema.fields or () if f.name in node]
    return len(shared) + sum(_matching_properties(f.schema, node[f.name]) for f in shared)
