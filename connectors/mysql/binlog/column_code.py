"""How generated row decoders read a column of each type."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from connectors.mysql.binlog import column_types as types
from connectors.mysql.binlog.column_types import WireColumn
from connectors.mysql.binlog.compression import decompress_column
from connectors.mysql.binlog.decimals import decimal_groups
from connectors.mysql.binlog.json_binary import json_text
from connectors.mysql.binlog.temporal import (
    datetime_from_digits,
    datetime_from_hires,
    time_from_digits,
    time_from_hires,
    time_from_packed,
)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "datetime_from_digits": datetime_from_digits,
    "datetime_from_hires": datetime_from_hires,
    "decompress": decompress_column,
    "json_text": json_text,
    "time_from_digits": time_from_digits,
    "time_from_hires": time_from_hires,
    "time_from_packed": time_from_packed,
}
"""What the expressions call."""

_INTEGER_CODES = {
    types.TINY: ("b", "B"),
    types.SHORT: ("h", "H"),
    types.LONG: ("i", "I"),
    types.LONGLONG: ("q", "Q"),
}
_BIG = {1: ("B",), 2: ("H",), 3: ("B", "H"), 4: ("I",), 5: ("B", "I"), 6: ("H", "I"), 7: ("B", "H", "I"), 8: ("Q",)}
_LITTLE = {size: codes[::-1] for size, codes in _BIG.items()}
_HIRES_SIZES = {
    types.TIMESTAMP: (4, 5, 5, 6, 6, 7, 7),
    types.DATETIME: (8, 6, 6, 7, 7, 7, 8),
    types.TIME: (3, 4, 4, 5, 5, 5, 6),
}
_FRACTION_SCALES = (1, 10_000, 10_000, 100, 100, 1, 1)
"""Microseconds of the unit of a fraction with this number of digits, which takes 0 to 3 bytes."""


@dataclass(frozen=True, slots=True)
class FixedCode:
    """A value of fixed size. ``codes`` are struct codes of its parts; ``expression`` has ``{0}``, ``{1}``, ... for them.

    ``order`` is the byte order: ``<``, ``>``, or empty if there is only one byte.
    """

    order: str
    codes: tuple[str, ...]
    expression: str = "{0}"

    @property
    def size(self) -> int:
        return struct.calcsize("<" + "".join(self.codes))


@dataclass(frozen=True, slots=True)
class VariableCode:
    """A value after its length; ``expression`` has ``{0}`` for its bytes."""

    length_bytes: int
    expression: str = "{0}"

    @property
    def length_code(self) -> FixedCode:
        return _little(self.length_bytes)


def column_code(column: WireColumn, *, unsigned: bool, fraction_digits: int | None) -> FixedCode | VariableCode:
    """Returns how to read a column. Raises ValueError for types that have no rows since MySQL 5.0.

    ``fraction_digits`` matter for types whose precision TABLE_MAP does not tell; None means none.
    """
    code = column.type_code
    if column.length_bytes:
        if code in types.COMPRESSED:
            return VariableCode(column.length_bytes, "decompress({0})")
        return VariableCode(column.length_bytes, "json_text({0})" if code in (types.JSON, types.TYPED_ARRAY) else "{0}")
    if code in _INTEGER_CODES:
        letter = _INTEGER_CODES[code][unsigned]
        return FixedCode("" if code == types.TINY else "<", (letter,))
    if code == types.INT24:
        return FixedCode("<", ("H", "B" if unsigned else "b"), "{0} | {1} << 16")
    if code == types.YEAR:
        return FixedCode("", ("B",), "{0} and {0} + 1900")
    if code in (types.FLOAT, types.DOUBLE):
        return FixedCode("<", ("f" if code == types.FLOAT else "d",))
    if code == types.NEWDECIMAL:
        return _decimal(column.precision, column.scale or 0)
    if code in (types.ENUM, types.SET):
        return _little(column.size)
    if code == types.BIT:
        return _big(column.size)
    if code in (types.DATE, types.NEWDATE):
        return FixedCode("<", ("H", "B"), "{0} | {1} << 16")
    if code in (types.DATETIME2, types.TIMESTAMP2, types.TIME2):
        return _temporal(code, column.scale or 0)
    if code in _HIRES_SIZES:
        return _old_temporal(code, fraction_digits or 0)
    raise ValueError(f"values of type {column.type_name} cannot be in rows")


def _joined(codes: tuple[str, ...], order: str, first: int = 0) -> str:
    """Returns the expression of one integer in these parts."""
    parts = []
    shift = 0
    for i, code in reversed(list(enumerate(codes, first))) if order == ">" else enumerate(codes, first):
        parts.append(f"{{{i}}} << {shift}" if shift else f"{{{i}}}")
        shift += struct.calcsize("<" + code) * 8
    return " | ".join(parts)


def _little(size: int) -> FixedCode:
    codes = _LITTLE[size]
    return FixedCode("" if size == 1 else "<", codes, _joined(codes, "<"))


def _big(size: int) -> FixedCode:
    codes = _BIG[size]
    return FixedCode("" if size == 1 else ">", codes, _joined(codes, ">"))


def _temporal(code: int, digits: int) -> FixedCode:
    """The types of MySQL 5.6: big-endian, with the fraction in bytes of their own."""
    fraction_bytes = (digits + 1) // 2
    scale = _FRACTION_SCALES[digits]
    if code == types.TIME2:
        codes = _BIG[3 + fraction_bytes]
        zero = 0x800000 << 8 * fraction_bytes
        return FixedCode(">", codes, f"time_from_packed(({_joined(codes, '>')}) - {zero}, {8 * fraction_bytes}, {scale})")
    whole_codes = _BIG[4 if code == types.TIMESTAMP2 else 5]
    fraction_codes = _BIG[fraction_bytes] if fraction_bytes else ()
    whole = _joined(whole_codes, ">")
    if code == types.TIMESTAMP2:
        expression = f"({whole}) * 1000000"
    else:
        expression = f"(({whole}) - {0x80_0000_0000} << 24)"
    if fraction_codes:
        fraction = _joined(fraction_codes, ">", len(whole_codes))
        expression += f" + ({fraction})" + (f" * {scale}" if scale > 1 else "")
    return FixedCode(">", whole_codes + fraction_codes, expression)


def _old_temporal(code: int, digits: int) -> FixedCode:
    """The types before MySQL 5.6, and MariaDB's with fractions (mysql56_temporal_format=OFF)."""
    size = _HIRES_SIZES[code][digits]
    if digits == 0:
        if code == types.TIMESTAMP:
            return FixedCode("<", ("I",), "{0} * 1000000")
        if code == types.DATETIME:
            return FixedCode("<", ("Q",), "datetime_from_digits({0})")
        return FixedCode("<", ("H", "b"), "time_from_digits({0} | {1} << 16)")
    codes = _BIG[size]
    if code == types.TIMESTAMP:
        codes = ("I", *_BIG[size - 4])
        return FixedCode(">", codes, f"{{0}} * 1000000 + ({_joined(codes[1:], '>', 1)}) * {10 ** (6 - digits)}")
    function = "datetime_from_hires" if code == types.DATETIME else "time_from_hires"
    return FixedCode(">", codes, f"{function}({_joined(codes, '>')}, {digits})")


def _decimal(precision: int, scale: int) -> FixedCode:
    """The unscaled integer. The first bit is set for positive numbers; all others of negative ones are inverted."""
    codes: list[str] = []
    plus, minus = "", ""
    for digits, width in decimal_groups(precision, scale):
        first = len(codes)
        parts = _BIG[width]
        codes += parts
        group = _joined(parts, ">", first)
        top = 1 << (width * 8 - 1)
        ones = (top << 1) - 1
        if first == 0:
            # A whole number of groups before the point may be none: then the sign is in the first group after it.
            plus = f"(({group}) ^ {top})"
            minus = f"(({group}) ^ {top - 1})"
        else:
            plus = f"({plus} * {10**digits} + ({group}))"
            minus = f"({minus} * {10**digits} + (({group}) ^ {ones}))"
    sign_bit = struct.calcsize("<" + codes[0]) * 8 - 1
    positive = f"{{0}} >= {1 << sign_bit}"
    return FixedCode("" if codes == ["B"] else ">", tuple(codes), f"{plus} if {positive} else -{minus}")
