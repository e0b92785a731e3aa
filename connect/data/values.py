"""Converts between schemaless values and text, for header values and literals in configurations.

The rules are those of ``org.apache.kafka.connect.data.Values``, pinned by values.jsonl, including the odd ones: a number takes
the narrowest type that holds it; ``1.0`` is an int8; a decimal that a 32-bit float can approximate becomes a float; text after
the first delimiter of a top-level scalar is dropped; unquoted text inside a list makes the whole text a string.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
from typing import Any

from connect.data.java_class_names import java_class_name
from connect.data.java_text import MILLIS_PER_DAY
from connect.data.logical import FarInstant, epoch_millis
from connect.data.schema import Schema, Type
from connect.data.schema_and_value import NULL, SchemaAndValue
from connect.data.struct import Struct
from connect.data.values_parser import parse_value, parse_with_losses
from connect.errors import DataError, SchemaError
from connect.java.calendar import date_of_day
from connect.java.number_text import decimal_text, double_text, float_text
from connect.java.sized_numbers import Float32, Int8, Int16, Int32


def parse_string(text: str | None) -> SchemaAndValue:
    """Parses a text to a value with its schema. Never fails: any other text is a string."""
    if text is None:
        return NULL
    if not text:
        return SchemaAndValue(Schema.STRING, text)
    try:
        return parse_value(text) or NULL
    except RecursionError:
        return SchemaAndValue(Schema.STRING, text)


def parse_string_strictly(text: str) -> SchemaAndValue:
    """Parses a text like :func:`parse_string`, but raises DataError when part of the text is lost: digits that do not fit the
    number, text after a number, a date that does not exist, one of two values of a key."""
    if not text:
        return SchemaAndValue(Schema.STRING, text)
    try:
        found, losses = parse_with_losses(text)
    except RecursionError:
        return SchemaAndValue(Schema.STRING, text)
    if losses:
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise DataError(f"The text {shown!r} cannot be read without loss: {losses[0]}")
    return found or NULL


def convert_to_string(schema: Schema | None, value: Any) -> str | None:
    """Returns the text of a value, which :func:`parse_string` reads back as far as possible. Raises DataError."""
    if value is None:
        return None
    try:
        return _text(schema, value, embedded=False)
    except RecursionError as e:
        raise DataError("A value is nested too deeply to be written as text") from e


def _text(schema: Schema | None, value: Any, *, embedded: bool) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value) if embedded else value
        case int():
            return int.__repr__(value)
        case float():
            narrow = schema.type is Type.FLOAT32 if schema is not None else isinstance(value, Float32)
            return float_text(value) if narrow else double_text(value)
        case decimal.Decimal():
            return decimal_text(value)
        case bytes() | bytearray() | memoryview():
            encoded = base64.b64encode(value).decode("ascii")
            return f'"{encoded}"' if embedded else encoded
        case list() | tuple():
            element = schema.value_schema if schema is not None else None
            return f"[{','.join([_text(element, v, embedded=True) for v in value])}]"
        case dict():
            keys, values = (schema.key_schema, schema.value_schema) if schema is not None else (None, None)
            pairs = [f"{_text(keys, k, embedded=True)}:{_text(values, v, embedded=True)}" for k, v in value.items()]
            return f"{{{','.join(pairs)}}}"
        case Struct():
            fields = value.schema.fields or ()
            members = [f"{_quoted(f.name)}:{_text(f.schema, value.get(f), embedded=True)}" for f in fields]
            return f"{{{','.join(members)}}}"
        case dt.date() | dt.time() | FarInstant():
            return format_instant(value)
        case _:
            raise DataError(f"Failed to serialize unexpected value type {java_class_name(value)}: {value}")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def format_instant(value: dt.date | dt.time | FarInstant) -> str:
    """Returns ISO 8601 text whose form depends on the instant, not the type: before 2 January 1970 a time, at midnight a date."""
    millis = epoch_millis(value)
    day, of_day = divmod(millis, MILLIS_PER_DAY)
    seconds, fraction = divmod(of_day, 1000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:03}Z"
    if millis < MILLIS_PER_DAY:
        return clock
    year, month, day_of_month = date_of_day(day)
    date = f"{year:04}-{month:02}-{day_of_month:02}"
    return date if of_day == 0 else f"{date}T{clock}"


_INFERRED: tuple[tuple[type | tuple[type, ...], Schema], ...] = (
    (str, Schema.STRING), (bool, Schema.BOOLEAN), (Int8, Schema.INT8), (Int16, Schema.INT16), (Int32, Schema.INT32),
    (int, Schema.INT64), (Float32, Schema.FLOAT32), (float, Schema.FLOAT64), ((bytes, bytearray, memoryview), Schema.BYTES),
)  # fmt: skip


def infer_schema(value: Any) -> Schema | None:
    """Returns the schema that a schemaless value would have; None if it cannot be inferred: null, an empty or mixed list.

    Raises SchemaError for a list or map that holds nulls only, like Apache.
    """
    for kind, schema in _INFERRED:
        if isinstance(value, kind):
            return schema
    if isinstance(value, Struct):
        return value.schema
    if isinstance(value, list) and value:
        elements = _Detector()
        return Schema(Type.ARRAY, value_schema=elements.schema()) if all(map(elements.takes, value)) else None
    if isinstance(value, dict) and value:
        keys, values = _Detector(), _Detector()
        if not all(keys.takes(k) and values.takes(v) for k, v in value.items()):
            return None
        return Schema(Type.MAP, key_schema=keys.schema(), value_schema=values.schema())
    return None


class _Detector:
    """Infers the common type of elements, without the element types of nested lists, like Apache."""

    def __init__(self) -> None:
        self._type: Type | None = None
        self._optional = False

    def takes(self, value: Any) -> bool:
        """Adds an element. Returns False if its type cannot be inferred or differs from that of the elements before it."""
        if value is None:
            self._optional = True
            return True
        schema = infer_schema(value)
        if schema is None or (self._type is not None and self._type is not schema.type):
            return False
        self._type = schema.type
        return True

    def schema(self) -> Schema:
        if self._type is None:
            raise SchemaError("type cannot be null")
        return Schema(self._type, optional=self._optional)
