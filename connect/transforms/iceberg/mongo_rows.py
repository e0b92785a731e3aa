"""Turns documents of MongoDB into structs, with a schema from the types of their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from connect.data.logical import instant_of, timestamp_schema
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.java.hash_order import hash_map_order
from connect.transforms.iceberg.bson import BsonType, BsonValue
from connect.transforms.structs import struct_schema_like

Document = Mapping[str, BsonValue]
_TIMESTAMP = timestamp_schema(optional=True)
_SIMPLE = {
    BsonType.NULL: Schema.OPTIONAL_STRING,
    BsonType.STRING: Schema.OPTIONAL_STRING,
    BsonType.JAVASCRIPT: Schema.OPTIONAL_STRING,
    BsonType.OBJECT_ID: Schema.OPTIONAL_STRING,
    BsonType.DECIMAL128: Schema.OPTIONAL_STRING,
    BsonType.DOUBLE: Schema.OPTIONAL_FLOAT64,
    BsonType.BINARY: Schema.OPTIONAL_BYTES,
    BsonType.INT32: Schema.OPTIONAL_INT32,
    BsonType.INT64: Schema.OPTIONAL_INT64,
    BsonType.DATE_TIME: _TIMESTAMP,
    BsonType.TIMESTAMP: _TIMESTAMP,
    BsonType.BOOLEAN: Schema.OPTIONAL_BOOLEAN,
}
_TEXTS = Schema(Type.ARRAY, value_schema=Schema.OPTIONAL_STRING, optional=True)
_REGEX = Schema(
    Type.STRUCT,
    name="io.debezium.mongodb.regex",
    optional=True,
    fields=[("regex", Schema.OPTIONAL_STRING), ("options", Schema.OPTIONAL_STRING)],
)
_UNNAMED = "null"
"""The prefix of the names of nested schemas: Java's text of the name that the outer schema does not have."""


class MongoRowConverter:
    """Converts documents. ``arrays_are_structs``: an array becomes a struct with the fields ``_0``, ``_1``, and so on."""

    def __init__(self, *, arrays_are_structs: bool, strict: bool) -> None:
        self._arrays_are_structs = arrays_are_structs
        self._strict = strict

    def to_struct(self, document: Document, *, optional: bool) -> Struct:
        """Converts a document. Raises DataError for arrays whose elements have different types."""
        fields = self._fields(document, _UNNAMED)
        schema = struct_schema_like(None, fields, optional=optional)
        return self._fill(document, schema)

    def _fields(self, document: Document, name: str) -> list[tuple[str, Schema]]:
        found = ((key, self._schema_of(key, value, name)) for key, value in document.items())
        return [(key, schema) for key, schema in found if schema is not None]

    def _schema_of(self, key: str, value: BsonValue, name: str) -> Schema | None:
        """The schema of a field in a struct of that name; None for types that are left out."""
        simple = _SIMPLE.get(value.type)
        if simple is not None:
            return simple
        path = f"{name}.{key}"
        match value.type:
            case BsonType.REGULAR_EXPRESSION:
                return _REGEX
            case BsonType.JAVASCRIPT_WITH_SCOPE:
                scope = f"{path}.scope"
                nested = Schema(Type.STRUCT, name=scope, optional=True, fields=self._fields(value.value[1], scope))
                return Schema(Type.STRUCT, name=path, fields=[("code", Schema.OPTIONAL_STRING), ("scope", nested)])
            case BsonType.DOCUMENT:
                return self._named_struct(path, value.value)
            case BsonType.ARRAY:
                if self._arrays_are_structs:
                    return self._named_struct(path, _as_document(value.value))
                if not value.value:
                    return _TEXTS
                _require_one_type(key, name, value.value)
                element = self._element_schema(key, value.value, name)
                return Schema(Type.ARRAY, value_schema=element, optional=True)
        if self._strict:
            raise DataError(f"field {key} of {name} has the type {value.type.name}, which is left out (conversion.strict is on)")
        return None

    def _named_struct(self, path: str, document: Document) -> Schema:
        return struct_schema_like(None, self._fields(document, path), name=path, optional=True)

    def _element_schema(self, key: str, values: list[BsonValue], name: str) -> Schema:
        first = values[0]
        simple = _SIMPLE.get(first.type)
        if simple is not None:
            return simple
        if first.type is BsonType.DOCUMENT:
            path = f"{name}.{key}"
            documents = [_members(key, value) for value in values]
            fields = self._union(documents, path, skip_empty=True) or self._union(documents, path, skip_empty=False)
            return struct_schema_like(None, fields.items(), name=path, optional=True)
        if first.type is BsonType.ARRAY:
            return Schema(Type.ARRAY, value_schema=self._element_schema(key, _elements(key, first), name), optional=True)
        raise DataError(f"field {key} of {name} is an array of {first.type.name}, which is not supported")

    def _union(self, documents: Iterable[Document], name: str, *, skip_empty: bool) -> dict[str, Schema]:
        """The fields of all documents of an array, each with the schema of its first value."""
        types: dict[str, BsonType] = {}
        fields: dict[str, Schema] = {}
        for document in documents:
            for key, value in document.items():
                if skip_empty and value.type in (BsonType.DOCUMENT, BsonType.ARRAY) and not value.value:
                    continue
                if key in types:
                    _require_same(key, name, types, value.type)
                    continue
                types[key] = value.type
                schema = self._schema_of(key, value, name)
                if schema is not None:
                    fields[key] = schema
        return fields

    def _fill(self, document: Document, schema: Schema) -> Struct:
        struct = Struct(schema)
        for key, value in document.items():
            if value.type is BsonType.NULL:
                struct.put(key, None)
                continue
            if value.type in _LEFT_OUT:
                continue
            field = schema.field(key)
            if field is None:
                raise DataError(f"Failed to find field '{key}' in schema {schema.name}")
            struct.put(key, self._convert(key, value, field.schema))
        return struct

    def _convert(self, key: str, value: BsonValue, schema: Schema) -> Any:
        match value.type:
            case BsonType.DATE_TIME:
                return instant_of(value.value)
            case BsonType.TIMESTAMP:
                return instant_of(1000 * value.value)
            case BsonType.REGULAR_EXPRESSION:
                return Struct(schema, list(value.value))
            case BsonType.JAVASCRIPT_WITH_SCOPE:
                code, scope = value.value
                field = schema.field("scope")
                assert field is not None
                return Struct(schema, [code, self._fill(scope, field.schema)])
            case BsonType.DOCUMENT:
                return self._fill(value.value, schema) if schema.type is Type.STRUCT else value.value
            case BsonType.ARRAY:
                if schema.type is Type.STRUCT:
                    return self._fill(_as_document(value.value), schema)
                return self._convert_elements(key, value.value, schema.value_schema)
        return value.value

    def _convert_elements(self, key: str, values: list[BsonValue], schema: Schema | None) -> list[Any]:
        if schema is None:
            return [value.value for value in values]
        if self._strict and any(value.type is BsonType.NULL for value in values):
            raise DataError(f"field {key} is an array of nulls, which are left out (conversion.strict is on)")
        # An array of nulls becomes an empty one; other arrays have no null.
        return [self._convert(key, value, schema) for value in values if value.type is not BsonType.NULL]


