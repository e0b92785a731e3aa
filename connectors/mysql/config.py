"""The typed configuration of the MySQL and MariaDB sources."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from connect.config.parsing import Password, split_list
from connect.errors import ConfigError
from connect.tls import Store
from connectors.cdc.config.capture import CaptureSettings, parse_key_columns, parse_overrides, parse_statements
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
from connectors.mysql.config_keys import MARIADB_TLS_MODES, OLD_SNAPSHOT_MODES, config_def
from connectors.mysql.history_keys import HistorySettings, parse_history
from connectors.mysql.types.config import MySqlTypeSettings
from connectors.mysql.unsupported_keys import check_dynamic_keys

KEY_STORE, TRUST_STORE = "database.ssl.keystore", "database.ssl.truststore"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS to the database. ``mode`` is one of MySQL's: disabled, preferred, required, verify_ca, verify_identity."""

    mode: str = "preferred"
    key_store: Store = field(default_factory=lambda: Store(KEY_STORE))
    trust_store: Store = field(default_factory=lambda: Store(TRUST_STORE))


@dataclass(frozen=True, slots=True)
class MySqlAddress:
    """How to connect to the database. ``repr`` shows no secret (promise 9)."""

    host: str
    port: int
    user: str
    password: Password | None
    tls: TlsSettings = field(default_factory=TlsSettings)
    connect_timeout_s: float = 30.0
    keep_alive: bool = True
    initial_statements: tuple[str, ...] = ()
    product: str = "MySQL"
    """The kind of server that the connector class names, for messages: MySQL or MariaDB."""

    @property
    def server(self) -> str:
        """Names the server in messages: ``MySQL at db:3306``."""
        return f"{self.product} at {self.host}:{self.port}"

    @property
    def where(self) -> str:
        """The same with the user."""
        return f"{self.product} at {self}"

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BinlogSettings:
    """How the binary log is read. ``gtid_include`` and ``gtid_exclude`` are regular expressions of GTID sources."""

    server_id: int
    heartbeat_s: float
    silence_s: float
    """A server that sends nothing for this time is lost; infinite without keep-alive."""
    net_write_timeout_s: int
    net_read_timeout_s: int
    includes_query: bool
    gtid_include: tuple[str, ...]
    gtid_exclude: tuple[str, ...]
    filters_dml: bool
    ignores_gtids: bool

    def reads_source(self, source: str) -> bool:
        """Whether changes of a GTID source are read: a server's UUID, or ``<domain>-<server>`` of MariaDB."""
        if self.gtid_include:
            return any(re.fullmatch(pattern, source, re.IGNORECASE) for pattern in self.gtid_include)
        return not any(re.fullmatch(pattern, source, re.IGNORECASE) for pattern in self.gtid_exclude)

    @property
    def filters_sources(self) -> bool:
        """Whether only some sources are read."""
        return bool(self.gtid_include or self.gtid_exclude)


@dataclass(frozen=True, slots=True)
class MySqlSnapshotSettings:
    """Settings of the snapshot. ``mode`` uses new names only: no_data and recovery."""

    mode: str
    include: tuple[str, ...]
    overrides: Mapping[str, str]
    delay_s: float
    streaming_delay_s: float
    order: str
    locking: str
    lock_timeout_s: float
    max_threads: int
    threads_multiplier: int
    table_per_thread: bool
    resumes: bool


@dataclass(frozen=True, slots=True)
class MySqlConfig:
    """The whole configuration. ``capture.schema_include`` and ``schema_exclude`` are those of databases."""

    is_mariadb: bool
    topic_prefix: str
    topic_delimiter: str
    topic_naming: TopicNaming
    address: MySqlAddress
    query_timeout_s: float
    capture: CaptureSettings
    types: MySqlTypeSettings
    events: EventSettings
    binlog: BinlogSettings
    history: HistorySettings
    snapshot: MySqlSnapshotSettings
    signals: SignalSettings
    incremental: IncrementalSettings
    notifications: NotificationSettings
    contracts: ContractSettings
    reselection: ReselectSettings | None
    schema_changes: bool
    """Whether changes of the structure go to the topic ``topic_prefix``."""
    inconsistent_schema: str
    """What becomes of changes of a table that the history does not have: fail, warn, or skip."""
    resolves_like: bool
    tables_max: int
    tables_limit_action: str
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


_MAX_BATCH_BYTES = 8 << 20
"""A record takes several times the memory of its change, and a batch lives until its bytes are sent."""
_HEARTBEAT_SHARE = 0.8
"""Of the keep-alive interval, as in Debezium."""


