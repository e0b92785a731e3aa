"""The typed settings that every source has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.parsing import split_list
from connectors.cdc.config.capture import CaptureSettings, parse_key_columns, parse_overrides
from connectors.cdc.config.contract_keys import ContractSettings, parse_contracts
from connectors.cdc.config.event_settings import EventSettings, parse_event_settings
from connectors.cdc.config.post_processor_keys import ReselectSettings, parse_post_processors
from connectors.cdc.config.signal_keys import (
    IncrementalSettings,
    NotificationSettings,
    SignalSettings,
    parse_incremental,
    parse_notifications,
    parse_signals,
)
from connectors.cdc.config.topic_naming import TopicNaming, parse_topic_naming
from connectors.cdc.streaming.heartbeat import HeartbeatSettings

_MAX_BATCH_BYTES = 8 << 20
"""A record takes several times the memory of its change, and a batch lives until its bytes are sent."""


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """What the configurations of all sources have. A subclass adds its own settings."""

    topic_prefix: str
    topic_delimiter: str
    topic_naming: TopicNaming
    query_timeout_s: float
    capture: CaptureSettings
    events: EventSettings
    signals: SignalSettings
    incremental: IncrementalSettings
    notifications: NotificationSettings
    contracts: ContractSettings
    reselection: ReselectSettings | None
    tombstones: bool
    skipped: frozenset[str]
    skip_unchanged: bool
    extended_headers: bool
    heartbeat: HeartbeatSettings
    max_batch: int
    max_batch_bytes: int
    poll_interval_s: float
    max_retries: int
    max_backoff_s: float


@dataclass(frozen=True, slots=True)
class SourceSnapshotSettings:
    """Settings of the snapshot. ``mode`` uses new names only: no_data instead of never."""

    mode: str
    include: tuple[str, ...]
    overrides: Mapping[str, str]
    delay_s: float
    streaming_delay_s: float
    order: str
    max_threads: int
    threads_multiplier: int
    table_per_thread: bool
    resumes: bool


def shared_settings(values: Mapping[str, Any], config: Mapping[str, str], namespace: str, system: str) -> dict[str, Any]:
    """Returns the members of :class:`SourceSettings` from parsed values; ``config`` has the keys without a fixed name.

    ``namespace`` is what tables belong to: ``schema`` or ``database``; ``system`` is a regular expression of those that are never
    captured. Raises ConfigError.
    """
    prefix, delimiter = values["topic.prefix"], values["topic.delimiter"]
    signals = parse_signals(values, config)

    def regexes(name: str) -> tuple[str, ...]:
        return tuple(split_list(values[name]))

    return {
        "topic_prefix": prefix,
        "topic_delimiter": delimiter,
        "topic_naming": parse_topic_naming(values),
        "query_timeout_s": values["database.query.timeout.ms"] / 1000,
        "capture": CaptureSettings(
            schema_include=regexes(f"{namespace}.include.list"),
            schema_exclude=regexes(f"{namespace}.exclude.list"),
            table_include=regexes("table.include.list"),
            table_exclude=regexes("table.exclude.list"),
            column_include=regexes("column.include.list"),
            column_exclude=regexes("column.exclude.list"),
            key_columns=parse_key_columns(values["message.key.columns"], namespace),
            signal_table=signals.table,
            system=system,
        ),
        "events": parse_event_settings(values, config),
        "signals": signals,
        "incremental": parse_incremental(values),
        "notifications": parse_notifications(values),
        "contracts": parse_contracts(values),
        "reselection": parse_post_processors(config),
        "tombstones": values["tombstones.on.delete"],
        "skipped": frozenset(split_list(values["skipped.operations"])) - {"none"},
        "skip_unchanged": values["skip.messages.without.change"],
        "extended_headers": values["extended.headers.enabled"],
        "heartbeat": HeartbeatSettings(
            interval_s=values["heartbeat.interval.ms"] / 1000,
            topic=values["topic.heartbeat.name"] or delimiter.join((values["topic.heartbeat.prefix"], prefix)),
            query=values["heartbeat.action.query"],
        ),
        "max_batch": values["max.batch.size"],
        "max_batch_bytes": min(values["max.queue.size.in.bytes"] or _MAX_BATCH_BYTES, _MAX_BATCH_BYTES),
        "poll_interval_s": min(values["poll.interval.ms"] / 1000, 1.0),
        "max_retries": values["errors.max.retries"],
        "max_backoff_s": values["retriable.restart.connector.wait.ms"] / 1000,
    }


def shared_snapshot_settings(values: Mapping[str, Any], config: Mapping[str, str]) -> dict[str, Any]:
    """Returns the members of :class:`SourceSnapshotSettings` except the mode. Raises ConfigError."""
    return {
        "include": tuple(split_list(values["snapshot.include.collection.list"])),
        "overrides": parse_overrides(values["snapshot.select.statement.overrides"], config),
        "delay_s": values["snapshot.delay.ms"] / 1000,
        "streaming_delay_s": values["streaming.delay.ms"] / 1000,
        "order": values["snapshot.tables.order.by.row.count"],
        "max_threads": values["snapshot.max.threads"],
        "threads_multiplier": values["snapshot.max.threads.multiplier"],
        "table_per_thread": values["legacy.snapshot.max.threads"],
        "resumes": values["snapshot.resume.enabled"],
    }
