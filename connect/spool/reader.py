"""The reader's side of a spool: positions to read up to, and the rows between two positions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from connect.errors import DataError, RetriableError
from connect.spool.index import SpoolEntry, SpoolIndex, read_spool_id, require_place
from connect.spool.locks import READER, SpoolLock
from connect.spool.positions import (
    CONFIRMED,
    SpoolPosition,
    read_first_batch,
    read_mark,
    write_first_batch,
    write_mark,
)
from connect.spool.segments import read_segment

_REACHABLE = "If executors run on other hosts, spool.location must be a directory that they all mount"


class SpoolSlice(NamedTuple):
    """Rows ``first`` up to and without ``last`` of a segment."""

    entry: SpoolEntry
    first: int
    last: int

    @property
    def size_bytes(self) -> int:
        """Its share of the segment's size."""
        return self.entry.size_bytes * (self.last - self.first) // self.entry.rows

    def read(self, directory: Path) -> pa.Table:
        """Reads the rows. Raises the errors of :func:`connect.spool.segments.read_segment`."""
        return read_segment(directory, self.entry).slice(self.first, self.last - self.first)


def require_reachable(directory: Path, spool_id: str) -> None:
    """Checks that this process, which may run on another host than the reader's, finds its spool. Raises RetriableError that
    names the host."""
    host = os.uname().nodename
    try:
        found = read_spool_id(directory)
    except OSError as e:
        raise RetriableError(f"the spool {directory} cannot be read on host {host}: {e.strerror}. {_REACHABLE}") from e
    if found is None:
        raise RetriableError(
            f"the spool {directory} does not exist on host {host}. {_REACHABLE}. If it was deleted, delete checkpoint and table, "
            "too, to load the source again"
        )
    if found != spool_id:
        raise RetriableError(
            f"the spool {directory} does not exist on host {host}, which has another one there ({found}, not {spool_id}). "
            f"{_REACHABLE}"
        )


class SpoolReader:
    """Reads one spool. :meth:`open` takes the reader's lock, which :meth:`close` releases. Not thread-safe."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lock = SpoolLock(directory, READER)
        self._index = SpoolIndex(directory)

    def open(self) -> None:
        """Takes the reader's lock. Raises ConfigError that names who has it."""
        self.lock.take()

    def close(self) -> None:
        """Releases the lock. May be called more than once."""
        self.lock.release()

    def refresh(self) -> bool:
        """Reads what the writer has added. Returns whether there is a spool. Raises DataError if it is damaged or a copy."""
        if not self._index.refresh():
            return False
        assert self._index.header is not None
        require_place(self._index.header, self.directory)
        return True

    @property
    def id(self) -> str:
        """The ID of the spool; :meth:`refresh` must have found one."""
        assert self._index.header is not None
        return self._index.header.spool

    @property
    def end(self) -> SpoolPosition:
        """The position after the last row."""
        return self._index.end

    @property
    def schemas(self) -> Mapping[str, str]:
        """The texts before payloads, by schema ID."""
        return self._index.schemas

    @property
    def entries(self) -> list[SpoolEntry]:
        """The segments that exist, or existed recently, and offsets."""
        return self._index.entries

    def topics(self) -> dict[str, list[int]]:
        """See :meth:`connect.spool.index.SpoolIndex.topics`."""
        return self._index.topics()

    def load_end(self) -> SpoolPosition | None:
        """Returns the position after the last segment of a load; None without one."""
        ends = [entry.end for entry in self._index.entries if entry.loaded]
        return SpoolPosition(max(ends), 0) if ends else None

    def mark(self, name: str) -> SpoolPosition:
        """Returns a mark of the reader (:mod:`connect.spool.positions`). Raises DataError."""
        return read_mark(self.directory, self.id, name)

    def set_mark(self, name: str, position: SpoolPosition) -> None:
        """Stores a mark of the reader. Durable on return. Raises ConnectError."""
        write_mark(self.directory, self.id, name, position)

    def first_batch(self) -> str | None:
        """Returns the ID of the first batch with rows that a stream was given; None if no stream was given rows. Raises
        DataError."""
        return read_first_batch(self.directory, self.id)

    def set_first_batch(self, batch: str) -> None:
        """Stores the ID of that batch. Durable on return. Raises ConnectError."""
        write_first_batch(self.directory, self.id, batch)

    def confirmed(self) -> SpoolPosition:
        """Returns the position up to which a reader has committed. Raises DataError."""
        return read_mark(self.directory, self.id, CONFIRMED)

    def confirm(self, position: SpoolPosition) -> None:
        """Marks the rows before a position as committed. Durable on return. An earlier position changes nothing. Raises
        ConnectError."""
        if position > self.confirmed():
            write_mark(self.directory, self.id, CONFIRMED, position)

    def advance(self, position: SpoolPosition, max_rows: int | None) -> SpoolPosition:
        """Returns the position of the end, or that after ``max_rows`` more rows if it comes first."""
        if max_rows is None:
            return max(self.end, position)
        left = max_rows
        for entry in self._index.segments(position.segment, self.end.segment):
            first = position.row if entry.segment == position.segment else 0
            if entry.rows - first > left:
                return SpoolPosition(entry.segment, first + left)
            left -= entry.rows - first
            if not left:
                return SpoolPosition(entry.end, 0)
        return max(self.end, position)

    def slices(self, start: SpoolPosition, end: SpoolPosition) -> list[SpoolSlice]:
        """Returns the rows between two positions, in order. Raises DataError if the spool does not have them all."""
        found = []
        for entry in self._index.segments(start.segment, end.segment + 1):
            first = start.row if entry.segment == start.segment else 0
            last = end.row if entry.segment == end.segment else entry.rows
            if first > entry.rows or last > entry.rows:
                raise DataError(
                    f"segment {entry.segment} of the spool {self.directory} has {entry.rows} rows, not {max(first, last)}"
                )
            if first < last:
                found.append(SpoolSlice(entry, first, last))
        return found

    def require_rows_from(self, position: SpoolPosition, reason: str) -> None:
        """Checks that no row from a position on was removed or is yet to come. Raises DataError that begins with ``reason``."""
        confirmed = self.confirmed()
        if position < confirmed:
            raise DataError(
                f"{reason} starts at {position}, but the spool {self.directory} was committed up to {confirmed}, and the rows "
                "before that may be gone. Use the newest checkpoint, or delete checkpoint, spool, and table to load the source "
                "again"
            )
        if position > self.end:
            raise DataError(
                f"{reason} starts at {position}, but the spool {self.directory} ends at {self.end}: it is older than the query, "
                "as after restoring a backup. Restore the newest spool, or delete checkpoint, spool, and table to load the "
                "source again"
            )
