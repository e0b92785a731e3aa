"""Upserts to apply for prepared changes: the latest ones, versions, or those that the source's log has last."""

from __future__ import annotations

from connectors.spark.config import TableConfig
from connectors.spark.config_keys import CURRENT
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.plan import deduplicate, projection
from connectors.spark.plan.deduplicate import DeduplicatedChanges
from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.rows import PreparedRows
from connectors.spark.plan.source_order import sort_by_position
from connectors.spark.plan.truncates import RowUpdate, closing, deleting
from connectors.spark.plan.versions import plan_versions
from connectors.spark.tables.planned_rows import append_columns, latest_rows
from connectors.spark.tables.table import Upsert


def plan_upsert(prepared: PreparedRows, columns: Columns, settings: TableConfig) -> Upsert:
    """The upsert of a table with these columns."""
    whole = projection.concat_batches(prepared.changes)
    if settings.orders_by_source:
        return _plan_by_source(whole, prepared.keys, columns, settings)
    if settings.keeps_versions:
        versions = plan_versions(whole, prepared.keys, settings)
        keys, update = (*prepared.keys, CURRENT), None if versions.truncate is None else closing(versions.truncate)
        return Upsert(versions.rows, versions, keys, columns, soft_deletes=True, update=update, keeps_versions=True)
    rows, latest = latest_rows(whole, prepared, settings)
    return Upsert(rows, latest, prepared.keys, columns, settings.soft_deletes, _update(latest, settings))


def _plan_by_source(changes: ChangeBatch, keys: tuple[str, ...], columns: Columns, settings: TableConfig) -> Upsert:
    ordered, truncates = deduplicate.without_truncates(sort_by_position(changes), keys, settings.delete_mode)
    truncate = truncates[-1] if truncates else None
    latest = deduplicate.latest_of_sorted(
        ordered,
        truncate,
        keys,
        settings.delete_mode,
        settings.unavailable,
        unavailable_is_null=settings.unavailable_value == "null",
    )
    extra = projection.metadata_columns(latest.meta, settings.metadata_columns, latest.deleted)
    rows = append_columns(latest.rows, extra)
    return Upsert(rows, latest, keys, columns, settings.soft_deletes, _update(latest, settings), by_source=True)


def _update(changes: DeduplicatedChanges, settings: TableConfig) -> RowUpdate | None:
    """What a truncate does to the rows of other keys, if they stay in the table."""
    if changes.truncate is None or not settings.soft_deletes:
        return None
    values = projection.deleted_metadata(changes.truncate.meta, settings.metadata_columns)
    return deleting(values, changes.truncate.position if settings.orders_by_source else None)
