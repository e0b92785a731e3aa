"""Debezium's keys that have no effect, and those that are rejected: see :mod:`connectors.cdc.config.unsupported_keys`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connect.config.definition import ConfigValue
from connectors.cdc.config.unsupported_keys import Unsupported, check_shared_keys
from connectors.mysql.history_keys import CLIENT_PREFIXES, PREFIX, find_history_errors

OPEN_PREFIXES: Final = (
    "signal.consumer.", "column.mask.", "column.truncate.", "snapshot.select.statement.overrides.", "driver.", *CLIENT_PREFIXES,
)  # fmt: skip
"""What keys without a fixed name begin with."""

IGNORED: Final = {
    "max.queue.size": "8192",
    # Servers since MySQL 5.6 and MariaDB 10 log only committed changes, so none need to wait for the end of their transaction.
    "binlog.buffer.size": "0",
    "query.fetch.size": "0",
    "snapshot.fetch.size": None,
    "min.row.count.to.stream.results": "1000",
    "topic.cache.size": "10000",
    "executor.shutdown.timeout.ms": "4000",
    "poll.dispatch.interval.ms": None,
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
    f"{PREFIX}memory.optimization": "false",
}
_EXCLUSIVE: Final = [
    *((f"{what}.include.list", f"{what}.exclude.list") for what in ("database", "table", "column")),
    ("gtid.source.includes", "gtid.source.excludes"),
]


def unsupported_keys(*, is_mariadb: bool) -> dict[str, Unsupported]:
    """Returns the keys that are rejected."""
    package, name = ("mariadb", "MariaDbSourceInfoStructMaker") if is_mariadb else ("mysql", "MySqlSourceInfoStructMaker")
    maker = f"io.debezium.connector.{package}.{name}"
    return {
        "sourceinfo.struct.maker": Unsupported(maker, (maker.lower(),)),
        "snapshot.mode.custom.name": Unsupported(None),
        "snapshot.locking.mode.custom.name": Unsupported(None),
        "snapshot.query.mode.custom.name": Unsupported(None),
        "table.ignore.builtin": Unsupported(
            "true", ("true",), "tables of the databases mysql, sys, performance_schema, and information_schema are never captured"
        ),
    }


def check_dynamic_keys(config: Mapping[str, str]) -> list[ConfigValue]:
    """Checks keys without a fixed name, and mutually exclusive keys. Those without an error may be left out."""
    return check_shared_keys(config, _EXCLUSIVE) + find_history_errors(config)
