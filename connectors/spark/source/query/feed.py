"""Reads one query: the rows of a range of its cursor column, then those of the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import ConnectError
from connectors.spark.decode.arrow_casts import as_array
from connectors.spark.source.config import LATEST, QuerySettings
from connectors.spark.source.positioned_feed import PositionedFeed
from connectors.spark.source.query.cursors import count_equal, cursor_text
from connectors.spark.source.query.positions import CursorPosition
from connectors.spark.source.query.range_reader import CursorRange, RangeReader
from connectors.spark.source.table_feed import (
    CREATE_CODE,
    READ_CODE,
    FeedBatch,
    FeedItem,
    FeedVersion,
    VersionEnd,
    Waiting,
    inserted,
)
from connectors.spark.tables.files.partition_values import parse_text

_WAIT_S = 0.2
_CLOSE_S = 30.0
_QUERY_SHARE = 10
"""Queries that find nothing take at most a tenth of the time."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class QueryFeedSettings:
    """How to read a query. ``start`` is SNAPSHOT or LATEST; ``name`` is that of the table in events."""

    query: QuerySettings
    keys: tuple[str, ...]
    start: str | int
    batch_rows: int
    lag_ms: int
    name: str
    owner: str


class QueryFeed(PositionedFeed[CursorPosition]):
    """The feed of one query (:class:`connectors.spark.source.table_feed.TableFeed`)."""

    def __init__(self, settings: QueryFeedSettings, position: CursorPosition | None) -> None:
        """Requests Spark, without waiting for it. Raises ConfigError if this process uses Spark at another address."""
        super().__init__(settings.start, position)
        self._settings = settings
        self._reader = RangeReader(settings.query, settings.keys, settings.lag_ms, settings.batch_rows, settings.owner)
        # One thread that stays: Spark keeps a connection for each.
        self._thread = ThreadPoolExecutor(1, "spark-query")
        self._job: Future[Any] | None = None
        self._next_query = 0.0
        self._rows_left = 0

    def figures(self) -> Mapping[str, Any]:
        """See :class:`connectors.spark.source.table_feed.TableFeed`."""
        found: dict[str, Any] = {"phase": self._phase, "rows": self._rows, "lag_versions": int(self._rows_left > 0)}
        found |= {"lag_rows": self._rows_left, "rows_without_cursor": self._reader.skipped_nulls}
        position = self._position
        if position is not None:
            found |= {"version": position.version, "cursor": position.cursor}
        return found

    def close(self) -> None:
        """See :class:`connectors.spark.source.table_feed.TableFeed`."""
        deadline = time.monotonic() + _CLOSE_S
        while self._job is not None and not self._job.done() and time.monotonic() < deadline:
            self._reader.interrupt()
            wait([self._job], 1.0)
        if self._job is None or self._job.done():
            self._thread.submit(self._reader.close_connection)
            self._thread.shutdown(wait=True)
        else:
            self._thread.shutdown(wait=False, cancel_futures=True)
        self._reader.close()

    def items(self) -> Iterator[FeedItem]:
        """See :class:`connectors.spark.source.table_feed.TableFeed`."""
        if self._position is None:
            self._position = yield from self._first_position()
        while True:
            while time.monotonic() < self._next_query:
                yield Waiting(is_idle=True)
            position = self._position
            self._check_order(position)
            began = time.monotonic()
            found = yield from self._run(partial(self._reader.next_range, position))
            if found is None:
                ended = time.monotonic()
                self._next_query = ended + (ended - began) * (_QUERY_SHARE - 1)
                if position.snapshot:
                    self._position = replace(position, snapshot=False)
                    yield VersionEnd()
                self._phase = "waiting"
                yield Waiting(is_idle=True)
                continue
            try:
                yield from self._send(position, found)
            finally:
                found.remove()
            self._rows_left = 0
            yield VersionEnd()

    def _first_position(self) -> Generator[FeedItem, None, CursorPosition]:
        if self._start == LATEST:
            newest = yield from self._run(self._reader.newest)
            return CursorPosition(_now_ms(), False, newest)
        return CursorPosition(_now_ms(), True)

    def _check_order(self, position: CursorPosition) -> None:
        """Raises ConnectError if the position counts rows in another order."""
        if position.row and position.order not in (None, self._reader.order):
            raise ConnectError(
                f"the offset of {self._settings.name} is in the middle of the rows with the cursor {position.cursor}, which were "
                "read with another source.query or other key.columns. Set them back until the range is complete, or PATCH the "
                f'offset to {{"cursor": "{position.cursor}"}} to skip the other rows with this value, or with "row": 0 to read '
                "all of them again"
            )

    def _run(self, call: Callable[[], T]) -> Generator[FeedItem, None, T]:
        """Calls Spark on another thread, so that the task stays responsive."""
        self._phase = "querying"
        job = self._job = self._thread.submit(call)
        while not wait([job], _WAIT_S).done:
            yield Waiting(is_idle=False)
        found: T = job.result()
        return found

    def _send(self, position: CursorPosition, found: CursorRange) -> Iterator[FeedItem]:
        self._phase = "snapshot" if position.snapshot else "changes"
        number = max(position.version + 1, _now_ms())
        version = FeedVersion(self._settings.name, number, number, position.snapshot, self._reader.order)
        code = READ_CODE if position.snapshot else CREATE_CODE
        sent = SentRows(replace(position, version=number, order=self._reader.order), found, self._settings.query.cursor)
        self._rows_left = found.rows
        for rows in found.read(self._settings.batch_rows):
            self._rows_left -= rows.num_rows
            batch = sent.next_batch(rows)
            if not batch.rows.num_rows:
                yield Waiting(is_idle=False)
                continue
            self._position = batch.position_after(batch.first_row + batch.rows.num_rows)
            self._rows += batch.rows.num_rows
            yield FeedBatch(version, found.schema, inserted(batch.rows, code), batch.first_row, batch.offset_after)
        self._position = CursorPosition(number, False, found.upper)


