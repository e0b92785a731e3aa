"""One value to another type, as Cast does it: Java's narrowing, number text, and text of numbers."""

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
from connect.transforms.strict_casting import strict_caster
from connect.transforms.structs import class_name_under

Caster = Callable[[Any], Any]
INPUT_TYPES = (
    Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING, Type.BYTES,
)  # fmt: skip
OUTPUT_TYPES = INPUT_TYPES[:-1]
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
NARROW: dict[Type, Callable[[Any], Any]] = {Type.INT8: Int8, Type.INT16: Int16, Type.INT32: Int32, Type.FLOAT32: Float32}
_INFERRED: tuple[tuple[type | tuple[type, ...], Type], ...] = (
    (str, Type.STRING), (bool, Type.BOOLEAN), (Int8, Type.INT8), (Int16, Type.INT16), (Int32, Type.INT32), (int, Type.INT64),
    (Float32, Type.FLOAT32), (float, Type.FLOAT64), ((bytes, bytearray, memoryview), Type.BYTES), (list, Type.ARRAY),
    (dict, Type.MAP), (Struct, Type.STRUCT),
)  # fmt: skip

_INFERRED_OF: dict[type, Type | None] = {}


def type_names(types: tuple[Type, ...]) -> str:
    return f"[{', '.join(t.name for t in types)}]"


def inferred_type(value: Any) -> Type | None:
    """The Connect type of a value without a schema; None for what only a schema gives one: decimals and dates."""
    kind = value.__class__
    if kind not in _INFERRED_OF:
        # Classes of values are few; one of a connector's own making that derives from them counts as they do.
        _INFERRED_OF[kind] = next((type_ for known, type_ in _INFERRED if issubclass(kind, known)), None)
    return _INFERRED_OF[kind]


def caster_for(schema: Schema, target: Type, strict_for: str | None = None) -> Caster:
    """The cast of values of a schema; null stays null. The caster raises DataError, and so it does for a schema of a type that
    cannot be cast, as soon as there is a value. ``strict_for`` names what is cast, if it must be kept exactly."""
    if schema.type not in INPUT_TYPES:
        return _refuse(schema.type)
    cast = _to_type(schema, target)
    if strict_for is not None:
        source = schema.type.name if schema.name not in LOGICAL_CLASSES else schema.name.rpartition(".")[2]
        cast = strict_caster(cast, source, target, strict_for)
    # What must be kept is compared with all the days.
    encoders = _ENCODERS if strict_for is None else _EXACT_ENCODERS
    encode = encoders.get(schema.name or "")
    if encode is None or target is Type.STRING:
        return cast

    def cast_encoded(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dt.date | dt.time | FarInstant):
            # A ClassCastException in the original; such data comes of an earlier cast, which leaves the schema its name.
            raise DataError(f"Expected a {schema.name}, but found class {class_name_under(schema, value)}")
        return cast(encode(value))

    return cast_encoded


def schemaless_caster(target: Type, strict_for: str | None = None) -> Caster:
    """The cast of values that carry their own type; what comes out carries its width too. ``strict_for`` as in caster_for."""
    casters: dict[type, Caster] = {}
    narrow = NARROW.get(target)

    def cast(value: Any) -> Any:
        if value is None:
            return None
        kind = value.__class__
        caster = casters.get(kind)
        if caster is None:
            caster = casters[kind] = _caster_of(value)
        return caster(value)

    def _caster_of(value: Any) -> Caster:
        source = inferred_type(value)
        if source is None:
            name = class_name_under(None, value)
            raise DataError(
                f"Cast transformation was passed a value of type class {name} which is not supported by Connect's data API"
            )
        if source not in INPUT_TYPES:
            return _refuse(source)
        plain = _to_type(Schema(source), target)
        if strict_for is not None:
            plain = strict_caster(plain, source.name, target, strict_for)
        return plain if narrow is None else lambda v: narrow(plain(v))

    return cast


def _refuse(source: Type) -> Caster:
    def refuse(value: Any) -> Any:
        if value is None:
            return None
        supported = type_names(INPUT_TYPES)
        raise DataError(f"Cast transformation does not support casting from {source.name}; supported types are {supported}")

    return refuse


_ENCODERS: dict[str, Callable[[Any], int]] = {DATE: date_to_stored_days, TIME: time_to_millis, TIMESTAMP: timestamp_to_millis}
_EXACT_ENCODERS: dict[str, Callable[[Any], int]] = {**_ENCODERS, DATE: date_to_days}


def _to_type(schema: Schema, target: Type) -> Caster:
    """The cast of a value that is encoded as its type says; null stays null."""
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


def _out_of_range(value: Any) -> DataError:
    return DataError(f"Value ({value}) was out of range for requested data type")


def _unexpected(value: Any) -> DataError:
    return DataError(f"Unexpected type in Cast transformation: class {class_name_under(None, value)}")


def _other_to_integer(value: Any, bits: int) -> int:
    if isinstance(value, int):  # bool too
        return wrap_integer(int(value), bits)
    if isinstance(value, float):
        return float_to_integer(value, bits)
    if isinstance(value, str):
        try:
            return parse_integer(value, bits)
        except NumberFormatError as e:
            raise _out_of_range(value) from e
    if isinstance(value, decimal.Decimal):
        return decimal_to_integer(value, bits)
    raise _unexpected(value)


def _to_float64(value: Any) -> Any:
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str):
        try:
            return parse_double(value)
        except NumberFormatError as e:
            raise _out_of_range(value) from e
    if isinstance(value, decimal.Decimal):
        return decimal_to_double(value)
    if value is None:
        return None
    raise _unexpected(value)


def _to_float32(value: Any) -> Any:
    if isinstance(value, int):
        return integer_to_float32(value)
    if isinstance(value, float):
        return round_to_float32(value)
    if isinstance(value, str):
        try:
            return parse_float32(value)
        except NumberFormatError as e:
            raise _out_of_range(value) from e
    if isinstance(value, decimal.Decimal):
        return decimal_to_float32(value)
    if value is None:
        return None
    raise _unexpected(value)


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
        # The original looks at the low 64 bits of the whole part: 0.9 and 2^64 are false.
        return decimal_to_integer(value, 64) != 0
    if value is None:
        return None
    raise _unexpected(value)


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
