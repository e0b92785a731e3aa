"""Reads one Iceberg table: a snapshot, then the changes of one snapshot of the main branch after the other."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.source.config import LATEST, SNAPSHOT
from connectors.spark.source.errors import VersionGapError
from connectors.spark.source.iceberg.columns import ROW_TYPES, table_schema
from connectors.spark.source.iceberg.deletes import DeleteReader
from connectors.spark.source.iceberg.manifests import ManifestReader
from connectors.spark.source.iceberg.metadata import Json, Snapshot, TableMetadata
from connectors.spark.source.iceberg.snapshot_changes import IcebergChangeReader
from connectors.spark.source.iceberg.table_home import TableHome
from connectors.spark.source.key_columns import check_keys
from connectors.spark.source.offsets import FeedPosition
from connectors.spark.source.positioned_feed import FeedSettings, VersionedFeed
from connectors.spark.source.table_feed import (
    READ_CODE,
    FeedItem,
    FeedVersion,
    TableSchema,
    VersionEnd,
    Waiting,
    inserted,
)
from connectors.spark.tables.files.live_files import LiveFiles, UnreadableFile
from connectors.spark.tables.iceberg.columns import file_columns
from connectors.spark.tables.iceberg.file_format import IcebergFormat

_LOAD_INTERVAL_S = 10.0
"""How often a backlog looks for the newest snapshot, which its lag is relative to."""


class IcebergFeed(VersionedFeed):
    """The feed of a table (:class:`connectors.spark.source.table_feed.TableFeed`)."""

    def __init__(self, home: TableHome, location: str, settings: FeedSettings, position: FeedPosition | None) -> None:
        """``location`` names the table in messages; without a position, the feed starts as the settings say."""
        super().__init__(location, settings, position)
        self._home = home
        self._reader: IcebergChangeReader | None = None
        self._history: list[Snapshot] = []
        self._loaded_at = 0.0

    def figures(self) -> Mapping[str, Any]:
        position, history = self.position, self._history
        if position is None:
            return self._figures(0)
        return self._figures(sum(one.version >= position.version + position.snapshot for one in history) + position.snapshot)

    # --- reading

    def items(self) -> Iterator[FeedItem]:
        metadata = self._load()
        position = self._position or self._first_position(metadata)
        self._position = position = self._resolved(position, metadata)
        if position.snapshot:
            yield from self._snapshot(position, metadata)
            metadata = self._load()
        while True:
            position = self._require_position()
            snapshot = self._next_snapshot(position, metadata)
            if snapshot is None:
                self._phase = "waiting"
                yield Waiting(is_idle=True)
                if self._home.has_changed(metadata):
                    metadata = self._load()
                continue
            self._phase = "changes"
            place = replace(position, version=snapshot.version, snapshot_id=snapshot.parent)
            yield from self._changes(place, snapshot, metadata)
            self._position = FeedPosition(snapshot.version + 1, table_id=metadata.table_id, snapshot_id=snapshot.id)
            yield VersionEnd()
            if time.monotonic() - self._loaded_at > _LOAD_INTERVAL_S:
                metadata = self._load()

    def _require_position(self) -> FeedPosition:
        assert self._position is not None
        return self._position

    def _load(self) -> TableMetadata:
        metadata, files = self._home.load()
        self._history, self._loaded_at = metadata.history(), time.monotonic()
        self._newest = metadata.current_version
        self._reader = _open_reader(metadata, files, self._location, self._settings, self._reader)
        return metadata

    def _first_position(self, metadata: TableMetadata) -> FeedPosition:
        start, newest = self._start, metadata.current_version
        if start == SNAPSHOT:
            return FeedPosition(newest, snapshot=True, snapshot_id=metadata.current_id)
        if start == LATEST:
            return FeedPosition(newest + 1, snapshot_id=metadata.current_id)
        return FeedPosition(int(start))

    def _resolved(self, position: FeedPosition, metadata: TableMetadata) -> FeedPosition:
        """The position, checked, with the table's id. Raises VersionGapError and ConnectError."""
        if position.table_id not in (None, metadata.table_id):
            raise self._gap(
                metadata,
                f"table {self._location} was replaced: its id is {metadata.table_id}, and the offset is of {position.table_id}",
            )
        self._require_order(position)
        # Users know the IDs of snapshots, which are never as low as versions.
        named = metadata.snapshots.get(position.version)
        if named is not None and position.version > metadata.last_version:
            position = replace(position, version=named.version)
        if position.version > metadata.last_version + 1:
            raise self._gap(
                metadata,
                f"table {self._location} has no version {position.version - 1}: it may have been replaced, or the offset is "
                "wrong",
            )
        return replace(position, table_id=metadata.table_id)

    def _gap(self, metadata: TableMetadata, message: str, *, is_lost: bool = False) -> VersionGapError:
        """``is_lost``: the changes since the position are not in the history at all."""
        newest = metadata.current_version
        if self._history and not is_lost:
            oldest = self._history[0]
            message += f"; the oldest snapshot that there is has the ID {oldest.id}"
            return VersionGapError(message, oldest=oldest.version, newest=newest)
        return VersionGapError(message, oldest=max(newest, metadata.last_version) + 1, newest=newest)

    def _next_snapshot(self, position: FeedPosition, metadata: TableMetadata) -> Snapshot | None:
        """The snapshot whose changes follow; None if there is none yet. Raises VersionGapError."""
        if position.table_id != metadata.table_id:
            self._resolved(position, metadata)
        if position.snapshot_id is None:
            found = self._first_from(position, metadata)
        else:
            found = self._successor(position, position.snapshot_id, metadata)
        if position.row and (found is None or found.version != position.version):
            raise self._gap(
                metadata,
                f"the snapshot of version {position.version} of table {self._location}, which was read up to row {position.row}, "
                "is no longer in the history of the main branch: the table was rolled back, or the offset is wrong",
                is_lost=True,
            )
        return found

    def _first_from(self, position: FeedPosition, metadata: TableMetadata) -> Snapshot | None:
        history = self._history
        later = [one for one in history if one.version >= position.version]
        if not later:
            return None
        # Below the oldest one there may have been others.
        if later[0] is history[0] and later[0].parent is not None and later[0].version != position.version:
            raise self._expired(position, metadata)
        return later[0]

    def _successor(self, position: FeedPosition, done: int, metadata: TableMetadata) -> Snapshot | None:
        """The snapshot after the one up to which the table was read."""
        history = self._history
        for place, one in enumerate(history):
            if one.parent == done:
                return one
            if one.id == done and place + 1 == len(history):
                return None
        if (
            done not in metadata.snapshots
            and history
            and history[0].parent is not None
            and metadata.current_version >= position.version
        ):
            raise self._expired(position, metadata)
        raise self._gap(
            metadata,
            f"table {self._location} was rolled back or replaced: the snapshot {done} (version {position.version - 1}), up to "
            f"which it was read, is not in the history of its newest snapshot {metadata.current or ''}".rstrip(),
            is_lost=True,
        )

    def _expired(self, position: FeedPosition, metadata: TableMetadata) -> VersionGapError:
        return self._gap(metadata, f"the snapshots from version {position.version} on of table {self._location} have expired")

    def _schema(self, schema: Json) -> TableSchema:
        found = table_schema(schema, self._location)
        found = self._schemas.setdefault(found, found)
        check_keys(self._settings.keys, found, self._location)
        return found

    def _snapshot(self, position: FeedPosition, metadata: TableMetadata) -> Iterator[FeedItem]:
        """Rows of the snapshot from the position on, by file, in the order of its manifests."""
        self._phase = "snapshot"
        snapshot = self._snapshot_at(position, metadata)
        if snapshot is None:
            schema = self._schema(metadata.schemas[metadata.current_schema_id])  # a table without rows
        else:
            node = metadata.read_schema(snapshot)
            schema, columns = self._schema(node), file_columns(node["fields"], metadata.properties, ROW_TYPES)
            version = FeedVersion(metadata.table_id, snapshot.version, snapshot.ts_ms, True, "", snapshot.id)
            self._position = position = replace(position, snapshot_id=snapshot.id)
            row, reader = 0, self._require_reader()
            with self._naming_missing(snapshot, is_snapshot=True):
                for rows in reader.rows(snapshot):
                    count = reader.count(rows) if row < position.row else 0
                    if row + count <= position.row and count:
                        row += count  # a restart: these rows are done
                        continue
                    for table in reader.row_sets([rows], columns).read():
                        yield from self._unread(version, schema, inserted(table, READ_CODE), row)
                        row += table.num_rows
        self._position = self._require_position().after_version()
        yield VersionEnd()

    def _snapshot_at(self, position: FeedPosition, metadata: TableMetadata) -> Snapshot | None:
        """The snapshot that a position is in; None if the table had none. Raises VersionGapError."""
        if position.snapshot_id is not None:
            found = metadata.snapshots.get(position.snapshot_id)
        else:
            found = next((one for one in self._history if one.version == position.version), None)
        if found is None and (position.version or position.snapshot_id is not None):
            raise self._gap(
                metadata, f"table {self._location} no longer has the snapshot of version {position.version} that was being read"
            )
        return found

    def _changes(self, position: FeedPosition, snapshot: Snapshot, metadata: TableMetadata) -> Iterator[FeedItem]:
        self._position = position
        node = metadata.schema_of(snapshot)
        schema = self._schema(node)
        version = FeedVersion(
            metadata.table_id, snapshot.version, snapshot.ts_ms, False, self._settings.order, position.snapshot_id
        )
        row = 0
        with self._naming_missing(snapshot):
            columns = file_columns(node["fields"], metadata.properties, ROW_TYPES)
            for changes in self._require_reader().read(snapshot, columns, schema):
                if changes is None:
                    yield Waiting(is_idle=False)
                    continue
                yield from self._unread(version, schema, changes, row)
                row += len(changes)

    def _require_reader(self) -> IcebergChangeReader:
        assert self._reader is not None
        return self._reader

    @contextlib.contextmanager
    def _naming_missing(self, snapshot: Snapshot, *, is_snapshot: bool = False) -> Iterator[None]:
        """Names the version when a file of it is missing or damaged. ``is_snapshot``: all of its rows are read, which only helps
        again if there is a newer one."""
        try:
            yield
        except UnreadableFile as e:
            what = f"snapshot {snapshot} of table {self._location}"
            newest = self._load()
            if not isinstance(e.__cause__, FileNotFoundError) or (is_snapshot and newest.current_id == snapshot.id):
                raise ConnectError(f"{what}: {e.message}") from e
            raise VersionGapError(
                f"{what} cannot be read any more: {e.message}",
                oldest=min(snapshot.version, newest.current_version) + 1,
                newest=newest.current_version,
            ) from e


def _open_reader(
    metadata: TableMetadata, files: fs.FileSystem, location: str, settings: FeedSettings, before: IcebergChangeReader | None
) -> IcebergChangeReader:
    live = LiveFiles(files, IcebergFormat({}))
    manifests, deletes = ManifestReader(files, location, metadata.specs), DeleteReader(live, metadata, location)
    return IcebergChangeReader(manifests, deletes, settings, None if before is None else before.live)


def check_iceberg_table(home: TableHome, location: str, keys: tuple[str, ...]) -> None:
    """Raises ConnectError if the table exists and cannot be read with these key columns; TableAbsentError if it does not."""
    metadata, _ = home.load()
    check_keys(keys, table_schema(metadata.schemas[metadata.current_schema_id], location), location)
