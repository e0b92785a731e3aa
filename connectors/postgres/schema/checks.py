"""Checks of the captured tables that the connector makes at the start: their record keys and topics."""

from __future__ import annotations

from collections.abc import Iterable

from connect.errors import ConfigError
from connectors.cdc.schema.checks import check_collection_count, check_table_topics
from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import PostgresConfig
from connectors.postgres.schema.catalog import CapturedTable


def check_table_count(count: int, settings: PostgresConfig) -> None:
    """See :func:`check_collection_count`."""
    check_collection_count(count, settings.safety.tables_max, settings.safety.tables_limit_action)


def check_keys(tables: Iterable[CapturedTable], settings: PostgresConfig, filters: Filters) -> None:
    """Raises ConfigError if ``message.key.columns`` has columns that the server does not send with updates and deletes.

    Such a delete would have the key of another row, and an update could leave its old key behind.
    """
    if {"u", "d"} <= settings.skipped:
        return
    for table in tables:
        key = filters.key_columns(table.schema, table.name)
        if key is None or table.identity == "f" or not table.sends_key:
            continue  # without a replica identity, the server rejects updates and deletes
        missing = [name for name in key if name not in table.key]
        if missing:
            raise ConfigError(
                f"message.key.columns has column {missing[0]} of {table}, but the replica identity of the table has only "
                f"{', '.join(table.key)}, so deletes and key changes would not contain it: ALTER TABLE {table} REPLICA IDENTITY "
                "FULL, also of its partitions (replica.identity.autoset.values does this), choose columns of the replica "
                "identity, or set skipped.operations=u,d,t",
                key="message.key.columns",
            )


def check_topics(tables: Iterable[CapturedTable], settings: PostgresConfig) -> None:
    """See :func:`check_table_topics`."""
    check_table_topics([(table.schema, table.name) for table in tables], settings.topic_naming)
