"""Number classes with a width below 64 bits, for data without a schema.

In schemaless data, an ``int`` is a 64-bit integer and a ``float`` a 64-bit float, as everywhere in Connect. Where Apache has a
Byte, Short, Integer, or Float without a schema (a header's parsed list, a schemaless Cast), the value is one of these classes.
They compare, hash, and calculate like plain numbers. With a schema, the schema determines the width, and values are plain.
"""

from __future__ import annotations

import struct

_FLOAT32 = struct.Struct("<f")


class Int8(int):
    """An 8-bit integer without a schema."""

    __slots__ = ()


class Int16(int):
    """A 16-bit integer without a schema."""

    __slots__ = ()


class Int32(int):
    """A 32-bit integer without a schema."""

    __slots__ = ()


class Float32(float):
    """A 32-bit float without a schema; its value must be rounded: see :func:`round_to_float32`."""

    __slots__ = ()


def round_to_float32(value: float) -> float:
    """Returns the nearest 32-bit float as a Python float; too large values become infinite, as with a Java cast."""
    try:
        rounded: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return rounded


def wrap_integer(value: int, bits: int) -> int:
    """Returns the low bits as a signed integer, like Java's narrowing casts."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half
