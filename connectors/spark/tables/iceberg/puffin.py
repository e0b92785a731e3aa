"""Reads and writes Iceberg's deletion vectors: blobs in Puffin files.

Formats: "Puffin Spec", and "deletion-vector-v1 blob type" there. A blob has the length of the data, magic number and bitmap as in
Delta's vectors, and the CRC-32 of both, in big-endian order.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

from connectors.spark.tables.files.row_bitmaps import DamagedVector, Rows, decode_rows_bitmap, encode_rows_bitmap

_MAGIC = b"PFA1"
_ROW_POSITION = 2147483645
"""The reserved field ID of row positions."""


def encode_puffin(vectors: Sequence[tuple[str, Rows]]) -> tuple[bytes, list[tuple[int, int]]]:
    """The bytes of a file with the deleted rows of data files, by path; and of each vector its offset and length."""
    parts, at = [_MAGIC], len(_MAGIC)
    places: list[tuple[int, int]] = []
    blobs: list[dict[str, Any]] = []
    for path, rows in vectors:
        data = encode_rows_bitmap(rows)
        blob = struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        places.append((at, len(blob)))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_ROW_POSITION],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": at,
                "length": len(blob),
                "properties": {"referenced-data-file": path, "cardinality": str(len(rows))},
            }
        )
        parts.append(blob)
        at += len(blob)
    footer = json.dumps({"blobs": blobs, "properties": {"created-by": "Sluice"}}, separators=(",", ":")).encode()
    parts += [_MAGIC, footer, struct.pack("<I", len(footer)), bytes(4), _MAGIC]
    return b"".join(parts), places


def read_vector(content: bytes, offset: int, length: int, cardinality: int) -> Rows:
    """The rows of a vector in the content of its file. Raises DamagedVector."""
    blob = content[offset : offset + length]
    if len(blob) < 8 or len(blob) != length:
        raise DamagedVector("a deletion vector is cut")
    data = blob[4:-4]
    if blob[:4] != struct.pack(">I", len(data)) or blob[-4:] != struct.pack(">I", zlib.crc32(data)):
        raise DamagedVector("a deletion vector is damaged: its size or checksum differs")
    rows = decode_rows_bitmap(data)
    if len(rows) != cardinality:
        raise DamagedVector(f"a deletion vector is damaged: it has {len(rows)} rows instead of {cardinality}")
    return rows
