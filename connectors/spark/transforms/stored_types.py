"""The values of Connect schemas as Spark SQL computes with them: in Connect's stored types.

A Date is an INT (days), a Time an INT and a Timestamp a BIGINT (milliseconds), a Decimal BINARY (its unscaled value): so each
value has exactly one form, without Spark's limits of digits and years. Fields of structs are named ``f0``, ``f1``, ... by their
position: Spark compares names without case, and does not accept all of Connect's names.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from connect.data.logical import (
    DATE,
    DECIMAL,
    LOGICAL_CLASSES,
    TIME,
    TIMESTAMP,
    bytes_to_decimal,
    date_of,
    date_to_stored_days,
    decimal_scale,
    decimal_to_bytes,
    instant_of,
    millis_to_time,
    time_to_millis,
    timestamp_to_millis,
)
from connect.data.schema import Schema, Type
from connect.data.struct import Struct, validate_value
from connect.errors import DataError
from connectors.spark.transforms.errors import NotCompilable
from connectors.spark.transforms.sql import quote_text

_PRIMITIVES: dict[Type, tuple[str, pa.DataType]] = {
    Type.INT8: ("TINYINT", pa.int8()),
    Type.INT16: ("SMALLINT", pa.int16()),
    Type.INT32: ("INT", pa.int32()),
    Type.INT64: ("BIGINT", pa.int64()),
    Type.FLOAT32: ("FLOAT", pa.float32()),
    Type.FLOAT64: ("DOUBLE", pa.float64()),
    Type.BOOLEAN: ("BOOLEAN", pa.bool_()),
    Type.STRING: ("STRING", pa.string()),
    Type.BYTES: ("BINARY", pa.binary()),
}
_LOGICAL_TYPES = {DECIMAL: Type.BYTES, DATE: Type.INT32, TIME: Type.INT32, TIMESTAMP: Type.INT64}


def is_logical(schema: Schema) -> bool:
    """Whether values have another class in Python than their stored type."""
    return schema.name in LOGICAL_CLASSES


def field_name(index: int) -> str:
    """The name of a struct's field in Spark."""
    return f"f{index}"


def spark_type(schema: Schema) -> str:
    """The type in Spark SQL. Raises NotCompilable for a schema without one."""
    check_schema(schema)
    match schema.type:
        case Type.ARRAY:
            return f"ARRAY<{spark_type(_element(schema))}>"
        case Type.MAP:
            return f"MAP<{spark_type(_key(schema))}, {spark_type(_element(schema))}>"
        case Type.STRUCT:
            return f"STRUCT<{', '.join(f'{field_name(f.index)}: {spark_type(f.schema)}' for f in schema.fields or ())}>"
    return _PRIMITIVES[schema.type][0]


def arrow_type(schema: Schema) -> pa.DataType:
    """The Arrow type, with Spark's field names. Raises NotCompilable as :func:`spark_type` does."""
    check_schema(schema)
    match schema.type:
        case Type.ARRAY:
            return pa.list_(arrow_type(_element(schema)))
        case Type.MAP:
            return pa.map_(arrow_type(_key(schema)), arrow_type(_element(schema)))
        case Type.STRUCT:
            return pa.struct([(field_name(f.index), arrow_type(f.schema)) for f in schema.fields or ()])
    return _PRIMITIVES[schema.type][1]


def check_schema(schema: Schema) -> None:
    """Raises NotCompilable for a schema whose values have no stored form."""
    stored = _LOGICAL_TYPES.get(schema.name or "")
    if stored is not None and stored is not schema.type:
        raise NotCompilable(f"a schema {schema.name} of type {schema.type.name} has no column type")
    if schema.type is Type.STRUCT and not schema.fields:
        raise NotCompilable("a struct without fields has no column type")
    if schema.name == DECIMAL:
        try:
            decimal_scale(schema)
        except DataError as e:
            raise NotCompilable(e.message) from e


def _element(schema: Schema) -> Schema:
    if schema.value_schema is None:
        raise NotCompilable(f"a schema of type {schema.type.name} without a schema of its elements has no column type")
    return schema.value_schema


def _key(schema: Schema) -> Schema:
    if schema.key_schema is None:
        raise NotCompilable("a schema of type MAP without a schema of its keys has no column type")
    return schema.key_schema


# -- values


_ENCODERS: dict[str, Callable[[Any], Any]] = {DATE: date_to_stored_days, TIME: time_to_millis, TIMESTAMP: timestamp_to_millis}
_DECODERS: dict[str, Callable[[Any], Any]] = {DATE: date_of, TIME: millis_to_time, TIMESTAMP: instant_of}


