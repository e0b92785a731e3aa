"""Rows to write for prepared changes. The same for every engine."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import replace

import pyarrow as pa

from connectors.sink_support.batch_isolation import find_bad_records
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.config import TableConfig
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.plan import deduplicate, projection
from connectors.spark.plan.deduplicate import DeduplicatedChanges
from connectors.spark.plan.evolution import Columns, missing_columns
from connectors.spark.plan.rows import PreparedRows, RowPreparation
from connectors.spark.plan.truncates import Feeds
from connectors.spark.plan.widening import widened_columns


def rows_to_append(prepared: PreparedRows, settings: TableConfig) -> pa.Table:
    """A row for each change, with metadata columns."""
    parts = []
    for part in prepared.changes:
        one = projection.concat_batches([part])
        extra = projection.metadata_columns(one.meta, settings.metadata_columns, None)
        parts.append(append_columns(one.image, extra))
    return pa.concat_tables(parts)


def latest_rows(whole: ChangeBatch, prepared: PreparedRows, settings: TableConfig) -> tuple[pa.Table, DeduplicatedChanges]:
    """The latest change of each key among all changes, with metadata columns and without."""
    latest = deduplicate.latest_per_key(
        whole,
        prepared.keys,
        settings.delete_mode,
        settings.unavailable,
        unavailable_is_null=settings.unavailable_value == "null",
        may_lack=prepared.may_lack,
    )
    extra = projection.metadata_columns(latest.meta, settings.metadata_columns, latest.deleted)
    return append_columns(latest.rows, extra), latest


def append_columns(image: pa.Table, extra: dict[str, pa.ChunkedArray]) -> pa.Table:
    for name, column in extra.items():
        image = image.append_column(name, column) if image.num_columns else pa.table({name: column})
    return image


def must_evolve(present: Columns | None, prepared: PreparedRows, rows: RowPreparation, settings: TableConfig) -> bool:
    """Whether a table with these columns must be created, or get columns or wider types, before it can hold the rows."""
    if present is None or (settings.widens_columns and widened_columns(present, prepared.columns)):
        return True
    return settings.schema_evolution != "none" and bool(missing_columns(present, rows.with_metadata(prepared.incoming)))


def split_bad_records(
    rows: RowPreparation,
    columns: Columns | None,
    partition_columns: Collection[str],
    keys: tuple[str, ...],
    changes: Sequence[ChangeBatch],
    feeds: Feeds,
) -> tuple[list[ChangeBatch], list[BadRecord]]:
    """Separates changes that fit a table with these columns from bad records."""
    known: Columns = {}
    bad_records: list[BadRecord] = []
    starts = [0, *itertools.accumulate(c.num_rows for c in changes)]

    def attempt(part: range) -> None:
        nonlocal known, keys
        index = bisect_right(starts, part.start) - 1
        first = part.start - starts[index]
        piece = changes[index].slice(range(first, first + len(part))).without_empty_columns()
        prepared = rows.prepare(columns, [piece], keys, known, partition_columns=partition_columns, feeds=feeds)
        if prepared is not None:
            known, keys = prepared.incoming, prepared.keys

    parts = [range(a, b) for a, b in itertools.pairwise(starts)]
    found = find_bad_records(parts, attempt)
    good: list[ChangeBatch] = []
    for part, one in zip(parts, changes, strict=True):
        removed = [at for at in part if at in found] if found else []
        bad_records += [BadRecord.of(*one.location(at - part.start), found[at]) for at in removed]
        # A field that only keys of bad records have, maybe in another batch, would make the others fail.
        cleaned = one.filter(pa.array([at not in found for at in part])).without_empty_columns() if found else one
        if cleaned.num_rows:
            good.append(cleaned if removed else replace(one, keys=cleaned.keys))
    return good, bad_records
