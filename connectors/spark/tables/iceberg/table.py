"""An Iceberg table whose files and deletion vectors the worker writes, committed by Iceberg's library in Spark's JVM.

As with Delta, rows do not pass through Spark: an upsert finds the old rows in a key index, writes the new ones as one file, and
marks the old ones in deletion vectors. Tables of format version 1 or 2 have none; there, the files with old rows are written
again without them (copy-on-write). The offsets are in the snapshots (promise 6).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connect import crash_points
from connect.errors import ConnectError
from connect.record import TopicPartition
from connectors.spark.plan.evolution import Columns
from connectors.spark.tables.application_ids import Identify, StoredOffsets, feeding_partitions, ids_of
from connectors.spark.tables.conflicts import CommitConflict, TableNotLocked
from connectors.spark.tables.executor_files import FileTarget
from connectors.spark.tables.files.compaction import MergedFile, choose_sources, merge_files
from connectors.spark.tables.files.indexed_files import IndexedFiles, has_keys
from connectors.spark.tables.files.live_files import Entry, LiveFile
from connectors.spark.tables.iceberg.change import IcebergChange
from connectors.spark.tables.iceberg.creation import create_table
from connectors.spark.tables.iceberg.expiry import Retention
from connectors.spark.tables.iceberg.file_format import LINEAGE
from connectors.spark.tables.iceberg.file_target import make_file_target
from connectors.spark.tables.iceberg.lineage import with_lineage
from connectors.spark.tables.iceberg.offset_moves import move_stored_offsets
from connectors.spark.tables.iceberg.offsets import TableOffsets, find_offsets
from connectors.spark.tables.iceberg.schema_change import columns_to_add, types_to_change
from connectors.spark.tables.iceberg.snapshots import IcebergTableSettings, KnownSnapshot, TableReader
from connectors.spark.tables.iceberg.types import Json
from connectors.spark.tables.iceberg.upsert import write_upsert
from connectors.spark.tables.source_order.ordering import SourceOrder
from connectors.spark.tables.staging import local_folder
from connectors.spark.tables.table import Defaults, OffsetCommit, TableState, Upsert
from connectors.spark.tables.table_lock import creation_lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_ATTEMPTS = 5
_CONFLICTS = 2


class IcebergTable:
    """Writes one table. When Spark's JVM ends, the running call fails, and the next :meth:`load` continues with a new session."""

    def __init__(
        self,
        settings: IcebergTableSettings,
        new_session: Callable[[], SparkSession],
        identify: Identify,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._identify = identify
        self._now = now
        self._lock = threading.RLock()
        self._reader = TableReader(settings, new_session, identify)
        self._order = SourceOrder(settings.deleted_retention_ms)
        self._figures: dict[str, Any] = {"unavailable": 0}
        self._conflicts = 0
        """Upserts in a row that another commit came before."""

    @property
    def path(self) -> str:
        return str(self._settings.name)

    @property
    def _place(self) -> str:
        return f"table {self.path}"

    # -- state ---------------------------------------------------------------------------------------------------------

    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        """Raises ConnectError when the connector's offsets no longer say what the table contains."""
        with self._lock:
            known = self._reader.load()
            if known is None:
                return TableState(None)
            ends = StoredOffsets(known.offsets.of(self._settings.connector), self._settings.connector)
            return TableState(
                known.columns,
                ends.ends(self._identify, self.path),
                tuple(dict.fromkeys(known.partitioning.columns)),
                feeding_partitions({text: end for own in known.offsets.ends.values() for text, end in own.items()}),
            )

    # -- schema --------------------------------------------------------------------------------------------------------

    def create(self, columns: Columns, keys: Sequence[str]) -> None:
        with self._lock, creation_lock(None if self._settings.name.catalog else local_folder(self.path)):
            self._reader.open()
            assert self._reader.library is not None
            create_table(self._reader.library, self._settings.name, columns, self._settings.layout)
            self._reader.handle = None

    def add_columns(self, added: list[tuple[str, pa.DataType]], columns: Columns, defaults: Defaults) -> None:
        with self._lock:
            known, handle = self._reader.require()
            schema = columns_to_add(known.columns, columns, defaults, int(known.state["format"]), self._place)
            with known.lock.held():
                handle.add_columns(schema)

    def widen_columns(self, widened: list[tuple[str, pa.DataType]]) -> None:
        with self._lock:
            known, handle = self._reader.require()
            with known.lock.held():
                handle.change_types(types_to_change(widened))

    # -- commits -------------------------------------------------------------------------------------------------------

    def file_target(self) -> FileTarget | None:
        return None if self._reader.known is None else make_file_target(self._reader.known, self._settings)

    def append(self, rows: pa.Table, commit: OffsetCommit) -> int | None:
        with self._lock:
            known = self._reader.begin(commit.schema_of(rows), commit)
            if known is None:
                return None
            change, writer = IcebergChange(rows, commit.files), known.writer
            with change.writing(writer):
                change.write_rows(writer, known.partitioning)
            crash_points.point("spark.staged")
            for _ in range(_ATTEMPTS):
                version = self._commit(known, change, commit, "append")
                if version is not None:
                    return version
                # The files fit as long as nobody changed the schema or moved these partitions.
                again = self._reader.begin(commit.schema_of(rows), commit)
                if again is None:
                    break
                known = again
            writer.delete(change.written)
            return None

    def upsert(self, upsert: Upsert, commit: OffsetCommit) -> int | None:
        with self._lock:
            # After conflicts, the lock is held from planning on, so that a busy table does not keep this task from committing. So
            # it is for a truncate, which may rewrite all rows.
            is_locked = (self._conflicts >= _CONFLICTS or upsert.truncates) and self._reader.known is not None
            try:
                with self._reader.require()[0].lock.held() if is_locked else contextlib.nullcontext():
                    version = self._plan_and_commit(upsert, commit, is_locked=is_locked)
            except CommitConflict:
                version = None  # the snapshot has expired: it is planned again
            self._conflicts = 0 if version is not None else self._conflicts + 1
            return version

    def _plan_and_commit(self, upsert: Upsert, commit: OffsetCommit, *, is_locked: bool) -> int | None:
        known = self._reader.begin(commit.schema_of(upsert.rows), commit)
        if known is None:
            return None
        with self._reader.reading(known):
            indexed, fail = self._index(known, upsert), self._settings.fail_unavailable
            if upsert.update is not None and not self._read_lineage(known, indexed.live.by_path.values()):
                return None
            written = write_upsert(upsert, indexed, known, self._order, commit.files, fail_unavailable=fail)
        crash_points.point("spark.staged")
        try:
            version = self._commit(known, written.change, commit, written.kind, is_locked=is_locked)
        except TableNotLocked:
            self._order.abandoned(written.ordered)
            raise
        if version is None:
            known.writer.delete(written.change.written)
            self._order.abandoned(written.ordered)
            return None
        self._order.committed(written.ordered)
        self._figures |= self._order.figures()
        self._figures["unavailable"] += written.unavailable
        return version

    def _index(self, known: KnownSnapshot, upsert: Upsert) -> IndexedFiles:
        """The files of the known snapshot with an index of their keys; reads them if there is none."""
        if known.indexed is None or not has_keys(known.indexed, upsert.keys, upsert.columns):
            known.indexed = self._reader.read_files(known, {name: upsert.columns[name] for name in upsert.keys})
        if upsert.keys and not known.indexed.has_index:
            raise ConnectError(
                f"{self._place} has more rows than upsert.index.max.keys={self._settings.max_index_keys}; give the task more "
                "memory and raise it"
            )
        return known.indexed

    def _commit(
        self, known: KnownSnapshot, change: IcebergChange, commit: OffsetCommit, kind: str, *, is_locked: bool = False
    ) -> int | None:
        """Returns the snapshot; None after a conflict. ``is_locked``: the caller has the lock."""
        handle, connector = self._reader.handle, self._settings.connector
        assert handle is not None
        identities = ids_of(commit.ends, connector, self._identify)
        moved = {identities[tp]: end for tp, end in commit.ends.items()}
        summary = known.offsets.next_summary(connector, moved, commit.ranges, change.order_state)
        request = change.request(kind, known.snapshot, summary)
        try:
            with contextlib.nullcontext() if is_locked else known.lock.held():
                answer = handle.commit(request)
                known.claim(handle, self._settings.writer_property)
        except TableNotLocked:
            known.writer.delete(change.written)
            raise
        except CommitConflict as e:
            log.debug("Committing to %s again after a conflict: %s", self._place, e)
            return None
        except Exception as e:
            self._reader.check_jvm(e)
            # It is not known whether there was a commit: the next one looks at the newest snapshot.
            raise
        self._follow(known, change, answer)
        return known.snapshot

    def _follow(self, known: KnownSnapshot, change: IcebergChange, answer: Json) -> None:
        """Moves on to an own commit."""

        def apply(indexed: IndexedFiles) -> None:
            entries = [{**entry, "sequence": answer["sequence"]} for entry in change.entries()]
            indexed.apply_own(entries, change.removed, change.new_rows)

        known.move_on(answer, apply)
        if known.indexed is not None:
            self._figures |= known.indexed.figures()
        elif "total-data-files" in answer["summary"]:
            summary = answer["summary"]
            self._figures |= {"files": int(summary["total-data-files"]), "bytes": int(summary.get("total-files-size", 0))}

    # -- maintenance ---------------------------------------------------------------------------------------------------

    def maintain(self, is_stopping: Callable[[], bool]) -> None:
        if self._reader.known is None or self._reader.handle is None:
            return
        while not is_stopping() and self._compact():
            pass
        if not is_stopping():
            self._repeat_offsets()
        if not is_stopping():
            self._expire()

    def _repeat_offsets(self) -> None:
        """Commits the offsets again after another writer's commit, before the snapshot that has them expires."""
        with self._lock:
            nothing = OffsetCommit({}, {})
            known = None if self._reader.known is None else self._reader.begin(pa.schema([]), nothing)
            if known is not None and known.offsets.snapshot not in (0, known.snapshot):
                self._commit(known, IcebergChange(pa.table({})), nothing, "append")

    def _compact(self) -> bool:
        """Merges files once; returns whether it did."""
        with self._lock:
            known = self._reader.known
            if known is None or self._reader.handle is None or not known.snapshot:
                return False
            if known.indexed is None:
                if self._settings.upserts:
                    return False  # the next commit builds the index
                known.indexed = self._reader.read_files(known, {})
            indexed = known.indexed
            sources = choose_sources(list(indexed.live.by_path.values()), self._settings.compaction)
            if not sources:
                return False
            if not self._read_lineage(known, [source.file for source in sources]):
                return False
        first = sources[0].file.entry

        def write(batches: Iterator[pa.Table]) -> Entry | None:
            return known.writer.write_batches(batches, tuple(first["partition"]), first["spec"])

        columns = {**known.columns, **LINEAGE}
        merged = merge_files(indexed.live, sources, columns, indexed.indexed_keys, write, with_lineage)
        with self._lock:
            return self._commit_merged(known, merged, indexed)

    def _read_lineage(self, known: KnownSnapshot, files: Iterable[LiveFile]) -> bool:
        """Reads the IDs of the rows of files. Iceberg gives them out in the commit, so what is known of own files lacks them.
        Returns False, and forgets the files, if the table no longer has one."""
        assert self._reader.handle is not None
        entries = {str(entry["path"]): entry for entry in self._reader.handle.files(known.snapshot)}
        for file in files:
            if file.path not in entries:
                known.indexed = None
                return False
            file.entry = {k: v for k, v in entries[file.path].items() if k != "deletes"}
        return True

    def _commit_merged(self, known: KnownSnapshot, merged: MergedFile, indexed: IndexedFiles) -> bool:
        change = IcebergChange.of_merged(merged, known.writer)
        still_there = all(indexed.live.by_path.get(s.file.path) is s.file for s in merged.sources)
        if self._reader.known is not known or known.indexed is not indexed or not still_there:
            known.writer.delete(change.written)
            return False  # somebody else has changed the table; the next run looks again
        handle = self._reader.handle
        assert handle is not None
        request = change.request("rewrite", known.snapshot, known.offsets.next_summary(self._settings.connector, {}))
        try:
            with known.lock.held():
                answer = handle.commit(request)
        except CommitConflict as e:
            log.debug("%s is compacted later, because of a conflict: %s", self._place, e)
            known.writer.delete(change.written)
            return False
        known.move_on(answer, lambda files: files.apply_merged(merged, change.entries(), change.removed))
        if known.indexed is not None:
            self._figures |= indexed.figures()
        return True

    def _expire(self) -> None:
        interval_ms = int(self._settings.expire_interval_s * 1000)
        if not interval_ms:
            return
        with self._lock:
            known, handle = self._reader.known, self._reader.handle
            if known is None or handle is None:
                return
            retention, now_ms = Retention.read(known.state["properties"]), int(self._now() * 1000)
            if retention.is_due(*handle.count_snapshots(now_ms - retention.max_age_ms), interval_ms, now_ms):
                with known.lock.held():
                    handle.expire_snapshots()

    # -- offsets -------------------------------------------------------------------------------------------------------

    def stored_ends(self) -> Mapping[TopicPartition, int]:
        with self._lock:
            handle = self._reader.open()
            if handle is None:
                return {}
            self._reader.read(handle)
            handle = self._reader.handle or handle
            offsets = find_offsets(handle.history(0)["snapshots"]) or TableOffsets()
            return StoredOffsets(offsets.of(self._settings.connector), self._settings.connector).all_ends()

    def move_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        with self._lock:
            move_stored_offsets(self._reader, self._settings, offsets, self._place)

    def progress(self) -> Mapping[str, Any]:
        """``unavailable``: values that became null because neither the change nor the table had them, or with
        ``unavailable.value=null``. ``files`` and ``bytes``: of the last commit; for upsert tables also ``deleted_rows`` (in
        deletion vectors), ``index_keys``, and ``index_bytes``."""
        return dict(self._figures)
