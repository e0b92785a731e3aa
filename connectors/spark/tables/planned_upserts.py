"""Upserts to apply for prepared changes: the latest ones, versions, or those that the source's log has last."""

from __future__ import annotations

from connectors.spark.config import TableConfig
from connectors.spark.config_keys import CURRENT
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.plan import deduplicate, projection
from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.rows import PreparedRows
from connectors.spark.plan.source_order import drop_truncated, sort_by_position
from connectors.spark.plan.truncate_order import TruncateOrder
from connectors.spark.plan.versions import plan_versions
from connectors.spark.tables.planned_rows import append_columns, latest_rows
from connectors.spark.tables.table import Upsert


def plan_upsert(prepared: PreparedRows, columns: Columns, settings: TableConfig, order: TruncateOrder) -> Upsert:
    """The upsert of a table with these columns. ``order`` knows its truncates."""
    whole = projection.concat_batches(prepared.changes)
    if settings.orders_by_source:
        return _plan_by_source(whole, prepared.keys, columns, settings)
    whole = order.before(whole)
    if settings.keeps_versions:
        versions = plan_versions(whole, prepared.keys, settings)
        keys = (*prepared.keys, CURRENT)
        return Upsert(versions.rows, versions, keys, columns, soft_deletes=True, keeps_versions=True)
    rows, latest = latest_rows(whole, prepared, settings)
    survivors = order.survivors(latest, prepared.keys)
    return Upsert(rows, latest, prepared.keys, columns, settings.soft_deletes, survivors)


def _plan_by_source(changes: ChangeBatch, keys: tuple[str, ...], columns: Columns, settings: TableConfig) -> Upsert:
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
    rows = append_columns(latest.rows, extra)
    return Upsert(rows, latest, keys, columns, settings.soft_deletes, by_source=True)
