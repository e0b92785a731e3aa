"""Writes changes to one table: loads its state, prepares rows, and commits; retries when another task committed first."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from connect import crash_points
from connect.errors import ConnectError, DataError, RetriableError, SchemaError
from connect.metrics import Histogram
from connect.record import TopicPartition
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.config import TableConfig
from connectors.spark.config_keys import UPSERT
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.errors import explain
from connectors.spark.plan.evolution import Columns, cast_column, missing_columns, sql_type, with_additions
from connectors.spark.plan.key_changes import contains_key_change
from connectors.spark.plan.rows import PreparedRows, RowPreparation
from connectors.spark.plan.truncates import NO_FEEDS, Feeds, contains_truncate
from connectors.spark.plan.widening import widened_columns
from connectors.spark.tables.application_ids import Identify
from connectors.spark.tables.executor_files import ExecutorFiles, WriteTarget, WrittenRows
from connectors.spark.tables.offset_ranges import OffsetRanges, find_offset_ranges, of_first_partition
from connectors.spark.tables.planned_rows import rows_to_append, split_bad_records
from connectors.spark.tables.planned_upserts import plan_upsert
from connectors.spark.tables.table import OffsetCommit, Table, TableState, Upsert
from connectors.spark.tables.table_mode import check_mode, lacks_versions, said_key, warn_of_other_key, without_version

log = logging.getLogger(__name__)

_MAX_ATTEMPTS = 8


@dataclass(slots=True)
class TableProgress:
    """Progress of a table, shown over REST."""

    rows: int = 0
    commits: int = 0
    version: int | None = None
    last_commit_ms: int | None = None
    commit_duration_ms: int | None = None
    skipped: int = 0
    dropped: int = 0
    """Values that the schema contract left out."""
    conflicts: int = 0
    """Attempts to commit that another writer's commit has overtaken."""
    commit_times: Histogram = field(default_factory=Histogram)
    maintenance_times: Histogram = field(default_factory=Histogram)
    maintenance_failures: int = 0
    table: Mapping[str, Any] = field(default_factory=dict)
    """What the table itself reports (:meth:`connectors.spark.tables.table.Table.progress`)."""

    def committed(self, seconds: float) -> None:
        """A commit has taken so long."""
        self.last_commit_ms = int(time.time() * 1000)
        self.commit_duration_ms = int(seconds * 1000)
        self.commit_times.observe(seconds)


