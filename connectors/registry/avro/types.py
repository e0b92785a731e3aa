"""Parses Avro schemas: resolves names and checks sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from connect.errors import SchemaError

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
MAX_DEPTH = 64
"""Maximum nesting of schemas, and so of data, because recursive schemas are not supported."""
MISSING: Any = object()
"""Marks a field without a default, because null is a valid default."""
_RESERVED = frozenset(
    ("type", "name", "namespace", "doc", "fields", "items", "values", "symbols", "size", "aliases", "default", "order")
)


@dataclass(slots=True, eq=False)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    doc: str | None = None
    default: Any = MISSING
    props: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class AvroType:
    """A parsed schema. ``kind`` is Avro's type; ``name`` is the full name of a record, enum, or fixed.

    ``recursive`` marks a record that contains itself.
    """

    kind: str
    name: str | None = None
    doc: str | None = None
    fields: list[AvroField] = field(default_factory=list)
    branches: list[AvroType] = field(default_factory=list)
    items: AvroType | None = None
    symbols: list[str] = field(default_factory=list)
    size: int = 0
    enum_default: str | None = None
    props: dict[str, Any] = field(default_factory=dict)
    recursive: bool = False

    @property
    def simple_name(self) -> str:
        return (self.name or "").rpartition(".")[2]


def parse_avro(text: str, referenced: Iterable[str] = ()) -> AvroType:
    """Parses a schema. ``referenced`` are schemas whose names it may use, in an order in which each uses earlier ones.
    Raises SchemaError."""
    parser = _AvroSchemaParser()
    for one in referenced:
        parser.parse(_load(one), None, 0)
    return parser.parse(_load(text), None, 0)


def _load(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as e:
        if text.strip().replace(".", "").replace("_", "").isalnum():  # a bare name, as old registries gave for "string"
            return text.strip()
        raise SchemaError(f"The Avro schema is no JSON: {e}") from e


class _AvroSchemaParser:
    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}
        self._open: set[str] = set()

    def parse(self, node: Any, namespace: str | None, depth: int) -> AvroType:
        if depth > MAX_DEPTH:
            raise SchemaError(f"The Avro schema is nested more than {MAX_DEPTH} levels deep")
        if isinstance(node, str):
            return AvroType(node) if node in PRIMITIVES else self._reference(node, namespace)
        if isinstance(node, list):
            branches = [self.parse(branch, namespace, depth + 1) for branch in node]
            if any(b.kind == "union" for b in branches):
                raise SchemaError("An Avro union stands directly within a union")
            return AvroType("union", branches=branches)
        if not isinstance(node, dict):
            raise SchemaError(f"Not an Avro schema: {str(node)[:80]}")
        kind = node.get("type")
        if isinstance(kind, dict | list):
            return self.parse(kind, namespace, depth + 1)
        if not isinstance(kind, str):
            raise SchemaError(f"An Avro schema without a type: {str(node)[:80]}")
        props = {k: v for k, v in node.items() if k not in _RESERVED}
        if kind in PRIMITIVES:
            return AvroType(kind, props=props)
        if kind in ("array", "map"):
            element = node.get("items" if kind == "array" else "values")
            if element is None:
                raise SchemaError(f"An Avro {kind} without {'items' if kind == 'array' else 'values'}")
            return AvroType(kind, items=self.parse(element, namespace, depth + 1), props=props)
        if kind in ("record", "error", "enum", "fixed"):
            return self._parse_named(node, kind, namespace, depth, props)
        return self._reference(kind, namespace)

    def _reference(self, name: str, namespace: str | None) -> AvroType:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._named.get(full) or self._named.get(name)
        if found is None:
            known = ", ".join(sorted(self._named)) or "none"
            raise SchemaError(f"The Avro schema uses {full}, which is not defined; defined are: {known}")
        if full in self._open or name in self._open:
            found.recursive = True
        return found

    def _parse_named(self, node: dict[str, Any], kind: str, namespace: str | None, depth: int, props: Any) -> AvroType:
        name = node.get("name")
        if not isinstance(name, str) or not name:
            raise SchemaError(f"An Avro {kind} without a name")
        own = node.get("namespace", namespace) if "." not in name else name.rpartition(".")[0]
        full = name if "." in name or not own else f"{own}.{name}"
        if full in self._named:
            raise SchemaError(f"The Avro schema defines {full} twice")
        doc = node.get("doc")
        made = AvroType("record" if kind == "error" else kind, full, doc if isinstance(doc, str) else None, props=props)
        self._named[full] = made
        if kind == "enum":
            symbols = node.get("symbols")
            if not isinstance(symbols, list) or not all(isinstance(s, str) for s in symbols):
                raise SchemaError(f"The Avro enum {full} has no list of symbols")
            made.symbols, made.enum_default = symbols, node.get("default")
        elif kind == "fixed":
            size = node.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise SchemaError(f"The Avro fixed {full} has no size")
            made.size = size
        else:
            self._open.add(full)
            made.fields = self._parse_fields(node.get("fields"), full, own or None, depth)
            self._open.discard(full)
        return made

    def _parse_fields(self, nodes: Any, record: str, namespace: str | None, depth: int) -> list[AvroField]:
        if not isinstance(nodes, list):
            raise SchemaError(f"The Avro record {record} has no fields")
        fields: dict[str, AvroField] = {}
        for node in nodes:
            if not isinstance(node, dict) or not isinstance(node.get("name"), str) or "type" not in node:
                raise SchemaError(f"The Avro record {record} has a field without name or type")
            name, doc = node["name"], node.get("doc")
            if name in fields:
                raise SchemaError(f"The Avro record {record} has two fields {name}")
            fields[name] = AvroField(
                name,
                self.parse(node["type"], namespace, depth + 1),
                doc if isinstance(doc, str) else None,
                node.get("default", MISSING),
                {k: v for k, v in node.items() if k not in _RESERVED},
            )
        return list(fields.values())


def avro_text(schema: AvroType) -> str:
    """The schema as JSON, its members in the order of Avro's own Java library, which registries compare by."""
    return orjson.dumps(_node(schema, None, set())).decode()


def _node(schema: AvroType, namespace: str | None, known: set[str]) -> Any:
    kind = schema.kind
    if kind == "union":
        return [_node(branch, namespace, known) for branch in schema.branches]
    if schema.name is not None:
        own, _, simple = schema.name.rpartition(".")
        if schema.name in known:
            return simple if own == (namespace or "") else schema.name
        known.add(schema.name)
        node: dict[str, Any] = {"type": kind, "name": simple}
        if own != (namespace or ""):
            node["namespace"] = own
        if schema.doc is not None:
            node["doc"] = schema.doc
        if kind == "record":
            node["fields"] = [_field_node(f, own, known) for f in schema.fields]
        elif kind == "enum":
            node["symbols"] = schema.symbols
            if schema.enum_default is not None:
                node["default"] = schema.enum_default
        else:
            node["size"] = schema.size
        return node | _props(schema.props)
    if schema.items is not None:
        inner = "items" if kind == "array" else "values"
        return {"type": kind, inner: _node(schema.items, namespace, known)} | _props(schema.props)
    return {"type": kind} | _props(schema.props) if schema.props else kind


def _field_node(field: AvroField, namespace: str, known: set[str]) -> dict[str, Any]:
    node: dict[str, Any] = {"name": field.name, "type": _node(field.type, namespace or None, known)}
    if field.doc is not None:
        node["doc"] = field.doc
    if field.default is not MISSING:
        node["default"] = field.default
    return node | _props(field.props)


def _props(props: Mapping[str, Any]) -> dict[str, Any]:
    return dict(props)
