"""Checksums of rows, and of buckets of rows.

Rows are divided into buckets by a hash of their key, so neither side needs to be sorted, and the order of keys need not be the
same in both systems. The checksum of a bucket is the sum of the hashes of its rows, which does not depend on their order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sluice.verify.canonical import Form

Hashes = np.ndarray[Any, np.dtype[np.uint64]]

_ROWS_PER_BUCKET = 16
_LEAST_BUCKETS, _MOST_BUCKETS = 1 << 10, 1 << 20
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
# Random by process, as the key of Python's hashes of texts: nobody can choose rows with equal hashes.
_INTEGERS, _START, _NULL = (np.uint64(random.SystemRandom().getrandbits(64)) for _ in range(3))
# The finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators). Maps 64 bits one to one.
_STEPS = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))
_LAST_SHIFT = np.uint64(31)


def _mix(values: Hashes) -> Hashes:
    """Mixes the bits of values, in place."""
    for shift, factor in _STEPS:
        values ^= values >> np.uint64(shift)
        values *= factor
    values ^= values >> _LAST_SHIFT
    return values


def hash_integers(values: np.ndarray[Any, np.dtype[np.int64]]) -> Hashes:
    """Returns the hashes of forms that are integers of 64 bits."""
    return _mix(values.astype(np.int64, copy=False).view(np.uint64) ^ _INTEGERS)


def hash_texts(values: Sequence[Any]) -> Hashes:
    """Returns the hashes of forms that are texts: those of Python, whose key differs by process. Nulls get any hash."""
    return np.fromiter(map(hash, values), np.int64, len(values)).view(np.uint64)


def hash_nulls(hashes: Hashes, is_null: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
    """Sets the hashes of nulls."""
    hashes[is_null] = _NULL


def hash_forms(forms: Sequence[Form]) -> Hashes:
    """Returns a hash of 64 bits per form. Only this process can compare them."""
    hashes = hash_texts(forms)
    integers, nulls = [], []
    for place, form in enumerate(forms):
        if form is None:
            nulls.append(place)
        elif form.__class__ is not str:
            integers.append(place)
    if nulls:
        hashes[nulls] = _NULL
    if integers:
        hashes[integers] = _hash_integer_forms([forms[place] for place in integers])
    return hashes


def _hash_integer_forms(forms: Sequence[Any]) -> Hashes:
    try:
        return hash_integers(np.array(forms, np.int64))
    except OverflowError:
        return np.concatenate(
            [
                hash_integers(np.array([form], np.int64)) if _INT64_MIN <= form <= _INT64_MAX else hash_texts([f"\0long:{form}"])
                for form in forms
            ]
        )


def combine(columns: Sequence[Hashes]) -> Hashes:
    """Returns the hashes of rows from those of their columns. Their order counts."""
    found = np.full(len(columns[0]), _START, np.uint64)
    for hashes in columns:
        found ^= hashes
        _mix(found)
    return found


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
