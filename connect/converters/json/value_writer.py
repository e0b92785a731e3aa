"""Slow path of writing: writes values as JSON one at a time, exactly like Jackson for JsonConverter.

It checks everything and names the invalid field. :mod:`connect.converters.json.batch_encoder` is the fast path for batches.
"""

from __future__ import annotations

import binascii
import datetime as dt
import decimal
import math
import re
from dataclasses import dataclass
from typing import Any

from connect.data.java_class_names import java_class_of
from connect.data.logical import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    FarInstant,
    date_to_days,
    date_to_stored_days,
    decimal_scale,
    decimal_to_bytes,
    time_to_millis,
    timestamp_to_millis,
)  # fmt: skip
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.data.types import INT_RANGES
from connect.errors import DataError
from connect.java.number_text import decimal_text, double_text, float_text
from connect.java.sized_numbers import Float32
from connect.strict import STRICT

NULL_REQUIRED = "Conversion error: null value for field that is required and has no default value"
_SPECIAL = re.compile('[\x00-\x1f"\\\\\ud800-\udfff\U00010000-\U0010ffff]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
LOGICAL_NAMES = frozenset((DECIMAL, DATE, TIME, TIMESTAMP))
"""The schemas whose values have a Java class of their own."""
_LONG_RANGE = INT_RANGES[Type.INT64]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The settings of JsonConverter for writing."""

    numeric_decimals: bool = False
    replace_null_with_default: bool = True
    strict: bool = False


def quote(text: str) -> str:
    """Returns a JSON string like Jackson's: non-ASCII characters unchanged, those beyond U+FFFF as two escapes."""
    return f'"{_SPECIAL.sub(_escape, text)}"' if _SPECIAL.search(text) else f'"{text}"'


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    short = _SHORT_ESCAPES.get(char)
    if short is not None:
        return short
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04X}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"


def base64_text(data: bytes | bytearray | memoryview) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def number_text(value: float, narrow: bool) -> str:
    """Returns a float as JSON; NaN and infinities are strings."""
    text = float_text(value) if narrow else double_text(value)
    return f'"{text}"' if text[-1] in "Ny" else text


def _number(value: float, narrow: bool, options: WriteOptions, path: str) -> str:
    if options.strict and not math.isfinite(value):
        raise _field_error(f"JSON has no number for {value}{_at(path)} ({STRICT} is on)", path)
    return number_text(value, narrow)


def null_text(schema: Schema, options: WriteOptions) -> str | None:
    """Returns the JSON text of a null; None where the schema allows no null."""
    has_default = schema.default is not None and options.replace_null_with_default
    return write_value(schema, None, options) if schema.optional or has_default else None


def write_value(schema: Schema | None, value: Any, options: WriteOptions) -> str:
    """Returns the JSON text of a value. Raises DataError that names the field by its path."""
    try:
        return _write(schema, value, options, "")
    except RecursionError as e:
        raise DataError("A value is nested too deeply to be written as JSON") from e


def _at(path: str) -> str:
    return f' for field: "{path}"' if path else ""


def _field_error(message: str, path: str) -> DataError:
    """Returns an error about the field at the path. Apache's message does not name the field, so it is an attribute."""
    error = DataError(message)
    if path:
        error.in_field(path)
    return error


def _type_error(schema: Schema, value: Any, path: str) -> DataError:
    return _field_error(f"Invalid type for {schema.type.name}: {java_class_of(value)}", path)


def _write(schema: Schema | None, value: Any, options: WriteOptions, path: str) -> str:
    if value is None:
        if schema is None:
            return "null"
        if schema.default is not None and options.replace_null_with_default:
            return _write(schema, schema.default, options, path)
        if schema.optional:
            return "null"
        raise _field_error(NULL_REQUIRED, path)
    if schema is None:
        return _write_schemaless(value, options, path)
    if schema.name is not None and schema.name in LOGICAL_NAMES:
        return _write_logical(schema, value, options, path)
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            if not isinstance(value, int) or isinstance(value, bool):
                raise _type_error(schema, value, path)
            low, high = INT_RANGES[schema.type]
            if not low <= value <= high:
                raise _field_error(
                    f"Value {value} is not between {low} and {high}, the range of {schema.type.name}{_at(path)}", path
                )
            return int.__repr__(value)
        case Type.FLOAT32 | Type.FLOAT64:
            if not isinstance(value, float):
                raise _type_error(schema, value, path)
            return _number(value, schema.type is Type.FLOAT32, options, path)
        case Type.BOOLEAN:
            if not isinstance(value, bool):
                raise _type_error(schema, value, path)
            return "true" if value else "false"
        case Type.STRING:
            if not isinstance(value, str):
                raise _type_error(schema, value, path)
            return quote(value)
        case Type.BYTES:
            if not isinstance(value, bytes | bytearray | memoryview):
                raise _field_error(f"Invalid type for bytes type: {java_class_of(value)}", path)
            return f'"{base64_text(value)}"'
        case Type.ARRAY:
            if not isinstance(value, list):
                raise _type_error(schema, value, path)
            return _write_list(schema.value_schema, value, options, path)
        case Type.MAP:
            if not isinstance(value, dict):
                raise _type_error(schema, value, path)
            keys = schema.key_schema
            as_object = keys is not None and keys.type is Type.STRING
            return _write_map(keys, schema.value_schema, value, as_object, options, path)
        case Type.STRUCT:
            if not isinstance(value, Struct):
                raise _type_error(schema, value, path)
            return _write_struct(schema, value, options, path)


