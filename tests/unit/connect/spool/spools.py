"""Builds spools for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from connect.spool.index import Offsets, SpoolEntry
from connect.spool.positions import START, SpoolPosition
from connect.spool.reader import SpoolReader
from connect.spool.segments import restore_bytes
from connect.spool.writer import SpoolWriter

NOW_MS = 1_700_000_000_000


class Run(NamedTuple):
    """A run of records (:class:`connect.spool.segments.RecordRun`)."""

    topic: str
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    partitions: Sequence[int] | None = None
    timestamps: Sequence[int] | None = None
    headers: Sequence[list[tuple[str, bytes | None]] | None] | None = None
    key_prefix: bytes | None = None
    value_prefix: bytes | None = None
    value_frame: tuple[bytes, bytes] | None = None
    columns: pa.StructArray | None = None


def message(number: int, schema: str = "s") -> bytes:
    """JSON with a schema."""
    return b'{"schema":{"type":"int64","name":"%s"},"payload":%d}' % (schema.encode(), number)


def numbers(first: int, count: int, topic: str = "t") -> Run:
    """Records whose values are consecutive numbers in JSON with a schema."""
    return Run(topic, [None] * count, [message(number) for number in range(first, first + count)])


def add(writer: SpoolWriter, first: int, count: int, task: int = 0, *, offsets: Offsets | None = None) -> SpoolEntry:
    """Adds a segment of consecutive numbers, whose source offset is the last one."""
    return writer.add_segment(task, [(numbers(first, count), NOW_MS)], offsets or {f"p{task}": str(first + count - 1)})


def opened(directory: Path) -> SpoolReader:
    """A reader that has the lock and the newest index."""
    reader = SpoolReader(directory)
    reader.open()
    assert reader.refresh()
    return reader


def values(reader: SpoolReader, start: SpoolPosition = START, end: SpoolPosition | None = None) -> list[bytes | None]:
    """The values of all rows between two positions."""
    found: list[bytes | None] = []
    for part in reader.slices(start, reader.end if end is None else end):
        rows: pa.Table = part.read(reader.directory)
        found += restore_bytes(rows, "value", reader.schemas).to_pylist()
    return found
