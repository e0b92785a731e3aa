"""Brings changes into one table: loads what it holds, plans, stages, commits, and does it again when another was quicker."""

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
from connectors.spark.config import TableSettings
from connectors.spark.decode.change_batch import MESSAGE, OFFSET_ID, OPERATION, PARTITION_ID, TOMBSTONE, TRUNCATE, Changes
from connectors.spark.errors import explain
from connectors.spark.plan import deduplicate, projection
from connectors.spark.plan.evolution import Columns, additions, check_names, quote, union, with_additions
from connectors.spark.plan.sql import DELETE_FLAG, KEEP_PREFIX, merge_statement
from connectors.spark.tables.committed_offsets import Commit, Ledger
from connectors.spark.tables.delta import DeltaTable
from connectors.spark.tables.delta_files import UnsuitableTable, extent
from connectors.spark.tables.parquet import ParquetTable
from connectors.spark.tables.staging import Staging

Extents = dict[TopicPartition, tuple[int, int]]
"""Per partition the first offset, and the one after the last."""
_ATTEMPTS = 5
_LONGEST_LITERAL = 128


@dataclass(slots=True)
class _State:
    """What is known of the table while nobody else commits to it."""

    columns: Columns | None
    ledger: Ledger
    created: bool = True
    version: int | None = None
    bounds: tuple[Any, Any] | None = None
    """Least and greatest value of the first key column; None when not known, (None, None) when the table is empty."""


