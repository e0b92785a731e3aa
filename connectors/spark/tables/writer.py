"""Writes changes to one table: loads its state, prepares rows, and commits; retries when another task committed first."""

from __future__ import annotations

import itertools
import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from connect import crash_points
from connect.errors import ConnectError, DataError, RetriableError, SchemaError
from connect.record import TopicPartition
from connectors.sink_support.batch_isolation import find_bad_records
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.config import CURRENT, TableConfig
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.errors import explain
from connectors.spark.plan import deduplicate, projection
from connectors.spark.plan.evolution import Columns, missing_columns, sql_type, with_additions
from connectors.spark.plan.rows import PreparedRows, RowPreparation
from connectors.spark.plan.source_order import drop_truncated, sort_by_position
from connectors.spark.plan.truncate_order import TruncateOrder
from connectors.spark.plan.versions import plan_versions
from connectors.spark.plan.widening import widened_columns
from connectors.spark.tables.offset_ranges import OffsetRanges, find_offset_ranges
from connectors.spark.tables.table import OffsetCommit, Table, TableState, Upsert

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
    table: Mapping[str, Any] = field(default_factory=dict)
    """What the table itself reports (:meth:`connectors.spark.tables.table.Table.progress`)."""


class TableWriter:
    """Writes one table for one task. Used by one thread at a time."""

    def __init__(self, name: str, settings: TableConfig, table: Table) -> None:
        self.name = name
        self.progress = TableProgress()
        self._settings = settings
        self._table = table
        self._rows = RowPreparation(name, settings)
        self._state: TableState | None = None
        self._keys: tuple[str, ...] = settings.key_columns
        self._order = TruncateOrder()

    def committed_offsets(self, partitions: Collection[TopicPartition]) -> TableState:
        """Reads the end offsets of these partitions from the table (of all that are known, if none are given). Raises
        ConnectError."""
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
        attempts = written = 0
        while attempts < _MAX_ATTEMPTS:
            state = self._state or self._load(partitions)
            # Promise 6: records that the table contains are not written again, whatever the consumer group's offset is.
            new = [kept for c in changes if (kept := c.after_offsets(state.ends)).num_rows]
            skipped = {tp: r for tp, r in (excluded or {}).items() if r[1] > state.ends.get(tp, 0)}
            if not new and not skipped:
                self.progress.skipped += sum(c.num_rows for c in changes) - written
                return
            # A truncate that keeps the rows applies to those of earlier commits.
            keeps_rows = (self._settings.soft_deletes or self._settings.keeps_versions) and not self._settings.orders_by_source
            part = deduplicate.before_truncate(new) if new and keeps_rows else new
            is_last = part is new
            prepared = (
                self._rows.prepare(state.columns, part, self._keys, partition_columns=state.partition_columns) if part else None
            )
            # Unless the commit succeeds for certain, the state must be read again.
            self._state = None
            try:
                landed = self._write(state, part, prepared, skipped if is_last else {})
            except (DataError, RetriableError):
                raise
            except Exception as e:
                raise explain(e, self._described()) from e
            if not landed:
                attempts += 1
                continue
            self._state = state
            written += sum(c.num_rows for c in part)
            if is_last:
                self.progress.skipped += sum(c.num_rows for c in changes) - written
                self.progress.last_commit_ms = int(time.time() * 1000)
                self.progress.commit_duration_ms = int((time.monotonic() - started) * 1000)
                self._update_figures()
                crash_points.point("spark.committed")
                return
            attempts = 0
        raise RetriableError(f"{self._described()}: other writers committed first {_MAX_ATTEMPTS} times in a row")

    def split_bad_records(
        self, changes: Sequence[ChangeBatch], partitions: Collection[TopicPartition]
    ) -> tuple[list[ChangeBatch], list[BadRecord]]:
        """Separates changes that fit this table from bad records. Writes nothing."""
        state = self._state or self._load(partitions)
        changes = [kept for c in changes if (kept := c.after_offsets(state.ends)).num_rows]
        known: Columns = {}
        keys = self._keys
        bad_records: list[BadRecord] = []
        starts = [0, *itertools.accumulate(c.num_rows for c in changes)]

        def attempt(part: range) -> None:
            nonlocal known, keys
            index = bisect_right(starts, part.start) - 1
            first = part.start - starts[index]
            piece = changes[index].slice(range(first, first + len(part))).without_empty_columns()
            prepared = self._rows.prepare(state.columns, [piece], keys, known, partition_columns=state.partition_columns)
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

    def move_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commits new offsets (None removes a partition) without rows. Raises ConnectError."""
        self._state = None
        try:
            self._table.move_offsets(offsets)
        except Exception as e:
            raise explain(e, self._described()) from e

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
        try:
            self._state = self._table.load(partitions)
        except Exception as e:
            raise explain(e, self._described()) from e
        return self._state

    def _described(self) -> str:
        return f"table {self.name} at {self._table.path}"

    def _write(
        self, state: TableState, changes: Sequence[ChangeBatch], prepared: PreparedRows | None, excluded: OffsetRanges
    ) -> bool:
        """Whether the changes are committed; if not, the state must be read again. Updates the state."""
        ranges = find_offset_ranges(changes, excluded, state.ends)
        commit = OffsetCommit(ranges, {tp: end for tp, (_, end) in ranges.items()})
        if prepared is not None and self._evolve(state, prepared):
            return False
        rows = 0
        if prepared is None:
            # Records without rows, such as messages: reading them again would not change anything, unless bad ones were reported.
            if not excluded or state.columns is None:
                state.ends |= commit.ends
                return True
            landed = self._table.append(pa.schema(list(state.columns.items())).empty_table(), commit)
        elif self._settings.upserts:
            upsert = self._plan_upsert(state, prepared)
            rows = upsert.rows.num_rows
            landed = self._table.upsert(upsert, commit)
            if landed is not None and not upsert.by_source:
                self._order.committed(upsert.changes, self._keys)
        else:
            appended = self._plan_append(prepared)
            rows = appended.num_rows
            landed = self._table.append(appended, commit)
        if landed is None:
            return False
        self.progress.rows += rows
        self.progress.commits += 1
        self.progress.version = state.version = landed
        state.ends |= commit.ends
        return True

    def _plan_append(self, prepared: PreparedRows) -> pa.Table:
        parts = []
        for part in prepared.changes:
            one = projection.concat_batches([part])
            extra = projection.metadata_columns(one.meta, self._settings.metadata_columns, None)
            parts.append(_append_columns(one.image, extra))
        return pa.concat_tables(parts)

    def _plan_upsert(self, state: TableState, prepared: PreparedRows) -> Upsert:
        self._keys = prepared.keys
        settings = self._settings
        whole = projection.concat_batches(prepared.changes)
        if settings.orders_by_source:
            return self._plan_by_source(state, whole, prepared.keys)
        whole = self._order.before(whole)
        if settings.keeps_versions:
            assert state.columns is not None
            versions = plan_versions(whole, prepared.keys, settings)
            keys = (*prepared.keys, CURRENT)
            return Upsert(versions.rows, versions, keys, state.columns, soft_deletes=True, keeps_versions=True)
        latest = deduplicate.latest_per_key(
            whole,
            prepared.keys,
            settings.delete_mode,
            settings.unavailable,
            unavailable_is_null=settings.unavailable_value == "null",
        )
        extra = projection.metadata_columns(latest.meta, settings.metadata_columns, latest.deleted)
        assert state.columns is not None
        rows = _append_columns(latest.rows, extra)
        survivors = self._order.survivors(latest, prepared.keys)
        return Upsert(rows, latest, prepared.keys, state.columns, settings.soft_deletes, survivors)

    def _plan_by_source(self, state: TableState, changes: ChangeBatch, keys: tuple[str, ...]) -> Upsert:
        settings = self._settings
        ordered, truncate = drop_truncated(sort_by_position(changes), settings.delete_mode)
        latest = deduplicate.latest_of_sorted(
            ordered,
            truncate,
            keys,
            settings.delete_mode,
            settings.unavailable,
            unavailable_is_null=settings.unavailable_value == "null",
        )
        extra = projection.metadata_columns(latest.meta, settings.metadata_columns, latest.deleted)
        assert state.columns is not None
        rows = _append_columns(latest.rows, extra)
        return Upsert(rows, latest, keys, state.columns, settings.soft_deletes, by_source=True)

    def _evolve(self, state: TableState, prepared: PreparedRows) -> bool:
        """Creates the table, or adds or widens columns, if ``schema.evolution`` allows it; returns whether it did."""
        wanted = self._rows.with_metadata(prepared.incoming)
        if state.columns is None:
            if not self._settings.creates_table:
                raise ConnectError(
                    f"{self._described()} does not exist; create it, or set iceberg.tables.auto-create-enabled=true"
                )
            self._change_schema(lambda: self._table.create(wanted, prepared.keys), lambda present: True)
            return True
        widened = widened_columns(state.columns, prepared.columns) if self._settings.widens_columns else []
        if widened:
            names = ", ".join(f"{path} to {sql_type(type_)}" for path, type_ in widened)
            log.info("Widening columns of %s: %s", self._described(), names)
            self._change_schema(
                lambda: self._table.widen_columns(widened), lambda present: not widened_columns(present, prepared.columns)
            )
            return True
        added = missing_columns(state.columns, wanted)
        if not added or self._settings.schema_evolution == "none":
            return False
        if not self._settings.adds_columns:
            names = ", ".join(path for path, _ in added)
            raise SchemaError(f"{self._described()} has no column {names}, the records do, and schema.evolution=fail")
        columns = with_additions(state.columns, wanted)
        self._change_schema(lambda: self._table.add_columns(added, columns), lambda present: not missing_columns(present, wanted))
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


def _append_columns(image: pa.Table, extra: dict[str, pa.ChunkedArray]) -> pa.Table:
    for name, column in extra.items():
        image = image.append_column(name, column) if image.num_columns else pa.table({name: column})
    return image
