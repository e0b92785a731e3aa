"""Checksums of rows, and of buckets of rows.

Rows are divided into buckets by a hash of their key, so neither side needs to be sorted, and the order of keys need not be the
same in both systems. The checksum of a bucket is the sum of the hashes of its rows, which does not depend on their order.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np

from sluice.verify.canonical import Form

Hashes = np.ndarray[Any, np.dtype[np.uint64]]

_ROWS_PER_BUCKET = 16
_LEAST_BUCKETS, _MOST_BUCKETS = 1 << 10, 1 << 20
# Format 0 has one encoding per value; later ones write references to equal objects.
_FORMAT = 0


def hash_rows(columns: Sequence[Sequence[Form]]) -> Hashes:
    """Returns a hash of 64 bits per row: that of Python's bytes, whose key differs by process, so only this process can compare
    them."""
    encoded = map(marshal.dumps, zip(*columns, strict=True), repeat(_FORMAT))
    return np.fromiter(map(hash, encoded), np.int64, len(columns[0])).view(np.uint64)


def bucket_count(rows: int) -> int:
    """Returns a power of two, so that differences of a few rows concern a few buckets."""
    wanted = max(_LEAST_BUCKETS, rows // _ROWS_PER_BUCKET)
    return min(_MOST_BUCKETS, 1 << (wanted - 1).bit_length())


@dataclass(slots=True)
class BucketSums:
    """Number and checksum of the rows of one side, by bucket."""

    buckets: int
    counts: np.ndarray[Any, np.dtype[np.int64]] = field(init=False)
    sums: Hashes = field(init=False)

    def __post_init__(self) -> None:
        self.counts = np.zeros(self.buckets, np.int64)
        self.sums = np.zeros(self.buckets, np.uint64)

    def add(self, keys: Hashes, rows: Hashes) -> None:
        """Adds rows with these hashes of their keys and of all their columns."""
        places = self.places(keys)
        np.add.at(self.counts, places, 1)
        np.add.at(self.sums, places, rows)

    def places(self, keys: Hashes) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Returns the bucket of each row."""
        return (keys & np.uint64(self.buckets - 1)).astype(np.int64)

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    def differing(self, other: BucketSums) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Returns which buckets differ."""
        found: np.ndarray[Any, np.dtype[np.bool_]] = (self.counts != other.counts) | (self.sums != other.sums)
        return found
