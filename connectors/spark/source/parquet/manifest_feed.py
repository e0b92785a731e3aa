"""Reads one Parquet table that the sink writes: a snapshot, then the rows of one commit after the other."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs

from connect.errors import ConnectError, SchemaError
from connectors.spark.plan.evolution import Columns
from connectors.spark.source.config import LATEST, SNAPSHOT
from connectors.spark.source.errors import TableAbsentError, UnsupportedTableError, VersionGapError
from connectors.spark.source.key_columns import check_keys
from connectors.spark.source.offsets import FeedPosition
from connectors.spark.source.parquet.manifest_reader import ListedEntries, RowSlice, SinkManifestReader
from connectors.spark.source.positioned_feed import FeedSettings, VersionedFeed
from connectors.spark.source.table_feed import (
    CREATE_CODE,
    READ_CODE,
    FeedBatch,
    FeedItem,
    FeedVersion,
    TableColumn,
    TableSchema,
    VersionEnd,
    Waiting,
    inserted,
)
from connectors.spark.source.types import column_schema
from connectors.spark.tables.files.file_columns import open_parquet
from connectors.spark.tables.files.file_reader import FileRows
from connectors.spark.tables.files.live_files import LiveFile, is_storage_failure

_ATTEMPTS = 5
"""How often a file may be merged between finding and opening it."""


class ManifestFeed(VersionedFeed):
    """The feed of the table at ``folder`` of a file system (:class:`connectors.spark.source.table_feed.TableFeed`)."""

    def __init__(
        self, files: fs.FileSystem, folder: str, location: str, settings: FeedSettings, position: FeedPosition | None
    ) -> None:
        """``location`` names the table in messages; without a position, the feed starts as the settings say."""
        super().__init__(location, settings, position)
        self._files = files
        self._folder = folder
        self._manifest = SinkManifestReader(files, folder, location)

    def figures(self) -> Mapping[str, Any]:
        """See :class:`connectors.spark.source.table_feed.TableFeed`."""
        position = self._position
        return self._figures(0 if position is None else self._newest - position.version + (not position.snapshot))

    def items(self) -> Iterator[FeedItem]:
        """See :class:`connectors.spark.source.table_feed.TableFeed`."""
        listed = self._list()
        if self._position is None:
            self._position = self._first_position(listed)
        if self._position.snapshot:
            yield from self._snapshot(self._position, listed)
            self._position = self._position.after_version()
            yield VersionEnd()
        while True:
            position = self._position
            if position.version not in listed.modified_ms:
                listed = self._list()
                self._check(position, listed)
            if position.version not in listed.modified_ms:
                self._phase = "waiting"
                yield Waiting(is_idle=True)
                continue
            self._phase = "changes"
            yield from self._commit(position, listed)
            self._manifest.forget_before(position.version)
            self._position = self._position.after_version()
            yield VersionEnd()

    def _list(self) -> ListedEntries:
        listed = self._manifest.list_entries()
        if not listed.newest:
            raise TableAbsentError(f"the table {self._location} has no commits yet")
        self._newest = listed.newest
        return listed

    def _first_position(self, listed: ListedEntries) -> FeedPosition:
        start = self._start
        if start == SNAPSHOT:
            return FeedPosition(listed.newest, snapshot=True)
        return FeedPosition(listed.newest + 1 if start == LATEST else max(int(start), 1))

    def _check(self, position: FeedPosition, listed: ListedEntries) -> None:
        """Raises VersionGapError if a version that does not exist will never be written."""
        if position.version < listed.oldest:
            raise self._gap(f"the manifest of table {self._location} no longer has version {position.version}", listed)
        if position.version > listed.newest + 1:
            raise self._gap(
                f"table {self._location} has no version {position.version - 1}: it may have been replaced, or the offset is "
                "wrong",
                listed,
            )

    def _gap(self, message: str, listed: ListedEntries) -> VersionGapError:
        return VersionGapError(message, oldest=listed.oldest, newest=listed.newest)

    def _snapshot(self, position: FeedPosition, listed: ListedEntries) -> Iterator[FeedItem]:
        """Rows of the snapshot from the position on: files by name, rows by their number."""
        self._phase = "snapshot"
        number = position.version
        if number not in listed.modified_ms:
            raise self._gap(f"the manifest of table {self._location} no longer has version {number} of the snapshot", listed)
        schema = self._schema(self._manifest.entry(number).state.columns)
        version = FeedVersion(self._location, number, listed.modified_ms[number], True, "")
        row = 0
        for name in self._manifest.files_at(number):
            row = yield from self._rows_of(name, version, schema, row)

    def _commit(self, position: FeedPosition, listed: ListedEntries) -> Iterator[FeedItem]:
        """The rows of one commit from the position on. Compaction and metadata have none."""
        entry = self._manifest.entry(position.version)
        if entry.swap is None or entry.swap.replaced:
            return
        schema = self._schema(entry.state.columns)
        version = FeedVersion(self._location, entry.number, listed.modified_ms[entry.number], False, "")
        yield from self._rows_of(entry.swap.name, version, schema, 0)

    def _schema(self, columns: Columns) -> TableSchema:
        for name, type_ in columns.items():
            try:
                column_schema(type_)
            except SchemaError as e:
                raise UnsupportedTableError(f"column {name} of table {self._location} cannot be read: {e}") from e
        found = TableSchema(tuple(TableColumn(name, type_, True) for name, type_ in columns.items()))
        check_keys(self._settings.keys, found, self._location)
        return self._schemas.setdefault(found, found)

    def _rows_of(self, name: str, version: FeedVersion, schema: TableSchema, first_row: int) -> Generator[FeedItem, None, int]:
        """The rows of a file of the version that the position has not passed; returns the number of the row after them."""
        code = READ_CODE if version.is_snapshot else CREATE_CODE
        position = self._position
        assert position is not None
        with self._open(name, version.version) as (stream, place):
            parquet = open_parquet(stream)
            rows = parquet.metadata.num_rows if place.rows is None else place.rows
            done = min(max(position.row - first_row, 0), rows)
            row = first_row + done
            whole = LiveFile(0, {}, place.file, 0, parquet.metadata.num_rows)
            is_whole = not done and place.rows is None
            selected = FileRows(whole, only=None if is_whole else np.arange(place.start + done, place.start + rows))
            for table in selected.read_open(parquet, schema.file_columns(), self._settings.batch_rows):
                self._position = replace(position, row=row + table.num_rows)
                self._rows += table.num_rows
                yield FeedBatch(version, schema, inserted(table, code), row)
                row += table.num_rows
        return first_row + rows

    @contextlib.contextmanager
    def _open(self, name: str, number: int) -> Iterator[tuple[pa.NativeFile, RowSlice]]:
        """Opens the file that has the rows of a file of version ``number``. Raises ConnectError if that is missing or damaged."""
        for attempt in itertools.count(1):
            place = self._manifest.find_rows(name, number)
            try:
                stream = self._files.open_input_file(f"{self._folder}/{place.file}")
            except FileNotFoundError as e:
                if attempt < _ATTEMPTS:
                    continue  # merged meanwhile
                raise VersionGapError(
                    f"version {number} of table {self._location} cannot be read any more: the file {place.file} does not exist",
                    oldest=number + 1,
                    newest=max(number, self._newest),
                ) from e
            break
        with stream:
            try:
                yield stream, place
            except (pa.ArrowException, OSError) as e:
                if is_storage_failure(e):
                    raise
                raise ConnectError(
                    f"the file {place.file} of table {self._location} cannot be read: {e}. Restore the file from a backup"
                ) from e
