"""An Iceberg table whose files and deletion vectors the worker writes, committed by Iceberg's library in Spark's JVM.

As with Delta, rows do not pass through Spark: an upsert finds the old rows in a key index, writes the new ones as one file, and
marks the old ones in deletion vectors. Tables of format version 1 or 2 have none; there, the files with old rows are written
again without them (copy-on-write). The offsets are in the snapshots (promise 6).
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from connect import crash_points
from connect.errors import ConnectError
from connect.record import TopicPartition
from connectors.spark.config import WantedLayout
from connectors.spark.errors import is_jvm_gone
from connectors.spark.plan.evolution import Columns
from connectors.spark.s3_settings import S3Settings
from connectors.spark.tables.application_ids import Identify, StoredOffsets, ids_of
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.conflicts import CommitConflict
from connectors.spark.tables.files.compaction import CompactionSettings, MergedFile, choose_sources, merge_files
from connectors.spark.tables.files.indexed_files import IndexedFiles, has_keys
from connectors.spark.tables.files.key_index import Matches
from connectors.spark.tables.files.live_files import Entry, UnreadableFile, group_rows
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.files.upsert import plan_upsert
from connectors.spark.tables.iceberg.change import IcebergChange
from connectors.spark.tables.iceberg.creation import create_table
from connectors.spark.tables.iceberg.data_files import IcebergFileWriter
from connectors.spark.tables.iceberg.file_format import LINEAGE, IcebergFormat
from connectors.spark.tables.iceberg.library import IcebergHandle, IcebergLibrary, IcebergName, TableReplaced
from connectors.spark.tables.iceberg.lineage import with_lineage
from connectors.spark.tables.iceberg.offsets import (
    COMMIT,
    RANGES,
    WRITER,
    TableOffsets,
    find_offsets,
    refuse_lost,
    refuse_replacement,
)
from connectors.spark.tables.iceberg.partitioning import Partitioning
from connectors.spark.tables.iceberg.schema_change import columns_to_add, types_to_change
from connectors.spark.tables.iceberg.soft_truncate import close_versions, mark_deleted
from connectors.spark.tables.iceberg.types import Json, read_columns
from connectors.spark.tables.staging import local_folder, open_location
from connectors.spark.tables.table import OffsetCommit, TableState, Upsert
from connectors.spark.tables.table_lock import TableLock, creation_lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

APPEND_ROW_GROUP = 256 * 1024
UPSERT_ROW_GROUP = 20_000
_ATTEMPTS = 5
_VECTORS_VERSION = 3


@dataclass(frozen=True, slots=True)
class IcebergTableSettings:
    """How a connector writes a table."""

    name: IcebergName
    connector: str
    upserts: bool
    fail_unavailable: bool
    max_index_keys: int
    layout: WantedLayout
    properties: Mapping[str, str]
    """Of new tables."""
    compaction: CompactionSettings
    expire_interval_s: float
    s3: S3Settings | None = None


@dataclass(slots=True)
class KnownSnapshot:
    """The state of the table that the next commit is planned on. ``snapshot`` is 0 while the table is empty."""

    state: Json
    snapshot: int
    offsets: TableOffsets
    columns: Columns
    partitioning: Partitioning
    writer: IcebergFileWriter
    lock: TableLock
    indexed: IndexedFiles | None = None

    @property
    def has_vectors(self) -> bool:
        return int(self.state["format"]) >= _VECTORS_VERSION

    def has_schema_of(self, state: Json) -> bool:
        return all(self.state[part] == state[part] for part in ("uuid", "schema", "spec", "format"))


class IcebergTable:
    """Writes one table. When Spark's JVM ends, the running call fails, and the next :meth:`load` continues with a new session."""

    def __init__(self, settings: IcebergTableSettings, new_session: Callable[[], SparkSession], identify: Identify) -> None:
        self._settings = settings
        self._new_session = new_session
        self._identify = identify
        self._lock = threading.RLock()
        self._library: IcebergLibrary | None = None
        self._handle: IcebergHandle | None = None
        self._known: KnownSnapshot | None = None
        self._figures: dict[str, Any] = {"unavailable": 0}
        self._expired_at = time.monotonic()

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
            known = self._load()
            if known is None:
                return TableState(None)
            ends = StoredOffsets(known.offsets.of(self._settings.connector), self._settings.connector)
            return TableState(
                known.columns,
                ends.ends(self._identify, self.path),
                known.snapshot,
                tuple(dict.fromkeys(known.partitioning.columns)),
            )

    def _load(self) -> KnownSnapshot | None:
        """Reads the newest state, and keeps what is known of its files as far as the snapshots say how it came about."""
        before, self._known = self._known, None
        handle = self._open()
        if handle is None:
            if before is not None:
                self._refuse_dropped(exists=False)
            return None
        state = self._read(handle)
        if before is not None and before.state["uuid"] != state["uuid"]:
            self._refuse_dropped(exists=True)
        history = handle.history(before.snapshot if before is not None else 0)
        if before is not None and before.snapshot and history["end"] != "since":
            raise ConnectError(
                f"{self._place} was rolled back to a snapshot before the connector's last commit, with the offsets in it. "
                "Restart the task to continue from there; it writes what was rolled back again"
            )
        refuse_replacement(history["snapshots"], self._place)
        offsets = find_offsets(history["snapshots"]) or (TableOffsets() if before is None else before.offsets)
        connector = self._settings.connector
        if not offsets.of(connector) and WRITER + connector in state["properties"]:
            refuse_lost(connector, self._place)
        known = self._describe(state, offsets)
        if before is not None and before.indexed is not None and before.has_schema_of(state):
            known.indexed = self._moved_on(handle, before.indexed, history["snapshots"])
        self._known = known
        return known

    def _open(self) -> IcebergHandle | None:
        try:
            if self._library is None:
                self._library = IcebergLibrary(self._new_session())
                self._handle = None
            if self._handle is None:
                self._handle = self._library.load(self._settings.name)
        except Exception as e:
            self._check_jvm(e)
            raise
        return self._handle

    def _check_jvm(self, error: BaseException) -> None:
        if is_jvm_gone(error):
            self._library = self._handle = None

    def _read(self, handle: IcebergHandle) -> Json:
        try:
            return handle.read()
        except TableReplaced:
            self._handle = None
            again = self._open()
            self._refuse_dropped(exists=again is not None)
        except Exception as e:
            self._check_jvm(e)
            raise

    def _refuse_dropped(self, *, exists: bool) -> NoReturn:
        self._known = None
        raise ConnectError(
            f"{self._place} was dropped{' and created again' if exists else ''} while the connector was writing it, and its rows "
            "are gone. Restart the task to continue with new records, or reset the connector's offsets over REST "
            "(DELETE /connectors/<name>/offsets) to load the table again"
        )

    def _describe(self, state: Json, offsets: TableOffsets) -> KnownSnapshot:
        files, _ = open_location(state["data"], self._settings.s3)
        partitioning = Partitioning.read(state["spec"], state["schema"])
        folder = str(state["data"]).rpartition("/")[0]
        row_group = UPSERT_ROW_GROUP if self._settings.upserts else APPEND_ROW_GROUP
        writer = IcebergFileWriter(files, folder, state["schema"], partitioning.spec_id, row_group)
        lock = TableLock(local_folder(f"{state['location']}/metadata"), ".sluice-commit.lock")
        columns = read_columns(state["schema"])
        return KnownSnapshot(state, int(state.get("snapshot", 0)), offsets, columns, partitioning, writer, lock)

    def _moved_on(self, handle: IcebergHandle, indexed: IndexedFiles, newer: Sequence[Json]) -> IndexedFiles | None:
        """The files after snapshots of other writers (newest first); None when they must be read again."""
        try:
            for snapshot in reversed(newer):
                changes = handle.changes(int(snapshot["id"]))
                if changes["deletes"]:
                    return None
                indexed.apply(changes["added"], [{"path": path} for path in changes["removed"]])
        except UnreadableFile:
            return None
        return indexed

    def _begin(self, schema: pa.Schema, commit: OffsetCommit) -> KnownSnapshot | None:
        """The newest state; None when that differs from the known one in more than rows of others."""
        known = self._known
        handle = self._open()
        if known is None or handle is None:
            return None
        state = self._read(handle)
        if not known.has_schema_of(state):
            self._known = known if known.state["uuid"] == state["uuid"] else None
            if self._known is None:
                self._refuse_dropped(exists=True)
            return None
        if int(state.get("snapshot", 0)) != known.snapshot:
            moved = ids_of(commit.ends, self._settings.connector, self._identify).values()
            own = known.offsets.of(self._settings.connector)
            newer = self._load()
            if newer is None:
                return None
            now = newer.offsets.of(self._settings.connector)
            if any(own.get(identity) != now.get(identity) for identity in moved):
                return None
            known = newer
        return known if all(known.columns.get(member.name) == member.type for member in schema) else None

    # -- schema --------------------------------------------------------------------------------------------------------

    def create(self, columns: Columns, keys: Sequence[str]) -> None:
        with self._lock, creation_lock(None if self._settings.name.catalog else local_folder(self.path)):
            self._open()
            assert self._library is not None
            settings = self._settings
            create_table(self._library, settings.name, columns, settings.layout, settings.properties)
            self._handle = None

    def add_columns(self, added: list[tuple[str, pa.DataType]], columns: Columns) -> None:
        with self._lock:
            known, handle = self._require()
            with known.lock.held():
                handle.add_columns(columns_to_add(known.columns, columns))

    def widen_columns(self, widened: list[tuple[str, pa.DataType]]) -> None:
        with self._lock:
            known, handle = self._require()
            with known.lock.held():
                handle.change_types(types_to_change(widened))

    def _require(self) -> tuple[KnownSnapshot, IcebergHandle]:
        known = self._known or self._load()
        assert known is not None
        assert self._handle is not None
        return known, self._handle

    # -- commits -------------------------------------------------------------------------------------------------------

    def append(self, rows: pa.Table, commit: OffsetCommit) -> int | None:
        with self._lock:
            known = self._begin(rows.schema, commit)
            if known is None:
                return None
            change, writer = IcebergChange(rows), known.writer
            with change.writing(writer):
                change.write_rows(writer, known.partitioning)
            crash_points.point("spark.staged")
            for _ in range(_ATTEMPTS):
                version = self._commit(known, change, commit, "append")
                if version is not None:
                    return version
                # The files fit as long as nobody changed the schema or moved these partitions.
                again = self._begin(rows.schema, commit)
                if again is None:
                    break
                known = again
            writer.delete(change.written)
            return None

    def upsert(self, upsert: Upsert, commit: OffsetCommit) -> int | None:
        with self._lock:
            if upsert.truncates and upsert.soft_deletes and not self._truncate_softly(upsert):
                return None
            known = self._begin(upsert.rows.schema, commit)
            if known is None:
                return None
            change, unavailable, kind = self._write_upsert(known, upsert)
            crash_points.point("spark.staged")
            version = self._commit(known, change, commit, kind)
            if version is None:
                known.writer.delete(change.written)
                return None
            self._figures["unavailable"] += unavailable
            return version

    def _write_upsert(self, known: KnownSnapshot, upsert: Upsert) -> tuple[IcebergChange, int, str]:
        """Writes the files of an upsert; returns its change, the number of values that became null, and the kind of commit."""
        indexed = self._index(known, upsert)
        truncates = upsert.truncates and not upsert.soft_deletes
        matches = Matches.empty() if truncates or not upsert.rows.num_rows else indexed.find(upsert.searched)
        survivors: dict[int, Rows] = {}
        if truncates and upsert.survivors is not None and upsert.survivors.num_rows:
            replaced = indexed.find(upsert.rows) if upsert.rows.num_rows else Matches.empty()
            kept = indexed.find(upsert.survivors).without(replaced)
            survivors = group_rows(kept.files, kept.rows)
        live = indexed.live
        plan = plan_upsert(upsert, matches, live, fail_unavailable=self._settings.fail_unavailable)
        change = IcebergChange(plan.rows)
        deleted = plan.deleted
        if truncates:
            change.remove_files([file for file in live.by_path.values() if file.number not in survivors])
            others = {
                n: [row for row in range(live.at(n).rows) if row not in set(rows.tolist())] for n, rows in survivors.items()
            }
            deleted = {number: pa.array(rows, pa.int64()).to_numpy() for number, rows in others.items()}
        with change.writing(known.writer):
            if known.has_vectors:
                change.mark_deleted(deleted, live, known.writer)
            else:
                change.copy_without(deleted, live, known.columns, known.writer)
            change.write_rows(known.writer, known.partitioning)
        if not (change.removed or change.vectors):
            return change, plan.unavailable, "delta"
        return change, plan.unavailable, "delta" if known.has_vectors else "overwrite"

    def _truncate_softly(self, upsert: Upsert) -> bool:
        """Marks all rows of the table as deleted, in a commit of its own before the rest; repeating it after a crash changes
        nothing. Returns whether it did."""
        known = self._begin(pa.schema([]), OffsetCommit({}, {}))
        if known is None:
            return False
        indexed = self._index(known, upsert)
        update = close_versions(upsert.changes.truncate) if upsert.keeps_versions else mark_deleted
        change = IcebergChange(pa.table({}))
        with change.writing(known.writer):
            change.replace_all(indexed.live, known.columns, update, known.writer)
        version = self._commit(known, change, OffsetCommit({}, {}), "delta" if known.has_vectors else "overwrite")
        if version is None:
            known.writer.delete(change.written)
        return version is not None

    def _index(self, known: KnownSnapshot, upsert: Upsert) -> IndexedFiles:
        """The files of the known snapshot with an index of their keys; reads them if there is none."""
        if known.indexed is None or not has_keys(known.indexed, upsert.keys, upsert.columns):
            known.indexed = self._read_files(known, {name: upsert.columns[name] for name in upsert.keys})
        if not known.indexed.has_index:
            raise ConnectError(
                f"{self._place} has more rows than upsert.index.max.keys={self._settings.max_index_keys}; give the task more "
                "memory and raise it"
            )
        return known.indexed

    def _read_files(self, known: KnownSnapshot, keys: Mapping[str, pa.DataType]) -> IndexedFiles:
        assert self._handle is not None
        files, _ = open_location(known.state["data"], self._settings.s3)
        indexed = IndexedFiles(files, IcebergFormat(known.state["schema"]), keys, self._settings.max_index_keys)
        indexed.apply(self._handle.files(known.snapshot) if known.snapshot else (), ())
        return indexed

    def _commit(self, known: KnownSnapshot, change: IcebergChange, commit: OffsetCommit, kind: str) -> int | None:
        """Returns the snapshot; None after a conflict."""
        handle, connector = self._handle, self._settings.connector
        assert handle is not None
        identities = ids_of(commit.ends, connector, self._identify)
        moved = {identities[tp]: end for tp, end in commit.ends.items()}
        document = json.loads(TableCommit(connector, 0, commit.ranges, {}).to_json())
        summary = {
            **known.offsets.with_ends(connector, moved),
            COMMIT: uuid.uuid4().hex,
            RANGES: json.dumps(document["ranges"], separators=(",", ":")),
        }
        request = {**change.request(kind), "base": known.snapshot, "expected": known.offsets.snapshot, "summary": summary}
        try:
            with known.lock.held():
                self._claim(known, handle)
                answer = handle.commit(request)
        except CommitConflict as e:
            log.debug("Committing to %s again after a conflict: %s", self._place, e)
            return None
        except Exception as e:
            self._check_jvm(e)
            self._known = None  # it is not known whether there was a commit
            raise
        self._follow(known, change, answer)
        return known.snapshot

    def _claim(self, known: KnownSnapshot, handle: IcebergHandle) -> None:
        """Marks the table as written by the connector before its first commit, so that lost offsets are noticed."""
        name = WRITER + self._settings.connector
        if name not in known.state["properties"] and not known.offsets.of(self._settings.connector):
            handle.set_property(name, "true")
            known.state["properties"][name] = "true"

    def _follow(self, known: KnownSnapshot, change: IcebergChange, answer: Json) -> None:
        """Moves on to an own commit."""
        snapshot = int(answer["snapshot"])
        if (answer["parent"] or 0) != known.snapshot:
            known.indexed = None  # another writer was faster, and did not conflict
        known.snapshot = snapshot
        known.offsets = find_offsets([{"id": snapshot, "summary": answer["summary"]}]) or known.offsets
        if known.indexed is not None:
            for entry in change.entries():
                entry["sequence"] = answer["sequence"]  # type: ignore[index]
            known.indexed.apply_own(change.entries(), change.removed, change.new_rows)
            self._figures |= known.indexed.figures()
        elif "total-data-files" in answer["summary"]:
            summary = answer["summary"]
            self._figures |= {"files": int(summary["total-data-files"]), "bytes": int(summary.get("total-files-size", 0))}

    # -- maintenance ---------------------------------------------------------------------------------------------------

    def maintain(self, is_stopping: Callable[[], bool]) -> None:
        if self._known is None or self._handle is None:
            return
        while not is_stopping() and self._compact():
            pass
        if not is_stopping():
            self._expire()

    def _compact(self) -> bool:
        """Merges files once; returns whether it did."""
        with self._lock:
            known = self._known
            if known is None or self._handle is None or not known.snapshot:
                return False
            if known.indexed is None:
                if self._settings.upserts:
                    return False  # the next commit builds the index
                known.indexed = self._read_files(known, {})
            indexed = known.indexed
            sources = choose_sources(list(indexed.live.by_path.values()), self._settings.compaction)
            if not sources:
                return False
            # What is known of own files lacks the IDs of their rows, which Iceberg gives out in the commit.
            entries = {str(entry["path"]): entry for entry in self._handle.files(known.snapshot)}
            if any(source.file.path not in entries for source in sources):
                known.indexed = None
                return False
            for source in sources:
                found = {k: v for k, v in entries[source.file.path].items() if k != "deletes"}
                source.file.entry = found
        first = sources[0].file.entry

        def write(batches: Iterator[pa.Table]) -> Entry | None:
            return known.writer.write_batches(batches, tuple(first["partition"]), first["spec"])

        columns = {**known.columns, **LINEAGE}
        merged = merge_files(indexed.live, sources, columns, indexed.indexed_keys, write, with_lineage)
        with self._lock:
            return self._commit_merged(known, merged, indexed)

    def _commit_merged(self, known: KnownSnapshot, merged: MergedFile, indexed: IndexedFiles) -> bool:
        change = IcebergChange.of_merged(merged, known.state["schema"], known.writer)
        still_there = all(indexed.live.by_path.get(s.file.path) is s.file for s in merged.sources)
        if self._known is not known or known.indexed is not indexed or not still_there:
            known.writer.delete(change.written)
            return False  # somebody else has changed the table; the next run looks again
        handle = self._handle
        assert handle is not None
        summary = {**known.offsets.with_ends(self._settings.connector, {}), COMMIT: uuid.uuid4().hex}
        request = {**change.request("rewrite"), "base": known.snapshot, "expected": known.offsets.snapshot, "summary": summary}
        try:
            with known.lock.held():
                answer = handle.commit(request)
        except CommitConflict as e:
            log.debug("%s is compacted later, because of a conflict: %s", self._place, e)
            known.writer.delete(change.written)
            return False
        if (answer["parent"] or 0) != known.snapshot:
            known.indexed = None
        known.snapshot = int(answer["snapshot"])
        known.offsets = find_offsets([{"id": known.snapshot, "summary": answer["summary"]}]) or known.offsets
        if known.indexed is not None:
            indexed.apply_merged(merged, change.entries(), change.removed)
            self._figures |= indexed.figures()
        return True

    def _expire(self) -> None:
        interval_s = self._settings.expire_interval_s
        if not interval_s or time.monotonic() - self._expired_at < interval_s:
            return
        self._expired_at = time.monotonic()
        with self._lock:
            if self._known is None or self._handle is None:
                return
            with self._known.lock.held():
                self._handle.expire_snapshots()

    # -- offsets -------------------------------------------------------------------------------------------------------

    def stored_ends(self) -> Mapping[TopicPartition, int]:
        with self._lock:
            handle = self._open()
            if handle is None:
                return {}
            self._read(handle)
            offsets = find_offsets(handle.history(0)["snapshots"]) or TableOffsets()
            return StoredOffsets(offsets.of(self._settings.connector), self._settings.connector).all_ends()

    def move_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        with self._lock:
            handle = self._open()
            if handle is None:
                return
            state = self._read(handle)
            stored = find_offsets(handle.history(0)["snapshots"]) or TableOffsets()
            known = self._describe(state, stored)
            connector = self._settings.connector
            identities = StoredOffsets(stored.of(connector), connector)
            moved = {str(i): end or 0 for tp, end in offsets.items() for i in identities.partition_ids(tp)}
            change = IcebergChange(pa.table({}))
            summary = {**stored.with_ends(connector, moved), COMMIT: uuid.uuid4().hex}
            request = {**change.request("append"), "base": 0, "expected": stored.snapshot, "summary": summary}
            with known.lock.held():
                try:
                    handle.commit(request)
                except CommitConflict as e:
                    raise ConnectError(f"{self._place}: a task committed at the same time; stop the connector first") from e

    def progress(self) -> Mapping[str, Any]:
        """``unavailable``: values that became null because neither the change nor the table had them, or with
        ``unavailable.value=null``. ``files`` and ``bytes``: of the last commit; for upsert tables also ``deleted_rows`` (in
        deletion vectors), ``index_keys``, and ``index_bytes``."""
        return dict(self._figures)
