"""Iceberg tables: Iceberg's library in Spark's JVM owns schema, snapshots, and conflict rules, and the worker writes the files.

Tables of format version 1 or 2 have no deletion vectors; there, the files with old rows are written again without them
(copy-on-write). The offsets are in the summaries of snapshots, each of which has those of all connectors.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from connect.errors import ConnectError, RetriableError
from connectors.spark.config_keys import ICEBERG, MAIN_BRANCH
from connectors.spark.errors import is_jvm_gone
from connectors.spark.plan.evolution import Columns
from connectors.spark.s3_settings import read_s3_settings
from connectors.spark.tables.conflicts import CommitConflict, HistoryMoved, refuse_dropped
from connectors.spark.tables.executor_files import ExecutorFiles
from connectors.spark.tables.files.compaction import MergedFile, Source
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.files.key_index import Matches
from connectors.spark.tables.files.live_files import Entry, LiveFile, LiveFiles
from connectors.spark.tables.format_folders import refuse_other_format
from connectors.spark.tables.iceberg.change import IcebergChange
from connectors.spark.tables.iceberg.creation import create_table
from connectors.spark.tables.iceberg.expiry import Retention
from connectors.spark.tables.iceberg.file_format import LINEAGE, IcebergFormat
from connectors.spark.tables.iceberg.file_target import IcebergFileTarget
from connectors.spark.tables.iceberg.library import IcebergHandle, IcebergLibrary, IcebergName
from connectors.spark.tables.iceberg.lineage import with_lineage
from connectors.spark.tables.iceberg.offsets import (
    WRITER,
    TableOffsets,
    find_offsets,
    offsets_after,
    refuse_lost,
    refuse_replacement,
)
from connectors.spark.tables.iceberg.schema_change import columns_to_add, types_to_change
from connectors.spark.tables.iceberg.types import Json
from connectors.spark.tables.iceberg.view import IcebergView, describe, has_branches, moved, shape_of
from connectors.spark.tables.key_property import key_properties
from connectors.spark.tables.patch import Patch
from connectors.spark.tables.staging import local_folder, open_location
from connectors.spark.tables.table import Defaults
from connectors.spark.tables.table_format import FileTableSettings, Merging, Moves, Step, Upkeep
from connectors.spark.tables.table_lock import creation_lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class IcebergTableFormat:
    """A branch of one table. When Spark's JVM ends, the running call fails, and the next :meth:`read` continues with a new
    session. ``conf`` is that of Spark."""

    def __init__(
        self,
        table: IcebergName,
        settings: FileTableSettings,
        new_session: Callable[[], SparkSession],
        conf: Mapping[str, str],
        branch: str = MAIN_BRANCH,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.name = self.path = str(table)
        self.place = f"table {table}"
        self._table = table
        self._settings = settings
        self._new_session = new_session
        self._conf = conf
        self._branch = branch
        self._now = now
        # Marks the branch as written by the connector, so that lost offsets are noticed.
        self._mark = WRITER + settings.connector + ("" if branch == MAIN_BRANCH else f"@{branch}")
        self._library: IcebergLibrary | None = None
        self._handle: IcebergHandle | None = None

    # -- the table in the JVM ------------------------------------------------------------------------------------------

    def _open(self) -> IcebergHandle | None:
        """None if there is no table."""
        with self._watched():
            if self._library is None:
                self._library = IcebergLibrary(self._new_session())
                self._handle = None
            if self._handle is None:
                self._handle = self._library.load(self._table, self._branch)
        return self._handle

    def _opened(self) -> IcebergHandle:
        handle = self._open()
        assert handle is not None
        return handle

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """For a with block that calls the JVM: forgets it if it has ended."""
        try:
            yield
        except Exception as e:
            if is_jvm_gone(e):
                self._library = self._handle = None
            raise

    def _newest(self) -> tuple[IcebergHandle, Json] | None:
        """The newest state; None if there is no table. Raises HistoryMoved if it was dropped, which catalogs report in different
        ways."""
        handle = self._open()
        if handle is None:
            return None
        try:
            with self._watched():
                return handle, handle.read()
        except Exception as e:
            if is_jvm_gone(e):
                raise
        # A table without a catalog cannot be refreshed once the metadata that is known has been deleted.
        self._handle = None
        again = self._open()
        if again is None or again.uuid != handle.uuid:
            refuse_dropped(self.place, exists=again is not None)
        return again, again.read()

    # -- versions ------------------------------------------------------------------------------------------------------

    def read(self, before: IcebergView | None) -> Step[IcebergView] | None:
        found = self._newest()
        if found is None:
            if before is not None:
                refuse_dropped(self.place, exists=False)
            return None
        handle, state = found
        if before is not None and before.table_id != state["uuid"]:
            refuse_dropped(self.place, exists=True)
        if before is not None and before.version == int(state.get("snapshot", 0)):
            history: Json = {"snapshots": [], "end": "since"}
        else:
            history = handle.history(0 if before is None else before.version)
        newer, follows = history["snapshots"], history["end"] == "since"
        older = before.offsets if before is not None and follows else TableOffsets()
        offsets = offsets_after(newer, older, self._settings.connector)
        if before is not None and not follows:
            self._refuse_rollback(before, offsets, int(state.get("sequence", 0)))
        refuse_replacement(newer, older, self._settings.connector, self.place)
        if not offsets.of(self._settings.connector) and self._mark in state["properties"]:
            refuse_lost(self._settings.connector, self.place)
        if before is None or before.shape != shape_of(state):
            return Step(self._describe(state, offsets))
        view = moved(before, int(state.get("snapshot", 0)), int(state.get("sequence", 0)), offsets)
        # Another connector may have begun to write a branch.
        view.state = state
        view.order_files.are_shared = has_branches(state)
        changes = self._changes(handle, before.files.live, newer) if follows and before.files is not None else None
        return Step(view) if changes is None else Step(view, *changes)

    def _refuse_rollback(self, before: IcebergView, offsets: TableOffsets, sequence: int) -> None:
        """Raises HistoryMoved unless the snapshot, which is no ancestor, has expired; then there are newer ones, with later
        offsets."""
        is_behind = offsets.snapshot and offsets.is_behind(before.offsets, self._settings.connector)
        if before.sequence > sequence or is_behind:
            raise HistoryMoved(
                f"{self.place} was rolled back to a snapshot before the connector's last commit, with the offsets in it. "
                "Restart the task to continue from there; it writes what was rolled back again"
            )

    def _describe(self, state: Json, offsets: TableOffsets) -> IcebergView:
        return describe(state, offsets, self._open_files(state), self._settings.row_group)

    def _open_files(self, state: Json) -> fs.FileSystem:
        return open_location(state["data"], read_s3_settings(self._conf, state["data"]))[0]

    def _has_folder(self, name: str) -> bool:
        files, path = open_location(self.path, read_s3_settings(self._conf, self.path))
        return bool(files.get_file_info(f"{path}/{name}").type == fs.FileType.Directory)

    def _changes(
        self, handle: IcebergHandle, live: LiveFiles, newer: Sequence[Json]
    ) -> tuple[list[Entry], list[Entry]] | None:  # fmt: skip
        """What snapshots (newest first) add to these files, with the deletes of files that stay, and what they remove; None when
        all must be read again."""
        adds: dict[str, Entry] = {}
        removes: dict[str, Entry] = {}
        try:
            for snapshot in reversed(newer):
                if not _collect(handle.changes(int(snapshot["id"])), live, adds, removes):
                    return None
        except Exception:
            # Tables expire the oldest ones first; the newest one is gone after a rollback.
            if any(self._has_expired(int(snapshot["id"])) for snapshot in (newer[-1], newer[0])):
                return None
            raise
        return list(adds.values()), list(removes.values())

    def _has_expired(self, snapshot: int) -> bool:
        """Whether the branch no longer has a snapshot that it had. False if that cannot be found out."""
        if self._handle is None or not snapshot:
            return False
        try:
            self._handle.read()
            return bool(self._handle.history(snapshot)["end"] != "since")
        except Exception:
            return False

    def peek(self) -> IcebergView | None:
        found = self._newest()
        if found is None:
            return None
        handle, state = found
        return self._describe(state, offsets_after(handle.history(0)["snapshots"], TableOffsets(), self._settings.connector))

    def forget(self, view: IcebergView) -> None:
        if self._mark in view.state["properties"]:
            with view.lock.held():
                self._opened().remove_property(self._mark)

    # -- schema --------------------------------------------------------------------------------------------------------

    def create(self, columns: Columns, keys: Sequence[str]) -> None:
        with creation_lock(None if self._table.catalog else local_folder(self.path)):
            self._open()
            assert self._library is not None
            if not self._table.catalog:
                refuse_other_format(ICEBERG, self.path, self._has_folder)
            create_table(self._library, self._table, columns, self._settings.layout, keys)
            self._handle = None

    def add_columns(
        self, view: IcebergView, added: list[tuple[str, pa.DataType]], columns: Columns, defaults: Defaults
    ) -> None:  # fmt: skip
        schema = columns_to_add(view.columns, columns, defaults, int(view.state["format"]), self.place)
        with view.lock.held():
            self._opened().add_columns(schema)

    def widen_columns(self, view: IcebergView, widened: list[tuple[str, pa.DataType]]) -> None:
        with view.lock.held():
            self._opened().change_types(types_to_change(widened))

    def set_keys(self, view: IcebergView, keys: Sequence[str]) -> None:
        with view.lock.held():
            for name, value in key_properties(keys).items():
                self._opened().set_property(name, value)

    # -- files ---------------------------------------------------------------------------------------------------------

    def file_target(self, view: IcebergView) -> IcebergFileTarget | None:
        """None for upserts without deletion vectors, which write old files again."""
        if self._settings.upserts and not view.has_vectors:
            return None
        state, row_group = view.state, self._settings.row_group
        s3 = read_s3_settings(self._conf, state["data"])
        return IcebergFileTarget(state["location"], state["data"], s3, state["schema"], state["spec"], row_group)

    def read_files(self, view: IcebergView, keys: Mapping[str, pa.DataType]) -> IndexedFiles:
        limit = self._settings.max_index_keys
        indexed = IndexedFiles(self._open_files(view.state), IcebergFormat(view.state), keys, limit)
        indexed.apply(self._opened().files(view.version) if view.version else (), ())
        return indexed

    def search(self, view: IcebergView, rows: pa.Table) -> Matches:
        raise ConnectError(
            f"{self.place} has more rows than upsert.index.max.keys={self._settings.max_index_keys}; give the task more memory "
            "and raise it"
        )

    def is_gone(self, view: IcebergView, error: Exception) -> bool:
        """Another process has committed, and the snapshot has expired."""
        return self._has_expired(view.version)

    def write(self, view: IcebergView, patch: Patch, files: ExecutorFiles | None) -> IcebergChange:
        # A file without a column that has got an initial default since would have that, instead of null.
        written = set() if files is None else {file.entry.get("schema") for file in files.remaining()}
        if written - {view.state["schema"].get("schema-id")}:
            raise RetriableError(f"{self.place} has got another schema since Spark's executors wrote files for it")
        change = IcebergChange(
            view.writer, view.partitioning, patch.rows, files, columns=view.columns, has_vectors=view.has_vectors
        )
        with change.writing():
            if view.files is None or patch.is_blind:
                change.write_rows()
                return change
            if patch.update is not None:
                self._read_lineage(view, view.files.live.by_path.values())
            change.write(patch, view.files.live)
        change.kind = "overwrite" if (change.removed or change.vectors) and not view.has_vectors else "delta"
        return change

    def merging(self, view: IcebergView, sources: Sequence[Source]) -> Merging:
        self._read_lineage(view, [source.file for source in sources])
        first = sources[0].file.entry

        def write(batches: Iterator[pa.Table]) -> Entry | None:
            return view.writer.write_batches(batches, tuple(first["partition"]), first["spec"])

        return Merging({**view.columns, **LINEAGE}, write, with_lineage)

    def _read_lineage(self, view: IcebergView, files: Iterable[LiveFile]) -> None:
        """Reads the IDs of the rows of files. Iceberg gives them out in the commit, so what is known of own files lacks them.
        Raises CommitConflict if the table no longer has one."""
        found = self._opened().files(view.version) if view.version else ()
        entries = {str(entry["path"]): entry for entry in found}
        for file in files:
            if file.path not in entries:
                raise CommitConflict(f"{file.path} is not in snapshot {view.version}")
            file.entry = {k: v for k, v in entries[file.path].items() if k != "deletes"}

    def write_merged(self, view: IcebergView, merged: MergedFile) -> IcebergChange:
        return IcebergChange.of_merged(merged, view.writer, view.partitioning)

    # -- commits -------------------------------------------------------------------------------------------------------

    def commit(self, view: IcebergView, change: IcebergChange, moves: Moves) -> Step[IcebergView]:
        """The whole offsets document is compared, and made anew: the library commits on top of newer snapshots of others."""
        offsets = view.offsets.next_summary(self._settings.connector, moves.ends, moves.ranges, moves.order_state)
        request, handle = change.request(view.version, view.state["schema"]["schema-id"], offsets), self._opened()
        with self._watched():
            answer = handle.commit(request)
            if moves.ends and self._mark not in view.state["properties"]:
                handle.set_property(self._mark, "true")
                view.state["properties"][self._mark] = "true"
        snapshot, sequence, summary = int(answer["snapshot"]), int(answer["sequence"]), answer["summary"]
        after = moved(view, snapshot, sequence, find_offsets([{"id": snapshot, "summary": summary}]) or view.offsets)
        sizes = {}
        if "total-data-files" in summary:
            sizes = {"files": int(summary["total-data-files"]), "bytes": int(summary.get("total-files-size", 0))}
        if (answer["parent"] or 0) != view.version:
            return Step(after, sizes=sizes)  # another writer was faster, and did not conflict
        return Step(after, [{**entry, "sequence": sequence} for entry in change.entries()], change.removed, sizes)

    # -- maintenance ---------------------------------------------------------------------------------------------------

    def maintain(self, table: Upkeep, is_stopping: Callable[[], bool]) -> Mapping[str, int]:
        while not is_stopping() and table.compact():
            pass
        if not is_stopping():
            table.repeat_ends()
        if not is_stopping():
            with table.lock:
                self._expire(table.view)
        return {}

    def _expire(self, view: IcebergView | None) -> None:
        interval_ms = int(self._settings.upkeep_interval_s * 1000)
        if view is None or self._handle is None or not interval_ms:
            return
        retention, now_ms = Retention.read(view.state["properties"]), int(self._now() * 1000)
        if retention.is_due(*self._handle.count_snapshots(now_ms - retention.max_age_ms), interval_ms, now_ms):
            with view.lock.held():
                self._handle.expire_snapshots()


def _collect(changes: Json, live: LiveFiles, adds: dict[str, Any], removes: dict[str, Any]) -> bool:
    """Adds what a snapshot does to what older ones do. False when it deleted rows in another way than by deletion vectors."""
    added = {entry["path"]: entry for entry in changes["added"]}
    gone = {path: {"path": path} for path in changes["removed"]}
    for path in gone:
        adds.pop(path, None)
    for vector in changes["deletes"]:
        path = vector.get("of")
        entry = added.get(path) or adds.get(path) or (live.by_path[path].entry if path in live.by_path else None)
        if vector["format"] != "PUFFIN" or entry is None:
            return False
        added[path] = {**entry, "deletes": [vector]}
    if any(path not in added and path not in gone for path in changes["undeleted"]):
        return False
    adds |= added
    removes |= gone
    return True
