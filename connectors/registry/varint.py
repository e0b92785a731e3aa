"""Zigzag varints (sign in the lowest bit, seven bits per byte), as in Avro data and in Protobuf message paths."""

from __future__ import annotations

from connect.errors import DataError


def write_long(value: int) -> bytes:
    """Encodes a 64-bit number."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """Reads a number; returns it with its end. Raises DataError beyond 64 bits, IndexError if the data ends too early."""
    first = data[at]
    at += 1
    if first > 127:
        first, at = read_long(data, at, first)
    return (first >> 1) ^ -(first & 1), at


def read_long(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Reads the rest of a multi-byte number, still in zigzag encoding. Raises DataError."""
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
    """Like :func:`read_long`, for 32 bits."""
    value, at = read_long(data, at, first)
    if value > 0xFFFFFFFF:
        raise DataError("a number of more than 32 bits")
    return value, at
