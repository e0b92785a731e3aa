"""MySQL's binary JSON, decoded to the text that MySQL prints for it.

A document is a type byte and a value. Objects and arrays have tables of entries, whose offsets count from the container's first
byte; the small format has 16-bit offsets, the large one 32-bit.

Damaged or hostile data costs no more than valid data: containers nest at most 100 levels deep as in MySQL, offsets must be inside
their container, and every byte may be used once (``_Budget``), so that shared offsets cannot multiply the text.
"""

from __future__ import annotations

import base64
import struct
from json.encoder import encode_basestring as quoted

from connectors.mysql.binlog import column_types as types
from connectors.mysql.binlog.decimals import decimal_text, read_decimal
from connectors.mysql.binlog.temporal import date_text, datetime_text, time_from_packed, time_text

MAX_DEPTH = 100
_LITERALS = ("null", "true", "false")
_NUMBERS = {
    5: struct.Struct("<h"), 6: struct.Struct("<H"), 7: struct.Struct("<i"), 8: struct.Struct("<I"), 9: struct.Struct("<q"),
    10: struct.Struct("<Q"),
}  # fmt: skip
_double = struct.Struct("<d").unpack_from
_i64 = struct.Struct("<q").unpack_from
_STRING, _OPAQUE = 0x0C, 0x0F
_EXPONENT_FROM = 15
"""MySQL prints more digits before the point, or zeros after it, as an exponent."""


