"""Finds the rows of a table that have given keys: an index from merge key to data file and row.

The index is a cache of the table, held by one task. It only grows: entries of rows that no longer exist are dropped when runs are
merged, and readers check each match against the live files (:mod:`connectors.spark.tables.files.live_files`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

Keys64 = np.ndarray[Any, np.dtype[np.uint64]]
Ints32 = np.ndarray[Any, np.dtype[np.int32]]
Ints64 = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
IsLive = Callable[[Ints32, Ints32], Mask]

_MAPPED_KEYS = 1 << 20
"""Runs of at least this many keys are mapped from a file, so that the system may drop them from memory."""
_GROWTH = 4


@dataclass(frozen=True, slots=True)
class EncodedKeys:
    """Keys as numbers: exactly in ``high`` alone, or as 128-bit hashes in ``high`` and ``low``."""

    high: Keys64
    low: Keys64 | None

    def __len__(self) -> int:
        return len(self.high)

    def take(self, index: Ints64) -> EncodedKeys:
        return EncodedKeys(self.high[index], None if self.low is None else self.low[index])


@dataclass(frozen=True, slots=True)
class Matches:
    """Rows of the table with a searched key, one by one: position of the key in the search, data file, and row in the file."""

    keys: Ints64
    files: Ints32
    rows: Ints32

    @classmethod
    def empty(cls) -> Matches:
        return cls(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))

    def without(self, others: Matches) -> Matches:
        """Without rows that the others have too."""
        gone = set(zip(others.files.tolist(), others.rows.tolist(), strict=True))
        places = zip(self.files.tolist(), self.rows.tolist(), strict=True)
        return self.filter(np.array([place not in gone for place in places], bool))

    def filter(self, mask: Mask) -> Matches:
        return Matches(self.keys[mask], self.files[mask], self.rows[mask])


@dataclass(frozen=True, slots=True)
class Entries:
    """Keys with their files and rows, one by one."""

    keys: EncodedKeys
    files: Ints32
    rows: Ints32


@dataclass(frozen=True, slots=True)
class Run:
    """Entries sorted by ``high``."""

    high: Keys64
    low: Keys64 | None
    files: Ints32
    rows: Ints32

    def find(self, keys: EncodedKeys) -> Matches:
        first = np.searchsorted(self.high, keys.high, "left")
        counts = np.searchsorted(self.high, keys.high, "right") - first
        hit = np.flatnonzero(counts)
        counts = counts[hit]
        at = np.repeat(first[hit], counts)
        if len(at) != len(hit):  # several entries of one key
            at += np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
        found = np.repeat(hit, counts)
        if self.low is not None:
            assert keys.low is not None
            same = self.low[at] == keys.low[found]
            at, found = at[same], found[same]
        return Matches(found.astype(np.int64), self.files[at], self.rows[at])


class KeyIndex:
    """Maps keys to files and rows. Not thread-safe."""

    def __init__(self, is_live: IsLive) -> None:
        self._is_live = is_live
        self._runs: list[Run] = []

    def __len__(self) -> int:
        """The number of entries, including those of rows that no longer exist."""
        return sum(len(run.high) for run in self._runs)

    @property
    def size_bytes(self) -> int:
        """The size of all entries, in memory or mapped."""
        return sum(len(run.high) * (16 if run.low is None else 24) for run in self._runs)

    def add(self, keys: EncodedKeys, files: Ints32, rows: Ints32) -> None:
        """Adds the keys of rows in files."""
        self.swap(self.plan([Entries(keys, files, rows)]))

    def plan(self, more: Iterable[Entries]) -> list[Run]:
        """The runs of the index with further entries, for :meth:`swap`; until then the index is as it was."""
        runs = list(self._runs)
        for entries in more:
            if not len(entries.keys):
                continue
            runs.append(_sorted_run(entries.keys.high, entries.keys.low, entries.files, entries.rows))
            while len(runs) > 1 and len(runs[-2].high) < _GROWTH * len(runs[-1].high):
                newer, older = runs.pop(), runs.pop()
                runs.append(self._merge(older, newer))
        return runs

    def swap(self, runs: list[Run]) -> None:
        self._runs = runs

    def find(self, keys: EncodedKeys) -> Matches:
        """The live rows of these keys."""
        order = np.argsort(keys.high, kind="stable")  # neighbors share cache lines
        sorted_keys = keys.take(order)
        found = [Matches.empty(), *(run.find(sorted_keys) for run in self._runs)]
        whole = Matches(
            order[np.concatenate([m.keys for m in found])],
            np.concatenate([m.files for m in found]),
            np.concatenate([m.rows for m in found]),
        )
        return whole.filter(self._is_live(whole.files, whole.rows))

    def _merge(self, older: Run, newer: Run) -> Run:
        files = np.concatenate([older.files, newer.files])
        rows = np.concatenate([older.rows, newer.rows])
        high = np.concatenate([older.high, newer.high])
        low = None if older.low is None or newer.low is None else np.concatenate([older.low, newer.low])
        live = self._is_live(files, rows)
        if not live.all():
            files, rows, high = files[live], rows[live], high[live]
            low = None if low is None else low[live]
        return _sorted_run(high, low, files, rows)


def _sorted_run(high: Keys64, low: Keys64 | None, files: Ints32, rows: Ints32) -> Run:
    order = np.argsort(high, kind="stable")  # linear for runs that are sorted already
    keep = _map if len(high) >= _MAPPED_KEYS else np.asarray
    return Run(keep(high[order]), None if low is None else keep(low[order]), keep(files[order]), keep(rows[order]))


def _map(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values, mapped from a file without a name, which disappears with the process."""
    with tempfile.TemporaryFile(prefix="sluice-index-") as file:
        values.tofile(file)
        file.flush()
        return np.memmap(file, values.dtype, "r")