@dataclass(slots=True)
class TableProgress:
    """What REST shows of a table."""

    rows: int = 0
    commits: int = 0
    version: int | None = None
    last_commit_ms: int | None = None
    commit_duration_ms: int | None = None
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Changes as rows of the table. Whatever of a record cannot become one has been refused by now."""

    changes: list[Changes]
    """Each with exactly ``columns`` in its image."""
    incoming: Columns
    """What the records bring."""
    columns: Columns
    """What of it is written, in the table's types."""
    keys: tuple[str, ...] = ()
    """Those of an upsert table."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """Rows to stage and how the table takes them."""

    rows: pa.Table
    statement: str | None = None
    before: str | None = None
    overwrite: bool = False
    bounds: tuple[Any, Any] | None = None


class TableWriter:
    """One table of one task. All calls on one thread at a time."""

    def __init__(
        self, name: str, settings: TableSettings, connector: str, table: DeltaTable | ParquetTable, staging: Staging
    ) -> None:
        self.name = name
        self.progress = TableProgress()
        self._settings = settings
        self._connector = connector
        self._table = table
        self._staging = staging
        self._state: _State | None = None
        self._keys: tuple[str, ...] = settings.key_columns

    def ledger(self, partitions: Collection[TopicPartition]) -> Ledger:
        """What the table holds of these partitions, read now. Raises ConnectError."""
        return self._load(partitions).ledger

    def columns(self) -> Columns | None:
        """The table's columns as last seen; None when there is no table."""
        return self._state.columns if self._state is not None else None

    def commit(self, changes: Sequence[Changes], partitions: Collection[TopicPartition], left_out: Extents | None = None) -> None:
        """Brings all changes into the table that it does not have yet. Durable on return.

        ``partitions`` are those that the task owns; ``left_out`` are ranges in which records were refused: they are in the
        commit's, so that nobody reads them again. Raises RetriableError when other writers were always quicker, and
        ConnectError with cause and table for everything else; either way a later call continues from what the table says.
        A DataError may be about single records: :meth:`without_refused` knows.
        """
        started = time.monotonic()
        for _ in range(_ATTEMPTS):
            state = self._state or self._load(partitions)
            # Promise 6: what the table has already is not written again, whatever the consumer group says.
            new = [kept for c in changes if (kept := c.without_those_below(state.ledger.ends)).num_rows]
            self.progress.skipped += sum(c.num_rows for c in changes) - sum(c.num_rows for c in new)
            skipped = {tp: extent for tp, extent in (left_out or {}).items() if extent[1] > state.ledger.ends.get(tp, 0)}
            if not new and not skipped:
                return
            prepared = self._prepare(state, new) if new else None
            # Unless it is known to have landed, the table has to be asked what it holds.
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
            f"table {self.name} at {self._table.path}: other tasks of this connector committed first {_ATTEMPTS} times in a row"
        )

    def without_refused(
        self, changes: Sequence[Changes], partitions: Collection[TopicPartition]
    ) -> tuple[list[Changes], list[BadRecord]]:
        """The changes of records that can become rows of this table, and the records that cannot. Writes nothing."""
        state = self._state or self._load(partitions)
        changes = [kept for c in changes if (kept := c.without_those_below(state.ledger.ends)).num_rows]
        known: Columns = {}
        keys = self._keys
        refused: list[BadRecord] = []
        starts = [0, *itertools.accumulate(c.num_rows for c in changes)]

        def attempt(part: range) -> None:
            nonlocal known, keys
            index = bisect_right(starts, part.start) - 1
            first = part.start - starts[index]
            piece = changes[index].slice(range(first, first + len(part))).without_empty_columns()
            prepared = self._prepare(state, [piece], known, keys)
            if prepared is not None:
                known, keys = prepared.incoming, prepared.keys

        parts = [range(a, b) for a, b in itertools.pairwise(starts)]
        found = find_bad_records(parts, attempt)
        good: list[Changes] = []
        for part, one in zip(parts, changes, strict=True):
            gone = [at for at in part if at in found] if found else []
            refused += [BadRecord.of(*one.place(at - part.start), found[at]) for at in gone]
            if gone:
                one = one.filter(pa.array([at not in found for at in part])).without_empty_columns()
            if one.num_rows:
                good.append(one)
        return good, refused

    def reset(self, offsets: dict[TopicPartition, int | None]) -> None:
        """Writes into the table that its partitions are at these offsets (None: nowhere) from now on."""
        state = self._load(list(offsets))
        if state.columns is None or not isinstance(self._table, DeltaTable):
            return
        commit = Commit(self._connector, _next(state.ledger), {}, {**state.ledger.ends, **offsets})
        try:
            if self._table.note(commit) is None:
                raise RetriableError(f"table {self.name}: a task committed at the same moment; stop the connector first")
        except Exception as e:
            raise explain(e, f"table {self.name} at {self._table.path}") from e

    def _load(self, partitions: Collection[TopicPartition]) -> _State:
        try:
            columns = self._table.columns()
            ledger = Ledger() if columns is None else self._table.ledger(partitions)
        except Exception as e:
            raise explain(e, f"table {self.name} at {self._table.path}") from e
        self._state = _State(columns, ledger, created=columns is not None, bounds=(None, None) if columns is None else None)
        return self._state

    def _write(
        self,
        state: _State,
        changes: list[Changes],
        prepared: _Prepared | None,
        partitions: Collection[TopicPartition],
        left_out: Extents,
    ) -> bool:
        ranges = _ranges(changes, left_out, state.ledger.ends)
        ends: dict[TopicPartition, int | None] = {tp: end for tp, end in state.ledger.ends.items() if tp in partitions}
        ends |= {tp: end for tp, (_, end) in ranges.items()}
        commit = Commit(self._connector, _next(state.ledger), ranges, ends)
        planned = None
        if prepared is not None:
            self._evolve(state, prepared)
            planned = self._plan_upsert(state, prepared) if self._settings.upserts else self._plan_append(prepared)
        if planned is None and left_out and state.created and state.columns is not None:
            # No rows, but there is something to say of offsets: what was reported is not to be reported again.
            planned = _Plan(pa.schema(list(state.columns.items())).empty_table(), bounds=state.bounds)
        if planned is not None:
            landed = self._apply(state, planned, commit)
            if landed is None:
                return False
            # Bounds hold only while nobody else writes in between.
            followed = state.version is None or landed == state.version + 1
            state.bounds = planned.bounds if followed else None
            state.version = landed
            state.created = True
            state.ledger.sequence = commit.sequence
        # Without rows there is no commit: reading those records again would again change nothing.
        state.ledger.ends |= {tp: end for tp, (_, end) in ranges.items()}
        return True

    def _apply(self, state: _State, plan: _Plan, commit: Commit) -> int | None:
        if isinstance(self._table, ParquetTable):
            crash_points.point("spark.staged")
            return self._table.append(plan.rows, commit)
        columns = {f.name: f.type for f in plan.rows.schema}
        if self._table.takes_files and plan.statement is None and plan.before is None and not plan.overwrite:
            if not state.created:
                self._table.create(columns)
                state.created = True
            crash_points.point("spark.staged")
            try:
                return self._table.append_file(plan.rows, commit)
            except UnsuitableTable:
                pass  # this one, and all that follow, by Spark
        with self._staging.write(plan.rows) as staged:
            crash_points.point("spark.staged")
            if plan.before is not None:
                self._table.run(plan.before)
            if plan.statement is not None:
                return self._table.execute(staged.uri, columns, plan.statement, commit)
            return self._table.append(staged.uri, columns, commit, overwrite=plan.overwrite)

    # -- records to rows -------------------------------------------------------------------------------------------------

    def _prepare(
        self, state: _State, changes: list[Changes], known: Columns | None = None, keys: tuple[str, ...] | None = None
    ) -> _Prepared | None:
        """The changes as rows; None when no record becomes one. Changes nothing, in the table or here.

        Whatever this raises (DataError) is about records, and nothing raised after it is. ``known`` are columns that other
        records bring, ``keys`` the key columns if they are known.
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
                changes = [projection.appended_image(c) for c in changes]
            changes = [c for c in changes if c.num_rows]
            if not changes:
                return None
            incoming = union([known or {}, *(projection.image_columns(c) for c in changes)], state.columns or ())
            columns = self._columns_for(state, incoming)
            return _Prepared([projection.fitted(c, columns) for c in changes], incoming, columns, chosen)
        except pa.ArrowException as e:
            raise DataError(f"table {self.name}: {e}") from e

    def _columns_for(self, state: _State, incoming: Columns) -> Columns:
        """What of the incoming columns is written, in the types that they have in the table or will have."""
        metadata = self._settings.metadata_columns
        projection.refuse_collisions(incoming, metadata)
        check_names(incoming)
        wanted = self._with_metadata(incoming)
        if state.columns is None:
            if not wanted:
                raise SchemaError(
                    f"table {self.name} would have no columns: the records have no fields, and metadata.columns=none"
                )
            return incoming
        additions(state.columns, wanted)  # raises for names that cannot be together
        columns = with_additions(state.columns, wanted) if self._settings.schema_evolution == "add" else state.columns
        return {n: columns[n] for n in incoming if n in columns}

    def _with_metadata(self, incoming: Columns) -> Columns:
        return incoming | {n: projection.METADATA_TYPES[n] for n in self._settings.metadata_columns}

    # -- plans -----------------------------------------------------------------------------------------------------------

    def _plan_append(self, prepared: _Prepared) -> _Plan | None:
        parts = []
        for part in prepared.changes:
            one = projection.together([part])
            extra = projection.metadata_columns(one.meta, self._settings.metadata_columns, None)
            parts.append(_beside(one.image, extra))
        staged = pa.concat_tables(parts)
        self.progress.rows += staged.num_rows
        return _Plan(staged)

    def _plan_upsert(self, state: _State, prepared: _Prepared) -> _Plan | None:
        keys = self._keys = prepared.keys
        whole = projection.together(prepared.changes)
        folded = deduplicate.fold(whole, keys, self._settings.delete_mode, self._settings.unavailable)
        self.progress.rows += folded.rows.num_rows
        soft = self._settings.delete_mode == config.SOFT
        extra = projection.metadata_columns(folded.meta, self._settings.metadata_columns, folded.deleted)
        staged = _beside(folded.rows, extra)
        hard_deletes = not soft and bool(pc.any(folded.deleted).as_py())
        lowest, highest = _bounds(folded.rows[keys[0]]) if staged.num_rows else (None, None)
        known = (None, None) if folded.truncated and not soft else self._known_bounds(state, keys[0], staged)
        grown = _grow(known, lowest, highest)
        if known is not None and _apart(known, lowest, highest):
            # No key of these is in the table: nothing to match, nothing to delete, and no file to look into.
            if hard_deletes:
                staged = staged.filter(pc.invert(folded.deleted))
            overwrite = folded.truncated and not soft and state.columns is not None
            if not staged.num_rows and not overwrite and not folded.truncated and state.columns is not None:
                return None
            return _Plan(staged, before=self._soft_truncate(state, folded.truncated), overwrite=overwrite, bounds=grown)
        if not staged.num_rows and not folded.truncated:
            return None
        if hard_deletes:
            staged = staged.append_column(DELETE_FLAG, folded.deleted)
        for column, mask in folded.keep.items():
            staged = staged.append_column(KEEP_PREFIX + column, mask)
        assert isinstance(self._table, DeltaTable)
        assert state.columns is not None
        statement = merge_statement(
            self._table.sql_name,
            self._table.source_view,
            keys,
            list(state.columns),
            {*prepared.columns, *extra},
            folded.keep.keys(),
            (keys[0], lowest, highest) if _has_literal(lowest, highest) else None,
            deletes=hard_deletes,
        )
        return _Plan(staged, statement, self._soft_truncate(state, folded.truncated), bounds=grown)

    def _soft_truncate(self, state: _State, truncated: bool) -> str | None:
        if not truncated or self._settings.delete_mode != config.SOFT or state.columns is None:
            return None
        assert isinstance(self._table, DeltaTable)
        # A commit of its own before the rest; done once more after a crash it changes nothing.
        return (
            f"UPDATE {self._table.sql_name} SET {quote(config.DELETED)} = true WHERE NOT coalesce({quote(config.DELETED)}, false)"
        )

    def _key_columns(self, changes: list[Changes], known: tuple[str, ...]) -> tuple[str, ...] | None:
        """The key columns, which are ``known`` if not empty; None when no record needs one. Raises DataError for a row without a
        key."""
        if self._settings.key_columns:
            return self._settings.key_columns
        for part in changes:
            needs_key = pc.invert(pc.fill_null(pc.is_in(part.meta[OPERATION], pa.array([TRUNCATE, MESSAGE])), False))
            bare = needs_key if part.keys is None else pc.and_(needs_key, _all_null(part.keys))
            if pc.any(bare).as_py():
                raise DataError(
                    f"{part.locate(pc.index(bare, True).as_py())}: the record has no key, and write.mode=upsert needs one; set "
                    "key.columns to the columns that identify a row, or write.mode=append for a table without a primary key"
                )
            if part.keys is None:
                continue
            names = tuple(part.keys.column_names)
            if known and set(names) != set(known):
                raise DataError(
                    f"topic {part.topic}: the record key has the fields {', '.join(names)}, and table {self.name} is kept by "
                    f"{', '.join(known)}; set key.columns, or write into another table"
                )
            known = known or names
        return known or None

    def _evolve(self, state: _State, prepared: _Prepared) -> None:
        """Gives the table the columns that it lacks and may have."""
        wanted = self._with_metadata(prepared.incoming)
        if state.columns is None:
            state.columns = wanted
            return
        added = additions(state.columns, wanted)
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

    def _known_bounds(self, state: _State, key: str, staged: pa.Table) -> tuple[Any, Any] | None:
        if state.bounds is None and isinstance(self._table, DeltaTable) and staged.num_rows:
            type_ = staged.schema.field(key).type
            # Of these Delta keeps exact statistics, so that asking costs no reading.
            if pa.types.is_integer(type_) or pa.types.is_date(type_):
                state.bounds = self._table.bounds(key)
        return state.bounds


def _next(ledger: Ledger) -> int:
    # Where history is lost the identifiers in the table's checkpoint may not be: a clock is beyond whatever they were.
    return int(time.time() * 1000) if ledger.sequence is None else ledger.sequence + 1


def _ranges(changes: list[Changes], left_out: Extents, ends: dict[TopicPartition, int]) -> Extents:
    found = {tp: (ends.get(tp, first), end) for tp, (first, end) in left_out.items()}
    for part in changes:
        grouped = part.meta.group_by(PARTITION_ID, use_threads=False).aggregate([(OFFSET_ID, "min"), (OFFSET_ID, "max")])
        for row in grouped.to_pylist():
            tp = TopicPartition(part.topic, row[PARTITION_ID])
            first, end = row[f"{OFFSET_ID}_min"], row[f"{OFFSET_ID}_max"] + 1
            widen(found, tp, (ends.get(tp, first), end))
    return found


def widen(extents: Extents, place: TopicPartition, extent: tuple[int, int]) -> None:
    """Takes this extent in too."""
    first, end = extents.get(place, extent)
    extents[place] = min(first, extent[0]), max(end, extent[1])


def _all_null(columns: pa.Table) -> pa.ChunkedArray:
    """Per row whether no column has a value."""
    return functools.reduce(pc.and_, [column.is_null() for column in columns.columns])


def _beside(image: pa.Table, extra: dict[str, pa.ChunkedArray]) -> pa.Table:
    for name, column in extra.items():
        image = image.append_column(name, column) if image.num_columns else pa.table({name: column})
    return image


def _bounds(column: pa.ChunkedArray) -> tuple[Any, Any]:
    type_ = column.type
    if not (pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_string(type_)):
        return None, None
    return extent(column)


def _has_literal(low: Any, high: Any) -> bool:
    return low is not None and not (isinstance(low, str) and max(len(low), len(high)) > _LONGEST_LITERAL)


def _apart(known: tuple[Any, Any], low: Any, high: Any) -> bool:
    """True when a range and the table's have no value in common; an empty table has none with anything."""
    if known[0] is None:
        return True
    return low is not None and bool(low > known[1] or high < known[0])


def _grow(known: tuple[Any, Any] | None, low: Any, high: Any) -> tuple[Any, Any] | None:
    if known is None or low is None:
        return None  # keys of which no bounds are kept, as dates that Python cannot hold, leave them unknown
    return (low, high) if known[0] is None else (min(known[0], low), max(known[1], high))
