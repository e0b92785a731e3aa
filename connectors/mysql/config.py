"""The typed configuration of the MySQL and MariaDB sources."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from connect.config.parsing import Password, split_list
from connect.errors import ConfigError
from connect.tls import Store
from connectors.cdc.config.capture import parse_statements
from connectors.cdc.config.configured_mode import snapshot_mode
from connectors.cdc.config.event_settings import EventSettings
from connectors.cdc.source_settings import SourceSettings, SourceSnapshotSettings, shared_settings, shared_snapshot_settings
from connectors.databases.mysql.built_in import BUILT_IN_DATABASES
from connectors.mysql.config_keys import MARIADB_TLS_MODES, OLD_SNAPSHOT_MODES, WORD, config_def
from connectors.mysql.history_keys import HistorySettings, parse_history
from connectors.mysql.types.config import MySqlTypeSettings
from connectors.mysql.unsupported_keys import check_dynamic_keys

KEY_STORE, TRUST_STORE = "database.ssl.keystore", "database.ssl.truststore"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS to the database. ``mode`` is one of MySQL's: disabled, preferred, required, verify_ca, verify_identity."""

    mode: str = "preferred"
    key_store: Store = field(default_factory=lambda: Store(KEY_STORE, key_is_location=True))
    trust_store: Store = field(default_factory=lambda: Store(TRUST_STORE, key_is_location=True))


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

    @property
    def source_filter(self) -> Callable[[str], bool] | None:
        """:meth:`reads_source`; None if all sources are read."""
        return self.reads_source if self.filters_sources else None


@dataclass(frozen=True, slots=True)
class MySqlSnapshotSettings(SourceSnapshotSettings):
    """Settings of the snapshot. ``mode`` uses new names only: no_data and recovery."""

    locking: str
    lock_timeout_s: float


@dataclass(frozen=True, slots=True)
class MySqlConfig(SourceSettings):
    """The whole configuration. ``capture.schema_include`` and ``schema_exclude`` are those of databases."""

    is_mariadb: bool
    address: MySqlAddress
    types: MySqlTypeSettings
    binlog: BinlogSettings
    history: HistorySettings
    snapshot: MySqlSnapshotSettings
    schema_changes: bool
    """Whether changes of the structure go to the topic ``topic_prefix``."""
    inconsistent_schema: str
    """What becomes of changes of a table that the history does not have: fail, warn, or skip."""
    resolves_like: bool
    tables_max: int
    tables_limit_action: str


_BUILT_IN = f"(?i:{'|'.join(BUILT_IN_DATABASES)})"
_HEX = "hex:"
_HEARTBEAT_SHARE = 0.8
"""Of the keep-alive interval, as in Debezium."""


def parse_config(config: Mapping[str, str], *, is_mariadb: bool = False) -> MySqlConfig:
    """Parses the configuration. Raises ConfigError for the first key that is missing, invalid, or not supported."""
    v = config_def(is_mariadb=is_mariadb).parse(config)
    for finding in check_dynamic_keys(config):
        if finding.errors:
            raise ConfigError(finding.errors[0], key=finding.name)

    shared, mode = shared_settings(v, config, WORD, _BUILT_IN), snapshot_mode(v)
    shared["events"] = _with_old_failure_mode(shared["events"], v, config)
    return MySqlConfig(
        **shared,
        is_mariadb=is_mariadb,
        address=_address(v, is_mariadb=is_mariadb),
        types=MySqlTypeSettings(
            decimal_mode=v["decimal.handling.mode"],
            time_mode=v["time.precision.mode"].lower(),
            binary_mode=v["binary.handling.mode"],
            unsigned_bigint_mode=v["bigint.unsigned.handling.mode"].lower(),
            adjusts_years=v["enable.time.adjuster"],
            placeholder=_placeholder(v["unavailable.value.placeholder"]),
            includes_comments=v["include.schema.comments"],
        ),
        binlog=BinlogSettings(
            server_id=v["database.server.id"],
            heartbeat_s=v["connect.keep.alive.interval.ms"] / 1000 * _HEARTBEAT_SHARE,
            silence_s=2 * v["connect.keep.alive.interval.ms"] / 1000 if v["connect.keep.alive"] else math.inf,
            net_write_timeout_s=v["binlog.net.write.timeout"],
            net_read_timeout_s=v["binlog.net.read.timeout"],
            includes_query=v["include.query"],
            gtid_include=tuple(split_list(v["gtid.source.includes"])),
            gtid_exclude=tuple(split_list(v["gtid.source.excludes"])),
            filters_dml=v["gtid.source.filter.dml.events"],
            ignores_gtids=v["gtid.ignore.on.recovery"],
        ),
        history=parse_history(v, config),
        snapshot=MySqlSnapshotSettings(
            **shared_snapshot_settings(v, config),
            mode=OLD_SNAPSHOT_MODES.get(mode, mode),
            locking=v["snapshot.locking.mode"].lower(),
            lock_timeout_s=v["snapshot.lock.timeout.ms"] / 1000,
        ),
        schema_changes=v["include.schema.changes"],
        inconsistent_schema=_skip_for_ignore(v["inconsistent.schema.handling.mode"]),
        resolves_like=v["resolve.create.table.like.schema"],
        tables_max=v["guardrail.collections.max"],
        tables_limit_action=v["guardrail.collections.limit.action"].lower(),
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


def _placeholder(text: str) -> str:
    if not text.startswith(_HEX):
        return text
    try:
        return bytes.fromhex(text.removeprefix(_HEX)).decode()
    except ValueError as e:
        key = "unavailable.value.placeholder"
        raise ConfigError.invalid(key, text, f"expected UTF-8 bytes in hexadecimal behind {_HEX}: {e}") from e


def _store(v: Mapping[str, Any], key: str) -> Store:
    password = v[f"{key}.password"]
    return Store(key, v[key], None if password is None else password.value, key_is_location=True)


def _with_old_failure_mode(events: EventSettings, v: Mapping[str, Any], config: Mapping[str, str]) -> EventSettings:
    old = v["event.deserialization.failure.handling.mode"]
    if old and not config.get("event.processing.failure.handling.mode"):
        return replace(events, failure_mode=_skip_for_ignore(old))
    return events


def _skip_for_ignore(mode: str) -> str:
    return "skip" if mode.lower() == "ignore" else mode.lower()
