"""Reads one directory of Parquet files: each file once, in the order of modification times and names."""

from __future__ import annotations

import contextlib
import heapq
import logging
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from connect.errors import ConnectError, DataError, SchemaError
from connectors.spark.source.config import LATEST, SNAPSHOT
from connectors.spark.source.errors import FileGapError, UnsupportedTableError
from connectors.spark.source.key_columns import check_keys
from connectors.spark.source.offsets import ROW
from connectors.spark.source.parquet.file_schemas import FileSchemas
from connectors.spark.source.parquet.listing import find_file, is_unchanged, list_files, partition_values
from connectors.spark.source.parquet.positions import (
    NO_FILES,
    CurrentFile,
    DirectoryPosition,
    DoneFiles,
    ListedFile,
    all_until,
    content_digest,
    key_of,
    name_digest,
)
from connectors.spark.source.positioned_feed import PositionedFeed
from connectors.spark.source.table_feed import (
    CREATE_CODE,
    READ_CODE,
    FeedBatch,
    FeedItem,
    FeedVersion,
    TableSchema,
    VersionEnd,
    Waiting,
    inserted,
)
from connectors.spark.tables.files.file_columns import open_parquet
from connectors.spark.tables.files.file_reader import FileRows
from connectors.spark.tables.files.live_files import LiveFile, is_storage_failure

log = logging.getLogger(__name__)

_MAX_FILES = 10_000
"""Files that one listing adds, so that memory is bounded for a directory of any size."""
_MAX_RECENT = 2_000
"""Recent files in an offset, which then has 32 KB."""
_REFERENCE_FILES = 10
"""After a restart, the columns of so many done files say which columns a new file may have."""
_LISTING_SHARE = 10
"""Listing takes at most a tenth of the time."""


@dataclass(frozen=True, slots=True)
class DirectoryFeedSettings:
    """How to read a directory. ``start`` is SNAPSHOT, LATEST, or a time in ms since 1970."""

    keys: tuple[str, ...]
    start: str | int
    batch_rows: int
    lag_ms: int
    partition_types: Mapping[str, pa.DataType]


