"""Compares all rows of a table with those of a snapshot of the source, and finds the keys whose rows differ.

The first pass sums up checksums of buckets, in constant memory. The second reads only the rows of buckets that differ, a bounded
number at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from connect.verification import Key, SourceSnapshot
from sluice.verify.hashed_rows import HashedRows, RowHasher
from sluice.verify.row_hashes import BucketSums, bucket_count
from sluice.verify.table_rows import FormKey, TableReader

MOST_CANDIDATES = 200_000
"""More rows than that are not examined one by one."""
_MOST_COLLECTED = 400_000
"""Rows that are in memory at once."""

Advance = Callable[[int], None]
"""Takes the number of rows that were read since its last call."""


@dataclass(slots=True)
class Candidates:
    """Keys whose rows may differ, with the key of the source as far as it is known."""

    keys: dict[FormKey, tuple[str, Key] | None] = field(default_factory=dict)
    """By key: source table and key; None for rows that only the target has."""
    rows: int = 0
    """Rows of the source that were compared."""
    is_truncated: bool = False


@dataclass(slots=True)
class _Collected:
    rows: dict[FormKey, tuple[Any, int]] = field(default_factory=dict)
    """By key: the row, and how many rows have the key."""
    sources: dict[FormKey, tuple[str, Key]] = field(default_factory=dict)


def find_candidates(reader: TableReader, snapshot: SourceSnapshot, estimated_rows: int, advance: Advance) -> Candidates:
    """Reads both sides completely; buckets that differ, twice."""
    buckets = bucket_count(estimated_rows)
    hasher = RowHasher(reader)
    expected = _sum(hasher.expected(snapshot), buckets, advance)
    actual = _sum(hasher.actual(), buckets, advance)
    differing = expected.differing(actual)
    found = Candidates(rows=expected.rows)
    for part in _parts(differing, expected.counts + actual.counts):
        if len(found.keys) >= MOST_CANDIDATES:
            found.is_truncated = True
            break
        left = _collect(reader, hasher.expected(snapshot, only_keys=True), expected, part)
        right = _collect(reader, hasher.actual(only_keys=True), actual, part)
        for key in left.rows.keys() | right.rows.keys():
            if left.rows.get(key) != right.rows.get(key):
                found.keys[key] = left.sources.get(key)
    return found


def _sum(batches: Iterable[HashedRows], buckets: int, advance: Advance) -> BucketSums:
    sums = BucketSums(buckets)
    for rows in batches:
        sums.add(rows.keys, rows.rows)
        advance(len(rows.keys))
    return sums


def _parts(differing: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]) -> Iterable[np.ndarray[Any, Any]]:
    """Divides the buckets that differ, so that each part has a bounded number of rows."""
    places = np.flatnonzero(differing)
    if not len(places):
        return
    parts = np.cumsum(counts[places]) // _MOST_COLLECTED
    for number in np.unique(parts):
        mask = np.zeros(len(differing), np.bool_)
        mask[places[parts == number]] = True
        yield mask


def _collect(
    reader: TableReader, batches: Iterable[HashedRows], sums: BucketSums, wanted: np.ndarray[Any, np.dtype[np.bool_]]
) -> _Collected:
    found = _Collected()
    size = reader.plan.key_size
    for batch in batches:
        chosen: list[int] = np.flatnonzero(wanted[sums.places(batch.keys)]).tolist()
        for rows in batch.select(chosen) if chosen else ():
            for place, row in enumerate(zip(*rows.forms, strict=True)):
                key = row[:size]
                known = found.rows.get(key)
                found.rows[key] = row, 1 if known is None else known[1] + 1
                if rows.source_keys:
                    found.sources[key] = rows.source_table, rows.source_keys[place]
    return found
