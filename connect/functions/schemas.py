"""Between values under a schema and the plain ones that functions like: dicts for structs, and back again.

A value comes back under a schema in one of four ways. *Infer*: what fits its old schema keeps it, what is new or of another type
gets the schema of what it is. *Keep*: it must fit the old schema. *None*: it has no schema any more. Or it must fit a schema that
was declared. Nothing is cut or dropped on the way (promise 8): what does not fit is a DataError that names the field. A field of
32-bit floats takes the nearest one.
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
# Looking up a member of an enumeration costs more than comparing it.
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
"""Up to here every whole number is a float too."""
_MOST_SHAPES = 64
"""Schemas kept per incoming schema. A function gives a handful; a stream of ever new ones must not fill the memory."""
_MOST_NEW_FIELDS = 10_000
_NEW: Any = object()
_WHOLE = "the result"
"""How errors name a result that is in no field."""


def plain_copy(value: Any) -> Any:
    """The value with dicts in place of structs; every dict and list in it is new, so that whoever gets it may change it."""
    kind = value.__class__
    if kind is dict:
        # Most dicts are flat: one look through their classes is half the price of a look at each.
        if _CONTAINERS.isdisjoint(map(type, value.values())):
            return value.copy()
        return {key: plain_copy(member) if member.__class__ in _CONTAINERS else member for key, member in value.items()}
    if kind is Struct:
        return dict(zip(value.schema.field_names, map(plain_copy, value.values), strict=True))
    if kind is list:
        return [plain_copy(member) if member.__class__ in _CONTAINERS else member for member in value]
    return value


def plain_reader(schema: Schema | None) -> Callable[[Any], Any]:
    """:func:`plain_copy` for values of one schema."""
    if schema is None or schema.fields is None:
        return plain_copy
    names = schema.field_names
    if not any(field.schema.type in _NESTED for field in schema.fields):
        return lambda struct: dict(zip(names, struct.values, strict=True))
    return lambda struct: dict(zip(names, map(plain_copy, struct.values), strict=True))


def own_copy(value: Any) -> Any:
    """The same, with structs as they are, but new ones."""
    kind = value.__class__
    if kind is Struct:
        return new_struct(value.schema, [own_copy(v) if v.__class__ in _CONTAINERS else v for v in value.values])
    if kind is dict:
        return {key: own_copy(member) if member.__class__ in _CONTAINERS else member for key, member in value.items()}
    if kind is list:
        return [own_copy(member) if member.__class__ in _CONTAINERS else member for member in value]
    return value


def conform(schema: Schema, value: Any, path: str) -> Any:
    """The plain value as a value of the schema: dicts become structs. Raises DataError that names the field (``path``)."""
    kind = schema.type
    if schema.name is None:
        # The commonest, for these are asked for each changed field.
        is_whole = value.__class__ is int and -_LONG <= value < _LONG
        if (is_whole and kind is _INT64) or (kind is _STRING and value.__class__ is str):
            return value
    if value is None or kind not in _NESTED:
        if value.__class__ is int and abs(value) <= _EXACT_FLOATS.get(kind, -1):
            return float(value)
        validate_field_value(path, schema, value)
        return _float32(value, path) if kind is _FLOAT32 and value.__class__ is float else value
    if kind is _STRUCT:
        return _conform_struct(schema, value, path)
    if kind is _ARRAY and isinstance(value, list | tuple) and schema.value_schema is not None:
        return [conform(schema.value_schema, member, f"{path}[{i}]") for i, member in enumerate(value)]
    if kind is _MAP and isinstance(value, dict) and schema.key_schema and schema.value_schema:
        keys, values = schema.key_schema, schema.value_schema
        return {conform(keys, k, f"{path} key"): conform(values, v, f"{path}[{k!r}]") for k, v in value.items()}
    validate_field_value(path, schema, value)
    return value


def _float32(value: float, path: str) -> float:
    """The nearest 32-bit float: what a function calculates in 64 bits, its field holds so. Too large is an error."""
    rounded = round_to_float32(value)
    if isinf(rounded) and not isinf(value):
        raise DataError(f"{path} is {value}, which is too large for a 32-bit float")
    return rounded


def _conform_struct(schema: Schema, value: Any, path: str) -> Struct:
    if isinstance(value, Struct):
        validate_field_value(path, schema, value)
        return value
    if not isinstance(value, dict):
        raise DataError(f"{path} is a value of type {type(value).__name__}, expected a dict for a struct of {_listed(schema)}")
    for name in value:
        if schema.field(name) is None:
            raise DataError(f"{_within(path, name)} is no field of its schema, which has {_listed(schema)}")
    fields = schema.fields or ()
    return new_struct(schema, [conform(f.schema, value.get(f.name), _within(path, f.name)) for f in fields])


def _listed(schema: Schema) -> str:
    return ", ".join(schema.field_names) or "no fields"


def _within(path: str, name: Any) -> str:
    return f"{path}.{name}" if path else str(name)


def inferred(value: Any, path: str) -> Schema | None:
    """The optional schema of a plain value, None for null. Raises DataError where there is no telling: an empty or mixed list, an
    empty dict, a class that Connect has no type for."""
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
        members = [(name, _known(inferred(member, _within(path, name)), _within(path, name))) for name, member in value.items()]
        return Schema(Type.STRUCT, optional=True, fields=members)
    if isinstance(value, list | tuple) and value:
        first = next((member for member in value if member is not None), None)
        return Schema(Type.ARRAY, optional=True, value_schema=_known(inferred(first, f"{path}[]"), f"{path}[]"))
    empty = "empty " if isinstance(value, dict | list | tuple | set) and not value else ""
    raise DataError(f"{path} is a value of type {empty}{type(value).__name__}, from which no schema follows; declare one")


def _known(schema: Schema | None, path: str) -> Schema:
    if schema is None:
        raise DataError(f"{path} is null, from which no schema follows; declare one")
    return schema


@dataclass(slots=True)
class _Layout:
    """Results with the same fields in the same order."""

    pick: Callable[[list[Any]], Sequence[Any]]
    """From the values of the original, with _NEW behind them, those that stand where the result's do."""
    usual: list[Schema | None]
    """The schemas of those fields there, None for new ones."""
    made: Schema
    """The schema of the last such result. ``last`` is what it was made of, field by field, and None at first."""
    last: list[Schema | None] | None = None


