"""Reads one table for a task: its feed, its records, and which offset may be stored."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from connect.errors import ConnectError, RetriableError
from connect.text_records import MixedTextRecords
from connectors.spark.config import PARQUET
from connectors.spark.s3_settings import S3Settings
from connectors.spark.source.config import SNAPSHOT, SourceTable, SparkSourceConfig
from connectors.spark.source.delta.feed import DeltaFeed, DeltaFeedSettings
from connectors.spark.source.delta.table_state import DeltaStates, TableDefinition
from connectors.spark.source.errors import TableAbsentError, VersionGapError, with_remedy
from connectors.spark.source.events import FeedEvents, FeedEventSettings
from connectors.spark.source.key_columns import check_keys
from connectors.spark.source.offsets import parse_offset, table_partition
from connectors.spark.source.parquet.feed import ParquetFeed, check_parquet
from connectors.spark.source.query.positions import parse_cursor_offset
from connectors.spark.source.table_feed import FeedBatch, FeedItem, TableFeed, VersionEnd, Waiting
from connectors.spark.tables.staging import open_location

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
        self._feed = _open_feed(table, settings, stored)
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


def _open_feed(table: SourceTable, settings: SparkSourceConfig, stored: Offset | None) -> TableFeed:
    if settings.query is not None:
        # Imported here because PySpark takes most of a second.
        from connectors.spark.source.query.feed import QueryFeed, QueryFeedSettings

        query = QueryFeedSettings(
            settings.query,
            settings.keys,
            settings.start,
            settings.batch_rows,
            settings.lag_ms,
            table.name,
            f"{settings.connector}-{table.name}",
        )
        return QueryFeed(query, None if stored is None else parse_cursor_offset(stored))
    files, folder = _open(table.location, table.s3)
    if settings.format == PARQUET:
        return ParquetFeed(files, folder, table.location, settings, stored)
    own = DeltaFeedSettings(settings.keys, settings.start, settings.pairing_rows, settings.batch_rows)
    return DeltaFeed(files, folder, table.location, own, None if stored is None else parse_offset(stored))


def _open(location: str, s3: S3Settings | None) -> tuple[Any, str]:
    return open_location(location, s3, "source.location")


def check_table(table: SourceTable, settings: SparkSourceConfig) -> None:
    """Raises ConnectError if a table exists and cannot be read with these settings."""
    if settings.query is not None:
        return  # a check would start Spark: the task names what is wrong with a query
    files, folder = _open(table.location, table.s3)
    if settings.format == PARQUET:
        check_parquet(files, folder, table.location, settings)
        return
    states = DeltaStates(files, folder, table.location)
    try:
        listed = states.list_log()
        state = states.read(listed.newest, listed, with_files=False)
    except TableAbsentError:
        return
    except OSError as e:
        raise ConnectError(f"cannot read table {table.location}: {e}") from e
    if state is not None:
        schema = TableDefinition(table.location, state.metadata, state.protocol).schema
        check_keys(settings.keys, schema, table.location)
