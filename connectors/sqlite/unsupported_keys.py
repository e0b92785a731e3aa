"""Debezium's keys that have no effect, and those that are rejected: see :mod:`connectors.cdc.config.unsupported_keys`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connect.config.definition import ConfigValue
from connect.errors import ConfigError
from connectors.cdc.config.unsupported_keys import Unsupported, check_shared_keys

OPEN_PREFIXES: Final = ("signal.consumer.", "column.mask.", "column.truncate.", "snapshot.select.statement.overrides.")
"""What keys without a fixed name begin with."""

IGNORED: Final = {"max.queue.size": "8192", "snapshot.fetch.size": None, "snapshot.max.threads": "1"}
UNSUPPORTED: Final = {
    "post.processors": Unsupported(None, ("",), "the change table has all values, so none is read again; remove the key"),
}
_EXCLUSIVE: Final = [(f"{what}.include.list", f"{what}.exclude.list") for what in ("schema", "table", "column")]
_TRANSACTIONS: Final = "provide.transaction.metadata"


def check_dynamic_keys(config: Mapping[str, str]) -> list[ConfigValue]:
    """Checks keys without a fixed name, and keys whose values exclude one another. Those without an error may be left out."""
    found = check_shared_keys(config, _EXCLUSIVE)
    if (value := config.get(_TRANSACTIONS, "")).lower() == "true":
        reason = "triggers of SQLite do not see where a transaction begins and ends; remove the key"
        found.append(ConfigValue(_TRANSACTIONS, value, errors=[ConfigError.invalid(_TRANSACTIONS, value, reason).message]))
    return found