def stored_value(schema: Schema, value: Any) -> Any:
    """Returns the value for an Arrow array of :func:`arrow_type`. Raises DataError if it is not a value of the schema."""
    if value is None:
        return None
    if schema.name == DECIMAL:
        return decimal_to_bytes(value, decimal_scale(schema))
    if is_logical(schema):
        return _ENCODERS[schema.name or ""](value)
    match schema.type:
        case Type.ARRAY:
            return [stored_value(_element(schema), v) for v in value]
        case Type.MAP:
            return [(stored_value(_key(schema), k), stored_value(_element(schema), v)) for k, v in value.items()]
        case Type.STRUCT:
            pairs = zip(schema.fields or (), value.values, strict=True)
            return {field_name(f.index): stored_value(f.schema, v) for f, v in pairs}
        case Type.STRING:
            if any(0xD800 <= ord(c) <= 0xDFFF for c in value):
                raise DataError("text with half a surrogate pair has no stored form")
        case Type.BYTES:
            return bytes(value)
    return value


def connect_value(schema: Schema, stored: Any) -> Any:
    """Returns the Connect value of an Arrow scalar's Python value."""
    if stored is None:
        return None
    if schema.name == DECIMAL:
        return bytes_to_decimal(stored, decimal_scale(schema))
    if is_logical(schema):
        return _DECODERS[schema.name or ""](stored)
    match schema.type:
        case Type.ARRAY:
            return [connect_value(_element(schema), v) for v in stored]
        case Type.MAP:
            return {connect_value(_key(schema), k): connect_value(_element(schema), v) for k, v in stored}
        case Type.STRUCT:
            return Struct(schema, [connect_value(f.schema, stored[field_name(f.index)]) for f in schema.fields or ()])
    return stored


def literal(schema: Schema, value: Any) -> str:
    """The value in Spark SQL, with the type of the schema. Raises NotCompilable for a value that is not one of the schema."""
    if value is None:
        return f"CAST(NULL AS {spark_type(schema)})"
    try:
        validate_value(schema, value)
        return _literal(schema, stored_value(schema, value))
    except DataError as e:
        raise NotCompilable(e.message) from e


def _literal(schema: Schema, stored: Any) -> str:
    kind = spark_type(schema)
    if stored is None:
        return f"CAST(NULL AS {kind})"
    match schema.type:
        case Type.STRING:
            return quote_text(stored)
        case Type.BYTES:
            return f"X'{stored.hex()}'"
        case Type.BOOLEAN:
            return "true" if stored else "false"
        case Type.FLOAT32 | Type.FLOAT64:
            return _float_literal(stored, kind)
        case Type.ARRAY:
            elements = ", ".join(_literal(_element(schema), v) for v in stored)
            return f"CAST(array({elements}) AS {kind})"
        case Type.MAP:
            members = ", ".join(f"{_literal(_key(schema), k)}, {_literal(_element(schema), v)}" for k, v in stored)
            return f"CAST(map({members}) AS {kind})"
        case Type.STRUCT:
            return struct_of([_literal(f.schema, stored[field_name(f.index)]) for f in schema.fields or ()])
    # The smallest BIGINT has no literal of its own: its digits are too large without the sign.
    return f"CAST('{int(stored)}' AS {kind})"


def _float_literal(value: float, kind: str) -> str:
    if math.isnan(value):
        return f"CAST('NaN' AS {kind})"
    if math.isinf(value):
        return f"CAST('{'-' if value < 0 else ''}Infinity' AS {kind})"
    return f"CAST({value!r}D AS {kind})"


def struct_of(members: list[str]) -> str:
    """The SQL of a struct of these values."""
    named = [f"'{field_name(i)}', {member}" for i, member in enumerate(members)]
    return f"named_struct({', '.join(named)})"


def example_value(schema: Schema) -> Any:
    """A value of the schema, not null."""
    match schema.name:
        case n if n == DECIMAL:
            return bytes_to_decimal(b"\x01", decimal_scale(schema))
        case n if n == DATE:
            return dt.date(2000, 1, 1)
        case n if n == TIME:
            return dt.time(1)
        case n if n == TIMESTAMP:
            return dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
    match schema.type:
        case Type.STRUCT:
            return Struct(schema, [example_value(f.schema) for f in schema.fields or ()])
        case Type.ARRAY:
            return []
        case Type.MAP:
            return {}
        case Type.STRING:
            return "x"
        case Type.BYTES:
            return b"x"
        case Type.BOOLEAN:
            return True
        case Type.FLOAT32 | Type.FLOAT64:
            return 1.0
    return 1
