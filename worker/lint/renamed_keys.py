"""Keys that earlier releases had, and what took their place."""

from __future__ import annotations

from collections.abc import Mapping

WORKER_KEYS: Mapping[str, str] = {
    "internal.key.converter": "Apache Kafka 3.0 took it away: internal topics always hold JSON. Remove it.",
    "internal.value.converter": "Apache Kafka 3.0 took it away: internal topics always hold JSON. Remove it.",
    "internal.key.converter.schemas.enable": "Apache Kafka 3.0 took it away. Remove it.",
    "internal.value.converter.schemas.enable": "Apache Kafka 3.0 took it away. Remove it.",
    "rest.host.name": "Apache Kafka 3.0 took it away. Use listeners=http://HOST:PORT.",
    "rest.port": "Apache Kafka 3.0 took it away. Use listeners=http://HOST:PORT.",
}
"""Keys of workers."""

TRANSFORM_KEYS: Mapping[tuple[str, str], str] = {
    ("ReplaceField", "blacklist"): "exclude",
    ("ReplaceField", "whitelist"): "include",
}
"""Keys of transformations, by the class without its variant, and their new names."""

CONNECTOR_KEYS: Mapping[str, str] = {
    "database.server.name": "topic.prefix",
    "schema.whitelist": "schema.include.list",
    "schema.blacklist": "schema.exclude.list",
    "table.whitelist": "table.include.list",
    "table.blacklist": "table.exclude.list",
    "column.whitelist": "column.include.list",
    "column.blacklist": "column.exclude.list",
    "database.whitelist": "database.include.list",
    "database.blacklist": "database.exclude.list",
    "database.history.kafka.topic": "schema.history.internal.kafka.topic",
    "database.history.kafka.bootstrap.servers": "schema.history.internal.kafka.bootstrap.servers",
}
"""Debezium's names before 2.0, for connectors that have the new one."""

DEPRECATED: Mapping[str, str] = {
    "tasks.max.enforce": "Apache Kafka will take it away: make the connector keep to tasks.max.",
}
"""Keys that are still read."""
