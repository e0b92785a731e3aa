"""Numbers that remember a narrow width where no schema does.

In schemaless data an ``int`` is a 64-bit integer and a ``float`` a 64-bit float, as everywhere in Connect. Where the original
holds a Byte, Short, Integer or Float without a schema (a header's parsed list, a schemaless Cast), the value is one of these.
They compare, hash and calculate as plain numbers. Under a schema the schema tells the width, and values are plain.
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
    """A 32-bit float without a schema; hold it rounded, see :func:`round_to_float32`."""

    __slots__ = ()


def round_to_float32(value: float) -> float:
    """The nearest 32-bit float, as a Python float; what is too large becomes infinite, as a Java cast does."""
    try:
        rounded: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return rounded


def wrap_integer(value: int, bits: int) -> int:
    """The low bits as a signed integer: what Java's narrowing casts do."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half
