"""Converts JSON schemas to Connect schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from connect.data.schema import Schema, Type
from connect.errors import DataError, SchemaError
from connectors.registry.json_schema.config import (
    CONNECT_TYPES,
    NULL_MARKER,
    ONE_OF,
    SUM_UNION,
    SUM_UNION_PREFIX,
    JsonSchemaConfig,
)
from connectors.registry.json_schema.decode import compile_reader

_MAX_DEPTH = 64
_MAX_PARTS = 100_000
_NUMBERS = {name: kind for kind, name in CONNECT_TYPES.items() if kind is not Type.MAP}
_COMBINED = ("oneOf", "anyOf", "allOf")


@dataclass(frozen=True, slots=True)
class Documents:
    """A schema with its references by name."""

    root: Any
    others: Mapping[str, Any]


def load(text: str, referenced: Mapping[str, str]) -> Documents:
    """Parses a schema. Raises SchemaError."""
    try:
        return Documents(orjson.loads(text), {name: orjson.loads(other) for name, other in referenced.items()})
    except orjson.JSONDecodeError as e:
        raise SchemaError(f"The JSON schema is no JSON: {e}") from e


def connect_schema(documents: Documents, options: JsonSchemaConfig, version: int | None = None) -> Schema:
    """Converts a JSON schema. Raises SchemaError if Connect has no equivalent."""
    return _JsonSchemaToConnect(documents, options).schema(_SchemaLocation(documents.root, documents.root), version, False)


@dataclass(frozen=True, slots=True)
class _SchemaLocation:
    """A schema and its document, to which its references are relative."""

    node: Any
    document: Any


class _JsonSchemaToConnect:
    def __init__(self, documents: Documents, options: JsonSchemaConfig) -> None:
        self._documents = documents
        self._options = options
        self._underway: list[int] = []
        self._unions = 0
        self._parts = 0

    def schema(self, location: _SchemaLocation, version: int | None, optional: bool) -> Schema:
        self._parts += 1
        if self._parts > _MAX_PARTS or len(self._underway) > _MAX_DEPTH:
            raise SchemaError(f"The JSON schema is nested more than {_MAX_DEPTH} levels deep or has more than {_MAX_PARTS} parts")
        location = self._resolved(location)
        node = location.node
        if not isinstance(node, dict):
            raise SchemaError(f"{node!r} as a JSON schema says nothing of the type; Connect needs one")
        if id(node) in self._underway:
            raise SchemaError(f"The JSON schema {node.get('title', '')} refers to itself, which a Connect schema cannot")
        self._underway.append(id(node))
        try:
            return self._of_parts(location, self._split(node), version, optional)
        finally:
            self._underway.pop()

    def _split(self, node: dict[str, Any]) -> list[dict[str, Any]]:
        """Splits a schema into parts: each combination, type, enum, and constant is one."""
        shared = {k: v for k, v in node.items() if k not in (*_COMBINED, "enum", "const", "type")}
        parts: list[dict[str, Any]] = [{**shared, name: node[name]} for name in _COMBINED if name in node]
        parts += [{**shared, name: node[name]} for name in ("enum", "const") if name in node]
        kind = node.get("type")
        if isinstance(kind, list):
            parts.append({**shared, "anyOf": [{**node, "type": one} for one in kind]})
        elif kind is not None or (not parts and "properties" in node) or ("properties" in node and parts):
            parts.append({**shared, "type": kind or "object"})
        return parts

    def _of_parts(self, location: _SchemaLocation, parts: list[dict[str, Any]], version: int | None, optional: bool) -> Schema:
        if not parts:
            raise SchemaError(f"A JSON schema without a type: {str(location.node)[:80]}")
        if len(parts) > 1:
            return self._all_of(location, parts, version, optional)
        part = parts[0]
        for name in ("oneOf", "anyOf"):
            if name in part:
                return self._one_of(location, part, part[name], version, optional)
        if "allOf" in part:
            branches = self._branches(part["allOf"])
            if len(branches) == 1 and self._options.flatten_singletons:
                return self.schema(_SchemaLocation(branches[0], location.document), version, optional)
            return self._all_of(location, branches, version, optional)
        members: dict[str, Any] = {"optional": optional}
        parameters: dict[str, str] = {}
        if "enum" in part or "const" in part:
            kind = self._enum(part["enum"] if "enum" in part else [part["const"]], parameters)
        else:
            kind = self._typed(location, part, members)
        return self._described(part, Schema(kind, **members, parameters=parameters), version)

    def _typed(self, location: _SchemaLocation, node: dict[str, Any], members: dict[str, Any]) -> Type:
        connect_type = node.get("connect.type")
        match node.get("type"):
            case "boolean":
                return Type.BOOLEAN
            case "integer" | "number" as name:
                if connect_type is None:
                    return Type.INT64 if name == "integer" else Type.FLOAT64
                if connect_type not in _NUMBERS:
                    raise SchemaError(f"connect.type {connect_type!r} is not known; known are {', '.join(_NUMBERS)}")
                return _NUMBERS[connect_type]
            case "string":
                return Type.BYTES if connect_type == "bytes" else Type.STRING
            case "array":
                return self._array(location, node, members)
            case "object":
                if connect_type == "map":
                    members["key_schema"] = Schema.STRING
                    members["value_schema"] = self._inner(location, node.get("additionalProperties"))
                    return Type.MAP
                members["fields"] = self._fields(location, node)
                return Type.STRUCT
            case "null":
                raise SchemaError("A JSON schema of null alone has no Connect schema")
            case other:
                raise SchemaError(f"The type {other!r} of a JSON schema is not known")

    def _inner(self, location: _SchemaLocation, node: Any, optional: bool = False) -> Schema:
        return self.schema(_SchemaLocation(node, location.document), None, optional)

    def _array(self, location: _SchemaLocation, node: dict[str, Any], members: dict[str, Any]) -> Type:
        items = node.get("items")
        if items is None or isinstance(items, list):
            raise SchemaError("Array schema did not specify the items type")
        entry = self._resolved(_SchemaLocation(items, location.document))
        if node.get("connect.type") == "map" and isinstance(entry.node, dict) and "properties" in entry.node:
            properties = entry.node["properties"]
            if not isinstance(properties, dict) or not {"key", "value"} <= properties.keys():
                raise SchemaError("A map as an array needs items with the properties key and value")
            members.update(key_schema=self._inner(entry, properties["key"]), value_schema=self._inner(entry, properties["value"]))
            return Type.MAP
        members["value_schema"] = self._inner(location, items)
        return Type.ARRAY

    def _fields(self, location: _SchemaLocation, node: dict[str, Any]) -> list[tuple[str, Schema]]:
        properties, required = node.get("properties", {}), node.get("required", [])
        if not isinstance(properties, dict):
            raise SchemaError("properties of a JSON schema is no object")
        return [(name, self._field(location, name, inner, required)) for name, inner in _by_index(properties)]

    def _field(self, location: _SchemaLocation, name: str, node: Any, required: Any) -> Schema:
        optional = self._options.optional_for_nonrequired and not (isinstance(required, list) and name in required)
        try:
            return self._inner(location, node, optional)
        except SchemaError as e:
            raise SchemaError(f"field {name}: {e.message}") from e

    def _enum(self, symbols: Any, parameters: dict[str, str]) -> Type:
        parameter = self._options.enum_parameter
        parameters[parameter] = ""
        for index, symbol in enumerate(symbols if isinstance(symbols, list) else [symbols]):
            text = NULL_MARKER if symbol is None else symbol if isinstance(symbol, str) else orjson.dumps(symbol).decode()
            parameters[f"{parameter}.{text}"] = str(index) if self._options.sum_types else text
        return Type.STRING

    def _branches(self, nodes: Any) -> list[Any]:
        """The schemas of a combination; nested combinations come first, as in the original."""
        if not isinstance(nodes, list) or not nodes:
            raise SchemaError("oneOf, anyOf and allOf of a JSON schema need a list of schemas")
        return sorted(nodes, key=lambda n: not (isinstance(n, dict) and any(name in n for name in _COMBINED)))

    def _one_of(self, location: _SchemaLocation, node: dict[str, Any], nodes: Any, version: int | None, optional: bool) -> Schema:
        options = self._options
        branches = self._branches(nodes)
        if len(branches) == 1 and options.flatten_singletons:
            return self.schema(_SchemaLocation(branches[0], location.document), version, optional)
        others = [b for b in branches if not (isinstance(b, dict) and b.get("type") == "null")]
        if len(branches) == 2 and len(others) == 1:
            return self.schema(_SchemaLocation(others[0], location.document), version, True)
        name, parameters = ONE_OF, {}
        if options.sum_types:
            name = f"{SUM_UNION_PREFIX}{self._unions}"
            self._unions += 1
            parameters = {SUM_UNION: name}
        prefix = f"{SUM_UNION_PREFIX}field_" if options.sum_types else f"{ONE_OF}.field."
        fields = [(f"{prefix}{index}", self._inner(location, branch, True)) for index, branch in enumerate(others)]
        nullable = optional or len(others) != len(branches)
        schema = Schema(Type.STRUCT, name=name, fields=fields, parameters=parameters, optional=nullable)
        return self._described(node, schema, version)

    def _all_of(self, location: _SchemaLocation, nodes: list[Any], version: int | None, optional: bool) -> Schema:
        """Merges schemas that apply together: the properties of all, else the schema that determines the type best."""
        properties: dict[str, tuple[_SchemaLocation, Any]] = {}
        required: set[str] = set()
        locations = [self._resolved(_SchemaLocation(node, location.document)) for node in nodes]
        for one in locations:
            self._collect(one, properties, required, 0)
        if properties:
            fields = [(name, self._field(inner, name, node, list(required))) for name, (inner, node) in properties.items()]
            return Schema(Type.STRUCT, fields=fields, optional=optional)
        for wanted in (("oneOf", "anyOf", "allOf"), ("enum",)):
            for one in locations:
                if isinstance(one.node, dict) and any(name in one.node for name in wanted):
                    if wanted == ("enum",) and any(_is_number(other.node) for other in locations):
                        continue
                    inner = {k: v for k, v in one.node.items() if k in wanted}
                    return self.schema(_SchemaLocation(inner, location.document), version, optional)
        for one in locations:
            if isinstance(one.node, dict) and "type" in one.node:
                return self.schema(one, version, optional)
        raise SchemaError(f"allOf of a JSON schema tells no type: {str(location.node)[:80]}")

    def _collect(
        self, location: _SchemaLocation, found: dict[str, tuple[_SchemaLocation, Any]], required: set[str], depth: int
    ) -> None:
        node = location.node
        if not isinstance(node, dict) or depth > _MAX_DEPTH:
            return
        for one in node.get("allOf", ()) if isinstance(node.get("allOf"), list) else ():
            self._collect(self._resolved(_SchemaLocation(one, location.document)), found, required, depth + 1)
        properties = node.get("properties")
        if isinstance(properties, dict) and node.get("connect.type") != "map":
            found.update({name: (location, inner) for name, inner in properties.items()})
            required.update(name for name in node.get("required", ()) if isinstance(name, str))

    def _described(self, node: dict[str, Any], schema: Schema, version: int | None) -> Schema:
        """Adds title, version, doc, parameters, and default to the schema."""
        changes: dict[str, Any] = {}
        title, doc = node.get("title"), node.get("description")
        if isinstance(title, str) and schema.name is None:
            changes["name"] = title
        number = node.get("connect.version", version)
        if isinstance(number, int) and not isinstance(number, bool):
            changes["version"] = number
        if isinstance(doc, str):
            changes["doc"] = doc
        own = node.get("connect.parameters")
        if own is not None:
            if not isinstance(own, dict) or not all(isinstance(v, str) for v in own.values()):
                raise SchemaError(f"connect.parameters of a JSON schema must be an object of texts, not {own!r}")
            changes["parameters"] = {**(schema.parameters or {}), **own}
        if changes:
            schema = schema.replace(**changes)
        if node.get("default") is None:
            return schema
        try:
            return schema.replace(default=compile_reader(schema, self._options)(node["default"]))
        except DataError as e:
            raise SchemaError(f"The default {str(node['default'])[:80]} does not fit its JSON schema: {e.message}") from e

    def _resolved(self, location: _SchemaLocation) -> _SchemaLocation:
        """Resolves a ``$ref``."""
        for _ in range(_MAX_DEPTH):
            if not isinstance(location.node, dict) or not isinstance(location.node.get("$ref"), str):
                return location
            location = self._follow(location.node["$ref"], location.document)
        raise SchemaError("$ref of a JSON schema leads from one to the next without end")

    def _follow(self, reference: str, document: Any) -> _SchemaLocation:
        name, _, fragment = reference.partition("#")
        if name:
            if isinstance(document, dict) and document.get("$id", document.get("id")) == name:
                pass
            elif name in self._documents.others:
                document = self._documents.others[name]
            else:
                found = [d for d in self._documents.others.values() if isinstance(d, dict) and d.get("$id") == name]
                if not found:
                    known = ", ".join(self._documents.others) or "none"
                    raise SchemaError(f"The JSON schema refers to {name}, which is none of its references ({known})")
                document = found[0]
        node = document
        if fragment and not fragment.startswith("/"):
            return _SchemaLocation(_with_id(document, f"#{fragment}", 0), document)
        for step in fragment.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and step.isdigit() and int(step) < len(node):
                node = node[int(step)]
            elif isinstance(node, dict) and step in node:
                node = node[step]
            else:
                raise SchemaError(f"$ref {reference} of a JSON schema leads nowhere")
        return _SchemaLocation(node, document)


def _by_index(properties: dict[str, Any]) -> list[tuple[str, Any]]:
    """Properties in the order of ``connect.index``, else in document order."""

    def location(numbered: tuple[int, tuple[str, Any]]) -> int:
        position, (_, node) = numbered
        index = node.get("connect.index") if isinstance(node, dict) else None
        return index if isinstance(index, int) else position

    return [one for _, one in sorted(enumerate(properties.items()), key=location)]


def _is_number(node: Any) -> bool:
    return isinstance(node, dict) and node.get("type") in ("integer", "number")


def _with_id(node: Any, wanted: str, depth: int) -> Any:
    """Finds the nested schema with that ID."""
    if isinstance(node, dict) and depth < _MAX_DEPTH:
        if node.get("$id", node.get("id")) == wanted or f"#{node.get('$anchor')}" == wanted:
            return node
        for inner in node.values():
            found = _with_id(inner, wanted, depth + 1)
            if found is not None:
                return found
    if isinstance(node, list) and depth < _MAX_DEPTH:
        for inner in node:
            found = _with_id(inner, wanted, depth + 1)
            if found is not None:
                return found
    if depth == 0:
        raise SchemaError(f"$ref {wanted} of a JSON schema leads nowhere")
    return None
