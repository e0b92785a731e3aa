"""Deletion vectors of both formats, written and read without the sink's code: the specifications' bytes by pyroaring."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Collection, Mapping
from typing import Any

from pyroaring import BitMap64

_MAGIC = struct.pack("<I", 1681511377)
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def encode(rows: Collection[int]) -> bytes:
    """Length, magic number, bitmap, and checksum: a vector in a file of Delta, and a blob in a Puffin file."""
    data = _MAGIC + bytes(BitMap64(rows).serialize())
    return struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))


def decode(blob: bytes) -> frozenset[int]:
    """The rows of such a vector."""
    (size,) = struct.unpack(">I", blob[:4])
    data, checksum = blob[4 : 4 + size], blob[4 + size : 8 + size]
    assert data[:4] == _MAGIC
    assert checksum == struct.pack(">I", zlib.crc32(data))
    return frozenset(BitMap64.deserialize(data[4:]))


def delta_file(descriptor: Mapping[str, Any]) -> str:
    """The name of the file that has a vector of Delta, relative to the table; its text is a UUID in Z85."""
    text = str(descriptor["pathOrInlineDv"])
    if descriptor["storageType"] == "p":
        return text.rpartition("/")[2]
    number = b""
    for at in range(0, 20, 5):
        value = 0
        for digit in text[-20:][at : at + 5]:
            value = value * 85 + _DIGITS.index(digit)
        number += struct.pack(">I", value)
    return f"deletion_vector_{uuid.UUID(bytes=number)}.bin"