class TableWriter:
    """Writes one table for one task. Used by one thread at a time."""

    def __init__(self, name: str, settings: TableConfig, table: Table, identify: Identify = lambda topic: None) -> None:
        self.name = name
        self.progress = TableProgress()
        self._settings = settings
        self._table = table
        self._rows = RowPreparation(name, settings)
        self._state: TableState | None = None
        self._identify = identify
        self._dropped: set[str] = set()
        self._ends: dict[TopicPartition, int] = {}
        """Where the table was last seen to end, which only moves forward."""

    def committed_offsets(self, partitions: Collection[TopicPartition]) -> TableState:
        """Reads the ends of these partitions from the table (of all that are known, if none are given). Raises ConnectError."""
        return self._load(partitions)

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
        needs_feeds = _needs_feeds(changes, self._settings)
        attempts = written = 0
        done: dict[TopicPartition, int] = {}
        while attempts < _MAX_ATTEMPTS:
            state = self._load(partitions) if self._state is None or needs_feeds else self._state
            # Promise 6: records that the table contains are not written again, whatever the consumer group's offset is.
            ends = {**state.ends, **done}
            new = [kept for c in changes if (kept := c.after_offsets(ends)).num_rows]
            skipped = {tp: r for tp, r in (excluded or {}).items() if r[1] > ends.get(tp, 0)}
            if not new and not skipped:
                self.progress.skipped += sum(c.num_rows for c in changes) - written
                return
            part, skipped, is_last = of_first_partition(new, skipped) if state.one_partition else (new, skipped, True)
            limits, feeds = state.limits, _feeds(state, part, self._settings, self._identify)
            keys = self._keys(state)
            prepared = self._rows.prepare(state.columns, part, keys, limits=limits, feeds=feeds) if part else None
            # Unless the commit succeeds for certain, the state must be read again.
            self._state = None
            try:
                landed = self._write(state, part, prepared, skipped)
            except (DataError, RetriableError):
                raise
            except Exception as e:
                raise explain(e, self._described()) from e
            if not landed:
                attempts += 1
                self.progress.conflicts += 1
                continue
            self._state = state
            written += sum(c.num_rows for c in part)
            if not is_last:
                # Also records without rows, for which the table's end does not move.
                done |= {tp: end for tp, (_, end) in find_offset_ranges(part, skipped, {}).items()}
                attempts = 0
                continue
            self.progress.skipped += sum(c.num_rows for c in changes) - written
            self.progress.committed(time.monotonic() - started)
            self._update_figures()
            crash_points.point("spark.committed")
            return
        raise RetriableError(f"{self._described()}: other writers committed first {_MAX_ATTEMPTS} times in a row")

    def write_target(self, partitions: Collection[TopicPartition]) -> WriteTarget:
        """Describes the table to executors, which write files for :meth:`commit_files`. Raises ConnectError."""
        state = self._state or self._load(partitions)
        # Changes that are older than their rows must be found here, and so must the key if the table does not say it.
        has_key = bool(self._keys(state)) or not self._settings.upserts
        writes = state.columns is not None and self._settings.replaces_rows and has_key
        ends = {tp: end for tp, end in state.ends.items() if tp in partitions}
        files = self._table.file_target() if writes else None
        counts = _partition_counts({tp.topic for tp in (*state.ends, *partitions)}, self._identify)
        feeds = Feeds(state.feeds | state.ends.keys(), counts)
        return WriteTarget(state.columns, ends, state.limits, self._keys(state), files, feeds)

    def evolve(self, needed: PreparedRows, partitions: Collection[TopicPartition]) -> None:
        """Creates the table, or adds or widens columns, for rows that executors prepared. Raises ConnectError."""
        state = self._state or self._load(partitions)
        self._state = None
        try:
            self._evolve(state, needed)
        except (DataError, RetriableError):
            raise
        except Exception as e:
            raise explain(e, self._described()) from e

    def commit_files(
        self,
        rows: WrittenRows,
        ranges: OffsetRanges,
        known_ends: Mapping[TopicPartition, int],
        partitions: Collection[TopicPartition],
    ) -> bool:
        """Commits files that executors wrote, with the offset ranges of their records. ``known_ends`` are the ends below which
        they have skipped the records. Durable on return.

        Returns False, and writes nothing, if the table has changed so that the files do not fit any more. Raises as
        :meth:`commit` does.
        """
        started = time.monotonic()
        for _ in range(_MAX_ATTEMPTS):
            state = self._state or self._load(partitions)
            columns = state.columns or {}
            # Promise 6: the executors skipped what the table had; what it has got since then would be doubled.
            is_same = all(state.ends.get(tp) == known_ends.get(tp) for tp in ranges)
            if not is_same or any(columns.get(member.name) != member.type for member in rows.files.schema):
                return False
            self._state = None
            moved = {tp: (state.ends.get(tp, first), end) for tp, (first, end) in ranges.items()}
            commit = _commit_of(moved, state, files=rows.files)
            try:
                landed = None if self._set_keys(state, rows.keys) else self._write_files(rows, columns, commit)
            except (DataError, RetriableError):
                raise
            except Exception as e:
                raise explain(e, self._described()) from e
            if landed is None:
                self.progress.conflicts += 1
                continue
            self.progress.rows += rows.count
            self.progress.commits += 1
            self.progress.version = landed
            self._move_ends(state, commit)
            self._state = state
            self.progress.committed(time.monotonic() - started)
            self._update_figures()
            crash_points.point("spark.committed")
            return True
        raise RetriableError(f"{self._described()}: other writers committed first {_MAX_ATTEMPTS} times in a row")

    def _write_files(self, rows: WrittenRows, columns: Columns, commit: OffsetCommit) -> int | None:
        if rows.latest is None:
            return self._table.append(rows.files.schema.empty_table(), commit)
        upsert = Upsert(rows.latest.rows, rows.latest, rows.keys, columns, self._settings.soft_deletes)
        return self._table.upsert(upsert, commit)

    def split_bad_records(
        self, changes: Sequence[ChangeBatch], partitions: Collection[TopicPartition]
    ) -> tuple[list[ChangeBatch], list[BadRecord]]:
        """Separates changes that fit this table from bad records. Writes nothing."""
        state = self._state or self._load(partitions)
        changes = [kept for c in changes if (kept := c.after_offsets(state.ends)).num_rows]
        feeds = _feeds(state, changes, self._settings, self._identify)
        return split_bad_records(self._rows, state.columns, state.limits, self._keys(state), changes, feeds)

    def maintain(self, is_stopping: Callable[[], bool]) -> None:
        """Takes care of the table. The only method that another thread may call."""
        self._table.maintain(is_stopping)
        self._update_figures()

    def _update_figures(self) -> None:
        before, self.progress.table = self.progress.table, self._table.progress()
        if self.progress.table.get("unavailable") and not before.get("unavailable"):
            log.warning(
                "%s: unavailable values have become null (unavailable.value=%s); the task's progress counts them as unavailable",
                self._described(),
                self._settings.unavailable_value,
            )

    def _load(self, partitions: Collection[TopicPartition]) -> TableState:
        self._state = None
        try:
            state = self._table.load(partitions)
        except Exception as e:
            raise explain(e, self._described()) from e
        self._check_ends(state.ends, partitions)
        check_mode(self._described(), state, self._settings)
        self._state = state
        return state

    def _check_ends(self, ends: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]) -> None:
        """Raises ConnectError, and then each time, if the end of one of these partitions is not where it was or behind."""
        for tp in sorted({*partitions, *ends} & self._ends.keys()):
            if ends.get(tp, -1) < self._ends[tp]:
                raise ConnectError(f"{self._described()}: {_gone_back(tp, self._ends[tp], ends.get(tp))}")
        self._ends |= ends

    def _keys(self, state: TableState) -> tuple[str, ...]:
        """The table's key columns; empty if nobody has said them yet."""
        return self._settings.key_columns or without_version(state.keys)

    def _set_keys(self, state: TableState, keys: tuple[str, ...]) -> bool:
        """Has the table say its key, for tasks that start later; returns whether it did not."""
        said = said_key(keys, self._settings)
        if not self._settings.upserts or not keys or set(said) == set(state.keys):
            return False
        warn_of_other_key(self._described(), without_version(state.keys), keys)
        try:
            self._table.set_keys(said)
        except Exception:  # another task may have said one at the same time
            if set(self._table.load(()).keys) == set(state.keys):
                raise
        return True

    def _described(self) -> str:
        return f"table {self.name} at {self._table.path}"

    def _write(
        self, state: TableState, changes: Sequence[ChangeBatch], prepared: PreparedRows | None, excluded: OffsetRanges
    ) -> bool:
        """Whether the changes are committed; if not, the state must be read again. Updates the state."""
        ranges = find_offset_ranges(changes, excluded, state.ends)
        commit = _commit_of(ranges, state)
        if prepared is not None and self._evolve(state, prepared):
            return False
        rows = 0
        if prepared is None:
            # Records without rows, such as messages: reading them again would not change anything, unless bad ones were reported.
            if not excluded or state.columns is None or lacks_versions(state, self._settings):
                return True
            landed = self._table.append(pa.schema(list(state.columns.items())).empty_table(), commit)
        elif self._settings.upserts:
            assert state.columns is not None
            upsert = plan_upsert(prepared, state.columns, self._settings)
            rows = upsert.rows.num_rows
            landed = self._table.upsert(upsert, replace(commit, is_alone=upsert.truncates))
        else:
            appended = rows_to_append(prepared, self._settings)
            rows = appended.num_rows
            landed = self._table.append(appended, commit)
        if landed is None:
            return False
        if prepared is not None:
            self._count_dropped(prepared.dropped)
        self.progress.rows += rows
        self.progress.commits += 1
        self.progress.version = landed
        self._move_ends(state, commit)
        return True

    def _move_ends(self, state: TableState, commit: OffsetCommit) -> None:
        state.ends |= commit.ends
        self._ends |= commit.ends

    def _count_dropped(self, dropped: Mapping[str, int]) -> None:
        self.progress.dropped += sum(dropped.values())
        for column in dropped.keys() - self._dropped:
            log.warning("%s: values of %s are left out, as the schema contract says", self._described(), column)
        self._dropped |= dropped.keys()

    def _evolve(self, state: TableState, prepared: PreparedRows) -> bool:
        """Creates the table, adds or widens columns if ``schema.evolution`` allows it, or sets its key; whether it did."""
        wanted = self._rows.with_metadata(prepared.incoming)
        if state.columns is None:
            if not self._settings.creates_table:
                raise ConnectError(
                    f"{self._described()} does not exist; create it, or set iceberg.tables.auto-create-enabled=true"
                )
            self._change_schema(lambda: self._table.create(wanted, said_key(prepared.keys, self._settings)), lambda present: True)
            return True
        widened = widened_columns(state.columns, prepared.columns) if self._settings.widens_columns else []
        if widened:
            names = ", ".join(f"{path} to {sql_type(type_)}" for path, type_ in widened)
            log.info("Widening columns of %s: %s", self._described(), names)
            self._change_schema(
                lambda: self._table.widen_columns(widened), lambda present: not widened_columns(present, prepared.columns)
            )
            return True
        lacking = [name for name in self._settings.metadata_columns if name not in state.columns]
        if lacking and self._settings.leaves_fields_out:
            raise SchemaError(
                f"{self._described()} has no column {', '.join(lacking)}, which the connector writes, and schema.evolution=none; "
                "add it to the table, or leave it out of metadata.columns"
            )
        added = missing_columns(state.columns, wanted)
        if not added or self._settings.leaves_fields_out:
            return self._set_keys(state, prepared.keys)
        if not self._settings.adds_columns:
            names = ", ".join(path for path, _ in added)
            raise SchemaError(f"{self._described()} has no column {names}, the records do, and schema.evolution=fail")
        columns = with_additions(state.columns, wanted)
        defaults = _defaults(state.columns, columns, prepared, self._settings)
        self._change_schema(
            lambda: self._table.add_columns(added, columns, defaults), lambda present: not missing_columns(present, wanted)
        )
        return True

    def _change_schema(self, change: Callable[[], None], is_done: Callable[[Columns], bool]) -> None:
        """Creates the table or adds columns. Another task may have done the same at the same time."""
        try:
            change()
        except Exception as e:
            present = self._table.load(()).columns
            if present is None or not is_done(present):
                raise
            log.debug("%s got its columns from another writer: %s", self._described(), e)


