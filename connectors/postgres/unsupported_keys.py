"""Debezium's keys that have no effect: ignored keys, and unsupported keys that are rejected.

A key is ignored if leaving it out gives the same records; it is rejected if ignoring it would give different records.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect.config.definition import ConfigDef, ConfigType, ConfigValue, Importance
from connect.errors import ConfigError
from connectors.cdc.config.column_rules import find_rule_errors
from connectors.cdc.config.post_processor_keys import check_post_processors
from connectors.cdc.config.signal_keys import find_notification_errors
from connectors.cdc.config.topic_naming import find_topic_naming_errors
from connectors.cdc.config.validators import SupportedValues

_IGNORED = {
    "max.queue.size": "8192",
    "query.fetch.size": "0",
    "snapshot.fetch.size": None,
    "topic.cache.size": "10000",
    "executor.shutdown.timeout.ms": "4000",
    "schema.refresh.mode": "columns_diff",
    "table.ignore.builtin": "true",
    "queue.provider.type": "memory",
    "database.ssl.mode": None,
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


_UNSUPPORTED: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "converters": (None, ("",)),
    "sourceinfo.struct.maker": (
        "io.debezium.connector.postgresql.PostgresSourceInfoStructMaker",
        ("io.debezium.connector.postgresql.postgressourceinfostructmaker",),
    ),
    "snapshot.mode.custom.name": (None, ()),
}
_REASON = "this connector does not support the feature yet; remove the key"


def define_unsupported_keys(keys: ConfigDef) -> None:
    for name, (default, allowed) in _UNSUPPORTED.items():
        keys.define(
            name,
            ConfigType.STRING,
            default,
            importance=Importance.LOW,
            group="Not supported",
            validator=SupportedValues(allowed, _REASON),
            doc="A key of Debezium for an unsupported feature; only its default is accepted.",
        )


def check_dynamic_keys(config: Mapping[str, str]) -> list[ConfigValue]:
    """Checks keys without a fixed name (``column.mask.with.N.chars``), and mutually exclusive keys. Those without an error may be
    left out."""
    found = find_rule_errors(config)
    found += find_topic_naming_errors(config)
    found += find_notification_errors(config)
    found += check_post_processors(config)
    for what in ("schema", "table", "column", "message.prefix"):
        include, exclude = f"{what}.include.list", f"{what}.exclude.list"
        if config.get(include) and config.get(exclude):
            reason = f"{include} and {exclude} are mutually exclusive: set only one"
            found.append(
                ConfigValue(exclude, config[exclude], errors=[str(ConfigError.invalid(exclude, config[exclude], reason))])
            )
    return found