@dataclass(frozen=True, slots=True)
class SentBatch:
    """Rows of a range. ``cursors`` are those of ``skipped`` rows that are done, and of the rows."""

    rows: pa.Table
    first_row: int
    cursors: pa.Array
    skipped: int
    equal_before: int
    """How many rows before have the first cursor."""
    start: CursorPosition
    upper: str
    range_rows: int

    def position_after(self, done: int) -> CursorPosition:
        """The position when so many rows of the range are done, at least one of this batch."""
        if done == self.range_rows:
            return replace(self.start, snapshot=False, cursor=self.upper, row=None, order=None)
        place = done - self.first_row + self.skipped - 1
        row = count_equal(self.cursors, place, before=self.equal_before)
        return replace(self.start, cursor=cursor_text(self.cursors[place]), row=row)

    def offset_after(self, done: int) -> dict[str, Any]:
        """See :class:`connectors.spark.source.table_feed.FeedBatch`."""
        return self.position_after(done).to_offset()


class SentRows:
    """Counts the rows of a range as they are sent, without those that the position says are done."""

    def __init__(self, position: CursorPosition, found: CursorRange, cursor: str) -> None:
        self._position = position
        self._found = found
        self._cursor = cursor
        self._done_cursor = None
        if position.cursor is not None and position.row:
            self._done_cursor = parse_text(position.cursor, found.schema.types[cursor])
        self._sent = 0
        self._skipped = 0
        self._last: pa.Scalar | None = None
        self._equal = 0
        """How many rows have the last cursor."""

    def next_batch(self, rows: pa.Table) -> SentBatch:
        """The rows to send of the next rows of the range."""
        cursors = as_array(rows[self._cursor])
        skipped = self._count_done(cursors)
        self._skipped += skipped
        before = self._equal if self._last is not None and cursors[0].equals(self._last) else 0
        self._last = cursors[len(cursors) - 1]
        self._equal = count_equal(cursors, len(cursors) - 1, before=before)
        first_row = self._sent
        self._sent += len(cursors) - skipped
        total = self._found.rows - self._skipped
        return SentBatch(rows.slice(skipped), first_row, cursors, skipped, before, self._position, self._found.upper, total)

    def _count_done(self, cursors: pa.Array) -> int:
        """How many of the first rows are done: those with the position's cursor, as many as it says."""
        if self._done_cursor is None or self._sent:
            return 0
        equal = pc.sum(pc.equal(cursors, self._done_cursor)).as_py() or 0
        return min(int(equal), (self._position.row or 0) - self._skipped)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
