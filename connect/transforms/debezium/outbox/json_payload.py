"""Converts JSON text to structs and lists, with an inferred schema."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from connect.data.schema import Schema, Type
from connect.data.struct import Struct, validate_value
from connect.errors import DataError

_INT32 = 1 << 31
_INT64 = 1 << 63
_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class JsonExpansion:
    """Expands JSON payloads. Nulls become optional bytes if ``keeps_nulls``, empty arrays become lists of strings if
    ``keeps_empty_arrays``; otherwise they are left out. If ``strict``, losing data is an error: digits that a double cannot hold,
    members that the first object of a list lacks, and text after the JSON."""

    keeps_nulls: bool = False
    keeps_empty_arrays: bool = False
    strict: bool = False

    def expand(self, name: str, text: str) -> tuple[Schema, Any]:
        """Parses a JSON object or array; ``name`` becomes the schema name. Raises DataError with the reason."""
        if not text.startswith(("{", "[")):
            raise DataError(f"it starts with {text[:1]!r}; expected an object or array")
        try:
            document, end = json.JSONDecoder(parse_float=self._parse_double, parse_constant=_reject_constant).raw_decode(text)
        except (ValueError, RecursionError) as e:
            raise DataError(f"it is not JSON: {e}") from e
        if self.strict and text[end:].strip():
            raise DataError(f"the text after the JSON would be lost: {text[end:].strip()[:60]!r}")
        schema = self._infer_schema(name, document, 0)
        if schema is None:
            raise DataError("it is an empty array, from which no schema can be inferred")
        value = self._convert(document, schema, name)
        validate_value(schema, value)
        return schema, value

    def _parse_double(self, text: str) -> float:
        number = float(text)
        if self.strict and Decimal(repr(number)) != Decimal(text):
            raise DataError(f"the number {text[:60]} has more digits than a double, so it would be rounded")
        return number

    def _infer_schema(self, name: str | None, node: Any, depth: int) -> Schema | None:
        if depth > _DEEPEST:
            raise DataError(f"it is nested more than {_DEEPEST} levels deep")
        if node is None:
            return Schema.OPTIONAL_BYTES if self.keeps_nulls else None
        if isinstance(node, bool):
            return Schema.OPTIONAL_BOOLEAN
        if isinstance(node, str):
            return Schema.OPTIONAL_STRING
        if isinstance(node, int):
            return _integer_schema(node)
        if isinstance(node, float):
            return Schema.OPTIONAL_FLOAT64
        if isinstance(node, list):
            return self._infer_array_schema(name, node, depth)
        members: list[tuple[str, Schema]] = []
        for key, value in node.items():
            if not key:
                raise DataError("a member of an object has an empty name")
            schema = self._infer_schema(f"{name}.{key}" if name else key, value, depth + 1)
            if schema is not None:
                members.append((key, schema))
        return Schema(Type.STRUCT, optional=True, name=name, fields=members)

    def _infer_array_schema(self, name: str | None, array: list[Any], depth: int) -> Schema | None:
        present = [element for element in array if element is not None]
        if not array:
            element = Schema.OPTIONAL_STRING if self.keeps_empty_arrays else None
        elif any(_node_kind(one) is not _node_kind(present[0]) for one in present):
            raise DataError(f"{name or 'an array'} has elements of different types")
        elif present and isinstance(present[0], dict):
            element = _merge_schemas([self._infer_schema(name, one, depth + 1) for one in present])
        else:
            schemas = [self._infer_schema(None, one, depth + 1) for one in (present or [None])]
            element = schemas[0]
            if element is None:
                raise DataError(f"{name or 'an array'} has elements of no known type")
            if isinstance(present[0] if present else None, int | float) and any(one != element for one in schemas):
                raise DataError(f"{name or 'an array'} has numbers of different types")
        return None if element is None else Schema(Type.ARRAY, optional=True, value_schema=element)

    def _convert(self, node: Any, schema: Schema, path: str) -> Any:
        if node is None:
            return None
        if isinstance(node, list):
            if schema.value_schema is None:
                raise DataError(f"{path} is an array here but another type in earlier elements")
            return [self._convert(element, schema.value_schema, path) for element in node]
        if not isinstance(node, dict):
            return node
        if schema.fields is None:
            raise DataError(f"{path} is an object here but another type in earlier elements")
        struct = Struct(schema)
        for field in schema.fields:
            struct.values[field.index] = self._convert(node.get(field.name), field.schema, f"{path}.{field.name}")
        if self.strict:
            lost = [key for key, value in node.items() if value is not None and value != [] and schema.field(key) is None]
            if lost:
                raise DataError(f"{path}.{lost[0]} would be lost: the first object of the list has no such member")
        return struct


def _reject_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _node_kind(node: Any) -> type:
    """The kind of a node; all numbers have the same kind."""
    return float if isinstance(node, int | float) and not isinstance(node, bool) else type(node)


def _integer_schema(number: int) -> Schema:
    if -_INT32 <= number < _INT32:
        return Schema.OPTIONAL_INT32
    if -_INT64 <= number < _INT64:
        return Schema.OPTIONAL_INT64
    raise DataError(f"the number {str(number)[:60]} is too large for 64 bits")


def _merge_schemas(schemas: list[Schema | None]) -> Schema | None:
    """Merges schemas into one with the fields of all, which is required as in Debezium. A field that is null in one object gets
    its type from another. Equal schemas are not merged."""
    schemas = list(dict.fromkeys(schemas))
    if len(schemas) == 1:
        return schemas[0]
    fields: dict[str, Schema] = {}
    for schema in schemas:
        for field in (schema.fields if schema is not None else None) or ():
            known = fields.get(field.name)
            if known is None or (known.type is Type.BYTES and field.schema.type is not Type.BYTES):
                fields[field.name] = field.schema
    first = schemas[0]
    return None if first is None else Schema(Type.STRUCT, name=first.name, fields=fields.items())
