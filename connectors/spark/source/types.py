"""Maps table columns to Connect schemas, without loss, and Arrow arrays to the texts that converters write.

| column                                               | schema                                                         |
| ---------------------------------------------------- | -------------------------------------------------------------- |
| TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE        | int8, int16, int32, int64, float, double                       |
| BOOLEAN, STRING, BINARY                              | boolean, string, bytes                                         |
| DECIMAL(p, s)                                        | Connect Decimal with scale s                                   |
| DATE                                                 | io.debezium.time.Date (days)                                   |
| TIMESTAMP                                            | io.debezium.time.ZonedTimestamp (ISO 8601 text in UTC, microseconds) |
| TIMESTAMP_NTZ                                        | io.debezium.time.MicroTimestamp (microseconds)                 |
| ARRAY, MAP, STRUCT                                   | array, map, struct                                             |
| VARIANT                                              | io.debezium.data.Json (text)                                   |
| of Iceberg: time                                     | io.debezium.time.MicroTime (microseconds)                      |
| timestamp_ns, timestamptz_ns                         | io.debezium.time.NanoTimestamp; ZonedTimestamp, nanoseconds    |
| uuid, fixed                                          | io.debezium.data.Uuid (text), bytes                            |

The Spark sink reads each of them back as the same column type (a decimal with 38 digits).
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connect.data.logical import DECIMAL, SCALE_PARAMETER, bytes_to_decimal
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError, SchemaError
from connect.java.sized_numbers import round_to_float32
from connect.text_records import TextKind
from connectors.spark.decode.rescued_json import node_text, variant_text
from connectors.spark.decode.variant import decode_variant, is_variant
from connectors.spark.plan.evolution import sql_type
from connectors.spark.source.unscaled_texts import unscaled_texts
from connectors.spark.variant_columns import JSON_TYPE

ZONED_TIMESTAMP = "io.debezium.time.ZonedTimestamp"
MICRO_TIMESTAMP, NANO_TIMESTAMP = "io.debezium.time.MicroTimestamp", "io.debezium.time.NanoTimestamp"
MICRO_TIME = "io.debezium.time.MicroTime"
UUID = "io.debezium.data.Uuid"
DATE = "io.debezium.time.Date"
_PRECISION = "connect.decimal.precision"
_PRIMITIVES = {
    pa.int8(): Type.INT8,
    pa.int16(): Type.INT16,
    pa.int32(): Type.INT32,
    pa.int64(): Type.INT64,
    pa.float32(): Type.FLOAT32,
    pa.float64(): Type.FLOAT64,
    pa.bool_(): Type.BOOLEAN,
    pa.string(): Type.STRING,
    pa.binary(): Type.BYTES,
}
_FIRST_YEAR, _LAST_YEAR = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The instants that ISO 8601 text can hold: years 1 to 9999, in microseconds since 1970."""
_SPECIAL = bytes(range(0x20)) + b'"\\' + bytes(range(0xF0, 0xF5))
"""Control characters, quotes, backslashes, and the first bytes of characters beyond U+FFFF."""

Texts = Callable[[pa.Array], list[Any]]


@dataclass(frozen=True, slots=True)
class ColumnTexts:
    """How the values of a column become the cells of :class:`connect.text_records.TextRows`, and how a cell becomes a value."""

    schema: Schema
    kind: TextKind
    texts: Texts
    decode: Callable[[Any], Any]
    are_plain: Callable[[pa.Array], bool] = lambda array: True
    """Whether no text has special characters (:class:`connect.text_records.TextRows`)."""


