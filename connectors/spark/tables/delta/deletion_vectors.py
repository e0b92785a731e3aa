"""Reads and writes Delta's deletion vectors: bitmaps of a data file's deleted rows.

Format: "Deletion Vector Format" of Delta's protocol. A file holds a version byte and any number of vectors, each as length (four
bytes, big-endian), data, and CRC-32 of the data. The data is a 64-bit Roaring bitmap in its portable form.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pyroaring import BitMap

from connect.errors import ConnectError
from connectors.spark.tables.files.row_bitmaps import DamagedVector, Rows, decode_rows_bitmap, encode_rows_bitmap

Descriptor = Mapping[str, Any]
"""A ``deletionVector`` of an action in the log."""

_OLDER_MAGIC = 1681511376
_FORMAT_VERSION = b"\x01"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_Z85_VALUES = {digit: value for value, digit in enumerate(_Z85)}
_UUID_LENGTH = 20


def decode_vector(data: bytes) -> Rows:
    """The row numbers of a vector, sorted. Raises DamagedVector for data in another format."""
    if data[:4] != struct.pack(">i", _OLDER_MAGIC):
        return decode_rows_bitmap(data)
    try:
        return _decode_older(data)
    except (ValueError, struct.error) as e:
        raise DamagedVector(f"a deletion vector is damaged: {e}") from e


def read_vector(content: bytes, descriptor: Descriptor) -> Rows:
    """The rows of a vector in the content of its file. Raises DamagedVector."""
    place = vector_location(descriptor)
    assert place is not None
    _, start, size = place
    data, stored = content[start : start + size], content[start + size : start + size + 4]
    if content[start - 4 : start] != struct.pack(">i", size) or len(stored) < 4 or stored != struct.pack(">I", zlib.crc32(data)):
        raise DamagedVector("a deletion vector is damaged: its size or checksum differs")
    rows = decode_vector(data)
    if len(rows) != descriptor.get("cardinality", len(rows)):
        raise DamagedVector(f"a deletion vector is damaged: it has {len(rows)} rows instead of {descriptor['cardinality']}")
    return rows


def _decode_older(data: bytes) -> Rows:
    """The format before the portable one: count, then size and bitmap for each upper half from 0 on, in big-endian order."""
    (count,) = struct.unpack_from(">i", data, 4)
    at = 8
    parts = [np.empty(0, np.int64)]
    for high in range(count):
        (size,) = struct.unpack_from(">i", data, at)
        bitmap = BitMap.deserialize(data[at + 4 : at + 4 + size])
        parts.append(np.fromiter(bitmap, np.int64, len(bitmap)) + (high << 32))
        at += 4 + size
    return np.concatenate(parts)


def vector_file_name(identity: uuid.UUID) -> str:
    """The name of a file of vectors, relative to the table."""
    return f"deletion_vector_{identity}.bin"


def encode_vector_file(vectors: Sequence[Rows]) -> tuple[bytes, uuid.UUID, list[Descriptor]]:
    """The bytes of a new file with these vectors, its identity, and the descriptor of each vector."""
    identity = uuid.uuid4()
    parts = [_FORMAT_VERSION]
    at = len(_FORMAT_VERSION)
    descriptors: list[Descriptor] = []
    for rows in vectors:
        data = encode_rows_bitmap(rows)
        parts += [struct.pack(">i", len(data)), data, struct.pack(">I", zlib.crc32(data))]
        descriptors.append(
            {
                "storageType": "u",
                "pathOrInlineDv": _encode_z85(identity.bytes),
                "offset": at,
                "sizeInBytes": len(data),
                "cardinality": len(rows),
            }
        )
        at += len(data) + 8
    return b"".join(parts), identity, descriptors


def vector_location(descriptor: Descriptor) -> tuple[str, int, int] | None:
    """File (relative to the table, or absolute), offset of the data, and its size; None for a vector inside the log."""
    kind, text = descriptor["storageType"], descriptor["pathOrInlineDv"]
    start, size = int(descriptor.get("offset") or 0) + 4, int(descriptor["sizeInBytes"])
    if kind == "u":
        prefix, encoded = text[:-_UUID_LENGTH], text[-_UUID_LENGTH:]
        name = vector_file_name(uuid.UUID(bytes=_decode_z85(encoded)))
        return (f"{prefix}/{name}" if prefix else name), start, size
    if kind == "p":
        return text, start, size
    if kind == "i":
        return None
    raise ConnectError(f"a deletion vector has the storage type {kind}, which is not supported")


def inline_vector(descriptor: Descriptor) -> Rows:
    """The rows of a vector inside the log."""
    return decode_vector(_decode_z85(descriptor["pathOrInlineDv"])[: int(descriptor["sizeInBytes"])])


def _encode_z85(data: bytes) -> str:
    digits: list[str] = []
    for (word,) in struct.iter_unpack(">I", data):
        group = []
        for _ in range(5):
            word, digit = divmod(word, 85)
            group.append(_Z85[digit])
        digits += reversed(group)
    return "".join(digits)


def _decode_z85(text: str) -> bytes:
    words = []
    for at in range(0, len(text), 5):
        word = 0
        for digit in text[at : at + 5]:
            word = word * 85 + _Z85_VALUES[digit]
        words.append(struct.pack(">I", word))
    return b"".join(words)