def _write_schemaless(value: Any, options: WriteOptions, path: str) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quote(value)
        case int():
            low, high = _LONG_RANGE
            if not low <= value <= high:
                raise _field_error(f"Value {value} is not between {low} and {high}, the range of INT64{_at(path)}", path)
            return int.__repr__(value)
        case float():
            return _number(value, isinstance(value, Float32), options, path)
        case bytes() | bytearray() | memoryview():
            return f'"{base64_text(value)}"'
        case list():
            return _write_list(None, value, options, path)
        case dict():
            as_object = all(isinstance(key, str) for key in value)
            return _write_map(None, None, value, as_object, options, path)
        case Struct():
            # Apache compares the struct's schema with the given schema, which is null.
            raise _field_error("Mismatching schema.", path)
        case _:
            raise _field_error(f"Java class {java_class_of(value)} does not have corresponding schema type.", path)


def _write_list(schema: Schema | None, value: list[Any], options: WriteOptions, path: str) -> str:
    return f"[{','.join([_write(schema, v, options, f'{path}[{i}]') for i, v in enumerate(value)])}]"


def _write_map(
    keys: Schema | None, values: Schema | None, value: dict[Any, Any], as_object: bool, options: WriteOptions, path: str
) -> str:
    pairs = []
    members: dict[str, str] = {}
    for key, element in value.items():
        at = f"{path}[{key!r}]"
        key_text, element_text = _write(keys, key, options, at), _write(values, element, options, at)
        if not as_object:
            pairs.append(f"[{key_text},{element_text}]")
            continue
        # As in Apache, a null key becomes the text "null", and the later of two equal names counts.
        name = key_text if key_text.startswith('"') else quote(key_text)
        if key is None and options.strict:
            raise _field_error(f"A JSON object has no null key: {name} would take its place{_at(path)} ({STRICT} is on)", path)
        members[name] = element_text
    return f"{{{','.join([f'{name}:{text}' for name, text in members.items()])}}}" if as_object else f"[{','.join(pairs)}]"


def _write_struct(schema: Schema, value: Struct, options: WriteOptions, path: str) -> str:
    if value.schema is not schema and value.schema != schema:
        raise _field_error("Mismatching schema.", path)
    fields = schema.fields or ()
    if len(fields) != len(value.values):
        raise _field_error(f"A struct of {len(fields)} fields holds {len(value.values)} values{_at(path)}", path)
    dot = f"{path}." if path else ""
    parts = [f"{quote(f.name)}:{_write(f.schema, v, options, dot + f.name)}" for f, v in zip(fields, value.values, strict=True)]
    return f"{{{','.join(parts)}}}"


def _stored_days(value: dt.date | FarInstant, options: WriteOptions) -> int:
    days = date_to_stored_days(value)
    if options.strict and days != date_to_days(value):
        raise DataError(f"Date {date_to_days(value)} days from 1970 is more than {DATE} can hold ({STRICT} is on)")
    return days


def _write_logical(schema: Schema, value: Any, options: WriteOptions, path: str) -> str:
    try:
        if schema.name == DECIMAL:
            if not isinstance(value, decimal.Decimal):
                raise DataError(f"Invalid type for Decimal, expected BigDecimal but was {java_class_of(value)}")
            if options.numeric_decimals:
                if not value.is_finite():
                    raise DataError(f"Decimal {value} has no finite value")
                return decimal_text(value)
            return f'"{base64_text(decimal_to_bytes(value, decimal_scale(schema)))}"'
        if schema.name == DATE:
            if not isinstance(value, dt.date | FarInstant) or isinstance(value, dt.datetime):
                raise DataError(f"Invalid type for Date, expected Date but was {java_class_of(value)}")
            return str(_stored_days(value, options))
        if schema.name == TIME:
            if not isinstance(value, dt.time):
                raise DataError(f"Invalid type for Time, expected Date but was {java_class_of(value)}")
            return str(time_to_millis(value))
        if not isinstance(value, dt.datetime | FarInstant):
            raise DataError(f"Invalid type for Timestamp, expected Date but was {java_class_of(value)}")
        return str(timestamp_to_millis(value))
    except DataError as e:
        if path:
            e.in_field(path)
        raise
