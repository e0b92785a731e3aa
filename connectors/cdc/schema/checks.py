"""Checks of the captured tables that connectors make at the start: how many they are, and their topics."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from connect.config.finding import Finding
from connect.errors import ConfigError
from connect.external_system import warning_finding
from connect.suggestions import list_names
from connectors.cdc.config.topic_naming import TopicNaming

log = logging.getLogger(__name__)


def check_collection_count(count: int, most: int, action: str) -> None:
    """Warns, or raises ConfigError, if there are more captured tables than ``guardrail.collections.max``; 0 is no limit. Messages
    are Debezium's."""
    if not most or count <= most:
        return
    message = f"Guardrail limit exceeded: {count} tables/collections configured for capture, but maximum allowed is {most}."
    if action == "fail":
        raise ConfigError(message, key="guardrail.collections.max")
    log.warning("%s", message)


def check_table_topics(tables: Iterable[tuple[str, str]], naming: TopicNaming) -> None:
    """Raises ConfigError if two tables (schema, name) have the same topic by accident: their rows could not be told apart."""
    if naming.shares_topics:
        return
    topics: dict[str, tuple[str, str]] = {}
    for table in tables:
        topic = naming.topic(*table)
        other = topics.setdefault(topic, table)
        if other is not table:
            raise ConfigError(
                f'tables "{".".join(other)}" and "{".".join(table)}" have the same topic {topic}, because characters that are '
                "not allowed in topic names become _: exclude one with table.exclude.list, rename it, or change topic.delimiter",
                key="table.include.list",
            )


def find_missing_keys(tables: Sequence[object], consequence: str) -> list[Finding]:
    """Returns the warning of a connection test about captured tables without a key; none without such tables."""
    if not tables:
        return []
    verb = "has" if len(tables) == 1 else "have"
    return [
        warning_finding(
            "no-primary-key",
            f"{list_names(tables)} {verb} no primary key{consequence}",
            "message.key.columns",
            "Add a primary key, or name columns of each in message.key.columns; sinks that upsert need a key",
        )
    ]
