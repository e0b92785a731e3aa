"""Writes and reads schemas as JSON: the ``schema`` member of JsonConverter's envelope."""

from __future__ import annotations

from typing import Any

from connect.converters.json.strict_checks import check_lossless
from connect.converters.json.value_reader import ReadOptions, node_type, read_value
from connect.converters.json.value_writer import WriteOptions, quote, write_value
from connect.data.schema import Schema, Type
from connect.data.struct import validate_value
from connect.errors import DataError, SchemaError
from connect.java.sized_numbers import wrap_integer
from connect.strict import STRICT

_MEMBERS: dict[str, type] = {"optional": bool, "name": str, "version": int, "doc": str, "parameters": dict}
_TYPES = {t.value: t for t in Type}
_PRIMITIVES = {t.value for t in Type if t.is_primitive}


def schema_text(schema: Schema | None, options: WriteOptions, field: str | None = None) -> str:
    """Returns the schema as JSON text, with its members in Apache's order."""
    if schema is None:
        return "null"
    parts = [f'"type":"{schema.type.value}"']
    if schema.type is Type.ARRAY:
        parts.append(f'"items":{schema_text(schema.value_schema, options)}')
    elif schema.type is Type.MAP:
        parts.append(f'"keys":{schema_text(schema.key_schema, options)}')
        parts.append(f'"values":{schema_text(schema.value_schema, options)}')
    elif schema.type is Type.STRUCT:
        fields = ",".join([schema_text(f.schema, options, f.name) for f in schema.fields or ()])
        parts.append(f'"fields":[{fields}]')
    parts.append(f'"optional":{"true" if schema.optional else "false"}')
    if schema.name is not None:
        parts.append(f'"name":{quote(schema.name)}')
    if schema.version is not None:
        parts.append(f'"version":{schema.version}')
    if schema.doc is not None:
        parts.append(f'"doc":{quote(schema.doc)}')
    if schema.parameters:
        members = ",".join([f"{quote(k)}:{quote(v)}" for k, v in schema.parameters.items()])
        parts.append(f'"parameters":{{{members}}}')
    if schema.default is not None:
        parts.append(f'"default":{write_value(schema, schema.default, options)}')
    if field is not None:
        parts.append(f'"field":{quote(field)}')
    return f"{{{','.join(parts)}}}"


def parse_schema(node: Any, options: ReadOptions) -> Schema | None:
    """Returns the schema of a parsed JSON node; None for null. Raises DataError."""
    try:
        return _parse(node, options)
    except RecursionError as e:
        raise DataError("A schema is nested too deeply") from e


def _parse(node: Any, options: ReadOptions) -> Schema | None:
    if node is None:
        return None
    name = node.get("type") if isinstance(node, dict) else None
    if not isinstance(name, str):
        raise DataError("Schema must contain 'type' field")
    if options.strict:
        _check_members(node)
    kind: dict[str, Any] = {}
    if name == "array":
        items = node.get("items")
        if items is None:
            raise DataError("Array schema did not specify the element type")
        kind = {"value_schema": _parse(items, options)}
    elif name == "map":
        kind = _map_members(node, options)
    elif name == "struct":
        kind = {"fields": _fields(node, options)}
    elif name not in _PRIMITIVES:
        raise DataError(f"Unknown schema type: {name}")
    schema = Schema(_TYPES[name], **kind, **_members(node))
    if "default" in node:
        if options.strict:
            check_lossless(schema, node["default"])
        default = read_value(schema, node["default"], options)
        try:
            _check_default(schema, default)
        except DataError as e:
            raise SchemaError("Invalid default value") from e
        if default is not None:
            schema = schema.replace(default=default)
    return schema


def _check_default(schema: Schema, default: Any) -> None:
    # Apache compares the struct's schema with its builder, and those are never equal.
    if schema.type is Type.STRUCT and default is not None:
        raise DataError("Struct schemas do not match.")
    validate_value(schema, default)


def _members(node: dict[str, Any]) -> dict[str, Any]:
    """Returns the members that every schema may have. Members of another JSON type are ignored, except parameters."""
    members: dict[str, Any] = {"optional": node.get("optional") is True}
    if isinstance(node.get("name"), str):
        members["name"] = node["name"]
    if type(node.get("version")) is int:
        members["version"] = wrap_integer(node["version"], 32)
    if isinstance(node.get("doc"), str):
        members["doc"] = node["doc"]
    parameters = node.get("parameters")
    if isinstance(parameters, dict):
        if not all(isinstance(v, str) for v in parameters.values()):
            raise DataError("Schema parameters must have string values.")
        members["parameters"] = parameters
    return members


def _check_members(node: dict[str, Any]) -> None:
    """Raises DataError for members that :func:`_members` would ignore."""
    for member, kind in _MEMBERS.items():
        value = node.get(member)
        if value is not None and type(value) is not kind:
            raise DataError(f"Schema member {member} is {node_type(value)}, not what it must be ({STRICT} is on)")


def _map_members(node: dict[str, Any], options: ReadOptions) -> dict[str, Any]:
    if "keys" not in node:
        raise DataError("Map schema did not specify the key type")
    if "values" not in node:
        raise DataError("Map schema did not specify the value type")
    keys, values = _parse(node["keys"], options), _parse(node["values"], options)
    if keys is None:
        raise SchemaError("keySchema cannot be null.")
    if values is None:
        raise SchemaError("valueSchema cannot be null.")
    return {"key_schema": keys, "value_schema": values}


def _fields(node: dict[str, Any], options: ReadOptions) -> list[tuple[str, Schema]]:
    fields = node.get("fields")
    if not isinstance(fields, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    found: dict[str, Schema] = {}
    for field in fields:
        name = field.get("field") if isinstance(field, dict) else None
        if not isinstance(name, str):
            raise DataError("Struct schema's field name not specified properly")
        schema = _parse(field, options)
        if not name:
            raise SchemaError("fieldName cannot be null.")
        if name in found:
            raise SchemaError(f"Cannot create field because of field name duplication {name}")
        assert schema is not None
        found[name] = schema
    return list(found.items())
