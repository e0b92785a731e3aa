"""The changes of one snapshot, in an order that depends only on the snapshot, its files, the key columns, and ``pairing_rows``.

- A data file that is added: its rows, without those that delete files of the snapshot delete, are inserts.
- A data file that is removed: its rows, without those that were deleted before, are deletes.
- A data file that gets or loses delete files: rows that are deleted only since the snapshot are deletes, those that were deleted
  only before it inserts.

Without key columns, the deletes come first, in the order of the snapshot's manifests and of the rows in the files, then the
inserts. With key columns, :mod:`connectors.spark.source.pairing` defines the order.

What was deleted before a snapshot is known from the snapshot itself, whose manifests also name what it removed. So its parent may
have expired.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

import numpy as np

from connectors.spark.source.iceberg.deletes import NO_ROWS, DeleteReader, applies
from connectors.spark.source.iceberg.manifests import EQUALITY_DELETES, FileEntry, ManifestReader, SnapshotFiles
from connectors.spark.source.iceberg.metadata import REPLACE, Snapshot
from connectors.spark.source.pairing import FileRowSets, pair_rows
from connectors.spark.source.positioned_feed import FeedSettings
from connectors.spark.source.table_feed import FeedChanges, TableSchema, deleted, inserted
from connectors.spark.tables.files.file_columns import FileColumns
from connectors.spark.tables.files.file_reader import FileRows
from connectors.spark.tables.files.row_bitmaps import Rows

_RowSets = tuple[list[FileRows], list[FileRows]]


@dataclass(slots=True)
class LiveTable:
    """The data files and delete files of a snapshot: about 1 KB each."""

    snapshot_id: int | None
    data: dict[str, FileEntry] = field(default_factory=dict)
    _deletes: dict[Hashable, dict[tuple[str, int], FileEntry]] = field(default_factory=dict)
    """By the data file, the partition, or None for the whole table."""

    def add(self, entry: FileEntry) -> None:
        if entry.is_data:
            self.data[entry.path] = entry
        else:
            self._deletes.setdefault(_scope(entry), {})[entry.key] = entry

    def remove(self, entry: FileEntry) -> None:
        if entry.is_data:
            self.data.pop(entry.path, None)
            return
        found = self._deletes.get(_scope(entry), {})
        found.pop(entry.key, None)
        if not found:
            self._deletes.pop(_scope(entry), None)

    def apply(self, snapshot_id: int, changed: SnapshotFiles) -> None:
        """Makes this the state of the snapshot that made the changes."""
        for entry in changed.removed:
            self.remove(entry)
        for entry in changed.added:
            self.add(entry)
        self.snapshot_id = snapshot_id

    def deletes_of(self, data: FileEntry) -> list[FileEntry]:
        """The delete files that may have rows of a data file."""
        found = (self._deletes.get(scope, {}).values() for scope in (data.path, (data.spec, data.partition), None))
        return [delete for delete in itertools.chain.from_iterable(found) if applies(delete, data)]


def _scope(delete: FileEntry) -> Hashable:
    if delete.of is not None:
        return delete.of
    return None if delete.is_global else (delete.spec, delete.partition)


class IcebergChangeReader:
    """Reads snapshots and their changes. Memory: one row group, ``batch_rows`` rows, for pairing ``pairing_rows`` rows, the
    positions of rows that a snapshot deletes, and, once it has delete files, the table's files (:class:`LiveTable`)."""

    def __init__(
        self, manifests: ManifestReader, deletes: DeleteReader, settings: FeedSettings, live: LiveTable | None = None
    ) -> None:
        """``live``: of another reader of the same table."""
        self._manifests = manifests
        self._deletes = deletes
        self._settings = settings
        self.live = live

    def count(self, rows: FileRows) -> int:
        """The number of rows of :meth:`rows`."""
        return rows.count(self._deletes.files)

    def rows(self, snapshot: Snapshot) -> Iterator[FileRows]:
        """The rows of a snapshot, by file, in the order of its manifests."""
        table = LiveTable(snapshot.id)
        for entry in self._manifests.live(snapshot):
            if entry.is_data:
                yield self._all_rows(entry, table.deletes_of(entry))
                self._deletes.forget_matches()
            else:
                table.add(entry)
        self._deletes.forget()

    def row_sets(self, rows: list[FileRows], columns: FileColumns) -> FileRowSets:
        """Rows with these columns."""
        return FileRowSets(
            self._deletes.files, rows, lambda names: columns if names is None else columns.only(names), self._settings.batch_rows
        )

    def read(self, snapshot: Snapshot, columns: FileColumns, schema: TableSchema) -> Iterator[FeedChanges | None]:
        """Yields the changes of a snapshot, and None in between to return to the caller often. Raises UnreadableFile."""
        removed, added = self._changed_rows(snapshot)
        deletes, inserts = self.row_sets(removed, columns), self.row_sets(added, columns)
        settings = self._settings
        if settings.keys and removed and added:
            keys = {name: schema.types[name] for name in settings.keys}
            yield from pair_rows(deletes, inserts, keys, settings.pairing_rows, settings.batch_rows)
            return
        for rows in deletes.read():
            yield deleted(rows)
        for rows in inserts.read():
            yield inserted(rows)

    def _changed_rows(self, snapshot: Snapshot) -> _RowSets:
        """Deleted and inserted rows, by file."""
        changed = self._manifests.changes(snapshot)
        live = self.live if self.live is not None and self.live.snapshot_id == snapshot.parent else None
        self.live = None
        if snapshot.operation == REPLACE:  # the same rows in other files
            if live is not None:
                live.apply(snapshot.id, changed)
                self.live = live
            return [], []
        if live is None and self._has_deletes(snapshot, changed):
            live = self._before(snapshot, changed)
        if live is None:
            return [self._all_rows(e, []) for e in changed.removed], [self._all_rows(e, []) for e in changed.added]
        found = self._with_deletes(snapshot, changed, live)
        self.live = live
        self._deletes.forget()
        return found

    def _has_deletes(self, snapshot: Snapshot, changed: SnapshotFiles) -> bool:
        """Whether delete files have a say in the changes."""
        if any(not entry.is_data for entry in (*changed.added, *changed.removed)):
            return True
        return bool(changed.removed) and self._manifests.has_deletes(snapshot)

    def _before(self, snapshot: Snapshot, changed: SnapshotFiles) -> LiveTable:
        live = LiveTable(snapshot.parent)
        for entry in self._manifests.live(snapshot):
            live.add(entry)
        for entry in changed.added:
            live.remove(entry)
        for entry in changed.removed:
            live.add(entry)
        return live

    def _with_deletes(self, snapshot: Snapshot, changed: SnapshotFiles, live: LiveTable) -> _RowSets:
        """Changes where delete files have a say; moves the table to the snapshot."""
        added = {entry.path: entry for entry in changed.added if entry.is_data}
        gone = {entry.path: entry for entry in changed.removed if entry.is_data and entry.path not in added}
        kept = self._kept_files(changed, live, set(gone))
        new = [entry for path, entry in added.items() if path not in kept]
        before = {path: live.deletes_of(live.data[path]) for path in (*gone, *kept)}
        live.apply(snapshot.id, changed)
        removed = [self._all_rows(entry, before[path]) for path, entry in gone.items()]
        restored = []
        for path, entry in kept.items():
            file = self._deletes.live_file(entry)
            rows, back = self._moved_rows(entry, before[path], live.deletes_of(live.data[path]))
            if len(rows):
                removed.append(FileRows(file, only=rows))
            if len(back):
                restored.append(FileRows(file, only=back))
        return removed, restored + [self._all_rows(entry, live.deletes_of(entry)) for entry in new]

    def _kept_files(self, changed: SnapshotFiles, live: LiveTable, gone: set[str]) -> dict[str, FileEntry]:
        """The data files that stay, and get or lose delete files."""
        kept = {entry.path: entry for entry in changed.added if entry.is_data and entry.path in live.data}
        for delete in (*changed.removed, *changed.added):
            if delete.is_data:
                continue
            if delete.content == EQUALITY_DELETES:
                found = [data for data in live.data.values() if applies(delete, data)]
                # The order of the table's files depends on where the task started to follow it.
                paths = [data.path for data in sorted(found, key=lambda data: (data.sequence, data.path))]
            else:
                paths = [path for path in self._deletes.paths(delete) if path in live.data]
            kept |= {path: live.data[path] for path in paths if path not in gone and path not in kept}
        return kept

    def _moved_rows(self, data: FileEntry, before: list[FileEntry], after: list[FileEntry]) -> tuple[Rows, Rows]:
        """The rows of a data file that are deleted only after a change of its delete files, and those only before it."""
        known, now = {one.key for one in before}, {one.key for one in after}
        new = [one for one in after if one.key not in known]
        if known <= now and not any(one.is_vector for one in new) and not len(self._deletes.deleted_rows(data, new)):
            return NO_ROWS, NO_ROWS  # most equality deletes have no row of most files
        old_rows, rows = self._deletes.deleted_rows(data, before), self._deletes.deleted_rows(data, after)
        return np.setdiff1d(rows, old_rows, assume_unique=True), np.setdiff1d(old_rows, rows, assume_unique=True)

    def _all_rows(self, entry: FileEntry, deletes: list[FileEntry]) -> FileRows:
        without = self._deletes.deleted_rows(entry, deletes)
        return FileRows(self._deletes.live_file(entry), without=without if len(without) else None)