def column_schema(type_: pa.DataType, *, optional: bool = True) -> Schema:
    """The schema of a column. Raises SchemaError for a type that has none."""
    t = pa.types
    if is_variant(type_):
        return Schema(Type.STRING, optional=optional, name=JSON_TYPE, version=1)
    if type_ in _PRIMITIVES:
        return Schema(_PRIMITIVES[type_], optional=optional)
    if t.is_decimal(type_):
        parameters = {SCALE_PARAMETER: str(type_.scale), _PRECISION: str(type_.precision)}
        return Schema(Type.BYTES, optional=optional, name=DECIMAL, version=1, parameters=parameters)
    if t.is_date32(type_):
        return Schema(Type.INT32, optional=optional, name=DATE, version=1)
    if t.is_timestamp(type_):
        if type_.tz:
            return Schema(Type.STRING, optional=optional, name=ZONED_TIMESTAMP, version=1)
        return Schema(Type.INT64, optional=optional, name=_of_unit(type_), version=1)
    if t.is_time64(type_):
        return Schema(Type.INT64, optional=optional, name=MICRO_TIME, version=1)
    if type_ == pa.uuid():
        return Schema(Type.STRING, optional=optional, name=UUID, version=1)
    if t.is_fixed_size_binary(type_):
        return Schema(Type.BYTES, optional=optional)
    if t.is_struct(type_):
        return Schema(Type.STRUCT, optional=optional, fields=[(f.name, column_schema(f.type)) for f in type_])
    if t.is_list(type_):
        return Schema(Type.ARRAY, optional=optional, value_schema=column_schema(type_.value_type))
    if t.is_map(type_):
        key = column_schema(type_.key_type, optional=False)
        return Schema(Type.MAP, optional=optional, key_schema=key, value_schema=column_schema(type_.item_type))
    raise SchemaError(f"the type {sql_type(type_)} is not supported")


def _of_unit(type_: pa.DataType) -> str:
    return NANO_TIMESTAMP if type_.unit == "ns" else MICRO_TIMESTAMP


def column_texts(type_: pa.DataType, schema: Schema) -> ColumnTexts:
    """How a column of this type is written; ``schema`` is that of :func:`column_schema`."""
    t = pa.types
    if is_variant(type_):
        return ColumnTexts(schema, TextKind.STRING, lambda array: list(map(_json_text, array.to_pylist())), _same, _has_no_value)
    if t.is_nested(type_):
        build = _value_builder(type_, schema)
        return ColumnTexts(schema, TextKind.VALUE, lambda array: list(map(build, _plain_values(array))), _same)
    if t.is_integer(type_):
        return ColumnTexts(schema, TextKind.INTEGER, _cast_texts, int)
    if t.is_float32(type_):
        return ColumnTexts(schema, TextKind.FLOAT, _cast_texts, lambda text: round_to_float32(float(text)))
    if t.is_floating(type_):
        return ColumnTexts(schema, TextKind.SHORTEST_FLOAT, _cast_texts, float)
    if t.is_boolean(type_):
        return ColumnTexts(schema, TextKind.BOOLEAN, lambda array: _listed(pc.if_else(array, "t", "f")), "t".__eq__)
    if t.is_decimal128(type_):
        scale = type_.scale
        return ColumnTexts(schema, TextKind.UNSCALED, unscaled_texts, lambda text: bytes_to_decimal(a2b_base64(text), scale))
    if t.is_date32(type_):
        return ColumnTexts(schema, TextKind.INTEGER, lambda array: _cast_texts(array.cast(pa.int32())), int)
    if t.is_timestamp(type_):
        if type_.tz:
            return ColumnTexts(schema, TextKind.STRING, lambda array: _listed(_instant_texts(array)), _same)
        return ColumnTexts(schema, TextKind.INTEGER, lambda array: _cast_texts(array.cast(pa.int64())), int)
    if t.is_time64(type_):
        return ColumnTexts(schema, TextKind.INTEGER, lambda array: _cast_texts(array.cast(pa.int64())), int)
    if t.is_binary(type_) or t.is_fixed_size_binary(type_):
        return ColumnTexts(schema, TextKind.VALUE, pa.Array.to_pylist, _same)
    if type_ == pa.string():
        return ColumnTexts(schema, TextKind.STRING, _listed, _same, _are_plain)
    return ColumnTexts(schema, TextKind.STRING, _listed, _same)


def _are_plain(array: pa.Array) -> bool:
    """Whether no text has quotes, backslashes, control characters, or characters beyond U+FFFF."""
    _, offsets, data = array.buffers()
    if not len(array) or data is None:
        return True
    places = np.frombuffer(offsets, np.int32)
    found = data[int(places[array.offset]) : int(places[array.offset + len(array)])].to_pybytes()
    return len(found.translate(None, _SPECIAL)) == len(found)