_LEFT_OUT = frozenset((BsonType.UNDEFINED, BsonType.DB_POINTER, BsonType.SYMBOL, BsonType.MIN_KEY, BsonType.MAX_KEY))


def _as_document(values: list[BsonValue]) -> Document:
    """An array as a document, with the elements in the order of a Java HashMap."""
    named = {f"_{index}": value for index, value in enumerate(values)}
    return {name: named[name] for name in hash_map_order(named)}


def _members(key: str, value: BsonValue) -> Document:
    if value.type is not BsonType.DOCUMENT:
        raise DataError(f"field {key} is an array of documents and has an element of type {value.type.name}")
    document: Document = value.value
    return document


def _elements(key: str, value: BsonValue) -> list[BsonValue]:
    if value.type is not BsonType.ARRAY or not value.value:
        found = "an empty array" if value.type is BsonType.ARRAY else value.type.name
        raise DataError(f"field {key} is an array of arrays and has {found} as an element, so its type is unknown")
    elements: list[BsonValue] = value.value
    return elements


def _require_one_type(key: str, name: str, values: list[BsonValue]) -> None:
    """Raises DataError unless all elements have the type of the first one, and documents the same fields."""
    kind = values[0].type
    if kind is BsonType.DOCUMENT:
        types: dict[str, BsonType] = {}
        for value in values:
            for member, found in _members(key, value).items():
                _require_same(member, name, types, found.type)
    elif kind is BsonType.ARRAY:
        for value in values:
            _require_one_type(key, name, _elements(key, value))
    elif any(value.type is not kind for value in values):
        raise DataError(
            f"Field {key} of schema {name} is not a homogenous array.\nCheck option 'struct' of parameter 'array.encoding'"
        )


def _require_same(key: str, name: str, types: dict[str, BsonType], found: BsonType) -> None:
    """Raises DataError if the field had another type before; null agrees with every type."""
    before = types.setdefault(key, found)
    if before is BsonType.NULL:
        types[key] = found
    elif found not in (before, BsonType.NULL):
        raise DataError(
            f"Field {key} of schema {name} is not the same type for all documents in the array.\n"
            "Check option 'struct' of parameter 'array.encoding'"
        )
