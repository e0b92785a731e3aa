"""Integers and strings of the binary log's formats. Functions return the value and the position after it.

They raise IndexError or ValueError for truncated data; the decoder turns these into errors that say where.
"""

from __future__ import annotations

import struct

u16 = struct.Struct("<H").unpack_from
u32 = struct.Struct("<I").unpack_from
u64 = struct.Struct("<Q").unpack_from
i64 = struct.Struct("<q").unpack_from

_WIDTHS = {252: 2, 253: 3, 254: 8}


def packed_int(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Reads a length-encoded integer of the MySQL protocol."""
    if at >= end:
        raise IndexError(f"integer expected at {at}")
    first = data[at]
    if first < 251:
        return first, at + 1
    width = _WIDTHS.get(first)
    if width is None:
        raise ValueError(f"no length-encoded integer begins with {first}, at {at}")
    stop = at + 1 + width
    if stop > end:
        raise IndexError(f"{width} bytes expected at {at + 1}")
    return int.from_bytes(data[at + 1 : stop], "little"), stop


def take(data: bytes, at: int, length: int, end: int) -> tuple[bytes, int]:
    """Returns ``length`` bytes."""
    stop = at + length
    if stop > end:
        raise IndexError(f"{length} bytes expected at {at}, {max(end - at, 0)} found")
    return data[at:stop], stop


def packed_bytes(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    """Reads bytes after their length-encoded length."""
    length, at = packed_int(data, at, end)
    return take(data, at, length, end)


def short_bytes(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    """Reads bytes after their length in one byte."""
    if at >= end:
        raise IndexError(f"length expected at {at}")
    return take(data, at + 1, data[at], end)


def unsigned_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Reads a variable-length integer of MySQL's serialization library: the trailing ones of the first byte count the others."""
    if at >= end:
        raise IndexError(f"variable-length integer expected at {at}")
    first = data[at]
    width = 9 if first == 0xFF else (~first & (first + 1)).bit_length()
    stop = at + width
    if stop > end:
        raise IndexError(f"{width} bytes expected at {at}")
    if width == 9:
        return int.from_bytes(data[at + 1 : stop], "little"), stop
    return int.from_bytes(data[at:stop], "little") >> width, stop


def signed_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Reads a signed variable-length integer: the lowest bit is the sign."""
    number, at = unsigned_varint(data, at, end)
    return ~(number >> 1) if number & 1 else number >> 1, at
