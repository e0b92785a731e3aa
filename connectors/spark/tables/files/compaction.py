"""Merges small data files, and files with many deleted rows, into larger ones.

Rows that are deleted while the new file is written become its deletion vector, so compaction never loses a race against the
commits of the sink, which Spark's OPTIMIZE would on a table with a commit per second.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from connectors.spark.plan.evolution import Columns
from connectors.spark.tables.files.file_reader import read_file
from connectors.spark.tables.files.key_encoding import encode_rows
from connectors.spark.tables.files.key_index import EncodedKeys, Mask
from connectors.spark.tables.files.live_files import Entry, LiveFile, LiveFiles
from connectors.spark.tables.files.row_bitmaps import Rows

WriteFile = Callable[[Iterator[pa.Table]], Entry | None]
"""Writes batches into one file; None, and no file, when they have no rows."""

Complete = Callable[[LiveFile, int, pa.Table], pa.Table]
"""Completes rows of a file, from the row with this number on."""

_DELETED_SHARE = 0.1
_TIER_FACTOR = 8
_BATCH_ROWS = 64 * 1024


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """When files are merged: ``min_files`` of about the same size, or enough for one of ``target_bytes``. Without ``min_files``,
    none are."""

    target_bytes: int = 128 << 20
    min_files: int = 20


@dataclass(frozen=True, slots=True)
class Source:
    """A file to merge, as it was when compaction began."""

    file: LiveFile
    deleted: Mask | None


@dataclass(frozen=True, slots=True)
class MergedFile:
    """The new file. ``rows`` has by source file the new row number of each of its rows; -1 for rows that are left out."""

    entry: Entry | None
    """None when no row was left."""
    sources: Sequence[Source]
    rows: Mapping[int, Rows]
    count: int
    keys: EncodedKeys | None
    has_key: Mask | None

    def deleted_since(self) -> Rows:
        """Rows of the new file whose source rows have been deleted since compaction began, sorted."""
        found = [np.empty(0, np.int64)]
        for source in self.sources:
            now = source.file.deleted
            if now is None:
                continue
            rows = self.rows[source.file.number]
            gone = np.flatnonzero(now[: len(rows)])
            found.append(rows[gone][rows[gone] >= 0])
        return np.sort(np.concatenate(found))


def choose_sources(files: Sequence[LiveFile], settings: CompactionSettings) -> list[Source]:
    """The files of one compaction, which make at most one file of the target size; none when there is nothing to do."""
    if not settings.min_files:
        return []
    small: dict[tuple[int, Hashable], list[LiveFile]] = defaultdict(list)
    for file in files:
        if file.rows < 0 or file.is_clustered:
            continue
        share = file.deleted_count / file.rows if file.rows else 1.0
        if share > _DELETED_SHARE and file.size_bytes >= settings.target_bytes // 2:
            return [_source(file)]
        if file.size_bytes < settings.target_bytes // 2:
            # Files of about the same size, so that a row is rewritten a few times only, however many commits there are.
            tier = int(math.log(max(file.size_bytes, 1024), _TIER_FACTOR))
            small[tier, file.partition].append(file)
    for _, candidates in sorted(small.items(), key=lambda item: item[0][0]):
        chosen, size = [], 0
        for file in sorted(candidates, key=lambda f: f.created):
            if size + file.size_bytes > settings.target_bytes:
                break
            chosen.append(file)
            size += file.size_bytes
        if len(chosen) >= settings.min_files or size > settings.target_bytes * 3 // 4:
            return [_source(file) for file in chosen]
    return []


def _source(file: LiveFile) -> Source:
    return Source(file, None if file.deleted is None else file.deleted.copy())


def merge_files(
    live: LiveFiles,
    sources: Sequence[Source],
    columns: Columns,
    keys: Mapping[str, pa.DataType],
    write: WriteFile,
    complete: Complete | None = None,
) -> MergedFile:
    """Writes the rows of the sources, which are in one partition, into one new file. ``keys`` are the key columns of an index,
    or empty. ``write`` writes batches with these columns, as ``complete`` returns them."""
    rows: dict[int, Rows] = {}
    encoded: list[EncodedKeys] = []
    valid: list[Mask] = []
    count = 0

    def batches() -> Iterator[pa.Table]:
        nonlocal count
        for source in sources:
            numbers = np.full(source.file.rows, -1, np.int64)
            for first, batch in read_file(live, source.file, columns, _BATCH_ROWS):
                if complete is not None:
                    batch = complete(source.file, first, batch)
                kept = np.arange(batch.num_rows)
                if source.deleted is not None:
                    kept = np.flatnonzero(~source.deleted[first : first + batch.num_rows])
                    batch = batch.take(pa.array(kept))
                numbers[first + kept] = count + np.arange(len(kept))
                count += len(kept)
                if keys and batch.num_rows:
                    found, has_key = encode_rows(batch, keys)
                    encoded.append(found)
                    valid.append(has_key)
                yield batch
            rows[source.file.number] = numbers

    entry = write(batches())
    return MergedFile(entry, sources, rows, count, _concatenate(encoded), np.concatenate(valid) if valid else None)


def _concatenate(parts: Sequence[EncodedKeys]) -> EncodedKeys | None:
    if not parts:
        return None
    high = np.concatenate([p.high for p in parts])
    lows = [p.low for p in parts if p.low is not None]
    return EncodedKeys(high, np.concatenate(lows) if lows else None)
