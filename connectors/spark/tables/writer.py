"""Writes changes to one table: loads its state, plans, stages, and commits; retries when another task committed first."""

from __future__ import annotations

import functools
import itertools
import time
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connect import crash_points
from connect.errors import DataError, RetriableError, SchemaError
from connect.record import TopicPartition
from connectors.sink_support.batch_isolation import find_bad_records
from connectors.sink_support.errant_records import BadRecord
from connectors.spark import config
from connectors.spark.config import TableConfig
from connectors.spark.decode.change_batch import MESSAGE, OPERATION, TOMBSTONE, TRUNCATE, ChangeBatch
from connectors.spark.errors import explain
from connectors.spark.plan import deduplicate, projection
from connectors.spark.plan.evolution import Columns, check_names, merge_columns, missing_columns, quote, with_additions
from connectors.spark.plan.sql import DELETE_FLAG, KEEP_PREFIX, merge_statement
from connectors.spark.tables.committed_offsets import CommittedOffsets, TableCommit
from connectors.spark.tables.delta import DeltaTable
from connectors.spark.tables.delta_files import UnsuitableTable, value_range
from connectors.spark.tables.offset_ranges import OffsetRanges, find_offset_ranges
from connectors.spark.tables.parquet import ParquetTable
from connectors.spark.tables.staging import Staging

_MAX_ATTEMPTS = 5
_MAX_LITERAL_LENGTH = 128


@dataclass(slots=True)
class _TableState:
    """The state of the table, valid until another writer commits."""

    columns: Columns | None
    committed_offsets: CommittedOffsets
    created: bool = True
    version: int | None = None
    bounds: tuple[Any, Any] | None = None
    """Smallest and largest value of the first key column; None when unknown, (None, None) when the table is empty."""


@dataclass(slots=True)
class TableProgress:
    """Progress of a table, shown over REST."""

    rows: int = 0
    commits: int = 0
    version: int | None = None
    last_commit_ms: int | None = None
    commit_duration_ms: int | None = None
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class _PreparedRows:
    """Changes converted to rows of the table; bad records are already excluded."""

    changes: list[ChangeBatch]
    """Each image has exactly ``columns``."""
    incoming: Columns
    """Columns of the records."""
    columns: Columns
    """Columns to write, with the table's types."""
    keys: tuple[str, ...] = ()
    """Key columns of an upsert table."""


@dataclass(frozen=True, slots=True)
class _WritePlan:
    """Rows to stage, and how to apply them to the table."""

    rows: pa.Table
    statement: str | None = None
    before: str | None = None
    overwrite: bool = False
    bounds: tuple[Any, Any] | None = None