def _feeds(state: TableState, changes: Sequence[ChangeBatch], settings: TableConfig, identify: Identify) -> Feeds:
    """The partitions that feed the table, as far as these changes need to know."""
    if not _needs_feeds(changes, settings):
        return NO_FEEDS
    own = {TopicPartition(one.topic, number) for one in changes for number in one.partitions()}
    return Feeds({*state.ends, *state.feeds, *own}, _partition_counts({one.topic for one in changes}, identify))


def _needs_feeds(changes: Sequence[ChangeBatch], settings: TableConfig) -> bool:
    """Whether the table depends on all partitions whose records it has, and not on those of the changes alone."""
    return settings.upserts and (contains_truncate(changes) or contains_key_change(changes))


def _partition_counts(topics: Collection[str], identify: Identify) -> dict[str, int]:
    identities = {topic: identify(topic) for topic in topics}
    return {topic: found.partitions for topic, found in identities.items() if found is not None}


def _defaults(table: Columns, columns: Columns, prepared: PreparedRows, settings: TableConfig) -> dict[str, pa.Scalar]:
    """What the existing rows have in new columns."""
    if settings.write_mode != UPSERT or not settings.schema.uses_defaults:
        return {}
    new = {name: value for name, value in prepared.defaults.items() if name in columns and name not in table}
    return {name: cast_column(pa.chunked_array([pa.repeat(value, 1)]), columns[name], name)[0] for name, value in new.items()}


def _commit_of(ranges: OffsetRanges, state: TableState, files: ExecutorFiles | None = None) -> OffsetCommit:
    known = {tp: state.ends[tp] for tp in ranges if tp in state.ends}
    return OffsetCommit(ranges, {tp: end for tp, (_, end) in ranges.items()}, known, files)


def _gone_back(partition: TopicPartition, known: int, found: int | None) -> str:
    now = "is gone now" if found is None else f"is {found} now"
    return (
        f"the offset of {partition} was {known} and {now}, so somebody has restored, replaced, or dropped the table. Restart the "
        "task to continue from the offsets in the table, or set those over REST (PATCH /connectors/<name>/offsets)"
    )
