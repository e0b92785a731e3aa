"""Structs, and the validation of values against schemas.

The rules and messages are those of Kafka Connect's ``ConnectSchema.validateValue``.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from connect.data.logical import DATE, LOGICAL_CLASSES, TIMESTAMP, FarInstant
from connect.data.types import INT_RANGES, Field, Schema, Type
from connect.errors import DataError


class Struct:
    """A record with named, typed fields.

    ``values`` is a list in the order of ``schema.fields``. Code that builds many rows passes it to the constructor, which neither
    copies nor checks it: converters check what they write. ``put`` checks the value.
    """

    __slots__ = ("schema", "values")

    def __init__(self, schema: Schema, values: list[Any] | None = None) -> None:
        if schema.fields is None:
            raise DataError(f"Not a struct schema: {schema!r}")
        self.schema = schema
        self.values: list[Any] = [None] * len(schema.fields) if values is None else values

    @classmethod
    def of(cls, schema: Schema, **members: Any) -> Struct:
        """Creates a checked struct from keyword arguments; other fields are null."""
        struct = cls(schema)
        for name, value in members.items():
            struct.put(name, value)
        return struct

    def _index(self, field: str | Field) -> int:
        if isinstance(field, Field):
            return field.index
        index = self.schema.index_of(field)
        if index is None:
            raise DataError(f"{field} is not a valid field name")
        return index

    def _field_at(self, index: int) -> Field:
        assert self.schema.fields is not None
        return self.schema.fields[index]

    def get(self, field: str | Field) -> Any:
        """Returns the value, or the field's default for a null. Raises DataError for an unknown name."""
        index = self._index(field)
        value = self.values[index]
        if value is None and self.schema.fields is not None:
            return self.schema.fields[index].schema.default
        return value

    def get_without_default(self, field: str | Field) -> Any:
        """Returns the stored value, without replacing a null by the default."""
        return self.values[self._index(field)]

    def get_typed(self, field: str | Field, type: Type) -> Any:
        """Returns the stored value of a field of that type. Raises DataError when the field has another type."""
        index = self._index(field)
        target = self._field_at(index)
        if target.schema.type is not type:
            raise DataError(f"Field '{target.name}' is not of type {type.name}")
        return self.values[index]

    def __getitem__(self, field: str) -> Any:
        return self.get(field)

    def __setitem__(self, field: str, value: Any) -> None:
        self.put(field, value)

    def put(self, field: str | Field, value: Any) -> Struct:
        """Checks and sets a value; returns the struct for chaining. Raises DataError for an unknown name or invalid value.

        A null is valid for optional fields only. To use the default of a required field, do not put anything.
        """
        index = self._index(field)
        target = self._field_at(index)
        validate_put(target.name, target.schema, value)
        self.values[index] = value
        return self

    def validate(self) -> None:
        """Checks every field against the schema. Raises DataError that names the first invalid field."""
        for field, value in zip(self.schema.fields or (), self.values, strict=True):
            validate_field_value(field.name, field.schema, value)

    def as_dict(self) -> dict[str, Any]:
        """Returns the values as a dict, including nested structs; for display and tests."""
        assert self.schema.fields is not None
        return {f.name: _plain(v) for f, v in zip(self.schema.fields, self.values, strict=True)}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return NotImplemented
        return self.schema == other.schema and self.values == other.values

    def __hash__(self) -> int:
        return hash(self.schema)

    def __repr__(self) -> str:
        assert self.schema.fields is not None
        shown = (f"{f.name}={v!r}" for f, v in zip(self.schema.fields, self.values, strict=True) if v is not None)
        return f"Struct{{{','.join(shown)}}}"


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return value.as_dict()
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return value


def is_struct_schema(schema: Schema | None) -> bool:
    """Returns whether the schema is a struct schema; False for None."""
    return schema is not None and schema.type is Type.STRUCT


CLASSES: dict[Type, type | tuple[type, ...]] = {
    Type.FLOAT32: float,
    Type.FLOAT64: float,
    Type.BOOLEAN: bool,
    Type.STRING: str,
    Type.BYTES: (bytes, bytearray, memoryview),
    Type.ARRAY: list,
    Type.MAP: dict,
    Type.STRUCT: Struct,
}


def validate_field_value(name: str, schema: Schema, value: Any) -> None:
    """Raises DataError that names the field when its value is invalid. A null is valid for a field with a default, which replaces
    it when the field is read."""
    if value is None and schema.default is not None:
        return
    _validate(f'field: "{name}"', schema, value)


def validate_value(schema: Schema, value: Any) -> None:
    """Raises DataError when the value does not match the schema."""
    _validate("value", schema, value)


def validate_put(name: str, schema: Schema, value: Any) -> None:
    """Raises DataError that names the field when the value must not be put into it. Unlike :func:`validate_field_value`, a null
    requires an optional schema, even if there is a default."""
    _validate(f'field: "{name}"', schema, value)


def _validate(place: str, schema: Schema, value: Any) -> None:
    if value is None:
        if not schema.optional:
            raise DataError(f"Invalid value: null used for required {place}, schema type: {schema.type.name}")
        return
    logical = LOGICAL_CLASSES.get(schema.name) if schema.name else None
    if logical is not None:
        fits = isinstance(value, logical) and not (logical is dt.date and isinstance(value, dt.datetime))
        fits = fits or (isinstance(value, FarInstant) and schema.name in (DATE, TIMESTAMP))
    elif schema.type in INT_RANGES:
        low, high = INT_RANGES[schema.type]
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    else:
        fits = isinstance(value, CLASSES[schema.type])
    if not fits:
        named = f' "{schema.name}"' if schema.name is not None else ""
        raise DataError(
            f"Invalid Python object for schema{named} with type {schema.type.name}: "
            f"{type(value).__name__} {_short(value)} for {place}"
        )
    if logical is not None:
        return
    if schema.type is Type.STRUCT:
        if value.schema is not schema and value.schema != schema:
            raise DataError("Struct schemas do not match.")
        for field, member in zip(schema.fields or (), value.values, strict=True):
            validate_field_value(field.name, field.schema, member)
    elif schema.type is Type.ARRAY:
        elements = _present(schema.value_schema, f"element of array {place}")
        for element in value:
            _validate(f"element of array {place}", elements, element)
    elif schema.type is Type.MAP:
        keys = _present(schema.key_schema, f"key of map {place}")
        values = _present(schema.value_schema, f"value of map {place}")
        for key, element in value.items():
            _validate(f"key of map {place}", keys, key)
            _validate(f"value of map {place}", values, element)


def _present(schema: Schema | None, place: str) -> Schema:
    if schema is None:
        raise DataError(f"No schema defined for {place}")
    return schema


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