def _picker(places: list[int]) -> Callable[[list[Any]], Sequence[Any]]:
    # itemgetter does it in one step, and gives a tuple only for two places or more.
    return itemgetter(*places) if len(places) > 1 else lambda values: [values[place] for place in places]


class Inference:
    """Gives results of values of one incoming schema their schemas.

    Fields that fit keep their schema. The type of a new field, and of one that no longer fits, is that of the first such value
    that is not null; later ones have to fit it. A new field that is null, as long as none was not, is left out.
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
        """Raises DataError that names the field."""
        schema = self._schema
        if schema.type is not _STRUCT:
            fitting, value = self._fitted(_WHOLE, schema, result)
            return SchemaAndValue(fitting, value)
        if not isinstance(result, dict):
            fitting = self._learned(_WHOLE, result)
            return SchemaAndValue(fitting, conform(fitting, result, _WHOLE))
        if original.__class__ is Struct and list(result) == self._names:
            unchanged = self._unchanged(original, result)
            if unchanged is not None:
                return SchemaAndValue(schema, unchanged)
        return self._reshaped(original.values, result)

    def _unchanged(self, original: Struct, result: dict[str, Any]) -> Struct | None:
        """The result with the same fields as a struct of the same schema, if each value fits the schema it had."""
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

    def _reshaped(self, before: list[Any], result: dict[Any, Any]) -> SchemaAndValue:
        names: tuple[Any, ...] = tuple(result)
        layout = self._layouts.get(names) or self._new_layout(names)
        values = list(result.values())
        schemas = layout.usual.copy()
        left_out: list[int] = []
        for i in [i for i, same in enumerate(map(is_, layout.pick([*before, _NEW]), values)) if not same]:
            schema, value = schemas[i], values[i]
            if schema is not None:
                schemas[i], values[i] = self._fitted(names[i], schema, value)
            elif value is None and names[i] not in self._types:
                left_out.append(i)
            else:
                schemas[i] = known = self._learned(names[i], value)
                values[i] = conform(known, value, names[i])
        if left_out:
            values = [value for i, value in enumerate(values) if i not in left_out]
        if schemas != layout.last:
            kept = [i for i in range(len(names)) if i not in left_out]
            layout.made = self._shape(tuple(names[i] for i in kept), [schemas[i] for i in kept])
            layout.last = schemas
        return SchemaAndValue(layout.made, new_struct(layout.made, values))

    def _new_layout(self, names: tuple[Any, ...]) -> _Layout:
        for name in names:
            if not isinstance(name, str) or not name:
                raise DataError(f"{name!r} is no name of a field: a struct's fields are named by text")
        known = [self._schema.field(name) for name in names]
        if len(self._layouts) >= _MOST_SHAPES:
            del self._layouts[next(iter(self._layouts))]
        # -1 is the place of what is not in the original: _NEW stands there, which no value is.
        places = [-1 if field is None else field.index for field in known]
        layout = _Layout(_picker(places), [None if field is None else field.schema for field in known], self._schema)
        self._layouts[names] = layout
        return layout

    def _shape(self, names: tuple[str, ...], schemas: list[Schema | None]) -> Schema:
        """The one schema object of these fields."""
        shape = (names, *map(id, schemas))
        known = self._shapes.get(shape)
        if known is None:
            fields = [(name, schema) for name, schema in zip(names, schemas, strict=True) if schema is not None]
            known = struct_schema_like(self._schema, fields, optional=self._schema.optional)
            if len(self._shapes) >= _MOST_SHAPES:
                del self._shapes[next(iter(self._shapes))]
            # Its fields hold the schemas, so that their ids stay theirs.
            self._shapes[shape] = known
        return known

    def _fitted(self, name: str, schema: Schema, value: Any) -> tuple[Schema, Any]:
        """The old schema if the value fits, else the one of what it is now."""
        try:
            return schema, conform(schema, value, name)
        except DataError:
            if value is None:
                return self._nullable.setdefault(name, schema.as_optional()), None
            learned = self._learned(name, value)
            return learned, conform(learned, value, name)

    def _learned(self, name: str, value: Any) -> Schema:
        known = self._types.get(name)
        if known is None:
            if len(self._types) >= _MOST_NEW_FIELDS:
                raise DataError(
                    f"{name} is one of more than {_MOST_NEW_FIELDS:,} new fields: return them in a map, under a schema"
                )
            known = self._types[name] = _known(inferred(value, name), name)
        return known
