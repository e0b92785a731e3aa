"""Reads one table for a task: its feed, its records, and which offset may be stored."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from connect.errors import ConnectError, RetriableError
from connect.text_records import MixedTextRecords
from connectors.spark.source.config import SNAPSHOT, SourceTable, SparkSourceConfig
from connectors.spark.source.errors import TableAbsentError, VersionGapError, with_remedy
from connectors.spark.source.events import FeedEvents, FeedEventSettings
from connectors.spark.source.formats import open_feed
from connectors.spark.source.offsets import table_partition
from connectors.spark.source.table_feed import FeedBatch, FeedItem, VersionEnd, Waiting

log = logging.getLogger(__name__)

Offset = Mapping[str, Any]


class SourceTableReader:
    """A table of a task. ``due`` is when it is read next, by the monotonic clock."""

    def __init__(self, table: SourceTable, settings: SparkSourceConfig, stored: Offset | None) -> None:
        """``stored`` is the table's offset, if it has one. Raises DataError if it cannot be read."""
        self.table = table
        self.partition = table_partition(table.location)
        self.due = 0.0
        self.is_absent = False
        self.is_behind = False
        """Whether the last read ended because there were enough records."""
        self._settings = settings
        self._feed = open_feed(table, settings, stored)
        self._events = FeedEvents(
            FeedEventSettings(
                topic=table.topic,
                name=settings.name,
                database=table.database,
                table=table.name,
                location=table.location,
                keys=settings.keys,
                value_format=settings.value_format,
                tombstones=settings.tombstones,
                partition=self.partition,
            )
        )
        self._items: Iterator[FeedItem] | None = None
        self._failure: Exception | None = None
        self._is_filling_gap = False
        """Whether the snapshot after a gap is not yet complete."""
        self._unsent: Offset | None = None
        self._stored = stored

    def figures(self) -> Mapping[str, Any]:
        """How far the table is read."""
        return self._feed.figures()

    def read(self, records: MixedTextRecords, deadline: float, *, ends_with_version: bool) -> bool:
        """Adds the next records until there are enough, the deadline has passed, or there are none now.

        With ``ends_with_version``, reads at most to the end of a version, and returns whether that was reached.

        Raises RetriableError if the storage fails, other ConnectErrors to fail the task; records that were added count.
        """
        self.is_behind = False
        if self._failure is not None:
            failure, self._failure = self._failure, None
            self._handle(failure)
            return False
        before = self._feed.position
        try:
            while True:
                if self._items is None:
                    self._items = self._feed.items()
                before = self._feed.position
                item = next(self._items)
                self._became_present()
                if isinstance(item, FeedBatch):
                    self._events.add(records, item)
                    if len(records) >= self._settings.batch_rows:
                        self.is_behind = True
                        return False
                elif isinstance(item, VersionEnd):
                    self._is_filling_gap = False
                    if ends_with_version:
                        return True
                elif isinstance(item, Waiting) and item.is_idle:
                    self.due = time.monotonic() + self._settings.poll_interval_s
                    return False
                if time.monotonic() >= deadline:
                    return False
        except Exception as error:
            self._items = None
            self._feed.move_to(before)
            if records:
                self._failure = error  # raised after these records
                return False
            self._handle(error)
            return False

    def _handle(self, error: Exception) -> None:
        if isinstance(error, TableAbsentError):
            if not self.is_absent:
                log.warning("%s; waiting until the table exists", error.message)
            self.is_absent = True
            self.due = time.monotonic() + max(self._settings.poll_interval_s, 1.0)
            return
        if isinstance(error, VersionGapError):
            if self._settings.on_gap != SNAPSHOT:
                raise with_remedy(error) from error
            if self._is_filling_gap:
                raise ConnectError(
                    f"{error.message}. The task was already reading the whole table again because of a gap "
                    "(source.on.gap=snapshot). Restart it to try once more"
                ) from error
            self._is_filling_gap = True
            log.warning("%s; reading the whole table again (source.on.gap=snapshot)", error.message)
            self._feed.start_again()
            return
        if isinstance(error, OSError):
            raise RetriableError(f"cannot read table {self.table.location}: {error}") from error
        raise error

    def _became_present(self) -> None:
        if self.is_absent:
            log.info("table %s exists now", self.table.location)
            self.is_absent = False

    def close(self) -> None:
        """Closes the file that is being read, and releases Spark."""
        self._items = None
        self._feed.close()

    # --- offsets

    def returned(self, records: MixedTextRecords) -> None:
        """The task returned these records."""
        self._unsent = records.source_offset

    def sent(self, offset: Offset) -> None:
        """The records up to this offset were sent."""
        if offset == self._unsent:
            self._unsent = None

    def stored(self, offset: Offset) -> None:
        """The offset was stored."""
        self._stored = offset

    def offset_past_records(self) -> Offset | None:
        """The offset after versions without records, if all records before them were sent and it is not stored; else None."""
        position = self._feed.position
        # Promise 1: the position is after all records that were returned.
        if self._unsent is not None or position is None:
            return None
        offset = position.to_offset()
        return None if offset == self._stored else offset
