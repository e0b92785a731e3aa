"""Keys that lint knows although no ConfigDef has them: removed, renamed, and deprecated keys, and topic settings."""

from __future__ import annotations

from collections.abc import Mapping

REMOVED_WORKER_KEYS: Mapping[str, str] = {
    "internal.key.converter": "Apache Kafka 3.0 removed it: internal topics always contain JSON. Remove it.",
    "internal.value.converter": "Apache Kafka 3.0 removed it: internal topics always contain JSON. Remove it.",
    "internal.key.converter.schemas.enable": "Apache Kafka 3.0 removed it. Remove it.",
    "internal.value.converter.schemas.enable": "Apache Kafka 3.0 removed it. Remove it.",
    "rest.host.name": "Apache Kafka 3.0 removed it. Use listeners=http://HOST:PORT.",
    "rest.port": "Apache Kafka 3.0 removed it. Use listeners=http://HOST:PORT.",
}
"""Removed worker keys, with what to do instead."""

RENAMED_TRANSFORM_KEYS: Mapping[tuple[str, str], str] = {
    ("ReplaceField", "blacklist"): "exclude",
    ("ReplaceField", "whitelist"): "include",
}
"""Renamed keys of transformations, by class name without ``$Key`` or ``$Value``, with their new names."""

RENAMED_CONNECTOR_KEYS: Mapping[str, str] = {
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
"""Debezium's names before 2.0. They count only for connectors that have the new name."""

DEPRECATED_KEYS: Mapping[str, str] = {
    "tasks.max.enforce": "Apache Kafka will remove it: make the connector respect tasks.max.",
}
"""Keys that still work, with what to do."""

TOPIC_SETTINGS = frozenset(
    {
        "cleanup.policy", "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level",
        "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms",
        "follower.replication.throttled.replicas", "index.interval.bytes", "leader.replication.throttled.replicas",
        "local.retention.bytes", "local.retention.ms", "max.compaction.lag.ms", "max.message.bytes",
        "message.timestamp.after.max.ms", "message.timestamp.before.max.ms", "message.timestamp.type",
        "min.cleanable.dirty.ratio", "min.compaction.lag.ms", "min.insync.replicas", "preallocate", "remote.copy.disable",
        "remote.log.delete.on.disable", "remote.storage.enable", "retention.bytes", "retention.ms", "segment.bytes",
        "segment.index.bytes", "segment.jitter.ms", "segment.ms", "unclean.leader.election.enable",
    }
)  # fmt: skip
"""Topic settings of Apache Kafka 4.3, below ``topic.creation.*`` of connectors and ``*.storage.`` of workers."""
