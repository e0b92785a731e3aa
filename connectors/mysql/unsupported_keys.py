"""Debezium's keys that have no effect: ignored keys, and unsupported keys that are rejected.

A key is ignored if leaving it out gives the same records; it is rejected if ignoring it would give different records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connect.config.definition import ConfigDef, ConfigType, ConfigValue, Importance
from connect.errors import ConfigError
from connectors.cdc.config.column_rules import find_rule_errors
from connectors.cdc.config.post_processor_keys import check_post_processors
from connectors.cdc.config.signal_keys import find_notification_errors
from connectors.cdc.config.topic_naming import find_topic_naming_errors
from connectors.cdc.config.validators import SupportedValues
from connectors.mysql.history_keys import CLIENT_PREFIXES, PREFIX, find_history_errors

OPEN_PREFIXES: Final = (
    "signal.consumer.", "column.mask.", "column.truncate.", "snapshot.select.statement.overrides.", "driver.", *CLIENT_PREFIXES,
)  # fmt: skip
"""What keys without a fixed name begin with."""

_IGNORED: Final = {
    "max.queue.size": "8192",
    "query.fetch.size": "0",
    "snapshot.fetch.size": None,
    "min.row.count.to.stream.results": "1000",
    "topic.cache.size": "10000",
    "executor.shutdown.timeout.ms": "4000",
    "poll.dispatch.interval.ms": None,
    "table.ignore.builtin": "true",
    "queue.provider.type": "memory",
    "use.nongraceful.disconnect": "false",
    "database.server.id.offset": "10000",
    "database.jdbc.driver": None,
    "database.protocol": None,
    "ddl.parser.type": "default",
    "custom.metric.tags": None,
    "statistics.metrics.enabled": "true",
    "signal.emit.failure.max.retries": "0",
    "signal.emit.failure.backoff.ms": "10000",
    f"{PREFIX}name": None,
    f"{PREFIX}ddl.filter": None,
    f"{PREFIX}prefer.ddl": "false",
    f"{PREFIX}memory.optimization": "false",
    f"{PREFIX}kafka.buffer.batch.size": "1024",
}


def define_ignored_keys(keys: ConfigDef) -> None:
    for name, default in _IGNORED.items():
        keys.define(
            name,
            ConfigType.STRING,
            default,
            importance=Importance.LOW,
            group="Without effect",
            doc="A key of Debezium that is accepted and ignored.",
        )


_REASON = "this connector does not support the feature yet; remove the key"


def define_unsupported_keys(keys: ConfigDef, *, is_mariadb: bool) -> None:
    package, name = ("mariadb", "MariaDbSourceInfoStructMaker") if is_mariadb else ("mysql", "MySqlSourceInfoStructMaker")
    maker = f"io.debezium.connector.{package}.{name}"
    unsupported: dict[str, tuple[str | None, tuple[str, ...], str]] = {
        "converters": (None, ("",), _REASON),
        "sourceinfo.struct.maker": (maker, (maker.lower(),), _REASON),
        "snapshot.mode.custom.name": (None, (), _REASON),
        "snapshot.locking.mode.custom.name": (None, (), _REASON),
        "snapshot.query.mode.custom.name": (None, (), _REASON),
        "binlog.buffer.size": (
            "0",
            ("0",),
            "changes are not buffered until their transaction ends: servers since MySQL 5.6 and MariaDB 10 log only committed "
            "changes of transactional tables; remove the key",
        ),
    }
    for key, (default, allowed, reason) in unsupported.items():
        keys.define(
            key,
            ConfigType.STRING,
            default,
            importance=Importance.LOW,
            group="Not supported",
            validator=SupportedValues(allowed, reason),
            doc="A key of Debezium for an unsupported feature; only its default is accepted.",
        )


def check_dynamic_keys(config: Mapping[str, str]) -> list[ConfigValue]:
    """Checks keys without a fixed name (``column.mask.with.N.chars``), and mutually exclusive keys. Those without an error may be
    left out."""
    found = find_rule_errors(config)
    found += find_topic_naming_errors(config)
    found += find_notification_errors(config)
    found += check_post_processors(config)
    found += find_history_errors(config)
    pairs = [(f"{what}.include.list", f"{what}.exclude.list") for what in ("database", "table", "column")]
    for include, exclude in (*pairs, ("gtid.source.includes", "gtid.source.excludes")):
        if config.get(include) and config.get(exclude):
            reason = f"{include} and {exclude} are mutually exclusive: set only one"
            found.append(
                ConfigValue(exclude, config[exclude], errors=[str(ConfigError.invalid(exclude, config[exclude], reason))])
            )
    return found