class _Budget:
    """The bytes that may still be used."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def use(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise ValueError("parts of the JSON document overlap")


def json_text(data: bytes) -> str:
    """Returns the text of a document. Raises IndexError, ValueError, or struct.error if it is damaged.

    MySQL reads a document of no bytes as null.
    """
    if not data:
        return "null"
    return _value(data[0], data, 1, len(data), 0, _Budget(len(data)))


def _value(kind: int, data: bytes, at: int, end: int, depth: int, budget: _Budget) -> str:
    """Returns the text of a value that begins at ``at`` and ends at ``end`` or before."""
    if kind <= 3:
        return _container(kind, data, at, end, depth + 1, budget)
    if kind == _STRING:
        value, _ = _counted(data, at, end, budget)
        return quoted(value.decode())
    if kind == 4:
        return _literal(data[at] if at < end else 255)
    if (number := _NUMBERS.get(kind)) is not None:
        if at + number.size > end:
            raise IndexError(f"JSON number at {at} is not inside its container")
        budget.use(number.size)
        return str(number.unpack_from(data, at)[0])
    if kind == 0x0B:
        if at + 8 > end:
            raise IndexError(f"JSON number at {at} is not inside its container")
        budget.use(8)
        return double_text(_double(data, at)[0])
    if kind == _OPAQUE:
        return _opaque(data, at, end, budget)
    raise ValueError(f"JSON type {kind} is unknown")


def _literal(value: int) -> str:
    if value >= len(_LITERALS):
        raise ValueError(f"JSON literal {value} is unknown")
    return _LITERALS[value]


def _counted(data: bytes, at: int, end: int, budget: _Budget) -> tuple[bytes, int]:
    """Reads bytes after their length, in groups of seven bits."""
    length = shift = 0
    while True:
        if at >= end or shift > 28:
            raise IndexError(f"length expected at {at} of the JSON document")
        byte = data[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if at + length > end:
        raise IndexError(f"{length} bytes expected at {at} of the JSON document")
    budget.use(length + 1)
    return data[at : at + length], at + length


def _container(kind: int, data: bytes, start: int, end: int, depth: int, budget: _Budget) -> str:
    if depth > MAX_DEPTH:
        raise ValueError(f"the JSON document is nested more than {MAX_DEPTH} levels deep")
    large = kind & 1
    width = 4 if large else 2
    if start + 2 * width > end:
        raise IndexError(f"JSON container at {start} has no size")
    count = int.from_bytes(data[start : start + width], "little")
    size = int.from_bytes(data[start + width : start + 2 * width], "little")
    if start + size > end:
        raise IndexError(f"JSON container at {start} has {size} bytes, more than its own container")
    end = start + size
    is_object = kind < 2
    entries = start + 2 * width
    values = entries + (2 + width) * count * is_object
    budget.use(2 * width)
    if values + (1 + width) * count > end:
        raise IndexError(f"JSON container at {start} has {count} members and only {size} bytes")
    budget.use((values - entries) + (1 + width) * count)
    members = _members(data, start, end, values, count, width, depth, budget)
    if not is_object:
        return f"[{', '.join(members)}]"
    keys = _keys(data, start, end, entries, count, width, budget)
    return f"{{{', '.join(map('{}: {}'.format, keys, members))}}}"


def _keys(data: bytes, start: int, end: int, entries: int, count: int, width: int, budget: _Budget) -> list[str]:
    keys = []
    for at in range(entries, entries + (2 + width) * count, 2 + width):
        begin = start + int.from_bytes(data[at : at + width], "little")
        length = data[at + width] | data[at + width + 1] << 8
        if begin + length > end:
            raise IndexError(f"JSON key at {begin} is not inside its object")
        budget.use(length)
        keys.append(quoted(data[begin : begin + length].decode()))
    return keys


def _members(data: bytes, start: int, end: int, values: int, count: int, width: int, depth: int, budget: _Budget) -> list[str]:
    members = []
    for at in range(values, values + (1 + width) * count, 1 + width):
        kind = data[at]
        if kind == 4:
            members.append(_literal(data[at + 1]))
        elif kind in (5, 6) or (width == 4 and kind in (7, 8)):
            members.append(str(_NUMBERS[kind].unpack_from(data, at + 1)[0]))
        else:
            offset = start + int.from_bytes(data[at + 1 : at + 1 + width], "little")
            members.append(_value(kind, data, offset, end, depth, budget))
    return members


def double_text(number: float) -> str:
    """Returns MySQL's text of a double in JSON: the shortest digits, always with a point or an exponent."""
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError(f"JSON has no number {number}")
    text = repr(abs(number))
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = fraction if fraction != "0" else ""
    stripped = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(stripped))  # number = 0.<digits> * 10**point
    digits = stripped.rstrip("0")
    sign = "-" if str(number)[0] == "-" else ""
    if not digits:
        return sign + "0.0"
    if point <= -_EXPONENT_FROM or len(digits) <= point > _EXPONENT_FROM:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{rest}e{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if len(digits) <= point:
        return f"{sign}{digits}{'0' * (point - len(digits))}.0"
    return f"{sign}{digits[:point]}.{digits[point:]}"


def _opaque(data: bytes, at: int, end: int, budget: _Budget) -> str:
    if at >= end:
        raise IndexError(f"opaque JSON value at {at} has no type")
    code = data[at]
    value, _ = _counted(data, at + 1, end, budget)
    if code == types.NEWDECIMAL:
        if len(value) < 2:
            raise IndexError("decimal in JSON has no precision")
        precision, scale = value[0], value[1]
        if not 1 <= precision <= 81 or scale > precision:
            raise ValueError(f"decimal in JSON has precision {precision} and scale {scale}")
        return decimal_text(read_decimal(value, 2, precision, scale, len(value)), scale)
    if code in (types.DATE, types.DATETIME, types.TIMESTAMP, types.TIME):
        if len(value) != 8:
            raise ValueError(f"date or time in JSON has {len(value)} bytes; expected 8")
        return f'"{_temporal_text(code, _i64(value, 0)[0])}"'
    if code == types.VAR_STRING:  # MySQL prints these as strings
        return quoted(value.decode())
    return quoted(f"base64:type{code}:{_base64(value)}")


def _base64(value: bytes) -> str:
    """MySQL breaks the text after each 76 characters."""
    text = base64.b64encode(value).decode()
    return "\n".join(text[i : i + 76] for i in range(0, len(text), 76))


def _temporal_text(code: int, packed: int) -> str:
    if code == types.TIME:
        return time_text(time_from_packed(packed, 24, 1), 6)
    if packed < 0:
        raise ValueError(f"date in JSON is {packed}")
    if code == types.DATE:
        year, month = divmod(packed >> 46, 13)
        return date_text(year << 9 | month << 5 | packed >> 41 & 31)
    return datetime_text(packed, 6)
