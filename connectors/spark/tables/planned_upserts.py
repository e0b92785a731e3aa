"""Upserts to apply for prepared changes: the latest ones, versions, or those that the source's log has last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from connectors.spark.config import TableConfig
from connectors.spark.config_keys import CURRENT, IGNORE
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.plan import deduplicate, projection
from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.key_equality import number_keys
from connectors.spark.plan.rows import PreparedRows
from connectors.spark.plan.source_order import sort_by_position
from connectors.spark.plan.truncates import RowUpdate, TruncatePoint, closing, deleting
from connectors.spark.plan.versions import plan_versions
from connectors.spark.tables.planned_rows import append_columns, latest_rows
from connectors.spark.tables.table import SourceChanges, Upsert


def plan_upsert(prepared: PreparedRows, columns: Columns, settings: TableConfig) -> Upsert:
    """The upsert of a table with these columns."""
    whole = projection.concat_batches(prepared.changes)
    if settings.orders_by_source:
        return _plan_by_source(whole, prepared, columns, settings)
    if settings.keeps_versions:
        versions = plan_versions(whole, prepared.keys, settings, one_partition=prepared.one_partition)
        keys, update = (*prepared.keys, CURRENT), None if versions.truncate is None else closing(versions.truncate)
        return Upsert(versions.rows, versions, keys, columns, soft_deletes=True, update=update, keeps_versions=True)
    rows, latest = latest_rows(whole, prepared, settings)
    truncates = [] if latest.truncate is None else [latest.truncate]
    return Upsert(rows, latest, prepared.keys, columns, settings.soft_deletes, _update(truncates, settings))


def _plan_by_source(changes: ChangeBatch, prepared: PreparedRows, columns: Columns, settings: TableConfig) -> Upsert:
    keys, mode = prepared.keys, settings.delete_mode
    ordered, truncates = deduplicate.without_truncates(sort_by_position(changes), keys, mode)
    if mode == IGNORE:
        ordered = deduplicate.drop_deletes(ordered)
    truncate = truncates[-1] if truncates else None
    update = _update(truncates, settings)

    def reduce(some: ChangeBatch) -> Upsert:
        latest = deduplicate.latest_of_sorted(
            some,
            truncate,
            keys,
            mode,
            settings.unavailable,
            unavailable_is_null=settings.unavailable_value == "null",
            one_partition=prepared.one_partition,
        )
        extra = projection.metadata_columns(latest.meta, settings.metadata_columns, latest.deleted)
        return Upsert(append_columns(latest.rows, extra), latest, keys, columns, settings.soft_deletes, update)

    numbers = number_keys([ordered.image[name] for name in keys], ordered.num_rows)
    return replace(reduce(ordered), by_source=SourceChanges(ordered, numbers, reduce))


def _update(truncates: Sequence[TruncatePoint], settings: TableConfig) -> RowUpdate | None:
    """What truncates do to the rows of other keys, if they stay in the table: of several, the first one after a row."""
    if not settings.soft_deletes:
        return None
    update = None
    for truncate in reversed(truncates):
        values = projection.deleted_metadata(truncate.meta, settings.metadata_columns)
        update = deleting(values, truncate.position if settings.orders_by_source else None, update)
    return update
