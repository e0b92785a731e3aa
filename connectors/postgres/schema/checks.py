"""Checks of the captured tables that the connector makes at the start: their record keys and topics."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from connect.errors import ConfigError
from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import PostgresConfig
from connectors.postgres.schema.catalog import CapturedTable

log = logging.getLogger(__name__)


def check_table_count(count: int, settings: PostgresConfig) -> None:
    """Warns, or raises ConfigError, if there are more captured tables than ``guardrail.collections.max``. Messages are
    Debezium's."""
    limit = settings.safety.tables_max
    if not limit or count <= limit:
        return
    message = f"Guardrail limit exceeded: {count} tables/collections configured for capture, but maximum allowed is {limit}."
    if settings.safety.tables_limit_action == "fail":
        raise ConfigError(message, key="guardrail.collections.max")
    log.warning("%s", message)


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
    """Raises ConfigError if two tables have the same topic by accident: their rows could not be told apart."""
    if settings.topic_naming.shares_topics:
        return
    topics: dict[str, CapturedTable] = {}
    for table in tables:
        topic = settings.topic_naming.topic(table.schema, table.name)
        other = topics.setdefault(topic, table)
        if other is not table:
            raise ConfigError(
                f'tables "{other}" and "{table}" have the same topic {topic}, because characters that are not allowed in topic '
                "names become _: exclude one with table.exclude.list, rename it, or change topic.delimiter",
                key="table.include.list",
            )
