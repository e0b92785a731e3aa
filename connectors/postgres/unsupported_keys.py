"""Debezium's keys that have no effect, and those that are rejected: see :mod:`connectors.cdc.config.unsupported_keys`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connect.config.definition import ConfigValue
from connectors.cdc.config.unsupported_keys import Unsupported, check_shared_keys

IGNORED: Final = {
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
UNSUPPORTED: Final = {
    "sourceinfo.struct.maker": Unsupported(
        "io.debezium.connector.postgresql.PostgresSourceInfoStructMaker",
        ("io.debezium.connector.postgresql.postgressourceinfostructmaker",),
    ),
    "snapshot.mode.custom.name": Unsupported(None),
}
_EXCLUSIVE = [(f"{what}.include.list", f"{what}.exclude.list") for what in ("schema", "table", "column", "message.prefix")]


def check_dynamic_keys(config: Mapping[str, str]) -> list[ConfigValue]:
    """Checks keys without a fixed name, and mutually exclusive keys. Those without an error may be left out."""
    return check_shared_keys(config, _EXCLUSIVE)
