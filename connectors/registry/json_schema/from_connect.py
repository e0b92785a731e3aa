"""Converts Connect schemas to JSON schemas."""

from __future__ import annotations

from typing import Any

from connect.data.logical import DECIMAL
from connect.data.schema import Schema, Type
from connect.errors import DataError, SchemaError
from connect.java.hash_order import hash_map_order
from connectors.registry.json_schema.config import (
    CONNECT_TYPES,
    NAMESPACE,
    NULL_MARKER,
    JsonSchemaConfig,
    is_native_map,
    is_union,
)
from connectors.registry.json_schema.encode import json_value

_MAX_DEPTH = 64
_NULL = {"type": "null"}
_INTEGERS = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)


def json_schema(schema: Schema, options: JsonSchemaConfig) -> dict[str, Any]:
    """Converts a Connect schema to a JSON schema. Raises SchemaError."""
    return _schema(schema, options, None, 0)


def _schema(
    schema: Schema | None, options: JsonSchemaConfig, index: int | None, depth: int, *, within_union: bool = False
) -> dict[str, Any]:
    """Converts one schema. ``index`` is its position in the struct; members of a union are not optional by themselves."""
    if schema is None:
        raise SchemaError("An array or map without the schema of its elements cannot be written with JSON Schema")
    if depth > _MAX_DEPTH:
        raise SchemaError(f"The schema is nested more than {_MAX_DEPTH} levels deep")
    placed = {} if index is None else {"connect.index": index}
    if schema.type is Type.STRUCT and is_union(schema):
        branches = [_NULL] if schema.optional else []
        branches += [_schema(f.schema, options, f.index, depth + 1, within_union=True) for f in schema.fields or ()]
        return {"oneOf": branches, **placed}
    if schema.optional and not within_union:
        if schema.type is Type.STRUCT:
            # As in the original, attributes of an optional struct are inside the oneOf.
            return {"oneOf": [_NULL, _schema(schema.replace(optional=False), options, None, depth)], **placed}
        return {"oneOf": [_NULL, _described(schema, options, {}, depth)], **placed}
    return _described(schema, options, placed, depth)


def _described(schema: Schema, options: JsonSchemaConfig, placed: dict[str, int], depth: int) -> dict[str, Any]:
    node: dict[str, Any] = {}
    if schema.name is not None:
        node["title"] = schema.name
    if schema.doc is not None:
        node["description"] = schema.doc
    if schema.default is not None:
        node["default"] = json_value(schema, schema.default, options)
    node |= _shape(schema, options, depth)
    props: dict[str, Any] = dict(placed)
    if schema.type in CONNECT_TYPES:
        props["connect.type"] = CONNECT_TYPES[schema.type]
    if schema.version is not None:
        props["connect.version"] = schema.version
    parameters = {k: v for k, v in (schema.parameters or {}).items() if not k.startswith(NAMESPACE)}
    if parameters:
        props["connect.parameters"] = {k: parameters[k] for k in hash_map_order(parameters)}
    return node | {name: props[name] for name in hash_map_order(props)}


def _shape(schema: Schema, options: JsonSchemaConfig, depth: int) -> dict[str, Any]:
    kind = schema.type
    if kind in _INTEGERS:
        return {"type": "integer"}
    match kind:
        case Type.FLOAT32 | Type.FLOAT64:
            return {"type": "number"}
        case Type.BOOLEAN:
            return {"type": "boolean"}
        case Type.STRING:
            return _text(schema, options)
        case Type.BYTES:
            return {"type": "number" if schema.name == DECIMAL and options.numeric_decimals else "string"}
        case Type.ARRAY:
            return {"type": "array", "items": _schema(schema.value_schema, options, None, depth + 1)}
        case Type.MAP if is_native_map(schema):
            return {"type": "object", "additionalProperties": _schema(schema.value_schema, options, None, depth + 1)}
        case Type.MAP:
            key = _schema(schema.key_schema, options, 0, depth + 1)
            value = _schema(schema.value_schema, options, 1, depth + 1)
            return {"type": "array", "items": {"type": "object", "properties": {"key": key, "value": value}}}
        case _:
            return _object(schema, options, depth)


def _object(schema: Schema, options: JsonSchemaConfig, depth: int) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for field in schema.fields or ():
        try:
            properties[field.name] = _schema(field.schema, options, field.index, depth + 1)
        except DataError as e:
            raise type(e)(f"field {field.name}: {e.message}") from e
    node: dict[str, Any] = {"type": "object", "properties": properties}
    if not options.additional_properties:
        node["additionalProperties"] = False
    return node


def _text(schema: Schema, options: JsonSchemaConfig) -> dict[str, Any]:
    parameter = options.enum_parameter
    if parameter not in (schema.parameters or {}):
        return {"type": "string"}
    symbols = [k[len(parameter) + 1 :] for k in schema.parameters or {} if k.startswith(parameter + ".")]
    return {"enum": [None if symbol == NULL_MARKER else symbol for symbol in symbols]}
