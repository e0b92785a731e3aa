"""Rows to write for prepared changes. The same for every engine."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import DataError
from connectors.sink_support.batch_isolation import find_bad_records
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.config import TableConfig
from connectors.spark.config_keys import SEQ, SOURCE_TS
from connectors.spark.decode.change_batch import ChangeBatch, find_tombstones
from connectors.spark.plan import deduplicate, projection
from connectors.spark.plan.deduplicate import DeduplicatedChanges
from connectors.spark.plan.evolution import Columns, missing_columns
from connectors.spark.plan.row_limits import RowLimits
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
        one_partition=prepared.one_partition,
    )
    extra = projection.metadata_columns(latest.meta, settings.metadata_columns, latest.deleted)
    tombstones = find_tombstones(latest.meta)
    if settings.soft_deletes and pc.any(tombstones).as_py():  # the row keeps the place of its last change in the source
        places = {name: pc.and_(tombstones, extra[name].is_null()) for name in (SEQ, SOURCE_TS) if name in extra}
        latest = replace(latest, keep=latest.keep | places, missing=latest.missing | places)
    return append_columns(latest.rows, extra), latest


def append_columns(image: pa.Table, extra: dict[str, pa.ChunkedArray]) -> pa.Table:
    for name, column in extra.items():
        image = image.append_column(name, column) if image.num_columns else pa.table({name: column})
    return image


def must_evolve(present: Columns | None, prepared: PreparedRows, rows: RowPreparation, settings: TableConfig) -> bool:
    """Whether a table with these columns must be created, or get columns or wider types, before it can hold the rows."""
    if present is None or (settings.widens_columns and widened_columns(present, prepared.columns)):
        return True
    return not settings.leaves_fields_out and bool(missing_columns(present, rows.with_metadata(prepared.incoming)))


def split_bad_records(
    rows: RowPreparation,
    columns: Columns | None,
    limits: RowLimits,
    keys: tuple[str, ...],
    changes: Sequence[ChangeBatch],
    feeds: Feeds,
) -> tuple[list[ChangeBatch], list[BadRecord]]:
    """Separates changes that fit a table with these columns, and each other, from bad records."""
    known: PreparedRows | None = None
    starts = [0, *itertools.accumulate(c.num_rows for c in changes)]
    parts = [range(a, b) for a, b in itertools.pairwise(starts)]
    widened = False

    def piece_of(part: range) -> ChangeBatch:
        index = bisect_right(starts, part.start) - 1
        first = part.start - starts[index]
        return changes[index].slice(range(first, first + len(part)))

    def prepare(pieces: Sequence[ChangeBatch], known: PreparedRows | None) -> PreparedRows | None:
        return rows.prepare(columns, pieces, keys, known, limits=limits, feeds=feeds)

    def attempt(part: range) -> None:
        nonlocal known, keys, widened
        prepared = prepare([piece_of(part)], known)
        if prepared is not None:
            before = {} if known is None else known.with_values
            widened |= any(prepared.with_values[name] != type_ for name, type_ in before.items())
            known, keys = replace(prepared, changes=[]), prepared.keys

    found = find_bad_records(parts, attempt)
    if widened:  # a value may fit the type of its record, and not that of all records, such as a large DECIMAL without a scale
        found |= find_bad_records([run for part in parts for run in _runs_between(part, found)], attempt)
    good = _without(changes, parts, found)
    try:
        prepare(good, None)
    except DataError:
        # Each fits the table, and not together, such as types into which a column cannot be widened one after the other.
        accepted: list[ChangeBatch] = []

        def attempt_with_others(part: range) -> None:
            prepare([*accepted, piece_of(part)], None)
            accepted.append(piece_of(part))

        for part in parts:
            found |= find_bad_records(_runs_between(part, found), attempt_with_others)
        good = _without(changes, parts, found)
    bad_records = []
    for part, one in zip(parts, changes, strict=True):
        bad_records += [BadRecord.of(*one.location(at - part.start), found[at]) for at in part if at in found]
    return good, bad_records


def _without(changes: Sequence[ChangeBatch], parts: Sequence[range], bad: Mapping[int, DataError]) -> list[ChangeBatch]:
    """The other changes."""
    good = []
    for part, one in zip(parts, changes, strict=True):
        kept = one.filter(pa.array([at not in bad for at in part])) if bad else one
        if kept.num_rows:
            good.append(kept)
    return good


def _runs_between(part: range, places: Collection[int]) -> list[range]:
    """The runs of a range that these places leave."""
    stops = [part.start - 1, *(at for at in part if at in places), part.stop]
    return [range(before + 1, after) for before, after in itertools.pairwise(stops)]
