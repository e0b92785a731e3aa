"""Whole numbers of varying length: the sign folded into the lowest bit, seven bits a byte. Avro's, and those of message paths."""

from __future__ import annotations

from connect.errors import DataError


def write_long(value: int) -> bytes:
    """The bytes of a number of 64 bits."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends. Raises DataError for one beyond 64 bits, IndexError when the data ends before it."""
    first = data[at]
    at += 1
    if first > 127:
        first, at = read_long(data, at, first)
    return (first >> 1) ^ -(first & 1), at


def read_long(data: bytes, at: int, first: int) -> tuple[int, int]:
    """The rest of a number whose first byte had more to come: as it stands, before its sign is unfolded. Raises DataError."""
    value = first & 0x7F
    shift = 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFFFFFFFFFF:
                raise DataError("a number of more than 64 bits")
            return value, at
        shift += 7
        if shift > 63:
            raise DataError("a number of more than 64 bits")


def read_int(data: bytes, at: int, first: int) -> tuple[int, int]:
    """As :func:`read_long`, for a number of 32 bits."""
    value, at = read_long(data, at, first)
    if value > 0xFFFFFFFF:
        raise DataError("a number of more than 32 bits")
    return value, at
