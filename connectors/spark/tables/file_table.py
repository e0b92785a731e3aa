"""A table whose files and deletion vectors the worker writes, committed by the format's library in Spark's JVM.

Rows do not pass through Spark. An upsert finds the old rows in a key index, writes the new rows as one file, and marks the old
ones in deletion vectors, so its cost depends on the number of changes and not on the size of the table. The offsets are in the
table, and move with the rows (promise 6).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic

import pyarrow as pa

from connect import crash_points
from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connectors.spark.plan.evolution import Columns
from connectors.spark.tables.application_ids import Identify, StoredOffsets, feeding_partitions, ids_of, ids_of_connectors
from connectors.spark.tables.conflicts import CommitConflict, HistoryMoved, TableNotLocked, UnsuitableTable
from connectors.spark.tables.executor_files import FileTarget
from connectors.spark.tables.files.compaction import MergedFile, choose_sources, merge_files
from connectors.spark.tables.files.indexed_files import IndexedFiles, has_keys
from connectors.spark.tables.files.live_files import UnreadableFile
from connectors.spark.tables.patch import Patch, planned_patch
from connectors.spark.tables.source_order.ordering import OrderedUpsert, SourceOrder
from connectors.spark.tables.table import Defaults, OffsetCommit, TableState, Upsert
from connectors.spark.tables.table_format import C, FileTableSettings, Moves, Step, TableFormat, V

log = logging.getLogger(__name__)

_ATTEMPTS = 5
_CONFLICTS = 2


class FileTable(Generic[V, C]):
    """One table, written by one task. ``lock`` is held while the format is used; maintenance takes it too."""

    def __init__(self, form: TableFormat[V, C], settings: FileTableSettings, identify: Identify) -> None:
        self.lock = threading.RLock()
        self.view: V | None = None
        """What the next commit is planned on; None before the table has been read."""
        self._format = form
        self._settings = settings
        self._identify = identify
        self._order = SourceOrder(settings.deleted_retention_ms)
        self._figures: dict[str, Any] = {"unavailable": 0}
        self._conflicts = 0
        """Upserts in a row that another commit came before."""
        self._loaded_ends: Mapping[str, int] = {}
        self._refusal = ""

    @property
    def path(self) -> str:
        return self._format.path

    # -- the version that is known -------------------------------------------------------------------------------------

    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        """Raises ConnectError when the connector's offsets no longer say what the table contains, and what the format raises."""
        with self.lock:
            step = self._read()
            if step is None:
                return TableState(None)
            view = self._follow(step)
            self._loaded_ends = view.ends
            ends = StoredOffsets(view.ends, self._settings.connector).ends(self._identify, self._format.name)
            return TableState(view.columns, ends, view.limits, feeding_partitions(view.ends), keys=view.keys)

    def _read(self) -> Step[V] | None:
        """Reads the newest version, and does not move on to it.

        A table whose history is not that of the task's commits is refused, and then each time, also while the task stops.
        """
        if self._refusal:
            raise ConnectError(self._refusal)
        try:
            return self._format.read(self.view)
        except HistoryMoved as e:
            self.view, self._refusal = None, e.message
            raise ConnectError(e.message) from e

    def _follow(self, step: Step[V]) -> V:
        """Moves on by commits of other writers. Drops the files when one is gone, which a later commit may have removed."""
        files = None if self.view is None or step.adds is None else self.view.files
        if files is not None and (step.adds or step.removes):
            try:
                files.apply(step.adds or (), step.removes)
            except Exception as e:
                if not isinstance(e, UnreadableFile) and not self._format.is_gone(step.view, e):
                    raise
                files = None
        step.view.files = files
        self.view = step.view
        return step.view

    def _advance(self) -> V | None:
        """Moves on to the newest version; None, and stays, when that differs from the known one in more than rows."""
        before = self.view
        try:
            step = None if before is None else self._read()
        except UnsuitableTable:
            step = None  # the next load says it, and has Spark write the table
        if before is None or step is None or (step.view.shape, step.view.keys) != (before.shape, before.keys):
            return None
        return self._follow(step)

    def _begin(self, schema: pa.Schema, commit: OffsetCommit, identities: Mapping[TopicPartition, str]) -> V | None:
        """The newest version; None when the commit does not fit it."""
        view = self._advance()
        if view is None or (commit.is_alone and ids_of_connectors(view.ends) != ids_of_connectors(self._loaded_ends)):
            return None
        fits = all(view.columns.get(member.name) == member.type for member in schema)
        return view if fits and commit.continues(view.ends, identities) else None

    # -- schema --------------------------------------------------------------------------------------------------------

    def create(self, columns: Columns, keys: Sequence[str]) -> None:
        with self.lock:
            self._format.create(columns, keys)

    def add_columns(self, added: list[tuple[str, pa.DataType]], columns: Columns, defaults: Defaults) -> None:
        with self.lock:
            assert self.view is not None
            self._read()  # refuses a table whose history has moved
            self._format.add_columns(self.view, added, columns, defaults)

    def widen_columns(self, widened: list[tuple[str, pa.DataType]]) -> None:
        with self.lock:
            assert self.view is not None
            self._read()
            self._format.widen_columns(self.view, widened)

    def set_keys(self, keys: Sequence[str]) -> None:
        with self.lock:
            before = self.view
            assert before is not None
            step = self._read()
            if step is not None and step.view.keys == before.keys:  # otherwise, the caller has to judge by the new ones
                self._format.set_keys(step.view, keys)

    # -- commits -------------------------------------------------------------------------------------------------------

    def file_target(self) -> FileTarget | None:
        return None if self.view is None else self._format.file_target(self.view)

    def append(self, rows: pa.Table, commit: OffsetCommit) -> int | None:
        with self.lock:
            schema, moves, identities = commit.schema_of(rows), *self._moves_of(commit)
            view = self._begin(schema, commit, identities)
            if view is None:
                return None
            change = self._format.write(view, Patch.of_rows(rows), commit.files)
            crash_points.point("spark.staged")
            for _ in range(_ATTEMPTS):
                version = self._commit(view, change, moves)
                if version is not None:
                    return version
                # The files fit as long as nobody changed the schema or moved these partitions.
                view = self._begin(schema, commit, identities)
                if view is None:
                    break
            change.discard()
            return None

    def upsert(self, upsert: Upsert, commit: OffsetCommit) -> int | None:
        with self.lock:
            # After conflicts, the lock is held from planning on, so that a busy table does not keep this task from committing. So
            # it is for a truncate, which may rewrite all rows.
            held = self.view if self._conflicts >= _CONFLICTS or upsert.truncates else None
            with contextlib.nullcontext() if held is None else held.lock.held():
                version = self._plan_and_commit(upsert, commit, is_locked=held is not None)
            self._conflicts = 0 if version is not None else self._conflicts + 1
            return version

    def _plan_and_commit(self, upsert: Upsert, commit: OffsetCommit, *, is_locked: bool) -> int | None:
        moves, identities = self._moves_of(commit)
        view = self._begin(commit.schema_of(upsert.rows), commit, identities)
        if view is None:
            return None
        self._order.files, fail = view.order_files, self._settings.fail_unavailable
        try:
            with _planning(self._format, view):
                files = _index(self._format, view, upsert)
                find = files.find if files.has_index else functools.partial(self._format.search, view)
                with planned_patch(upsert, find, files.live, self._order, view.order_state, fail_unavailable=fail) as patch:
                    change = self._format.write(view, patch, commit.files)
        except CommitConflict:
            return None
        crash_points.point("spark.staged")
        ordered = patch.ordered
        if ordered is not None:
            moves = replace(moves, order_state=ordered.new_state_id)
        version = self._commit(view, change, moves, ordered=ordered, is_locked=is_locked)
        if version is None:
            self._abandon(change, ordered)
            return None
        self._order.committed(ordered)
        self._figures |= self._order.figures()
        self._figures["unavailable"] += patch.unavailable
        return version

    def _moves_of(self, commit: OffsetCommit) -> tuple[Moves, dict[TopicPartition, str]]:
        """What a commit moves, and the identifiers of its partitions."""
        identities = ids_of(commit.ends, self._settings.connector, self._identify)
        return Moves({identities[tp]: end for tp, end in commit.ends.items()}, dict(commit.ends), commit.ranges), identities

    def _commit(
        self,
        view: V,
        change: C,
        moves: Moves,
        *,
        ordered: OrderedUpsert | None = None,
        merged: MergedFile | None = None,
        is_locked: bool = False,
    ) -> int | None:
        """Returns the version; None after a conflict. ``is_locked``: the caller has the lock.

        If the files of the version cannot be read, nothing has moved, and it is followed later like those of others.
        """
        try:
            with contextlib.nullcontext() if is_locked else view.lock.held():
                step = self._format.commit(view, change, moves)
        except CommitConflict as e:
            log.debug("Committing to %s again after a conflict: %s", self._format.place, e)
            return None
        except TableNotLocked:
            self._abandon(change, ordered)
            raise
        files = None if step.adds is None else view.files
        if files is not None and merged is not None:
            files.apply_merged(merged, step.adds or (), step.removes)
        elif files is not None:
            files.apply_own(step.adds or (), step.removes, change.new_rows)
        step.view.files = files
        self.view = step.view
        self._figures |= {**step.sizes, **({} if files is None else files.figures())}
        return step.view.version

    def _abandon(self, change: C, ordered: OrderedUpsert | None = None) -> None:
        change.discard()
        self._order.abandoned(ordered)

    # -- maintenance ---------------------------------------------------------------------------------------------------

    def maintain(self, is_stopping: Callable[[], bool]) -> None:
        if self.view is not None:
            self._figures |= self._format.maintain(self, is_stopping)

    def compact(self) -> bool:
        """Merges files once; returns whether it did."""
        with self.lock:
            before = self.view
            # Without an index, the next commit builds it.
            if before is None or (before.files is None and self._settings.upserts):
                return False
            view = before if before.files is not None else self._advance()
            if view is None:
                return False  # the next commit reads the table again
            try:
                with _planning(self._format, view):
                    files = view.files = view.files or self._format.read_files(view, {})
                    sources = choose_sources(list(files.live.by_path.values()), self._settings.compaction)
                    if not sources:
                        return False
                    merging = self._format.merging(view, sources)
            except CommitConflict:
                return False
        merged = merge_files(files.live, sources, merging.columns, files.indexed_keys, merging.write, merging.complete)
        with self.lock:
            return self._commit_merged(view, merged, files)

    def _commit_merged(self, planned: V, merged: MergedFile, files: IndexedFiles) -> bool:
        view = None
        try:
            view = self._advance()
        finally:
            if view is None:
                self._format.write_merged(planned, merged).discard()
        if view is None:
            return False
        still_there = all(files.live.by_path.get(s.file.path) is s.file for s in merged.sources)
        change = self._format.write_merged(view, merged)
        is_fit = view.files is files and view.shape == planned.shape and still_there
        if is_fit and self._commit(view, change, Moves(), merged=merged) is not None:
            return True
        change.discard()
        return False  # somebody else has changed the table; the next run looks again

    def repeat_ends(self) -> None:
        """Commits the ends again after another writer's commit, before the version that has them expires."""
        with self.lock:
            nothing = OffsetCommit({}, {})
            view = self._begin(pa.schema([]), nothing, {})
            if view is not None and view.has_old_ends:
                self._commit(view, self._format.write(view, Patch.of_rows(pa.table({})), None), Moves())

    def progress(self) -> Mapping[str, Any]:
        """``unavailable``: values that became null. ``files``, ``bytes``, ``deleted_rows`` (in vectors): of the last commit, or
        maintenance. For upserts ``index_keys``, ``index_bytes``; without an index ``search_ms``, the time that Spark took to find
        the rows. With ``sequence.by=source`` ``outdated``, ignored changes, and ``deleted_keys`` whose position is kept."""
        return dict(self._figures)

    # -- offsets -------------------------------------------------------------------------------------------------------

    def stored_ends(self) -> Mapping[TopicPartition, int]:
        """Also of a table that :meth:`load` refuses, because new offsets are the way out."""
        with self.lock:
            view = self._format.peek()
            return {} if view is None else StoredOffsets(view.ends, self._settings.connector).all_ends()

    def move_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commits new offsets, also those of recreated topics: deleting them accepts the new topic."""
        with self.lock:
            view = self._format.peek()
            if view is None:
                return
            stored = StoredOffsets(view.ends, self._settings.connector)
            if not stored:
                self._format.forget(view)
            moved = {str(i): end or 0 for tp, end in offsets.items() for i in stored.moved_ids(tp, self._identify)}
            if not moved:
                return
            change = self._format.write(view, Patch.of_rows(pa.table({})), None)
            try:
                with view.lock.held():
                    self._format.commit(view, change, Moves(moved, dict(offsets)))
            except CommitConflict as e:
                what = "a task committed at the same time; stop the connector first"
                raise RetriableError(f"{self._format.place}: {what}") from e


@contextlib.contextmanager
def _planning(form: TableFormat[V, C], view: V) -> Iterator[None]:
    """For a with block that reads files of a version. Raises CommitConflict, and drops them, if others have removed one."""
    try:
        yield
    except Exception as e:
        if not isinstance(e, CommitConflict) and not form.is_gone(view, e):
            raise
        view.files = None
        raise CommitConflict(str(e)) from e


def _index(form: TableFormat[V, C], view: V, upsert: Upsert) -> IndexedFiles:
    """The files of a version with an index of their keys; reads them if there is none."""
    if view.files is None or not has_keys(view.files, upsert.keys, upsert.columns):
        started = time.monotonic()
        view.files = form.read_files(view, {name: upsert.columns[name] for name in upsert.keys})
        if view.files.key_count:
            log.info("Indexed %d keys of %s in %.1f s", view.files.key_count, form.place, time.monotonic() - started)
    return view.files
