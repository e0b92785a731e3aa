"""Values as text, the way Java's ``toString`` writes them: what StringConverter and FileStreamSink put out.

Numbers follow Double.toString and Float.toString, decimals BigDecimal.toString, dates ``java.util.Date.toString`` in UTC,
lists ``[1, 2]``, maps ``{a=1}``, structs ``Struct{a=1,b=x}`` without their null fields.
"""

from __future__ import annotations

import datetime as dt
import decimal
import zlib
from typing import Any

from connect.data.java_calendar import date_of_day
from connect.data.logical import epoch_millis
from connect.data.narrow import Float32, round_to_float32
from connect.data.schema import Schema, Type
from connect.data.struct import Struct

_DAYS = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MILLIS_PER_DAY = 86_400_000


def double_text(value: float) -> str:
    """Double.toString."""
    magnitude = abs(value)
    if 1e-3 <= magnitude < 1e7 or value == 0.0:
        return repr(value)
    if value != value:
        return "NaN"
    if magnitude == float("inf"):
        return "Infinity" if value > 0 else "-Infinity"
    mantissa, _, exponent = repr(magnitude).partition("e")
    whole, _, fraction = mantissa.partition(".")
    return _with_exponent(value, whole, "" if fraction == "0" else fraction, int(exponent or 0))


def float_text(value: float) -> str:
    """Float.toString of the nearest 32-bit float."""
    rounded = round_to_float32(value)
    magnitude = abs(rounded)
    if rounded == 0.0 or magnitude != magnitude or magnitude == float("inf"):
        return double_text(rounded)
    text = shortest_float32(magnitude)
    if 1e-3 <= magnitude < 1e7:
        shown = repr(float(text))
        return f"-{shown}" if rounded < 0 else shown
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    return _with_exponent(rounded, whole, fraction.rstrip("0"), int(exponent))


def shortest_float32(magnitude: float) -> str:
    """The shortest decimal, in e-notation, that reads back as this 32-bit float (positive, finite)."""
    # Six digits always survive a 32-bit float, so only subnormal numbers have something to find below that.
    for precision in range(5, 9) if magnitude >= 1.1754944e-38 else range(1, 9):
        text = f"{magnitude:.{precision}e}"
        if round_to_float32(float(text)) == magnitude:
            return text
    return f"{magnitude:.8e}"


def _with_exponent(value: float, whole: str, fraction: str, exponent: int) -> str:
    if whole == "0":
        stripped = fraction.lstrip("0")
        exponent -= len(fraction) - len(stripped) + 1
        whole, fraction = stripped[0], stripped[1:]
    elif len(whole) > 1:
        exponent += len(whole) - 1
        whole, fraction = whole[0], (whole[1:] + fraction).rstrip("0")
    if not fraction and 0 < abs(value) < 1e-300:
        # Java shows at least two digits and takes the nearest two: the smallest double is 4.9E-324, not 5.0E-324.
        nearest = f"{abs(value):.1e}"
        if float(nearest) == abs(value):
            whole, fraction = nearest[0], nearest[2]
    return f"{'-' if value < 0 else ''}{whole}.{fraction or '0'}E{exponent}"


def decimal_text(value: decimal.Decimal) -> str:
    """BigDecimal.toString; there is no negative zero."""
    return str(value) if value else str(value.copy_abs())


def instant_text(value: dt.date | dt.time) -> str:
    """java.util.Date.toString in UTC."""
    day, millis = divmod(epoch_millis(value), MILLIS_PER_DAY)
    seconds = millis // 1000
    year, month, day_of_month = date_of_day(day)
    shown_year = year if year > 0 else 1 - year
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{_DAYS[day % 7]} {_MONTHS[month - 1]} {day_of_month:02} {clock} UTC {shown_year:04}"


def bytes_text(value: bytes | bytearray | memoryview) -> str:
    """The original prints an array's address (``[B@1b6d3586``), which means nothing; here a checksum of the content stands in
    its place, so that equal bytes give equal text."""
    return f"[B@{zlib.crc32(value):x}"


def java_text(schema: Schema | None, value: Any) -> str:
    """``String.valueOf(value)`` for a value of the given schema (None: schemaless). None gives ``null``."""
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
    if isinstance(value, dt.date | dt.time):
        return instant_text(value)
    return str(value)
