"""Writes values as Java's ``toString`` does: the output of StringConverter and FileStreamSink.

Numbers follow Double.toString and Float.toString of Java 17, decimals BigDecimal.toString, dates ``java.util.Date.toString``
in UTC, lists ``[1, 2]``, maps ``{a=1}``, structs ``Struct{a=1,b=x}`` without their null fields.
"""

from __future__ import annotations

import datetime as dt
import decimal
import zlib
from typing import Any

from connect.data.logical import FarInstant, epoch_millis
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.java.calendar import date_of_day
from connect.java.number_text import decimal_text, double_text, float_text
from connect.java.sized_numbers import Float32

_DAYS = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MILLIS_PER_DAY = 86_400_000


def instant_text(value: dt.date | dt.time | FarInstant) -> str:
    """java.util.Date.toString in UTC."""
    day, millis = divmod(epoch_millis(value), MILLIS_PER_DAY)
    seconds = millis // 1000
    year, month, day_of_month = date_of_day(day)
    shown_year = year if year > 0 else 1 - year
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{_DAYS[day % 7]} {_MONTHS[month - 1]} {day_of_month:02} {clock} UTC {shown_year}"


def bytes_text(value: bytes | bytearray | memoryview) -> str:
    """Returns a text like ``[B@1b6d3586``. Java prints the array's address; this prints a checksum of the content, so that equal
    bytes give equal text."""
    return f"[B@{zlib.crc32(value):x}"


def java_text(schema: Schema | None, value: Any) -> str:
    """``String.valueOf(value)`` of a value under a schema (None: schemaless). None gives ``null``."""
    kind = type(value)
    if kind is str:
        return str(value)
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        narrow = schema.type is Type.FLOAT32 if schema is not None else kind is Float32
        return float_text(value) if narrow else double_text(value)
    if isinstance(value, Struct):
        fields = value.schema.fields or ()
        shown = (f"{f.name}={java_text(f.schema, v)}" for f, v in zip(fields, value.values, strict=True) if v is not None)
        return f"Struct{{{','.join(shown)}}}"
    if isinstance(value, list | tuple):
        element = schema.value_schema if schema is not None else None
        return f"[{', '.join([java_text(element, v) for v in value])}]"
    if isinstance(value, dict):
        keys, values = (schema.key_schema, schema.value_schema) if schema is not None else (None, None)
        return f"{{{', '.join([f'{java_text(keys, k)}={java_text(values, v)}' for k, v in value.items()])}}}"
    if isinstance(value, decimal.Decimal):
        return decimal_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes_text(value)
    if isinstance(value, dt.date | dt.time | FarInstant):
        return instant_text(value)
    return str(value)
