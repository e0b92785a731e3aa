"""Converts values with a schema to plain ones for functions (dicts instead of structs), and results back.

There are four ways to convert a result. *Infer*: fields that fit their old schema keep it; new fields and fields of another type
get the schema of their value. *Keep*: the result must fit the old schema. *None*: it has no schema. Or it must fit a declared
schema. Nothing is truncated or dropped (promise 8): a value that does not fit is a DataError that names the field. Values of
32-bit float fields are rounded.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isinf
from operator import is_, itemgetter
from typing import Any

from connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, Type
from connect.data.struct import Struct, validate_field_value
from connect.errors import DataError
from connect.java.sized_numbers import round_to_float32
from connect.record import SchemaAndValue
from connect.transforms.structs import new_struct, struct_schema_like

_CONTAINERS = frozenset((dict, list, Struct))
# Accessing an enum member costs more than comparing it.
_STRUCT, _ARRAY, _MAP, _STRING = Type.STRUCT, Type.ARRAY, Type.MAP, Type.STRING
_INT64, _FLOAT32, _LONG = Type.INT64, Type.FLOAT32, 1 << 63
_NESTED = (_STRUCT, _ARRAY, _MAP)
_SCALARS: dict[type, Schema] = {
    str: Schema.OPTIONAL_STRING,
    bool: Schema.OPTIONAL_BOOLEAN,
    int: Schema.OPTIONAL_INT64,
    float: Schema.OPTIONAL_FLOAT64,
    bytes: Schema.OPTIONAL_BYTES,
    dt.date: date_schema(optional=True),
    dt.time: time_schema(optional=True),
    dt.datetime: timestamp_schema(optional=True),
}
_EXACT_FLOATS = {Type.FLOAT32: 1 << 24, Type.FLOAT64: 1 << 53}
"""Up to these limits, a float represents every integer exactly."""
_MAX_SHAPES = 64
"""Schemas cached per incoming schema, bounded in case every result has new fields."""
_MAX_NEW_FIELDS = 10_000
_NEW: Any = object()
_WHOLE = "the result"
"""Names a result that is not a field in errors."""


def plain_copy(value: Any) -> Any:
    """Copies a value with dicts instead of structs; all dicts and lists are new, so that the function may change them."""
    kind = value.__class__
    if kind is dict:
        # Most dicts are flat: checking all classes at once takes half the time.
        if _CONTAINERS.isdisjoint(map(type, value.values())):
            return value.copy()
        return {key: plain_copy(member) if member.__class__ in _CONTAINERS else member for key, member in value.items()}
    if kind is Struct:
        return dict(zip(value.schema.field_names, map(plain_copy, value.values), strict=True))
    if kind is list:
        return [plain_copy(member) if member.__class__ in _CONTAINERS else member for member in value]
    return value


def plain_reader(schema: Schema | None) -> Callable[[Any], Any]:
    """Builds :func:`plain_copy` for values of one schema."""
    if schema is None or schema.fields is None:
        return plain_copy
    names = schema.field_names
    if not any(field.schema.type in _NESTED for field in schema.fields):
        return lambda struct: dict(zip(names, struct.values, strict=True))
    return lambda struct: dict(zip(names, map(plain_copy, struct.values), strict=True))


def copy_value(value: Any) -> Any:
    """Copies a value, including the structs, dicts, and lists in it."""
    kind = value.__class__
    if kind is Struct:
        return new_struct(value.schema, [copy_value(v) if v.__class__ in _CONTAINERS else v for v in value.values])
    if kind is dict:
        return {key: copy_value(member) if member.__class__ in _CONTAINERS else member for key, member in value.items()}
    if kind is list:
        return [copy_value(member) if member.__class__ in _CONTAINERS else member for member in value]
    return value


def conform(schema: Schema, value: Any, path: str) -> Any:
    """Converts a plain value to the schema: dicts become structs. Raises DataError that names the field (``path``)."""
    kind = schema.type
    if schema.name is None:
        # The most common cases first: this runs for each changed field.
        is_whole = value.__class__ is int and -_LONG <= value < _LONG
        if (is_whole and kind is _INT64) or (kind is _STRING and value.__class__ is str):
            return value
    if value is None or kind not in _NESTED:
        if value.__class__ is int and abs(value) <= _EXACT_FLOATS.get(kind, -1):
            return float(value)
        validate_field_value(path, schema, value)
        return _to_float32(value, path) if kind is _FLOAT32 and value.__class__ is float else value
    if kind is _STRUCT:
        return _conform_struct(schema, value, path)
    if kind is _ARRAY and isinstance(value, list | tuple) and schema.value_schema is not None:
        return [conform(schema.value_schema, member, f"{path}[{i}]") for i, member in enumerate(value)]
    if kind is _MAP and isinstance(value, dict) and schema.key_schema and schema.value_schema:
        keys, values = schema.key_schema, schema.value_schema
        return {conform(keys, k, f"{path} key"): conform(values, v, f"{path}[{k!r}]") for k, v in value.items()}
    validate_field_value(path, schema, value)
    return value


def _to_float32(value: float, path: str) -> float:
    """Rounds to a 32-bit float, because functions calculate with 64 bits. Raises DataError if the value is too large."""
    rounded = round_to_float32(value)
    if isinf(rounded) and not isinf(value):
        raise DataError(f"{path} is {value}, which is too large for a 32-bit float")
    return rounded


def _conform_struct(schema: Schema, value: Any, path: str) -> Struct:
    if isinstance(value, Struct):
        validate_field_value(path, schema, value)
        return value
    if not isinstance(value, dict):
        raise DataError(
            f"{path} is a value of type {type(value).__name__}, expected a dict for a struct of {_list_fields(schema)}"
        )
    for name in value:
        if schema.field(name) is None:
            raise DataError(f"{_join_path(path, name)} is not in its schema, which has {_list_fields(schema)}")
    fields = schema.fields or ()
    return new_struct(schema, [conform(f.schema, value.get(f.name), _join_path(path, f.name)) for f in fields])


def _list_fields(schema: Schema) -> str:
    return ", ".join(schema.field_names) or "no fields"


def _join_path(path: str, name: Any) -> str:
    return f"{path}.{name}" if path else str(name)


def infer_schema(value: Any, path: str) -> Schema | None:
    """Infers the optional schema of a plain value, None for null. Raises DataError if it cannot: for an empty list or dict,
    or a class that has no Connect type."""
    if value is None:
        return None
    scalar = _SCALARS.get(value.__class__)
    if scalar is not None:
        return scalar
    if isinstance(value, Struct):
        return value.schema.as_optional()
    if isinstance(value, decimal.Decimal) and isinstance(exponent := value.as_tuple().exponent, int) and exponent <= 0:
        return decimal_schema(-exponent, optional=True)
    if isinstance(value, dict) and value and all(isinstance(name, str) for name in value):
        members = [
            (name, _require_schema(infer_schema(member, _join_path(path, name)), _join_path(path, name)))
            for name, member in value.items()
        ]
        return Schema(Type.STRUCT, optional=True, fields=members)
    if isinstance(value, list | tuple) and value:
        first = next((member for member in value if member is not None), None)
        return Schema(Type.ARRAY, optional=True, value_schema=_require_schema(infer_schema(first, f"{path}[]"), f"{path}[]"))
    empty = "empty " if isinstance(value, dict | list | tuple | set) and not value else ""
    raise DataError(f"{path} is a value of type {empty}{type(value).__name__}, from which no schema can be inferred; declare one")


def _require_schema(schema: Schema | None, path: str) -> Schema:
    if schema is None:
        raise DataError(f"{path} is null, from which no schema can be inferred; declare one")
    return schema


@dataclass(slots=True)
class _Layout:
    """How results with the same fields in the same order are converted."""

    pick: Callable[[list[Any]], Sequence[Any]]
    """Selects, from the original values followed by _NEW, those in the order of the result."""
    old_schemas: list[Schema | None]
    """The old schemas of the fields, None for new ones."""
    result_schema: Schema
    """The schema of the last result. ``last`` has its field schemas, and is None at first."""
    last: list[Schema | None] | None = None


def _picker(indexes: list[int]) -> Callable[[list[Any]], Sequence[Any]]:
    # itemgetter does it in one step, but returns a tuple only for two or more indexes.
    return itemgetter(*indexes) if len(indexes) > 1 else lambda values: [values[index] for index in indexes]


class SchemaInference:
    """Infers schemas for results whose originals have one schema.

    Fields that fit keep their schema. The first value that is not null determines the type of a new field, or of one that no
    longer fits; later values must fit it. A new field is left out while all its values are null.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._fields = [] if schema.fields is None else [(f.name, f.schema) for f in schema.fields]
        self._names = list(schema.field_names)
        self._layouts: dict[tuple[Any, ...], _Layout] = {}
        self._types: dict[str, Schema] = {}
        self._nullable: dict[str, Schema] = {}
        self._shapes: dict[tuple[Any, ...], Schema] = {}

    def convert(self, original: Any, result: Any) -> SchemaAndValue:
        """Converts a result to a value with schema. Raises DataError that names the field."""
        schema = self._schema
        if schema.type is not _STRUCT:
            fitting, value = self._fit(_WHOLE, schema, result)
            return SchemaAndValue(fitting, value)
        if not isinstance(result, dict):
            fitting = self._learn_schema(_WHOLE, result)
            return SchemaAndValue(fitting, conform(fitting, result, _WHOLE))
        if original.__class__ is Struct and list(result) == self._names:
            unchanged = self._convert_unchanged(original, result)
            if unchanged is not None:
                return SchemaAndValue(schema, unchanged)
        return self._convert_reshaped(original.values, result)

    def _convert_unchanged(self, original: Struct, result: dict[str, Any]) -> Struct | None:
        """Converts a result with the same fields to a struct of the same schema; None if a value does not fit."""
        values = list(result.values())
        changed = [i for i, same in enumerate(map(is_, original.values, values)) if not same]
        if not changed:
            return original
        for i in changed:
            name, schema = self._fields[i]
            try:
                values[i] = conform(schema, values[i], name)
            except DataError:
                return None
        return new_struct(self._schema, values)

    def _convert_reshaped(self, before: list[Any], result: dict[Any, Any]) -> SchemaAndValue:
        names: tuple[Any, ...] = tuple(result)
        layout = self._layouts.get(names) or self._new_layout(names)
        values = list(result.values())
        schemas = layout.old_schemas.copy()
        omitted: list[int] = []
        for i in [i for i, same in enumerate(map(is_, layout.pick([*before, _NEW]), values)) if not same]:
            schema, value = schemas[i], values[i]
            if schema is not None:
                schemas[i], values[i] = self._fit(names[i], schema, value)
            elif value is None and names[i] not in self._types:
                omitted.append(i)
            else:
                schemas[i] = known = self._learn_schema(names[i], value)
                values[i] = conform(known, value, names[i])
        if omitted:
            values = [value for i, value in enumerate(values) if i not in omitted]
        if schemas != layout.last:
            kept = [i for i in range(len(names)) if i not in omitted]
            layout.result_schema = self._find_schema(tuple(names[i] for i in kept), [schemas[i] for i in kept])
            layout.last = schemas
        return SchemaAndValue(layout.result_schema, new_struct(layout.result_schema, values))

    def _new_layout(self, names: tuple[Any, ...]) -> _Layout:
        for name in names:
            if not isinstance(name, str) or not name:
                raise DataError(f"{name!r} is not a field name: names must be non-empty strings")
        known = [self._schema.field(name) for name in names]
        if len(self._layouts) >= _MAX_SHAPES:
            del self._layouts[next(iter(self._layouts))]
        # -1 is the index of _NEW, for fields that the original does not have.
        indexes = [-1 if field is None else field.index for field in known]
        layout = _Layout(_picker(indexes), [None if field is None else field.schema for field in known], self._schema)
        self._layouts[names] = layout
        return layout

    def _find_schema(self, names: tuple[str, ...], schemas: list[Schema | None]) -> Schema:
        """Returns the schema of these fields, always the same object."""
        shape = (names, *map(id, schemas))
        known = self._shapes.get(shape)
        if known is None:
            fields = [(name, schema) for name, schema in zip(names, schemas, strict=True) if schema is not None]
            known = struct_schema_like(self._schema, fields, optional=self._schema.optional)
            if len(self._shapes) >= _MAX_SHAPES:
                del self._shapes[next(iter(self._shapes))]
            # Its fields hold the schemas, so their ids stay valid.
            self._shapes[shape] = known
        return known

    def _fit(self, name: str, schema: Schema, value: Any) -> tuple[Schema, Any]:
        """Returns the old schema if the value fits, else the schema of the value."""
        try:
            return schema, conform(schema, value, name)
        except DataError:
            if value is None:
                return self._nullable.setdefault(name, schema.as_optional()), None
            learned = self._learn_schema(name, value)
            return learned, conform(learned, value, name)

    def _learn_schema(self, name: str, value: Any) -> Schema:
        known = self._types.get(name)
        if known is None:
            if len(self._types) >= _MAX_NEW_FIELDS:
                raise DataError(
                    f"{name} is one of more than {_MAX_NEW_FIELDS:,} new fields: return them in a map, under a schema"
                )
            known = self._types[name] = _require_schema(infer_schema(value, name), name)
        return known
