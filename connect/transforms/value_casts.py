"""Casts single values as Apache's Cast does: with Java's narrowing, number parsing, and number formatting."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

from connect.data.java_text import java_text
from connect.data.logical import (
    DATE,
    LOGICAL_CLASSES,
    TIME,
    TIMESTAMP,
    FarInstant,
    date_to_days,
    date_to_stored_days,
    time_to_millis,
    timestamp_to_millis,
)  # fmt: skip
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.data.values import format_instant
from connect.errors import DataError
from connect.java.number_text import decimal_text, double_text, float_text
from connect.java.numbers import (
    NumberFormatError,
    decimal_to_double,
    decimal_to_float32,
    decimal_to_integer,
    float_to_integer,
    integer_to_float32,
    parse_double,
    parse_float32,
    parse_integer,
)
from connect.java.sized_numbers import Float32, Int8, Int16, Int32, round_to_float32, wrap_integer
from connect.transforms.lossless import Caster, lossless_caster
from connect.transforms.structs import java_class_name

INPUT_TYPES = (
    Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING, Type.BYTES,
)  # fmt: skip
OUTPUT_TYPES = INPUT_TYPES[:-1]
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
NARROW: dict[Type, Callable[[Any], Any]] = {Type.INT8: Int8, Type.INT16: Int16, Type.INT32: Int32, Type.FLOAT32: Float32}
_TYPES_OF_CLASSES: tuple[tuple[type | tuple[type, ...], Type], ...] = (
    (str, Type.STRING), (bool, Type.BOOLEAN), (Int8, Type.INT8), (Int16, Type.INT16), (Int32, Type.INT32), (int, Type.INT64),
    (Float32, Type.FLOAT32), (float, Type.FLOAT64), ((bytes, bytearray, memoryview), Type.BYTES), (list, Type.ARRAY),
    (dict, Type.MAP), (Struct, Type.STRUCT),
)  # fmt: skip

_TYPE_BY_CLASS: dict[type, Type | None] = {}


def type_names(types: tuple[Type, ...]) -> str:
    return f"[{', '.join(t.name for t in types)}]"


def infer_type(value: Any) -> Type | None:
    """The Connect type of a value without a schema; None for decimals and dates, which need a schema."""
    kind = value.__class__
    if kind not in _TYPE_BY_CLASS:
        # A connector's own subclass has the type of its base class.
        _TYPE_BY_CLASS[kind] = next((type_ for known, type_ in _TYPES_OF_CLASSES if issubclass(kind, known)), None)
    return _TYPE_BY_CLASS[kind]


def caster_for(schema: Schema, target: Type, strict_for: str | None = None) -> Caster:
    """Builds the cast for values of a schema; null stays null. The caster raises DataError; if the schema has a type that cannot
    be cast, it does so for the first value. ``strict_for`` names the value in errors if the cast must not lose data."""
    if schema.type not in INPUT_TYPES:
        return _rejecting_caster(schema.type)
    cast = _cast_to(schema, target)
    if strict_for is not None:
        source = schema.type.name if schema.name not in LOGICAL_CLASSES else schema.name.rpartition(".")[2]
        cast = lossless_caster(cast, source, target, strict_for)
    # A strict cast compares all days, not just those that fit into 32 bits.
    encoders = _ENCODERS if strict_for is None else _EXACT_ENCODERS
    encode = encoders.get(schema.name or "")
    if encode is None or target is Type.STRING:
        return cast

    def cast_encoded(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dt.date | dt.time | FarInstant):
            # A ClassCastException in Apache. An earlier cast produces such data because it keeps the schema name.
            raise DataError(f"Expected a {schema.name}, but found class {java_class_name(schema, value)}")
        return cast(encode(value))

    return cast_encoded


def schemaless_caster(target: Type, strict_for: str | None = None) -> Caster:
    """Builds the cast for values without a schema; results carry their width. ``strict_for`` is as in :func:`caster_for`."""
    casters: dict[type, Caster] = {}
    narrow = NARROW.get(target)

    def cast(value: Any) -> Any:
        if value is None:
            return None
        kind = value.__class__
        caster = casters.get(kind)
        if caster is None:
            caster = casters[kind] = _build_caster(value)
        return caster(value)

    def _build_caster(value: Any) -> Caster:
        source = infer_type(value)
        if source is None:
            name = java_class_name(None, value)
            raise DataError(
                f"Cast transformation was passed a value of type class {name} which is not supported by Connect's data API"
            )
        if source not in INPUT_TYPES:
            return _rejecting_caster(source)
        cast_plain = _cast_to(Schema(source), target)
        if strict_for is not None:
            cast_plain = lossless_caster(cast_plain, source.name, target, strict_for)
        return cast_plain if narrow is None else lambda v: narrow(cast_plain(v))

    return cast


def _rejecting_caster(source: Type) -> Caster:
    def refuse(value: Any) -> Any:
        if value is None:
            return None
        supported = type_names(INPUT_TYPES)
        raise DataError(f"Cast transformation does not support casting from {source.name}; supported types are {supported}")

    return refuse


_ENCODERS: dict[str, Callable[[Any], int]] = {DATE: date_to_stored_days, TIME: time_to_millis, TIMESTAMP: timestamp_to_millis}
_EXACT_ENCODERS: dict[str, Callable[[Any], int]] = {**_ENCODERS, DATE: date_to_days}


def _cast_to(schema: Schema, target: Type) -> Caster:
    """Builds the cast for values in the encoding of their type; null stays null."""
    match target:
        case Type.STRING:
            return _to_string(schema)
        case Type.BOOLEAN:
            return _to_boolean
        case Type.FLOAT32:
            return _to_float32
        case Type.FLOAT64:
            return _to_float64
    bits = _BITS[target]
    if schema.name is None and schema.type in _BITS and _BITS[schema.type] <= bits:
        return lambda value: value if value is None or value.__class__ is int else _other_to_integer(value, bits)
    half, mask = 1 << (bits - 1), (1 << bits) - 1

    def to_integer(value: Any) -> Any:
        if value.__class__ is int:
            return value if -half <= value < half else ((value + half) & mask) - half
        return None if value is None else _other_to_integer(value, bits)

    return to_integer


def _out_of_range_error(value: Any) -> DataError:
    return DataError(f"Value ({value}) was out of range for requested data type")


def _unexpected_type_error(value: Any) -> DataError:
    return DataError(f"Unexpected type in Cast transformation: class {java_class_name(None, value)}")


def _other_to_integer(value: Any, bits: int) -> int:
    if isinstance(value, int):  # bool too
        return wrap_integer(int(value), bits)
    if isinstance(value, float):
        return float_to_integer(value, bits)
    if isinstance(value, str):
        try:
            return parse_integer(value, bits)
        except NumberFormatError as e:
            raise _out_of_range_error(value) from e
    if isinstance(value, decimal.Decimal):
        return decimal_to_integer(value, bits)
    raise _unexpected_type_error(value)


def _to_float64(value: Any) -> Any:
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str):
        try:
            return parse_double(value)
        except NumberFormatError as e:
            raise _out_of_range_error(value) from e
    if isinstance(value, decimal.Decimal):
        return decimal_to_double(value)
    if value is None:
        return None
    raise _unexpected_type_error(value)


def _to_float32(value: Any) -> Any:
    if isinstance(value, int):
        return integer_to_float32(value)
    if isinstance(value, float):
        return round_to_float32(value)
    if isinstance(value, str):
        try:
            return parse_float32(value)
        except NumberFormatError as e:
            raise _out_of_range_error(value) from e
    if isinstance(value, decimal.Decimal):
        return decimal_to_float32(value)
    if value is None:
        return None
    raise _unexpected_type_error(value)


def _to_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value != 0
    if isinstance(value, float):
        return float_to_integer(value, 64) != 0
    if isinstance(value, str):
        return value.lower() == "true"
    if isinstance(value, decimal.Decimal):
        # Apache checks the low 64 bits of the integer part: 0.9 and 2^64 are false.
        return decimal_to_integer(value, 64) != 0
    if value is None:
        return None
    raise _unexpected_type_error(value)


def _to_string(schema: Schema) -> Caster:
    number_text = float_text if schema.type is Type.FLOAT32 else double_text

    def to_string(value: Any) -> Any:
        kind = value.__class__
        if kind is str or value is None:
            return value
        if kind is int:
            return int.__repr__(value)
        if isinstance(value, float):
            return number_text(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return base64.b64encode(value).decode("ascii")
        if isinstance(value, dt.date | dt.time | FarInstant):
            return format_instant(value)
        if isinstance(value, decimal.Decimal):
            return decimal_text(value)
        return java_text(None, value)

    return to_string
