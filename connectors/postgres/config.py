"""The typed configuration of the PostgreSQL source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from connect.change_events.toast import UNAVAILABLE_VALUE
from connect.config.parsing import Password, split_list
from connect.errors import ConfigError
from connectors.cdc.config.capture import parse_statements
from connectors.cdc.config.configured_mode import snapshot_mode
from connectors.cdc.source_settings import SourceSettings, SourceSnapshotSettings, shared_settings, shared_snapshot_settings
from connectors.postgres.config_keys import RESTORED_EVENTS, WORD, config_def
from connectors.postgres.config_validators import parse_plugin_options
from connectors.postgres.unsupported_keys import check_dynamic_keys

_SYSTEM_SCHEMAS = r"pg_catalog|information_schema|pg_toast.*|pg_temp.*"


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
class SnapshotSettings(SourceSnapshotSettings):
    """Settings of the snapshot. ``mode`` uses new names only: no_data instead of never."""

    lock_timeout_s: float | None


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
class PostgresConfig(SourceSettings):
    """The whole configuration."""

    address: Address
    primary: Address | None
    types: TypeSettings
    slot: SlotSettings
    snapshot: SnapshotSettings
    safety: SafetySettings
    message_include: tuple[str, ...]
    """Regular expressions of the prefixes of logical decoding messages."""
    message_exclude: tuple[str, ...]
    null_key_tombstones: bool
    """Whether tombstones follow the deletes of tables without a key, too."""


def parse_config(config: Mapping[str, str]) -> PostgresConfig:
    """Parses the configuration. Raises ConfigError for the first key that is missing, invalid, or not supported."""
    v = config_def().parse(config)
    for finding in check_dynamic_keys(config):
        if finding.errors:
            raise ConfigError(finding.errors[0], key=finding.name)

    shared, mode = shared_settings(v, config, WORD, _SYSTEM_SCHEMAS), snapshot_mode(v)
    flush_mode = _flush_mode(config, v["lsn.flush.mode"], confirms=v["flush.lsn.source"])
    address = _address(v)
    shared["heartbeat"] = replace(shared["heartbeat"], interval_s=_heartbeat_interval_ms(v, flush_mode) / 1000)
    return PostgresConfig(
        **shared,
        address=address,
        primary=_primary(v, address),
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
            **shared_snapshot_settings(v, config),
            mode="no_data" if mode == "never" else mode,
            lock_timeout_s=v["snapshot.lock.timeout.ms"] / 1000 if v["snapshot.locking.mode"].lower() == "shared" else None,
        ),
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
        message_include=tuple(split_list(v["message.prefix.include.list"])),
        message_exclude=tuple(split_list(v["message.prefix.exclude.list"])),
        null_key_tombstones=v["tombstones.on.delete"] and "null_key_tombstones" in v[RESTORED_EVENTS],
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