class DirectoryFeed(PositionedFeed[DirectoryPosition]):
    """The feed of the files below ``folder`` of a file system (:class:`connectors.spark.source.table_feed.TableFeed`)."""

    def __init__(
        self,
        files: fs.FileSystem,
        folder: str,
        location: str,
        settings: DirectoryFeedSettings,
        position: DirectoryPosition | None,
    ) -> None:
        """``location`` names the directory in messages; without a position, the feed starts as the settings say."""
        super().__init__(settings.start, position)
        self._files = files
        self._folder = folder
        self._location = location
        self._settings = settings
        self._schemas = FileSchemas(location, settings.partition_types)
        self._known: dict[int, int] | None = None
        """The contents of done files by their names, as hashes; None before the first listing."""
        self._next_listing = 0.0
        self._awaited = ""
        """The file that is still being written."""
        self._files_left = 0

    def start_again(self) -> None:
        """See :class:`connectors.spark.source.table_feed.TableFeed`."""
        super().start_again()
        self._known = None

    def figures(self) -> Mapping[str, Any]:
        """See :class:`connectors.spark.source.table_feed.TableFeed`."""
        found: dict[str, Any] = {"phase": self._phase, "rows": self._rows, "lag_versions": int(self._files_left > 0)}
        found["lag_files"] = self._files_left
        position = self._position
        if position is not None:
            found["version"] = position.version
            if position.current is not None:
                found |= {"file": position.current.file.name, "row": position.current.row}
        return found

    # --- reading

    def items(self) -> Iterator[FeedItem]:
        """See :class:`connectors.spark.source.table_feed.TableFeed`."""
        if self._position is None:
            self._position = self._first_position()
        self._position = self._position.without_complete_file()
        if self._known is None:
            self._read_reference_schemas(self._position.done.merged())
        if self._position.current is not None:
            yield from self._rest_of(self._position, self._position.current)
            yield VersionEnd()
        while True:
            while time.monotonic() < self._next_listing:
                yield Waiting(is_idle=True)
            plan, is_all = self._list()
            is_complete = yield from self._read(plan)
            if plan or self._position.snapshot:
                if is_complete and is_all:
                    self._position = replace(self._position, snapshot=False)
                yield VersionEnd()
            if not plan or not is_complete:
                self._phase = "waiting"
                self._files_left = 0 if is_complete else self._files_left
                yield Waiting(is_idle=True)

    def _first_position(self) -> DirectoryPosition:
        start = self._start
        version = _now_ms()
        if start == SNAPSHOT:
            return DirectoryPosition(version, True, DoneFiles(NO_FILES, {}))
        if start != LATEST:
            return DirectoryPosition(version, False, DoneFiles(all_until(int(start) - 1), {}))
        recent = heapq.nlargest(_MAX_RECENT, self._list_files())
        recent.reverse()
        settled_ms = recent[0].modified_ms if len(recent) == _MAX_RECENT else -1
        done = DoneFiles(NO_FILES, {}, recent, len(recent), max(settled_ms, self._settled_ms(version)))
        return DirectoryPosition(version, False, done.merged())

    def _settled_ms(self, now_ms: int) -> int:
        """The last modification time of which no more files appear after ``now_ms``."""
        return now_ms - self._settings.lag_ms - 1  # the millisecond before it has not ended yet

    def _list_files(self) -> Iterator[ListedFile]:
        return list_files(self._files, self._folder, self._location)

    def _list(self) -> tuple[Sequence[ListedFile], bool]:
        """Lists the directory. Returns the files to read, and whether these are all; the position then has them as its plan."""
        position = self._position
        assert position is not None
        began, now_ms = time.monotonic(), _now_ms()
        settled_ms = self._settled_ms(now_ms)
        listing = _Listing(self._location, position.done.merged(), self._known)
        plan = heapq.nsmallest(_MAX_FILES, listing.new_files(self._list_files()))
        is_all = len(plan) < _MAX_FILES
        self._known = listing.known
        done = listing.done(settled_ms, plan)
        allowed = _MAX_RECENT - len(done.recent)
        unsettled = [number for number, file in enumerate(plan) if file.modified_ms > settled_ms]
        if len(unsettled) > allowed:
            plan, is_all = plan[: unsettled[max(allowed, 0)]], False
        version = max(position.version + 1, now_ms) if plan else position.version
        self._position = replace(position, version=version, done=replace(done, planned=plan, settled_ms=settled_ms))
        ended = time.monotonic()
        self._next_listing = ended + (ended - began) * (_LISTING_SHARE - 1) if is_all else 0.0
        return plan, is_all

    def _read_reference_schemas(self, done: DoneFiles) -> None:
        if done.is_empty:
            return
        newest = heapq.nlargest(_REFERENCE_FILES, filter(done.has, self._list_files()))
        for file in reversed(newest):
            # Its rows are done: a file that is damaged or gone by now does not matter.
            with contextlib.suppress(pa.ArrowException, OSError, UnsupportedTableError), self._open(file) as stream:
                self._schemas.add(open_parquet(stream).schema_arrow, partition_values(file.name), file.name)

    def _read(self, plan: Sequence[ListedFile]) -> Generator[FeedItem, None, bool]:
        """Reads the planned files. Returns False if it stopped before a file that is still being written."""
        position = self._position
        assert position is not None
        row = 0
        for count, file in enumerate(plan):
            self._phase, self._files_left = "snapshot" if position.snapshot else "changes", len(plan) - count
            at = replace(position, done=position.done.with_count(count), current=None)
            after = replace(at, done=position.done.with_count(count + 1))
            try:
                row = yield from self._read_file(CurrentFile(file, 0, None, row), at, after)
            except _IncompleteFile as e:
                if _now_ms() - file.modified_ms < self._settings.lag_ms:
                    if self._awaited != file.name:
                        self._awaited = file.name
                        log.info("file %s of %s is not complete yet (%s); waiting for it", file.name, self._location, e)
                    self._position = at
                    return False
                raise self._not_parquet(file, e) from e
        return True

    def _rest_of(self, position: DirectoryPosition, current: CurrentFile) -> Iterator[FeedItem]:
        """The rows of the current file that are not done, after a restart."""
        name = f"file {current.file.name} of {self._location}"
        found = find_file(self._files, self._folder, current.file.name)
        if found is None:
            raise self._vanished(f"{name} was removed when {current.row} of its rows were done", current)
        if not is_unchanged(current.file, found):
            raise FileGapError(
                f"{name} was replaced, or has grown, when {current.row} of its rows were done: it has {found.size_bytes} bytes "
                f"and was modified at {found.modified_ms}, not {current.file.size_bytes} and {current.file.modified_ms}",
                f'Restore the file, or stop the connector and PATCH "rows" of its offset to {current.row} to continue without '
                "the rest of the old content",
            )
        self._phase, self._files_left = "snapshot" if position.snapshot else "changes", 1
        try:
            yield from self._read_file(current, position, position.with_file_done(current.file))
        except _IncompleteFile as e:
            raise self._not_parquet(current.file, e) from e

    def _read_file(self, current: CurrentFile, at: DirectoryPosition, after: DirectoryPosition) -> Generator[FeedItem, None, int]:
        """The rows from the current one on; returns the number of the row after the last in its version. ``at`` and ``after``
        are the positions before and after the file."""
        file, row, first_row = current.file, current.row, current.first_row
        version = FeedVersion(self._location, at.version, file.modified_ms, at.snapshot, "")
        code = READ_CODE if at.snapshot else CREATE_CODE
        with self._naming(current), self._open(file) as stream:
            parquet, schema = self._open_parquet(stream, file)
            rows = parquet.metadata.num_rows

            offset = cache(at.at_row(file, 0, rows, first_row).to_offset)  # it lists recent files

            def offset_after(done: int) -> dict[str, Any]:
                return {**offset(), ROW: done - first_row}

            values = partition_values(file.name)
            live = LiveFile(0, {}, file.name, file.size_bytes, rows, values=values)
            selected = FileRows(live, only=np.arange(row, rows) if row else None)
            for table in selected.read_open(parquet, schema.file_columns(), self._settings.batch_rows):
                first, row = row, row + table.num_rows
                self._position = at.at_row(file, row, rows, first_row)
                self._rows += table.num_rows
                yield FeedBatch(version, schema, inserted(table, code), first_row + first, offset_after)
        found = find_file(self._files, self._folder, file.name)
        if found is not None and not is_unchanged(file, found):
            raise ConnectError(
                f"file {file.name} of {self._location} was replaced, or has grown, while it was read: events may be of its old "
                "and new content. Restart the task to read the new content as another file; write files under a name that starts "
                "with _ or ., and rename them when they are complete"
            )
        if self._known is not None:
            self._known[hash(file.name)] = _content_hash(file)
        self._position = after
        return first_row + int(rows)

    def _open_parquet(self, stream: pa.NativeFile, file: ListedFile) -> tuple[pq.ParquetFile, TableSchema]:
        try:
            parquet = open_parquet(stream)
        except (pa.ArrowInvalid, OSError) as e:
            if is_storage_failure(e):
                raise
            raise _IncompleteFile(_one_line(e)) from e
        schema = self._schemas.add(parquet.schema_arrow, partition_values(file.name), file.name)
        check_keys(self._settings.keys, schema, self._location)
        return parquet, schema

    def _open(self, file: ListedFile) -> pa.NativeFile:
        return self._files.open_input_file(f"{self._folder}/{file.name}")

    # --- errors

    @contextlib.contextmanager
    def _naming(self, current: CurrentFile) -> Iterator[None]:
        """Names the file in errors of reading it."""
        name = f"file {current.file.name} of {self._location}"
        try:
            yield
        except FileNotFoundError as e:
            raise self._vanished(f"{name} was removed before its rows were read", current) from e
        except (DataError, SchemaError) as e:
            raise DataError(f"{name}: {e.message}. Rewrite the file with values that fit, or move it away") from e
        except (pa.ArrowException, OSError) as e:
            if is_storage_failure(e):
                raise
            raise ConnectError(
                f"{name} is damaged: {_one_line(e)}. Restore the file, or move it away to continue without its rows"
            ) from e

    def _not_parquet(self, file: ListedFile, error: Exception) -> ConnectError:
        return ConnectError(
            f"file {file.name} of {self._location} is not a Parquet file, or is damaged: {error}. Restore it, or move it away; "
            "files whose names start with _ or . are not read"
        )

    def _vanished(self, message: str, current: CurrentFile) -> FileGapError:
        if not current.row:
            return FileGapError(message, "Restart the task to continue without them")
        offset = f'PATCH "rows" of its offset to {current.row} to continue without the rest'
        return FileGapError(message, f"Restore the file, or stop the connector and {offset}")


