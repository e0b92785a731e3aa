"""The writer's side of a spool: adds segments, and removes those that the reader has committed."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from connect import crash_points
from connect.errors import ConfigError, DataError
from connect.spool.files import naming_spool, replace_file, sync_directory
from connect.spool.index import (
    LINE_END,
    NAME,
    Offsets,
    SpoolEntry,
    SpoolHeader,
    SpoolIndex,
    Topics,
    encode_line,
    require_place,
    segment_path,
)
from connect.spool.locks import LOCATION_KEY, WRITER, SpoolLock
from connect.spool.positions import CONFIRMED, LOADED, PLANNED, SpoolPosition, read_mark
from connect.spool.schemas import SchemaTexts
from connect.spool.segments import RecordRun, build_segment, topics_of, write_segment

log = logging.getLogger(__name__)

_SHORTENED_AFTER = 500
"""How many lines of removed segments the index may have."""


class SpoolWriter:
    """Opens a spool, or creates one, and holds the writer's lock until :meth:`close`. Safe from any thread.

    Raises ConfigError if another process has the lock or the spool belongs to another connector, and DataError if it is damaged
    or a copy.
    """

    def __init__(self, directory: Path, connector: str) -> None:
        self.directory = directory
        self._mutex = threading.Lock()
        self._lock = SpoolLock(directory, WRITER)
        self._lock.take()
        try:
            self._index = SpoolIndex(directory)
            header = self._open(connector)
            with naming_spool(directory, "open"):
                self._index.complete()
            self.id = header.spool
            self._offsets = dict(header.offsets)
            for entry in self._index.entries:
                self._offsets.update(entry.offsets)
            self._schemas = SchemaTexts(self._index.schemas)
            self._confirmed = read_mark(directory, self.id, CONFIRMED)
            if self._confirmed > self._index.end:
                raise DataError(
                    f"the spool {directory} is older than what was read from it: a query has committed {self._confirmed}, but "
                    f"the spool ends at {self._index.end}. Restore the newest state, or delete the spool to read the source again"
                )
            # Promise 1: the source is told again what was committed, in case that a crash came before.
            self._unconfirmed_from = self._removed = self._unplanned_from = 0
            self.unplanned_bytes = sum(entry.size_bytes for entry in self._index.entries)
            """The size of the segments that the reader has not planned to read. Read without a lock: a segment takes its time."""
            self._remove_remains()
        except BaseException:
            self._lock.release()
            raise

    def _open(self, connector: str) -> SpoolHeader:
        if not self._index.refresh():
            header = SpoolHeader(secrets.token_hex(8), connector, str(self.directory), self.directory.stat().st_ino)
            with naming_spool(self.directory, "create"):
                replace_file(self.directory / NAME, encode_line(header))
            self._index.refresh()
            return header
        found = self._index.header
        assert found is not None
        require_place(found, self.directory)
        if found.connector != connector:
            raise ConfigError.invalid(
                LOCATION_KEY,
                self.directory,
                f"the spool belongs to connector {found.connector}, not {connector}. Use another directory, or the same name",
            )
        return found

    def _remove_remains(self) -> None:
        """Removes files that the index does not have, which a crash left."""
        with naming_spool(self.directory, "open"):
            live = {segment_path(self.directory, entry.segment).name for entry in self._index.entries if entry.rows}
            for path in self.directory.glob("segment-*"):
                if path.name not in live:
                    path.unlink()
            sync_directory(self.directory)

    # --- reading

    def offsets(self) -> dict[str, str | None]:
        """Returns the source offsets of the spool's end."""
        with self._mutex:
            return dict(self._offsets)

    # --- writing

    def add_segment(
        self, task: int, runs: Sequence[tuple[RecordRun, int]], offsets: Offsets, *, loaded: bool = False
    ) -> SpoolEntry:
        """Adds records of a task, and the source offsets behind them. Durable on return.

        ``runs`` are as for :func:`connect.spool.segments.build_segment`; without any, only offsets are stored. Raises
        ConnectError if the disk is full; nothing was added then.
        """
        with self._mutex, naming_spool(self.directory, "write to"):
            index = self._index
            number, first_row = index.end.segment, index.next_row
            rows = size_bytes = crc = 0
            topics: Topics = {}
            if runs:
                segment = build_segment(runs, self._schemas)
                rows, topics = segment.num_rows, topics_of(segment)
                size_bytes, crc = self._write_file(number, segment)
            known = self._schemas.unstored
            entry = SpoolEntry(number, task, rows, first_row, size_bytes, crc, dict(offsets), known, topics, loaded)
            self._append(entry)
            self._schemas.stored()
            self._offsets.update(offsets)
            self.unplanned_bytes += entry.size_bytes
            crash_points.point("spool.indexed")
            return entry

    def _write_file(self, number: int, segment: pa.Table) -> tuple[int, int]:
        path = segment_path(self.directory, number)
        draft = path.with_suffix(".tmp")
        try:
            written = write_segment(draft, segment)
            draft.rename(path)
            sync_directory(self.directory)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        # Promise 1: a segment without a line in the index does not exist; neither do its source offsets.
        crash_points.point("spool.renamed")
        return written

    def _append(self, entry: SpoolEntry) -> None:
        line = encode_line(entry)
        descriptor = os.open(self.directory / NAME, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            view = memoryview(line)[:-1]
            while view:
                view = view[os.write(descriptor, view) :]
            # A reader takes a line when it has its end: what it has read must survive a crash of the host. The end itself need
            # not, because the next writer adds it to a whole line.
            os.fsync(descriptor)
            os.write(descriptor, LINE_END)
        except OSError:
            os.ftruncate(descriptor, self._index.complete_bytes)
            raise
        finally:
            os.close(descriptor)
        self._index.refresh()

    # --- what the reader has planned and committed

    def count_planned(self) -> None:
        """Leaves the segments that the reader has planned to read out of ``unplanned_bytes``. Raises DataError if a mark of the
        reader is damaged."""
        with self._mutex:
            self._count_planned()

    def _count_planned(self) -> None:
        planned = max(self._confirmed, *(read_mark(self.directory, self.id, name) for name in (PLANNED, LOADED)))
        start, self._unplanned_from = self._unplanned_from, self._count_before(planned, self._unplanned_from)
        self.unplanned_bytes -= sum(entry.size_bytes for entry in self._index.entries[start : self._unplanned_from])

    def take_confirmed(self) -> dict[int, Offsets]:
        """Returns, by task, the source offsets that the reader has committed since the last call: the source may release its log
        up to them. Call :meth:`remove_confirmed` when it has. Raises DataError if the reader's mark is damaged."""
        with self._mutex:
            self._confirmed = max(self._confirmed, read_mark(self.directory, self.id, CONFIRMED))
            self._count_planned()
            start, self._unconfirmed_from = self._unconfirmed_from, self._count_before(self._confirmed, self._unconfirmed_from)
            found: dict[int, dict[str, str | None]] = {}
            for entry in self._index.entries[start : self._unconfirmed_from]:
                found.setdefault(entry.task, {}).update(entry.offsets)
            return dict(found)

    def remove_confirmed(self) -> None:
        """Removes the segments that :meth:`take_confirmed` was about."""
        crash_points.point("spool.confirmed")
        with self._mutex, naming_spool(self.directory, "remove segments of"):
            for entry in self._index.entries[self._removed : self._unconfirmed_from]:
                if entry.rows:
                    segment_path(self.directory, entry.segment).unlink(missing_ok=True)
            self._removed = self._unconfirmed_from
            if self._removed >= _SHORTENED_AFTER:
                self._shorten()

    def _count_before(self, position: SpoolPosition, count: int) -> int:
        """Returns how many lines are before a position, of which ``count`` are known to be."""
        entries = self._index.entries
        while count < len(entries) and entries[count].is_before(position):
            count += 1
        return count

    def _shorten(self) -> None:
        """Replaces the index by one without the lines of removed segments."""
        index, count = self._index, self._removed
        assert index.header is not None
        gone, kept = index.entries[:count], index.entries[count:]
        offsets, schemas, topics = dict(index.header.offsets), dict(index.header.schemas), dict(index.header.topics)
        for entry in gone:
            offsets.update(entry.offsets)
            schemas.update(entry.schemas)
            # Tombstones have no schema; that of the records before them stays the topic's.
            topics.update({topic: ids or topics.get(topic, ()) for topic, ids in entry.topics.items()})
        segment = kept[0].segment if kept else index.end.segment
        row = kept[0].first_row if kept else index.next_row
        number = index.header.generation + 1
        header = replace(
            index.header, offsets=offsets, schemas=schemas, topics=topics, segment=segment, row=row, generation=number
        )
        replace_file(self.directory / NAME, b"".join([encode_line(header), *map(encode_line, kept)]))
        index.refresh()
        self._unconfirmed_from -= count
        self._unplanned_from -= count
        self._removed = 0

    def close(self) -> None:
        """Releases the lock. May be called more than once."""
        self._lock.release()
