"""JSON texts as structs and lists, under a schema that is made of them."""

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
    """What becomes of nulls and empty arrays: a field of bytes, a list of texts, or nothing. ``strict`` refuses what would be
    lost without a word: digits that a double does not hold, members of objects in a list that the first object lacks, and text
    after the JSON."""

    keeps_nulls: bool = False
    keeps_empty_arrays: bool = False
    strict: bool = False

    def expanded(self, name: str, text: str) -> tuple[Schema, Any]:
        """The schema and value of a JSON object or array; ``name`` is the schema's. Raises DataError with what is in the way."""
        if not text.startswith(("{", "[")):
            raise DataError(f"it begins with {text[:1]!r}, and an object or array is expected")
        try:
            document, end = json.JSONDecoder(parse_float=self._double, parse_constant=_refuse_constant).raw_decode(text)
        except (ValueError, RecursionError) as e:
            raise DataError(f"it is no JSON: {e}") from e
        if self.strict and text[end:].strip():
            raise DataError(f"the text after the JSON would be lost: {text[end:].strip()[:60]!r}")
        schema = self._schema(name, document, 0)
        if schema is None:
            raise DataError("it is an empty array, of which no schema can be made")
        value = self._value(document, schema, name)
        validate_value(schema, value)
        return schema, value

    def _double(self, text: str) -> float:
        number = float(text)
        if self.strict and Decimal(repr(number)) != Decimal(text):
            raise DataError(f"the number {text[:60]} has more digits than a double, so it would be rounded")
        return number

    def _schema(self, name: str | None, node: Any, depth: int) -> Schema | None:
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
            return self._array_schema(name, node, depth)
        members: list[tuple[str, Schema]] = []
        for key, value in node.items():
            if not key:
                raise DataError("a member of an object has an empty name")
            schema = self._schema(f"{name}.{key}" if name else key, value, depth + 1)
            if schema is not None:
                members.append((key, schema))
        return Schema(Type.STRUCT, optional=True, name=name, fields=members)

    def _array_schema(self, name: str | None, array: list[Any], depth: int) -> Schema | None:
        present = [element for element in array if element is not None]
        if not array:
            element = Schema.OPTIONAL_STRING if self.keeps_empty_arrays else None
        elif any(_kind(one) is not _kind(present[0]) for one in present):
            raise DataError(f"{name or 'an array'} has elements of different types")
        elif present and isinstance(present[0], dict):
            element = _merged([self._schema(name, one, depth + 1) for one in present])
        else:
            schemas = [self._schema(None, one, depth + 1) for one in (present or [None])]
            element = schemas[0]
            if element is None:
                raise DataError(f"{name or 'an array'} has elements of no known type")
            if isinstance(present[0] if present else None, int | float) and any(one != element for one in schemas):
                raise DataError(f"{name or 'an array'} has numbers of different types")
        return None if element is None else Schema(Type.ARRAY, optional=True, value_schema=element)

    def _value(self, node: Any, schema: Schema, at: str) -> Any:
        if node is None:
            return None
        if isinstance(node, list):
            if schema.value_schema is None:
                raise DataError(f"{at} is an array here and something else before")
            return [self._value(element, schema.value_schema, at) for element in node]
        if not isinstance(node, dict):
            return node
        if schema.fields is None:
            raise DataError(f"{at} is an object here and something else before")
        struct = Struct(schema)
        for field in schema.fields:
            struct.values[field.index] = self._value(node.get(field.name), field.schema, f"{at}.{field.name}")
        if self.strict:
            lost = [key for key, value in node.items() if value is not None and value != [] and schema.field(key) is None]
            if lost:
                raise DataError(f"{at}.{lost[0]} would be lost: the first object of the list has no such member")
        return struct


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def _kind(node: Any) -> type:
    """The kind of a node; all numbers are of one."""
    return float if isinstance(node, int | float) and not isinstance(node, bool) else type(node)


def _integer_schema(number: int) -> Schema:
    if -_INT32 <= number < _INT32:
        return Schema.OPTIONAL_INT32
    if -_INT64 <= number < _INT64:
        return Schema.OPTIONAL_INT64
    raise DataError(f"the number {str(number)[:60]} is too large for 64 bits")


def _merged(schemas: list[Schema | None]) -> Schema | None:
    """One schema with the fields of all, required as the original's; a field that was null in one object gets the type it has in
    another. Equal schemas stay as they are."""
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
