"""Whether a table has versions of rows, which its key says: that of an open version has the column ``__current``."""

from __future__ import annotations

import logging

from connect.errors import ConnectError
from connectors.spark.config import TableConfig
from connectors.spark.config_keys import CURRENT
from connectors.spark.tables.table import TableState

log = logging.getLogger(__name__)


def said_key(keys: tuple[str, ...], settings: TableConfig) -> tuple[str, ...]:
    """The key that a table with these key columns says."""
    return (*keys, CURRENT) if keys and settings.keeps_versions else keys


def without_version(keys: tuple[str, ...]) -> tuple[str, ...]:
    """The key columns of a table that says this key."""
    return tuple(name for name in keys if name != CURRENT)


def lacks_versions(state: TableState, settings: TableConfig) -> bool:
    """Whether versions shall be written into a table that has no columns for them."""
    return settings.keeps_versions and state.columns is not None and CURRENT not in state.columns


def check_mode(described: str, state: TableState, settings: TableConfig) -> None:
    """Raises ConnectError if the table has versions, and shall have one row per key, or the other way around."""
    if lacks_versions(state, settings) and (state.keys or state.ends):
        kind = "one row per key" if state.keys else "one row per event"
        problem = f"has {kind}, and write.mode=scd2 would leave these rows as they are"
    elif CURRENT in state.keys and not settings.keeps_versions:
        problem = f"has versions of rows (write.mode=scd2), which write.mode={settings.write_mode} would destroy"
    else:
        return
    raise ConnectError(f"{described} {problem}. Set write.mode to what it was, or write into another table (table.name.format)")


def warn_of_other_key(described: str, before: tuple[str, ...], keys: tuple[str, ...]) -> None:
    if before and set(before) != set(keys):
        log.warning(
            "%s: the key was %s and is now %s (key.columns). Earlier rows are replaced by changes with the same values in it",
            described,
            ", ".join(before),
            ", ".join(keys),
        )
