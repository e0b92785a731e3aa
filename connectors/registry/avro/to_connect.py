"""Converts Avro schemas to Connect schemas."""

from __future__ import annotations

import logging
from typing import Any

from connect.data.logical import DATE, DECIMAL, SCALE_PARAMETER, TIME, TIMESTAMP
from connect.data.schema import Schema, Type
from connect.errors import DataError, SchemaError
from connectors.registry.avro.config import (
    ANYTHING,
    CONNECT_ENUM_DOC,
    CONNECT_RECORD_DOC,
    DECIMAL_PRECISION,
    DEFAULT_NAME,
    DEFAULT_PRECISION,
    ENUM_DEFAULT,
    ENUM_DOC,
    FIELD_DEFAULT,
    FIELD_DOC,
    FIXED_SIZE,
    MAP_ENTRY,
    NAMESPACE,
    RECORD_DOC,
    SUM_UNION,
    SUM_UNION_PREFIX,
    UNION,
    AvroConfig,
)
from connectors.registry.avro.defaults import parse_default
from connectors.registry.avro.names import branch_name
from connectors.registry.avro.types import MISSING, AvroField, AvroType

log = logging.getLogger(__name__)
_MAX_PARTS = 100_000
"""Each use of a named type counts as a part: without a limit, a small schema could expand to millions."""
_KINDS = {
    "boolean": Type.BOOLEAN,
    "int": Type.INT32,
    "long": Type.INT64,
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "bytes": Type.BYTES,
    "fixed": Type.BYTES,
    "string": Type.STRING,
    "enum": Type.STRING,
    "array": Type.ARRAY,
    "map": Type.MAP,
    "record": Type.STRUCT,
}
_NARROW = {"int8": Type.INT8, "int16": Type.INT16}
_LOGICAL = {
    ("int", "date"): DATE,
    ("int", "time-millis"): TIME,
    ("long", "timestamp-millis"): TIMESTAMP,
}


def is_map_entry(item: AvroType) -> bool:
    """Whether an array of these represents a map with non-string keys."""
    return item.kind == "record" and (
        item.name == f"{NAMESPACE}.{MAP_ENTRY}" or item.props.get("connect.internal.type") == MAP_ENTRY
    )


def connect_schema(avro: AvroType, options: AvroConfig, version: int | None = None) -> Schema | None:
    """Converts an Avro schema; None for the schema of schemaless data. Raises SchemaError if Connect has no equivalent."""
    if avro.name == ANYTHING:
        return None
    return _AvroToConnect(options).schema(avro, version=version)