def parse_config(config: Mapping[str, str], *, is_mariadb: bool = False) -> MySqlConfig:
    """Parses the configuration. Raises ConfigError for the first key that is missing, invalid, or not supported."""
    v = config_def(is_mariadb=is_mariadb).parse(config)
    for finding in check_dynamic_keys(config):
        if finding.errors:
            raise ConfigError(finding.errors[0], key=finding.name)

    def regexes(name: str) -> tuple[str, ...]:
        return tuple(split_list(v[name]))

    mode = v["snapshot.mode"].lower()
    signals = parse_signals(v, config)
    return MySqlConfig(
        is_mariadb=is_mariadb,
        topic_prefix=v["topic.prefix"],
        topic_delimiter=v["topic.delimiter"],
        topic_naming=parse_topic_naming(v),
        address=_address(v, is_mariadb=is_mariadb),
        query_timeout_s=v["database.query.timeout.ms"] / 1000,
        capture=CaptureSettings(
            schema_include=regexes("database.include.list"),
            schema_exclude=regexes("database.exclude.list"),
            table_include=regexes("table.include.list"),
            table_exclude=regexes("table.exclude.list"),
            column_include=regexes("column.include.list"),
            column_exclude=regexes("column.exclude.list"),
            key_columns=parse_key_columns(v["message.key.columns"]),
            signal_table=signals.table,
        ),
        types=MySqlTypeSettings(
            decimal_mode=v["decimal.handling.mode"],
            time_mode=v["time.precision.mode"].lower(),
            binary_mode=v["binary.handling.mode"],
            unsigned_bigint_mode=v["bigint.unsigned.handling.mode"].lower(),
            adjusts_years=v["enable.time.adjuster"],
            placeholder=v["unavailable.value.placeholder"],
            includes_comments=v["include.schema.comments"],
        ),
        events=_events(v, config),
        binlog=BinlogSettings(
            server_id=v["database.server.id"],
            heartbeat_s=v["connect.keep.alive.interval.ms"] / 1000 * _HEARTBEAT_SHARE,
            silence_s=2 * v["connect.keep.alive.interval.ms"] / 1000 if v["connect.keep.alive"] else math.inf,
            net_write_timeout_s=v["binlog.net.write.timeout"],
            net_read_timeout_s=v["binlog.net.read.timeout"],
            includes_query=v["include.query"],
            gtid_include=regexes("gtid.source.includes"),
            gtid_exclude=regexes("gtid.source.excludes"),
            filters_dml=v["gtid.source.filter.dml.events"],
            ignores_gtids=v["gtid.ignore.on.recovery"],
        ),
        history=parse_history(v, config),
        snapshot=MySqlSnapshotSettings(
            mode=OLD_SNAPSHOT_MODES.get(mode, mode),
            include=regexes("snapshot.include.collection.list"),
            overrides=parse_overrides(v["snapshot.select.statement.overrides"], config),
            delay_s=v["snapshot.delay.ms"] / 1000,
            streaming_delay_s=v["streaming.delay.ms"] / 1000,
            order=v["snapshot.tables.order.by.row.count"],
            locking=v["snapshot.locking.mode"].lower(),
            lock_timeout_s=v["snapshot.lock.timeout.ms"] / 1000,
            max_threads=v["snapshot.max.threads"],
            threads_multiplier=v["snapshot.max.threads.multiplier"],
            table_per_thread=v["legacy.snapshot.max.threads"],
            resumes=v["snapshot.resume.enabled"],
        ),
        signals=signals,
        incremental=parse_incremental(v),
        notifications=parse_notifications(v),
        contracts=parse_contracts(v),
        reselection=parse_post_processors(config),
        schema_changes=v["include.schema.changes"],
        inconsistent_schema=_skip_for_ignore(v["inconsistent.schema.handling.mode"]),
        resolves_like=v["resolve.create.table.like.schema"],
        tables_max=v["guardrail.collections.max"],
        tables_limit_action=v["guardrail.collections.limit.action"].lower(),
        tombstones=v["tombstones.on.delete"],
        skipped=frozenset(split_list(v["skipped.operations"])) - {"none"},
        skip_unchanged=v["skip.messages.without.change"],
        extended_headers=v["extended.headers.enabled"],
        heartbeat=HeartbeatSettings(
            interval_s=v["heartbeat.interval.ms"] / 1000,
            topic=v["topic.heartbeat.name"] or v["topic.heartbeat.prefix"] + v["topic.delimiter"] + v["topic.prefix"],
            query=v["heartbeat.action.query"],
        ),
        max_batch=v["max.batch.size"],
        max_batch_bytes=min(v["max.queue.size.in.bytes"] or _MAX_BATCH_BYTES, _MAX_BATCH_BYTES),
        poll_interval_s=min(v["poll.interval.ms"] / 1000, 1.0),
        max_retries=v["errors.max.retries"],
        max_backoff_s=v["retriable.restart.connector.wait.ms"] / 1000,
    )


def _address(v: Mapping[str, Any], *, is_mariadb: bool) -> MySqlAddress:
    mode = v["database.ssl.mode"].lower()
    return MySqlAddress(
        host=v["database.hostname"],
        port=v["database.port"],
        user=v["database.user"],
        password=v["database.password"],
        tls=TlsSettings(MARIADB_TLS_MODES.get(mode, mode), _store(v, KEY_STORE), _store(v, TRUST_STORE)),
        connect_timeout_s=v["connect.timeout.ms"] / 1000,
        keep_alive=v["connect.keep.alive"],
        initial_statements=parse_statements(v["database.initial.statements"]),
        product="MariaDB" if is_mariadb else "MySQL",
    )


def _store(v: Mapping[str, Any], key: str) -> Store:
    password = v[f"{key}.password"]
    return Store(key, v[key], None if password is None else password.value)


def _events(v: Mapping[str, Any], config: Mapping[str, str]) -> EventSettings:
    events = parse_event_settings(v, config)
    old = v["event.deserialization.failure.handling.mode"]
    if old and not config.get("event.processing.failure.handling.mode"):
        return replace(events, failure_mode=_skip_for_ignore(old))
    return events


def _skip_for_ignore(mode: str) -> str:
    return "skip" if mode.lower() == "ignore" else mode.lower()
