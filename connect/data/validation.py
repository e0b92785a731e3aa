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
    """Raises DataError that names the field when the value does not fit."""
    if value is None:
        if not schema.optional and schema.default is None:
            raise DataError(f'Invalid value: null used for required field: "{name}", schema type: {schema.type.name}')
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
        raise DataError(
            f"Invalid Python object for schema {schema.name or 'null'} with type {schema.type.name}: "
            f'{type(value).__name__} {_short(value)} for field: "{name}"'
        )
    if schema.type is Type.STRUCT and logical is None:
        if value.schema is not schema and value.schema != schema:
            raise DataError(f'Struct schemas do not match for field: "{name}"')
        for field, member in zip(schema.fields or (), value.values, strict=True):
            validate_field_value(field.name, field.schema, member)
    elif schema.type is Type.ARRAY and schema.value_schema is not None:
        for element in value:
            validate_field_value(name, schema.value_schema, element)
    elif schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        for key, element in value.items():
            validate_field_value(name, schema.key_schema, key)
            validate_field_value(name, schema.value_schema, element)


def validate_value(schema: Schema, value: Any) -> None:
    """As :func:`validate_field_value` for a value that is in no field."""
    validate_field_value("null", schema, value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
