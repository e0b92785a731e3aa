"""The source block of PostgreSQL's change events."""

from __future__ import annotations

from typing import Any

from connect.data.schema import Schema
from connectors.cdc.schema.envelope import FIRST_OWN, SEQUENCE, SNAPSHOT, TS_MS, TS_NS, TS_US, source_schema

CONNECTOR = "postgresql"

SOURCE = source_schema(
    "io.debezium.connector.postgresql.Source",
    [
        ("schema", Schema.STRING),
        ("table", Schema.STRING),
        ("txId", Schema.OPTIONAL_INT64),
        ("lsn", Schema.OPTIONAL_INT64),
        ("xmin", Schema.OPTIONAL_INT64),
        ("origin", Schema.OPTIONAL_STRING),
        ("origin_lsn", Schema.OPTIONAL_INT64),
    ],
)

# Positions in its values, after those that all connectors have.
SCHEMA, TABLE, TX_ID, LSN, XMIN, ORIGIN, ORIGIN_LSN = range(FIRST_OWN, FIRST_OWN + 7)

__all__ = [
    "CONNECTOR", "LSN", "ORIGIN", "ORIGIN_LSN", "SCHEMA", "SEQUENCE", "SNAPSHOT", "SOURCE", "TABLE", "TS_MS", "TS_NS", "TS_US",
    "TX_ID", "XMIN", "source_values",
]  # fmt: skip


def source_values(version: str, name: str, database: str, schema: str, table: str) -> list[Any]:
    """The values of a source block, without the values that differ between events."""
    return [version, CONNECTOR, name, 0, "false", database, None, None, None, schema, table, None, None, None, None, None]
