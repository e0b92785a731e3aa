"""The source block of SQLite's change events."""

from __future__ import annotations

from typing import Any, Final

from connect.data.schema import Schema
from connectors.cdc.schema.envelope import FIRST_OWN, SEQUENCE, SNAPSHOT, TS_MS, TS_NS, TS_US, source_schema

CONNECTOR: Final = "sqlite"

SOURCE: Final = source_schema(
    "connectors.sqlite.Source", [("schema", Schema.STRING), ("table", Schema.STRING), ("seq", Schema.OPTIONAL_INT64)]
)

# Positions in its values, after those that all connectors have.
SCHEMA, TABLE, SEQ = range(FIRST_OWN, FIRST_OWN + 3)

__all__ = ["CONNECTOR", "SCHEMA", "SEQ", "SEQUENCE", "SNAPSHOT", "SOURCE", "TABLE", "TS_MS", "TS_NS", "TS_US", "source_values"]


def source_values(version: str, name: str, database: str, schema: str, table: str) -> list[Any]:
    """The values of a source block, without the values that differ between events."""
    return [version, CONNECTOR, name, 0, "false", database, None, None, None, schema, table, None]
