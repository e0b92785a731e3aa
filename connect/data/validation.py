"""Does a value fit a schema? The rules and texts of Kafka Connect's ConnectSchema.validateValue."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

from connect.data.logical import DATE, DECIMAL, TIME, TIMESTAMP, FarInstant
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError

INT_RANGES: dict[Type, tuple[int, int]] = {
    Type.INT8: (-(1 << 7), (1 << 7) - 1),
    Type.INT16: (-(1 << 15), (1 << 15) - 1),
    Type.INT32: (-(1 << 31), (1 << 31) - 1),
    Type.INT64: (-(1 << 63), (1 << 63) - 1),
}
LOGICAL_CLASSES: dict[str, type] = {DECIMAL: decimal.Decimal, DATE: dt.date, TIME: dt.time, TIMESTAMP: dt.datetime}
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
    """Raises DataError that names the field when the value does not fit. A null fits a field with a default, which takes its
    place when the field is read."""
    if value is None and schema.default is not None:
        return
    _validate(f'field: "{name}"', schema, value)


def validate_value(schema: Schema, value: Any) -> None:
    """As :func:`validate_put` for a value that is in no field."""
    _validate("value", schema, value)


def validate_put(name: str, schema: Schema, value: Any) -> None:
    """As :func:`validate_field_value` for a value that someone puts into the field: a null must be allowed by the schema, a
    default is no reason to put one."""
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
