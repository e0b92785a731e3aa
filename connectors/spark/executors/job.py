"""A job for Spark's executors: what they read and need to know, and what they return."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from connect.record import TopicPartition
from connect.sink import FailedRead, OffsetRange, RangeReader, RawRecord
from connectors.spark.config import SparkSinkConfig
from connectors.spark.decode.change_batch import SEQUENCE, ChangeBatch
from connectors.spark.delivery.table_router import RouterKnowledge
from connectors.spark.delivery.topic_decoders import TopicContents
from connectors.spark.plan.evolution import Columns
from connectors.spark.tables.executor_files import Entry, WriteTarget

_LEAST_RECORDS = 10_000
"""Of a range: below that, starting to read costs more than it saves."""
_MOST_RECORDS = 500_000
"""Of a range, so that a task of Spark that fails repeats little."""


@dataclass(frozen=True, slots=True)
class RangeJob:
    """Reads ranges and writes their rows for tables as ``targets`` describe them. Travels as task data, because it has secrets
    (promise 9)."""

    config: SparkSinkConfig = field(repr=False)
    reader: RangeReader = field(repr=False)
    ranges: Sequence[OffsetRange]
    targets: Mapping[str, WriteTarget] = field(repr=False)
    knowledge: RouterKnowledge
    contents: TopicContents


def plan_ranges(
    positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], max_records: int, parallelism: int
) -> list[OffsetRange]:
    """Contiguous ranges from each position on, at most ``max_records`` in all, ordered by partition and offset.

    All partitions advance by the same share of their lag. Offsets count as records, though some have none.
    """
    lags = {tp: ends[tp] - first for tp, first in sorted(positions.items()) if ends.get(tp, 0) > first}
    total = sum(lags.values())
    if not total:
        return []
    chosen = min(total, max_records)
    size = min(_MOST_RECORDS, max(_LEAST_RECORDS, -(-chosen // max(1, parallelism))))
    found = []
    left = chosen
    for tp, lag in lags.items():
        count = min(lag, left, -(-lag * chosen // total))
        left -= count
        first = positions[tp]
        parts = max(1, round(count / size))
        starts = [first + count * number // parts for number in range(parts + 1)]
        found += [OffsetRange(tp, a, b) for a, b in itertools.pairwise(starts) if b > a]
    return found


def find_gap(ranges: Sequence[OffsetRange], parts: Sequence[OffsetRange]) -> OffsetRange | None:
    """The first records of a range that were not read. ``parts`` are those of all ranges, in order."""
    for one in ranges:
        end = one.first
        for part in parts:
            if part.partition == one.partition and part.first == end < one.end:
                end = part.end
        if end < one.end:
            return OffsetRange(one.partition, end, one.end)
    return None


FILE, ROW, POSITION = "file", "row", "position"
"""Columns of :attr:`WrittenPart.latest` beside those of the key."""


def key_names(count: int) -> list[str]:
    """The names of key columns in :attr:`WrittenPart.latest`, whatever they are in the table."""
    return [f"k{number}" for number in range(count)]


@dataclass(frozen=True, slots=True)
class NeededColumns:
    """The table does not exist, or lacks columns or wider types; nothing was written."""

    incoming: Columns
    columns: Columns
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnknownTable:
    """The driver has not described the table; nothing was written."""


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """Data files with the rows of an append, or with those of the latest changes per key."""

    schema: pa.Schema
    files: Sequence[tuple[str, Entry, int]]
    """Path, entry, and number of rows."""
    keys: tuple[str, ...] = ()
    latest: bytes | None = None
    """Of an upsert: for each changed key its columns (:func:`key_names`), the number of its file (-1 for a deleted key), its row
    in the file, and its position in the source (without the column if there is none)."""
    unavailable: int = 0


@dataclass(frozen=True, slots=True)
class StagedPart:
    """Changes that need the table's rows, or Spark, to be applied: unavailable values, truncates, versions, and so on."""

    changes: Sequence[tuple[str, bytes, bytes, bytes | None, Mapping[str, pa.Scalar], bool, bool]]
    """Topic, meta, image, keys, defaults, and whether the records and their keys have a schema."""

    @classmethod
    def pack(cls, batches: Sequence[ChangeBatch]) -> StagedPart:
        packed = [
            (one.topic, pack_table(one.meta), pack_table(one.image), keys, one.defaults, one.has_schema, one.keys_have_schema)
            for one in batches
            for keys in [None if one.keys is None else pack_table(one.keys)]
        ]
        return cls(packed)

    def unpack(self, sequence: int) -> list[ChangeBatch]:
        """The changes, with ``sequence`` added to their own."""
        found = []
        for topic, meta, image, packed_keys, defaults, *have_schema in self.changes:
            table = unpack_table(meta)
            numbers = pc.add(table[SEQUENCE], sequence)
            table = table.set_column(table.column_names.index(SEQUENCE), SEQUENCE, numbers)
            keys = None if packed_keys is None else unpack_table(packed_keys)
            found.append(ChangeBatch(topic, table, unpack_table(image), keys, defaults, *have_schema))
        return found


TablePart = NeededColumns | UnknownTable | WrittenPart | StagedPart


@dataclass(frozen=True, slots=True)
class PartResult:
    """A part of a range, from ``first`` to below ``end``. The parts of a range follow each other without gaps."""

    partition: TopicPartition
    first: int
    end: int
    tables: Mapping[str, TablePart]
    """Only tables with records that they do not have yet."""
    bad_records: Sequence[tuple[int, str, RawRecord]] = ()
    """Offset, error, and record."""
    failed_reads: Sequence[FailedRead] = ()
    records: int = 0
    size_bytes: int = 0
    knowledge: RouterKnowledge = field(default_factory=dict)
    contents: TopicContents = field(default_factory=dict)
    ignored_tombstones: int = 0
    unrouted: int = 0
    host: str = ""
    """Of the executor; empty if it is not known."""

    def paths(self) -> dict[str, list[str]]:
        """The files that were written, by table."""
        return {n: [path for path, _, _ in t.files] for n, t in self.tables.items() if isinstance(t, WrittenPart) and t.files}


@dataclass(frozen=True, slots=True)
class RangeFailure:
    """An error that no repetition mends."""

    message: str
    host: str


def pack_table(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpack_table(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()
