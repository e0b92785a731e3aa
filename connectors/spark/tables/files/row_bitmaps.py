"""Sets of row numbers as 64-bit Roaring bitmaps in their portable form: the data of deletion vectors in Delta and Iceberg."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from pyroaring import BitMap, BitMap64

from connect.errors import ConnectError

Rows = np.ndarray[Any, np.dtype[np.int64]]

MAGIC = struct.pack("<i", 1681511377)
"""What the data of a deletion vector begins with, in both formats."""


class DamagedVector(ConnectError):
    """A deletion vector is cut, or its bits have changed."""


def encode_rows_bitmap(rows: Rows) -> bytes:
    """Magic number and bitmap of these row numbers (sorted, each below 2**32)."""
    bitmap = BitMap(rows.astype(np.uint32))
    bitmap.run_optimize()
    # A 64-bit bitmap is a list of 32-bit bitmaps by their upper half; a data file has fewer than 2**32 rows.
    return MAGIC + struct.pack("<qI", 1, 0) + bytes(bitmap.serialize())


def decode_rows_bitmap(data: bytes) -> Rows:
    """The row numbers, sorted. Raises DamagedVector for data in another format."""
    if data[:4] != MAGIC:
        raise DamagedVector("a deletion vector is damaged, or has a format that is not supported")
    try:
        bitmap = BitMap64.deserialize(data[4:])
        return np.fromiter(bitmap, np.int64, len(bitmap))
    except ValueError as e:
        raise DamagedVector(f"a deletion vector is damaged: {e}") from e