# Large class: it is split by table format and write mode when the writer is redesigned.
class TableWriter:
    """Writes one table for one task. Not thread-safe."""

    def __init__(
        self, name: str, settings: TableConfig, connector: str, table: DeltaTable | ParquetTable, staging: Staging
    ) -> None:
        self.name = name
        self.progress = TableProgress()
        self._settings = settings
        self._connector = connector
        self._table = table
        self._staging = staging
        self._state: _TableState | None = None
        self._keys: tuple[str, ...] = settings.key_columns

    def committed_offsets(self, partitions: Collection[TopicPartition]) -> CommittedOffsets:
        """Reads the offsets of these partitions from the table. Raises ConnectError."""
        return self._load(partitions).committed_offsets

    def columns(self) -> Columns | None:
        """The table's columns as last read; None when the table does not exist."""
        return self._state.columns if self._state is not None else None

    def commit(
        self, changes: Sequence[ChangeBatch], partitions: Collection[TopicPartition], excluded: OffsetRanges | None = None
    ) -> None:
        """Writes all changes that the table does not contain yet. Durable on return.

        ``partitions`` are the task's partitions; ``excluded`` are offset ranges of bad records, which the commit includes so that
        they are not read again. Raises RetriableError when other tasks always committed first, and ConnectError with cause and
        table otherwise; in both cases a later call continues from the table's offsets. If a DataError is about single records,
        :meth:`split_bad_records` finds them.
        """
        started = time.monotonic()
        for _ in range(_MAX_ATTEMPTS):
            state = self._state or self._load(partitions)
            # Promise 6: records that the table contains are not written again, whatever the consumer group's offset is.
            new = [kept for c in changes if (kept := c.after_offsets(state.committed_offsets.ends)).num_rows]
            self.progress.skipped += sum(c.num_rows for c in changes) - sum(c.num_rows for c in new)
            skipped = {tp: r for tp, r in (excluded or {}).items() if r[1] > state.committed_offsets.ends.get(tp, 0)}
            if not new and not skipped:
                return
            prepared = self._prepare_rows(state, new) if new else None
            # Unless the commit succeeds for certain, the state must be read again.
            self._state = None
            try:
                landed = self._write(state, new, prepared, partitions, skipped)
            except (DataError, RetriableError):
                self._state = None
                raise
            except Exception as e:
                raise explain(e, f"table {self.name} at {self._table.path}") from e
            if landed:
                self._state = state
                self.progress.commits += 1
                self.progress.version = state.version
                self.progress.last_commit_ms = int(time.time() * 1000)
                self.progress.commit_duration_ms = int((time.monotonic() - started) * 1000)
                crash_points.point("spark.committed")
                return
        raise RetriableError(
            f"table {self.name} at {self._table.path}: other tasks of this connector committed first "
            f"{_MAX_ATTEMPTS} times in a row"
        )

    def split_bad_records(
        self, changes: Sequence[ChangeBatch], partitions: Collection[TopicPartition]
    ) -> tuple[list[ChangeBatch], list[BadRecord]]:
        """Separates changes that fit this table from bad records. Writes nothing."""
        state = self._state or self._load(partitions)
        changes = [kept for c in changes if (kept := c.after_offsets(state.committed_offsets.ends)).num_rows]
        known: Columns = {}
        keys = self._keys
        bad_records: list[BadRecord] = []
        starts = [0, *itertools.accumulate(c.num_rows for c in changes)]

        def attempt(part: range) -> None:
            nonlocal known, keys
            index = bisect_right(starts, part.start) - 1
            first = part.start - starts[index]
            piece = changes[index].slice(range(first, first + len(part))).without_empty_columns()
            prepared = self._prepare_rows(state, [piece], known, keys)
            if prepared is not None:
                known, keys = prepared.incoming, prepared.keys

        parts = [range(a, b) for a, b in itertools.pairwise(starts)]
        found = find_bad_records(parts, attempt)
        good: list[ChangeBatch] = []
        for part, one in zip(parts, changes, strict=True):
            removed = [at for at in part if at in found] if found else []
            bad_records += [BadRecord.of(*one.location(at - part.start), found[at]) for at in removed]
            if removed:
                one = one.filter(pa.array([at not in found for at in part])).without_empty_columns()
            if one.num_rows:
                good.append(one)
        return good, bad_records

    def reset(self, offsets: dict[TopicPartition, int | None]) -> None:
        """Commits new offsets (None removes a partition) without rows."""
        state = self._load(list(offsets))
        if state.columns is None or not isinstance(self._table, DeltaTable):
            return
        commit = TableCommit(
            self._connector, _next_sequence(state.committed_offsets), {}, {**state.committed_offsets.ends, **offsets}
        )
        try:
            if self._table.commit_metadata(commit) is None:
                raise RetriableError(f"table {self.name}: a task committed at the same time; stop the connector first")
        except Exception as e:
            raise explain(e, f"table {self.name} at {self._table.path}") from e

    def _load(self, partitions: Collection[TopicPartition]) -> _TableState:
        try:
            columns = self._table.columns()
            committed_offsets = CommittedOffsets() if columns is None else self._table.committed_offsets(partitions)
        except Exception as e:
            raise explain(e, f"table {self.name} at {self._table.path}") from e
        self._state = _TableState(
            columns, committed_offsets, created=columns is not None, bounds=(None, None) if columns is None else None
        )
        return self._state

    def _write(
        self,
        state: _TableState,
        changes: list[ChangeBatch],
        prepared: _PreparedRows | None,
        partitions: Collection[TopicPartition],
        excluded: OffsetRanges,
    ) -> bool:
        ranges = find_offset_ranges(changes, excluded, state.committed_offsets.ends)
        ends: dict[TopicPartition, int | None] = {tp: end for tp, end in state.committed_offsets.ends.items() if tp in partitions}
        ends |= {tp: end for tp, (_, end) in ranges.items()}
        commit = TableCommit(self._connector, _next_sequence(state.committed_offsets), ranges, ends)
        planned = None
        if prepared is not None:
            self._evolve(state, prepared)
            planned = self._plan_upsert(state, prepared) if self._settings.upserts else self._plan_append(prepared)
        if planned is None and excluded and state.created and state.columns is not None:
            # No rows, but the commit must include the offsets of bad records so that they are not reported again.
            planned = _WritePlan(pa.schema(list(state.columns.items())).empty_table(), bounds=state.bounds)
        if planned is not None:
            landed = self._apply(state, planned, commit)
            if landed is None:
                return False
            # Bounds are valid only if no other writer committed in between.
            followed = state.version is None or landed == state.version + 1
            state.bounds = planned.bounds if followed else None
            state.version = landed
            state.created = True
            state.committed_offsets.sequence = commit.sequence
        # Without rows there is no commit: reading those records again would not change anything.
        state.committed_offsets.ends |= {tp: end for tp, (_, end) in ranges.items()}
        return True

    def _apply(self, state: _TableState, plan: _WritePlan, commit: TableCommit) -> int | None:
        if isinstance(self._table, ParquetTable):
            crash_points.point("spark.staged")
            return self._table.append(plan.rows, commit)
        columns = {f.name: f.type for f in plan.rows.schema}
        if self._table.accepts_files and plan.statement is None and plan.before is None and not plan.overwrite:
            if not state.created:
                self._table.create(columns)
                state.created = True
            crash_points.point("spark.staged")
            try:
                return self._table.append_file(plan.rows, commit)
            except UnsuitableTable:
                pass  # from now on, append with Spark
        with self._staging.write(plan.rows) as staged:
            crash_points.point("spark.staged")
            if plan.before is not None:
                self._table.run_statement(plan.before)
            if plan.statement is not None:
                return self._table.merge(staged.uri, columns, plan.statement, commit)
            return self._table.append(staged.uri, columns, commit, overwrite=plan.overwrite)

    # -- records to rows -------------------------------------------------------------------------------------------------

    def _prepare_rows(
        self, state: _TableState, changes: list[ChangeBatch], known: Columns | None = None, keys: tuple[str, ...] | None = None
    ) -> _PreparedRows | None:
        """Converts changes to rows; None when there are none. Does not modify the table or this writer.

        A DataError raised here is about records; later errors are not. ``known`` are columns of other records, ``keys`` the key
        columns if known.
        """
        chosen = self._keys if keys is None else keys
        try:
            if self._settings.upserts:
                found = self._key_columns(changes, chosen)
                if found is None:
                    return None
                chosen = found
                changes = [deduplicate.with_key_columns(c, chosen, bool(self._settings.key_columns)) for c in changes]
            else:
                if not self._settings.keep_tombstones:
                    changes = [c.filter(pc.fill_null(pc.not_equal(c.meta[OPERATION], TOMBSTONE), True)) for c in changes]
                changes = [projection.image_with_keys(c) for c in changes]
            changes = [c for c in changes if c.num_rows]
            if not changes:
                return None
            incoming = merge_columns([known or {}, *(projection.image_columns(c) for c in changes)], state.columns or ())
            columns = self._columns_for(state, incoming)
            return _PreparedRows([projection.project(c, columns) for c in changes], incoming, columns, chosen)
        except pa.ArrowException as e:
            raise DataError(f"table {self.name}: {e}") from e

    def _columns_for(self, state: _TableState, incoming: Columns) -> Columns:
        """The incoming columns to write, with their types in the table after schema evolution."""
        metadata = self._settings.metadata_columns
        projection.check_metadata_names(incoming, metadata)
        check_names(incoming)
        wanted = self._with_metadata(incoming)
        if state.columns is None:
            if not wanted:
                raise SchemaError(
                    f"table {self.name} would have no columns: the records have no fields, and metadata.columns=none"
                )
            return incoming
        missing_columns(state.columns, wanted)  # raises for names that differ only in case
        columns = with_additions(state.columns, wanted) if self._settings.schema_evolution == "add" else state.columns
        return {n: columns[n] for n in incoming if n in columns}

    def _with_metadata(self, incoming: Columns) -> Columns:
        return incoming | {n: projection.METADATA_TYPES[n] for n in self._settings.metadata_columns}

    # -- plans -----------------------------------------------------------------------------------------------------------

    def _plan_append(self, prepared: _PreparedRows) -> _WritePlan | None:
        parts = []
        for part in prepared.changes:
            one = projection.concat_batches([part])
            extra = projection.metadata_columns(one.meta, self._settings.metadata_columns, None)
            parts.append(_append_columns(one.image, extra))
        staged = pa.concat_tables(parts)
        self.progress.rows += staged.num_rows
        return _WritePlan(staged)

    def _plan_upsert(self, state: _TableState, prepared: _PreparedRows) -> _WritePlan | None:
        keys = self._keys = prepared.keys
        whole = projection.concat_batches(prepared.changes)
        latest = deduplicate.latest_per_key(whole, keys, self._settings.delete_mode, self._settings.unavailable)
        self.progress.rows += latest.rows.num_rows
        soft = self._settings.delete_mode == config.SOFT
        extra = projection.metadata_columns(latest.meta, self._settings.metadata_columns, latest.deleted)
        staged = _append_columns(latest.rows, extra)
        hard_deletes = not soft and bool(pc.any(latest.deleted).as_py())
        lowest, highest = _bounds(latest.rows[keys[0]]) if staged.num_rows else (None, None)
        known = (None, None) if latest.truncated and not soft else self._known_bounds(state, keys[0], staged)
        grown = _extend_bounds(known, lowest, highest)
        if known is not None and _is_disjoint(known, lowest, highest):
            # None of these keys is in the table: nothing to match or delete, so no file has to be read.
            if hard_deletes:
                staged = staged.filter(pc.invert(latest.deleted))
            overwrite = latest.truncated and not soft and state.columns is not None
            if not staged.num_rows and not overwrite and not latest.truncated and state.columns is not None:
                return None
            return _WritePlan(staged, before=self._soft_truncate(state, latest.truncated), overwrite=overwrite, bounds=grown)
        if not staged.num_rows and not latest.truncated:
            return None
        if hard_deletes:
            staged = staged.append_column(DELETE_FLAG, latest.deleted)
        for column, mask in latest.keep.items():
            staged = staged.append_column(KEEP_PREFIX + column, mask)
        assert isinstance(self._table, DeltaTable)
        assert state.columns is not None
        statement = merge_statement(
            self._table.sql_name,
            self._table.source_view,
            keys,
            list(state.columns),
            {*prepared.columns, *extra},
            latest.keep.keys(),
            (keys[0], lowest, highest) if _has_literal(lowest, highest) else None,
            deletes=hard_deletes,
        )
        return _WritePlan(staged, statement, self._soft_truncate(state, latest.truncated), bounds=grown)

    def _soft_truncate(self, state: _TableState, truncated: bool) -> str | None:
        if not truncated or self._settings.delete_mode != config.SOFT or state.columns is None:
            return None
        assert isinstance(self._table, DeltaTable)
        # A separate commit before the rest; repeating it after a crash changes nothing.
        return (
            f"UPDATE {self._table.sql_name} SET {quote(config.DELETED)} = true WHERE NOT coalesce({quote(config.DELETED)}, false)"
        )

    def _key_columns(self, changes: list[ChangeBatch], known: tuple[str, ...]) -> tuple[str, ...] | None:
        """The key columns (``known``, if not empty); None when no record needs a key. Raises DataError for a row without a
        key."""
        if self._settings.key_columns:
            return self._settings.key_columns
        for part in changes:
            needs_key = pc.invert(pc.fill_null(pc.is_in(part.meta[OPERATION], pa.array([TRUNCATE, MESSAGE])), False))
            bare = needs_key if part.keys is None else pc.and_(needs_key, _all_null(part.keys))
            if pc.any(bare).as_py():
                raise DataError(
                    f"{part.describe_record(pc.index(bare, True).as_py())}: the record has no key, and write.mode=upsert needs "
                    "one; set key.columns to the columns that identify a row, or write.mode=append if there are none"
                )
            if part.keys is None:
                continue
            names = tuple(part.keys.column_names)
            if known and set(names) != set(known):
                raise DataError(
                    f"topic {part.topic}: the record key has the fields {', '.join(names)}, and table {self.name} has the key "
                    f"{', '.join(known)}; set key.columns, or write into another table"
                )
            known = known or names
        return known or None

    def _evolve(self, state: _TableState, prepared: _PreparedRows) -> None:
        """Adds missing columns to the table if ``schema.evolution`` allows it."""
        wanted = self._with_metadata(prepared.incoming)
        if state.columns is None:
            state.columns = wanted
            return
        added = missing_columns(state.columns, wanted)
        if added and self._settings.schema_evolution == "fail":
            names = ", ".join(path for path, _ in added)
            raise SchemaError(
                f"table {self.name} at {self._table.path} has no column {names}, the records do, and schema.evolution=fail"
            )
        if added and self._settings.schema_evolution == "add":
            if isinstance(self._table, DeltaTable):
                self._table.add_columns(added)
                state.version = None
            state.columns = with_additions(state.columns, wanted)

    def _known_bounds(self, state: _TableState, key: str, staged: pa.Table) -> tuple[Any, Any] | None:
        if state.bounds is None and isinstance(self._table, DeltaTable) and staged.num_rows:
            type_ = staged.schema.field(key).type
            # Delta has exact statistics for these types, so no data is read.
            if pa.types.is_integer(type_) or pa.types.is_date(type_):
                state.bounds = self._table.bounds(key)
        return state.bounds


