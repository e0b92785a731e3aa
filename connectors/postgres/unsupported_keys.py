"""Debezium's keys that do nothing here: those that are taken, and those that are refused by name.

A key is taken when leaving it out gives the same records; it is refused when ignoring it would give others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from connect.config.definition import ConfigDef, ConfigType, ConfigValue, Importance
from connect.errors import ConfigError
from connectors.postgres.config_validators import Only

_WITHOUT_EFFECT = {
    "max.queue.size": "8192",
    "max.queue.size.in.bytes": "0",
    "query.fetch.size": "0",
    "snapshot.fetch.size": None,
    "snapshot.max.threads": "1",
    "snapshot.lock.timeout.ms": "10000",
    "topic.cache.size": "10000",
    "executor.shutdown.timeout.ms": "4000",
    "schema.refresh.mode": "columns_diff",
    "xmin.fetch.interval.ms": "0",
    "table.ignore.builtin": "true",
    "flush.lsn.source": "true",
    "lsn.flush.timeout.ms": "30000",
    "lsn.flush.timeout.action": "fail",
    "incremental.snapshot.chunk.size": "1024",
    "signal.poll.interval.ms": "5000",
    "topic.transaction": "transaction",
    "extended.headers.enabled": "true",
    "queue.provider.type": "memory",
    "guardrail.collections.max": "0",
    "guardrail.limit.action": "warn",
    "database.ssl.mode": None,
}


def define_taken(keys: ConfigDef) -> None:
    for name, default in _WITHOUT_EFFECT.items():
        keys.define(
            name,
            ConfigType.STRING,
            default,
            importance=Importance.LOW,
            group="Without effect",
            doc="Debezium's key; taken, and without effect here.",
        )


_REFUSED: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "provide.transaction.metadata": ("false", ("false",)),
    "signal.data.collection": (None, ()),
    "signal.enabled.channels": ("source", ("", "source")),
    "notification.enabled.channels": (None, ("", "log")),
    "converters": (None, ("",)),
    "post.processors": (None, ("",)),
    "column.propagate.source.type": (None, ()),
    "datatype.propagate.source.type": (None, ()),
    "schema.name.adjustment.mode": ("none", ("none",)),
    "field.name.adjustment.mode": ("none", ("none",)),
    "event.processing.failure.handling.mode": ("fail", ("fail",)),
    "topic.naming.strategy": (
        "io.debezium.schema.SchemaTopicNamingStrategy",
        ("io.debezium.schema.schematopicnamingstrategy",),
    ),
    "sourceinfo.struct.maker": (
        "io.debezium.connector.postgresql.PostgresSourceInfoStructMaker",
        ("io.debezium.connector.postgresql.postgressourceinfostructmaker",),
    ),
    "topic.heartbeat.name": (None, ()),
    "message.prefix.include.list": (None, ()),
    "message.prefix.exclude.list": (None, ()),
    "read.only": ("false", ("false",)),
    "snapshot.mode.custom.name": (None, ()),
    "slot.seek.to.known.offset.on.start": ("false", ("false",)),
}
_REASON = "this connector does not support the feature yet; leave the key out"


def define_refused(keys: ConfigDef) -> None:
    for name, (default, allowed) in _REFUSED.items():
        keys.define(
            name,
            ConfigType.STRING,
            default,
            importance=Importance.LOW,
            group="Not supported",
            validator=Only(allowed, _REASON),
            doc="Debezium's key of a feature that is not supported: refused when set to anything but its default.",
        )


_REFUSED_FORMS = re.compile(
    r"column\.mask\..*|column\.truncate\..*|incremental\.snapshot\.(?!chunk\.size$).*|signal\.(kafka|file).*"
)


def findings_outside_table(config: Mapping[str, str]) -> list[ConfigValue]:
    """Errors about keys that have no fixed name (``column.mask.with.N.chars``) and about keys that exclude each other."""
    found = [
        ConfigValue(name, value, errors=[str(ConfigError.invalid(name, value, _REASON))])
        for name, value in config.items()
        if _REFUSED_FORMS.fullmatch(name)
    ]
    for what in ("schema", "table", "column"):
        include, exclude = f"{what}.include.list", f"{what}.exclude.list"
        if config.get(include) and config.get(exclude):
            reason = f"{include} and {exclude} exclude each other: give only one"
            found.append(
                ConfigValue(exclude, config[exclude], errors=[str(ConfigError.invalid(exclude, config[exclude], reason))])
            )
    return found
