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
        "converters": Unsupported(None, ("",)),
        "sourceinfo.struct.maker": Unsupported(maker, (maker.lower(),)),
        "snapshot.mode.custom.name": Unsupported(None),
        "snapshot.locking.mode.custom.name": Unsupported(None),
        "snapshot.query.mode.custom.name": Unsupported(None),
        "binlog.buffer.size": Unsupported(
            "0",
            ("0",),
            "changes are not buffered until their transaction ends: servers since MySQL 5.6 and MariaDB 10 log only committed "
            "changes of transactional tables; remove the key",
        ),
    }


def check_dynamic_keys(config: Mapping[str, str]) -> list[ConfigValue]:
    """Checks keys without a fixed name, and mutually exclusive keys. Those without an error may be left out."""
    return check_shared_keys(config, _EXCLUSIVE) + find_history_errors(config)