def _next_sequence(committed_offsets: CommittedOffsets) -> int:
    # Without history, the table's checkpoint may still contain identifiers; the clock is larger than any of them.
    return int(time.time() * 1000) if committed_offsets.sequence is None else committed_offsets.sequence + 1


def _all_null(columns: pa.Table) -> pa.ChunkedArray:
    """Mask of the rows in which all columns are null."""
    return functools.reduce(pc.and_, [column.is_null() for column in columns.columns])


def _append_columns(image: pa.Table, extra: dict[str, pa.ChunkedArray]) -> pa.Table:
    for name, column in extra.items():
        image = image.append_column(name, column) if image.num_columns else pa.table({name: column})
    return image


def _bounds(column: pa.ChunkedArray) -> tuple[Any, Any]:
    type_ = column.type
    if not (pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_string(type_)):
        return None, None
    return value_range(column)


def _has_literal(low: Any, high: Any) -> bool:
    return low is not None and not (isinstance(low, str) and max(len(low), len(high)) > _MAX_LITERAL_LENGTH)


def _is_disjoint(known: tuple[Any, Any], low: Any, high: Any) -> bool:
    """True when the range does not overlap with the table's bounds, or the table is empty."""
    if known[0] is None:
        return True
    return low is not None and bool(low > known[1] or high < known[0])


def _extend_bounds(known: tuple[Any, Any] | None, low: Any, high: Any) -> tuple[Any, Any] | None:
    if known is None or low is None:
        return None  # keys without bounds, such as dates that Python cannot represent
    return (low, high) if known[0] is None else (min(known[0], low), max(known[1], high))
