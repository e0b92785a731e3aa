"""The typed configuration of the PostgreSQL source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from connect.change_events.toast import UNAVAILABLE_VALUE
from connect.config.parsing import Password, split_list
from connect.errors import ConfigError
from connectors.cdc.config.capture import CaptureSettings, parse_key_columns, parse_overrides, parse_statements
from connectors.cdc.config.contract_keys import ContractSettings, parse_contracts
from connectors.cdc.config.event_settings import RESTORED_EVENTS, EventSettings, parse_event_settings
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
from connectors.postgres.config_keys import config_def
from connectors.postgres.config_validators import parse_plugin_options
from connectors.postgres.unsupported_keys import check_dynamic_keys


@dataclass(frozen=True, slots=True)
class Address:
    """How to connect to the database. ``repr`` shows no secret (promise 9)."""

    host: str
    port: int
    user: str
    password: Password | None
    database: str
    ssl: tuple[tuple[str, str], ...] = ()
    ssl_password: Password | None = None
    tcp_keep_alive: bool = True
    initial_statements: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}/{self.database}"


@dataclass(frozen=True, slots=True)
class TypeSettings:
    """How column types are mapped to schemas."""

    decimal_mode: str = "precise"
    time_mode: str = "adaptive"
    binary_mode: str = "bytes"
    hstore_mode: str = "json"
    interval_mode: str = "numeric"
    money_scale: int = 2
    include_unknown: bool = False
    placeholder: str = UNAVAILABLE_VALUE
    restored: frozenset[str] = frozenset()
    """Wrong values of Debezium to write (``restore.debezium.events``)."""


@dataclass(frozen=True, slots=True)
class SlotSettings:
    """Settings of replication slot and publication."""

    name: str
    publication: str
    autocreate: str
    via_partition_root: bool
    drop_on_stop: bool
    failover: bool
    max_retries: int
    retry_delay_s: float
    create_timeout_s: float
    plugin_options: tuple[tuple[str, str], ...]
    replica_identities: tuple[tuple[str, str], ...]
    status_interval_s: float
    confirms: bool
    confirms_idle: bool
    flush_timeout_s: float
    flush_timeout_action: str
    receive_timeout_s: float
    mismatch_strategy: str
    mismatch_strategy_is_set: bool
    xmin_interval_s: float


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """Settings of the snapshot. ``mode`` uses new names only: no_data instead of never."""

    mode: str
    include: tuple[str, ...]
    overrides: Mapping[str, str]
    delay_s: float
    streaming_delay_s: float
    order: str
    lock_timeout_s: float | None
    max_threads: int
    threads_multiplier: int
    table_per_thread: bool
    resumes: bool


@dataclass(frozen=True, slots=True)
class SafetySettings:
    """Checks while the task runs, and limits. 0 turns a check, a warning, or a limit off."""

    interval_s: float
    warn_bytes: int
    warn_s: float
    max_bytes: int
    max_s: float
    limit_action: str
    wal_warn_s: float
    tables_max: int
    tables_limit_action: str


@dataclass(frozen=True, slots=True)
class PostgresConfig:
    """The whole configuration."""

    topic_prefix: str
    topic_delimiter: str
    topic_naming: TopicNaming
    address: Address
    primary: Address | None
    query_timeout_s: float
    capture: CaptureSettings
    types: TypeSettings
    events: EventSettings
    slot: SlotSettings
    snapshot: SnapshotSettings
    signals: SignalSettings
    incremental: IncrementalSettings
    notifications: NotificationSettings
    safety: SafetySettings
    contracts: ContractSettings
    reselection: ReselectSettings | None
    tombstones: bool
    null_key_tombstones: bool
    """Whether tombstones follow the deletes of tables without a key, too."""
    skipped: frozenset[str]
    skip_unchanged: bool
    extended_headers: bool
    heartbeat: HeartbeatSettings
    max_batch: int
    max_batch_bytes: int
    poll_interval_s: float
    max_retries: int
    max_backoff_s: float


_MAX_BATCH_BYTES = 8 << 20
"""A record takes several times the memory of its change, and a batch lives until its bytes are sent."""


def parse_config(config: Mapping[str, str]) -> PostgresConfig:
    """Parses the configuration. Raises ConfigError for the first key that is missing, invalid, or not supported."""
    v = config_def().parse(config)
    for finding in check_dynamic_keys(config):
        if finding.errors:
            raise ConfigError(finding.errors[0], key=finding.name)

    def regexes(name: str) -> tuple[str, ...]:
        return tuple(split_list(v[name]))

    mode = v["snapshot.mode"].lower()
    flush_mode = _flush_mode(config, v["lsn.flush.mode"], confirms=v["flush.lsn.source"])
    address = _address(v)
    signals = parse_signals(v, config)
    return PostgresConfig(
        topic_prefix=v["topic.prefix"],
        topic_delimiter=v["topic.delimiter"],
        topic_naming=parse_topic_naming(v),
        address=address,
        primary=_primary(v, address),
        query_timeout_s=v["database.query.timeout.ms"] / 1000,
        capture=CaptureSettings(
            schema_include=regexes("schema.include.list"),
            schema_exclude=regexes("schema.exclude.list"),
            table_include=regexes("table.include.list"),
            table_exclude=regexes("table.exclude.list"),
            column_include=regexes("column.include.list"),
            column_exclude=regexes("column.exclude.list"),
            key_columns=parse_key_columns(v["message.key.columns"]),
            signal_table=signals.table,
        ),
        types=TypeSettings(
            decimal_mode=v["decimal.handling.mode"],
            time_mode=v["time.precision.mode"],
            binary_mode=v["binary.handling.mode"],
            hstore_mode=v["hstore.handling.mode"],
            interval_mode=v["interval.handling.mode"],
            money_scale=v["money.fraction.digits"],
            include_unknown=v["include.unknown.datatypes"],
            placeholder=v["unavailable.value.placeholder"],
            restored=frozenset(v[RESTORED_EVENTS]),
        ),
        events=parse_event_settings(v, config),
        slot=SlotSettings(
            name=v["slot.name"],
            publication=v["publication.name"],
            autocreate=v["publication.autocreate.mode"],
            via_partition_root=v["publish.via.partition.root"],
            drop_on_stop=v["slot.drop.on.stop"],
            failover=v["slot.failover"],
            max_retries=v["slot.max.retries"],
            retry_delay_s=v["slot.retry.delay.ms"] / 1000,
            create_timeout_s=float(v["create.slot.command.timeout"]),
            plugin_options=parse_plugin_options("slot.stream.params", v["slot.stream.params"]),
            replica_identities=_replica_identities(v["replica.identity.autoset.values"]),
            status_interval_s=v["status.update.interval.ms"] / 1000,
            confirms=flush_mode != "manual",
            confirms_idle=flush_mode == "connector_and_driver",
            flush_timeout_s=v["lsn.flush.timeout.ms"] / 1000,
            flush_timeout_action=v["lsn.flush.timeout.action"].lower(),
            receive_timeout_s=v["wal.receiver.timeout.ms"] / 1000,
            mismatch_strategy=_mismatch_strategy(config, v["offset.mismatch.strategy"], flush_mode),
            mismatch_strategy_is_set=bool(config.get("offset.mismatch.strategy")) or v["slot.seek.to.known.offset.on.start"],
            xmin_interval_s=v["xmin.fetch.interval.ms"] / 1000,
        ),
        snapshot=SnapshotSettings(
            mode="no_data" if mode == "never" else mode,
            include=regexes("snapshot.include.collection.list"),
            overrides=parse_overrides(v["snapshot.select.statement.overrides"], config),
            delay_s=v["snapshot.delay.ms"] / 1000,
            streaming_delay_s=v["streaming.delay.ms"] / 1000,
            order=v["snapshot.tables.order.by.row.count"],
            lock_timeout_s=v["snapshot.lock.timeout.ms"] / 1000 if v["snapshot.locking.mode"].lower() == "shared" else None,
            max_threads=v["snapshot.max.threads"],
            threads_multiplier=v["snapshot.max.threads.multiplier"],
            table_per_thread=v["legacy.snapshot.max.threads"],
            resumes=v["snapshot.resume.enabled"],
        ),
        signals=signals,
        incremental=parse_incremental(v),
        notifications=parse_notifications(v),
        safety=SafetySettings(
            interval_s=v["source.check.interval.ms"] / 1000,
            warn_bytes=v["slot.lag.warn.bytes"],
            warn_s=v["slot.lag.warn.ms"] / 1000,
            max_bytes=v["slot.lag.max.bytes"],
            max_s=v["slot.lag.max.ms"] / 1000,
            limit_action=v["slot.lag.limit.action"].lower(),
            wal_warn_s=v["slot.wal.loss.warn.ms"] / 1000,
            tables_max=v["guardrail.collections.max"],
            tables_limit_action=v["guardrail.collections.limit.action"].lower(),
        ),
        contracts=parse_contracts(v),
        reselection=parse_post_processors(config),
        tombstones=v["tombstones.on.delete"],
        null_key_tombstones=v["tombstones.on.delete"] and "null_key_tombstones" in v[RESTORED_EVENTS],
        skipped=frozenset(split_list(v["skipped.operations"])) - {"none"},
        skip_unchanged=v["skip.messages.without.change"],
        extended_headers=v["extended.headers.enabled"],
        heartbeat=HeartbeatSettings(
            interval_s=_heartbeat_interval_ms(v, flush_mode) / 1000,
            topic=v["topic.heartbeat.name"] or v["topic.heartbeat.prefix"] + v["topic.delimiter"] + v["topic.prefix"],
            query=v["heartbeat.action.query"],
        ),
        max_batch=v["max.batch.size"],
        max_batch_bytes=min(v["max.queue.size.in.bytes"] or _MAX_BATCH_BYTES, _MAX_BATCH_BYTES),
        poll_interval_s=min(v["poll.interval.ms"] / 1000, 1.0),
        max_retries=v["errors.max.retries"],
        max_backoff_s=v["retriable.restart.connector.wait.ms"] / 1000,
    )


def _address(v: Mapping[str, Any]) -> Address:
    return Address(
        host=v["database.hostname"],
        port=v["database.port"],
        user=v["database.user"],
        password=v["database.password"],
        database=v["database.dbname"],
        ssl=tuple(
            (name, v["database." + name]) for name in ("sslmode", "sslcert", "sslkey", "sslrootcert") if v["database." + name]
        ),
        ssl_password=v["database.sslpassword"],
        tcp_keep_alive=v["database.tcpKeepAlive"],
        initial_statements=parse_statements(v["database.initial.statements"]),
    )


def _primary(v: Mapping[str, Any], address: Address) -> Address | None:
    """The primary of a standby; None if it is not set. What is not set is that of the standby."""
    if not v["database.primary.hostname"]:
        return None
    return replace(
        address,
        host=v["database.primary.hostname"],
        port=v["database.primary.port"] or address.port,
        user=v["database.primary.user"] or address.user,
        password=v["database.primary.password"] or address.password,
    )


def _flush_mode(config: Mapping[str, str], mode: str, *, confirms: bool) -> str:
    """``lsn.flush.mode``, or what the deprecated ``flush.lsn.source`` means."""
    if config.get("lsn.flush.mode") or confirms:
        return mode.lower()
    return "manual"


def _mismatch_strategy(config: Mapping[str, str], strategy: str, flush_mode: str) -> str:
    """With connector_and_driver, the slot is ahead of the stored offset after each crash."""
    if flush_mode == "connector_and_driver" and not config.get("offset.mismatch.strategy"):
        return "trust_greater_lsn"
    return strategy


def _heartbeat_interval_ms(v: Mapping[str, Any], flush_mode: str) -> int:
    interval_ms: int = v["heartbeat.interval.ms"]
    if interval_ms or flush_mode != "connector_and_driver" or str(v["provide.transaction.metadata"]).lower() == "true":
        return interval_ms
    return 600_000  # as in Debezium


def _replica_identities(text: str | None) -> tuple[tuple[str, str], ...]:
    rules: list[tuple[str, str]] = []
    for part in split_list(text):
        table, colon, identity = part.rpartition(":")
        if not colon or not re.fullmatch(r"(?i:full|default|nothing)|(?i:index) \S+", identity.strip()):
            raise ConfigError.invalid(
                "replica.identity.autoset.values", text, "expected <schema.table regex>:FULL|DEFAULT|NOTHING|INDEX <index>"
            )
        rules.append((table.strip(), identity.strip()))
    return tuple(rules)