class _IncompleteFile(Exception):
    """A file has no Parquet footer: it is still being written, or something else."""


class _Listing:
    """Tells new files from those that are done, during one listing."""

    def __init__(self, location: str, done: DoneFiles, known: Mapping[int, int] | None) -> None:
        self._location = location
        self._done = done
        self._before = known
        self._recent: list[ListedFile] = []
        self.known: dict[int, int] = {}

    def new_files(self, listed: Iterator[ListedFile]) -> Iterator[ListedFile]:
        """Yields the files that are not done. Raises ConnectError for a done file that has changed."""
        for file in listed:
            if self._is_done(file):
                self.known[hash(file.name)] = _content_hash(file)
            else:
                yield file

    def done(self, settled_ms: int, plan: Sequence[ListedFile]) -> DoneFiles:
        """The done files. Recent ones are passed if they have settled and no file of the plan, which is not done, is older."""
        recent = (file for file in self._recent if not plan or file < plan[0])
        settled = (key_of(file) for file in recent if file.modified_ms <= settled_ms)
        passed = max(settled, default=self._done.passed)
        left = (file for file in self._recent if key_of(file) > passed)
        return DoneFiles(passed, {name_digest(file): content_digest(file) for file in left})

    def _is_done(self, file: ListedFile) -> bool:
        is_passed = key_of(file) <= self._done.passed
        recent = None if is_passed or not self._done.recent else self._done.recent.get(name_digest(file))
        if recent is not None and recent == content_digest(file):
            self._recent.append(file)
            return True
        if self._before is None:
            if recent is not None:  # the task was restarted, as the error says
                log.warning("%s; reading its new content as another file", self._describe_change(file))
            return is_passed
        known = self._before.get(hash(file.name))
        if is_passed and known == _content_hash(file):
            return True
        if recent is not None or known is not None:
            # Of a file with an older time than others that are done, a restart would read nothing.
            remedy = "Give the file a new modification time (touch), and restart the task" if is_passed else "Restart the task"
            raise ConnectError(
                f"{self._describe_change(file)}. Write new rows into new files. {remedy} to read all rows of the file as new "
                "ones, or move the file away to continue without it"
            )
        if is_passed:
            log.warning(
                "File %s of %s appeared more than source.lag.ms after its modification time; it is read now, but would have been "
                "missed if the task had been stopped meanwhile: increase source.lag.ms",
                file.name,
                self._location,
            )
        return False

    def _describe_change(self, file: ListedFile) -> str:
        return f"file {file.name} of {self._location} was replaced, or has grown, after its rows were read"


def _content_hash(file: ListedFile) -> int:
    return hash((file.modified_ms, file.size_bytes))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