class _AvroToConnect:
    def __init__(self, options: AvroConfig) -> None:
        self._options = options
        self._parts = 0
        self._unions = 0

    def schema(
        self,
        avro: AvroType,
        *,
        optional: bool = False,
        default: Any = MISSING,
        doc: str | None = None,
        version: int | None = None,
    ) -> Schema:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise SchemaError(f"The Avro schema has more than {_MAX_PARTS} parts once its named types are put in their places")
        if avro.recursive:
            raise SchemaError(f"The Avro schema of {avro.name} refers to itself, which a Connect schema cannot")
        if avro.kind == "union":
            simple = self._simple_union(avro)
            if simple is not None:
                return self.schema(simple, optional=optional or len(avro.branches) == 2, doc=doc)
        members: dict[str, Any] = {"optional": optional}
        parameters: dict[str, str] = {}
        kind = self._kind(avro, members, parameters)
        self._describe(avro, members, parameters, doc, version)
        connect_default = avro.props.get("connect.default", MISSING)
        if default is MISSING:
            default = connect_default
        elif self._options.meta_data and not self._options.discard_type_doc and connect_default is MISSING:
            parameters[FIELD_DEFAULT] = "true"
        members["parameters"] = parameters
        schema = Schema(kind, **members)
        return self._with_default(schema, avro, default)

    def _simple_union(self, avro: AvroType) -> AvroType | None:
        """The single type of a union that needs no struct."""
        others = [b for b in avro.branches if b.kind != "null"]
        if len(avro.branches) == 1 and self._options.flatten_singletons and others:
            return others[0]
        return others[0] if len(avro.branches) == 2 and len(others) == 1 else None

    def _with_default(self, schema: Schema, avro: AvroType, default: Any) -> Schema:
        if default is MISSING or default is None:
            return schema
        try:
            value = parse_default(schema, default, self._options)
        except DataError as e:
            if self._options.strict:
                raise SchemaError(f"The default of {avro.name or avro.kind} does not fit: {e.message}") from e
            # As in the original: keep the schema, ignore the default.
            log.warning("Ignoring the invalid default of %s: %s", avro.name or avro.kind, e.message)
            return schema
        return schema if value is None else schema.replace(default=value)

    def _kind(self, avro: AvroType, members: dict[str, Any], parameters: dict[str, str]) -> Type:
        """The Connect type; adds its attributes to members and parameters."""
        logical = avro.props.get("logicalType")
        logical = logical.lower() if isinstance(logical, str) else None
        match avro.kind:
            case "null":
                raise SchemaError("Standalone null schemas are not supported by this converter")
            case "union":
                self._union(avro, members, parameters)
                return Type.STRUCT
            case "record":
                self._record(avro, members, parameters)
            case "array":
                return self._array(avro, members)
            case "map":
                members.update(key_schema=Schema.STRING, value_schema=self.schema(_items(avro)))
            case "enum":
                self._enum(avro, parameters)
            case "bytes" | "fixed":
                if logical == "decimal":
                    self._decimal(avro, members, parameters)
                if avro.kind == "fixed":
                    parameters[FIXED_SIZE] = str(avro.size)
            case "int" if logical is None and "connect.type" in avro.props:
                narrow = avro.props["connect.type"]
                if narrow not in _NARROW:
                    raise SchemaError(f"connect.type of an Avro int is {narrow!r}; expected int8 or int16")
                return _NARROW[narrow]
        name = _LOGICAL.get((avro.kind, logical or ""))
        if name is not None:
            members.update(name=name, version=1)
        return _KINDS[avro.kind]

    def _array(self, avro: AvroType, members: dict[str, Any]) -> Type:
        item = _items(avro)
        if not is_map_entry(item):
            members["value_schema"] = self.schema(item)
            return Type.ARRAY
        entry = {f.name: f.type for f in item.fields}
        if set(entry) != {"key", "value"}:
            raise SchemaError("An array of map entries needs records with exactly the fields key and value")
        members.update(key_schema=self.schema(entry["key"]), value_schema=self.schema(entry["value"]))
        return Type.MAP

    def _record(self, avro: AvroType, members: dict[str, Any], parameters: dict[str, str]) -> None:
        keeps_docs = self._options.meta_data and not self._options.discard_type_doc
        if keeps_docs and avro.doc is not None:
            parameters[RECORD_DOC] = avro.doc
        fields: list[tuple[str, Schema]] = []
        for one in avro.fields:
            if keeps_docs and one.doc is not None:
                parameters[FIELD_DOC + one.name] = one.doc
            fields.append((one.name, self._field(one)))
        members["fields"] = fields

    def _field(self, one: AvroField) -> Schema:
        try:
            schema = self.schema(one.type, default=one.default, doc=one.doc)
        except SchemaError as e:
            raise SchemaError(f"field {one.name}: {e.message}") from e
        own = one.props.get("connect.parameters")
        if self._options.meta_data and isinstance(own, dict):
            merged = {**(schema.parameters or {}), **{k: str(v) for k, v in own.items()}}
            if merged != schema.parameters:
                schema = schema.replace(parameters=merged)
        return schema

    def _enum(self, avro: AvroType, parameters: dict[str, str]) -> None:
        options = self._options
        if options.meta_data:
            if avro.doc is not None:
                parameters[CONNECT_ENUM_DOC if options.discard_type_doc else ENUM_DOC + avro.simple_name] = avro.doc
            if not options.discard_type_doc and avro.enum_default is not None:
                parameters[ENUM_DEFAULT + avro.simple_name] = avro.enum_default
        parameter = options.enum_parameter
        parameters[parameter] = avro.name or ""
        for index, symbol in enumerate(avro.symbols):
            parameters[f"{parameter}.{symbol}"] = str(index) if options.sum_types else symbol

    def _union(self, avro: AvroType, members: dict[str, Any], parameters: dict[str, str]) -> None:
        options = self._options
        name = UNION
        if options.sum_types:
            name = f"{SUM_UNION_PREFIX}{self._unions}"
            self._unions += 1
            parameters[SUM_UNION] = name
        members["name"] = name
        fields: dict[str, Schema] = {}
        for index, branch in enumerate(avro.branches):
            if branch.kind == "null":
                members["optional"] = True
                continue
            field = branch_name(branch, index, options)
            if field in fields:
                raise SchemaError(
                    f"Two types of a union would be the field {field} of a struct; enhanced.avro.schema.support=true names the "
                    "fields of records by their full names"
                )
            fields[field] = self.schema(branch, optional=True)
        members["fields"] = list(fields.items())

    def _decimal(self, avro: AvroType, members: dict[str, Any], parameters: dict[str, str]) -> None:
        scale, precision = avro.props.get("scale", 0), avro.props.get("precision", DEFAULT_PRECISION)
        if not isinstance(precision, int | float):
            raise SchemaError(f"precision of an Avro decimal is {precision!r}; expected a number")
        members.update(name=DECIMAL, version=1)
        parameters[SCALE_PARAMETER] = str(int(scale)) if isinstance(scale, int | float) else "0"
        if int(precision) != DEFAULT_PRECISION:
            parameters[DECIMAL_PRECISION] = str(int(precision))

    def _describe(
        self, avro: AvroType, members: dict[str, Any], parameters: dict[str, str], doc: str | None, version: int | None
    ) -> None:
        """Sets doc, version, parameters, and name from the schema's properties."""
        options, props = self._options, avro.props
        own_doc = props.get("connect.doc")
        if options.discard_type_doc:
            members["doc"] = doc if doc is not None else avro.doc if avro.doc is not None else own_doc
            if options.meta_data and avro.doc is not None:
                parameters[CONNECT_RECORD_DOC] = avro.doc
        elif options.meta_data and own_doc is not None:
            members["doc"] = own_doc
        own_version = props.get("connect.version", version)
        if own_version is not None:
            if not isinstance(own_version, int | float) or isinstance(own_version, bool):
                raise SchemaError(f"Invalid Connect version found: {own_version}")
            if int(own_version) >= 0:
                fixed = members.setdefault("version", int(own_version))
                if fixed != int(own_version) and "connect.version" in props:
                    raise SchemaError(
                        f"connect.version is {own_version}, but schemas of {members.get('name')} have version {fixed}"
                    )
        own_parameters = props.get("connect.parameters")
        if options.meta_data and own_parameters is not None:
            if not isinstance(own_parameters, dict) or not all(isinstance(v, str) for v in own_parameters.values()):
                raise SchemaError(f"connect.parameters of an Avro schema must be an object of texts, not {own_parameters!r}")
            parameters.update(own_parameters)
        parameters.update({k: v if isinstance(v, str) else str(v) for k, v in props.items() if k.startswith("avro")})
        self._name(avro, members)

    def _name(self, avro: AvroType, members: dict[str, Any]) -> None:
        name = avro.props.get("connect.name")
        if name is not None and not isinstance(name, str):
            raise SchemaError(f"Invalid schema name: {name}")
        if name is None and not (avro.kind == "fixed" and members.get("name") == DECIMAL):
            name = avro.name
        if name is None or name.startswith(DEFAULT_NAME):
            return
        if members.get("name") not in (None, name):
            raise SchemaError(f"connect.name is {name}, but the logical type is that of {members['name']}")
        members["name"] = name
        if name == DECIMAL and avro.kind in ("bytes", "fixed"):
            # Written before Avro had logical types: the scale is in the parameters.
            members.setdefault("version", 1)


def _items(avro: AvroType) -> AvroType:
    if avro.items is None:
        raise SchemaError(f"An Avro {avro.kind} without items")
    return avro.items
