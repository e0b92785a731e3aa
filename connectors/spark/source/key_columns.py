"""Checks key.columns against the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence

from connect.errors import ConfigError
from connect.suggestions import did_you_mean
from connectors.spark.source.table_feed import TableSchema


def check_keys(keys: Sequence[str], schema: TableSchema, location: str) -> None:
    """Raises ConfigError for a key column that the table does not have."""
    names = [column.name for column in schema.columns]
    for key in keys:
        if key not in names:
            raise ConfigError(
                f"table {location} has no column {key} (key.columns){did_you_mean(key, names, '; ')}", key="key.columns"
            )