def _has_no_value(array: pa.Array) -> bool:
    return bool(array.null_count == len(array))


def _same(value: Any) -> Any:
    return value


def _listed(array: pa.Array) -> list[Any]:
    found: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
    return found


def _cast_texts(array: pa.Array) -> list[Any]:
    return _listed(array.cast(pa.string()))


def _instant_texts(array: pa.Array) -> pa.Array:
    unit = array.type.unit
    if unit == "us":  # nanoseconds reach from 1677 to 2262
        _check_years(array)
    # Arrow takes several times as long for a timestamp with a zone, although that is UTC.
    texts = array.view(pa.timestamp(unit)).cast(pa.string())
    return pc.binary_join_element_wise(pc.utf8_replace_slice(texts, 10, 11, "T"), "Z", "")


def _check_years(array: pa.Array) -> None:
    bounds = pc.min_max(array.cast(pa.int64()))
    for number in (bounds["min"].as_py(), bounds["max"].as_py()):
        if number is not None and not _FIRST_YEAR <= number <= _LAST_YEAR:
            raise DataError(f"the timestamp {number} microseconds from 1970 is outside the years 1 to 9999")


def _plain_values(array: pa.Array) -> list[Any]:
    """The values with dates and timestamps as numbers; :func:`_value_builder` completes them."""
    values: list[Any] = array.cast(_plain_type(array.type)).to_pylist()
    return values


def _plain_type(type_: pa.DataType) -> pa.DataType:
    t = pa.types
    if is_variant(type_):
        return type_
    if t.is_struct(type_):
        return pa.struct([pa.field(f.name, _plain_type(f.type)) for f in type_])
    if t.is_list(type_):
        return pa.list_(_plain_type(type_.value_type))
    if t.is_map(type_):
        return pa.map_(_plain_type(type_.key_type), _plain_type(type_.item_type))
    if t.is_timestamp(type_) or t.is_time64(type_):
        return pa.int64()
    return pa.int32() if t.is_date32(type_) else type_


def _value_builder(type_: pa.DataType, schema: Schema) -> Callable[[Any], Any]:
    """The function that turns a value of :func:`_plain_values` into one of the schema."""
    t = pa.types
    if is_variant(type_):
        return _json_text
    if t.is_struct(type_):
        names = [f.name for f in type_]
        fields = [_value_builder(f.type, field.schema) for f, field in zip(type_, schema.fields or (), strict=True)]
        return _unless_null(lambda value: Struct(schema, [build(value[name]) for name, build in zip(names, fields, strict=True)]))
    if t.is_list(type_):
        element = _value_builder(type_.value_type, _required(schema.value_schema))
        return _unless_null(lambda value: [element(one) for one in value])
    if t.is_map(type_):
        key = _value_builder(type_.key_type, _required(schema.key_schema))
        item = _value_builder(type_.item_type, _required(schema.value_schema))
        if t.is_nested(type_.key_type):
            raise SchemaError("a map whose keys are nested values is not supported")
        return _unless_null(lambda value: {key(k): item(v) for k, v in value})
    if t.is_timestamp(type_) and type_.tz:
        return _unless_null(_instant_text if type_.unit == "us" else _nano_instant_text)
    return _same


def _json_text(value: dict[str, bytes] | None) -> str | None:
    return None if value is None else variant_text(decode_variant(**value), _time_text)


def _time_text(scalar: pa.Scalar) -> str:
    try:
        return node_text(scalar.as_py())
    except (ValueError, OverflowError) as e:
        unit = "days" if pa.types.is_date32(scalar.type) else "microseconds"
        raise DataError(f"a VARIANT has the date {scalar.value} {unit} from 1970, which is outside the years 1 to 9999") from e


def _unless_null(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else build(value)


def _required(schema: Schema | None) -> Schema:
    assert schema is not None
    return schema


def _instant_text(micros: int) -> str:
    if not _FIRST_YEAR <= micros <= _LAST_YEAR:
        raise DataError(f"the timestamp {micros} microseconds from 1970 is outside the years 1 to 9999")
    return f"{np.datetime64(micros, 'us')}Z"


def _nano_instant_text(nanos: int) -> str:
    return f"{np.datetime64(nanos, 'ns')}Z"
