"""The source block of MySQL's and MariaDB's change events."""

from __future__ import annotations

from typing import Any

from connect.data.schema import Schema
from connectors.cdc.schema.envelope import FIRST_OWN, SNAPSHOT, TS_MS, TS_NS, TS_US, source_schema

_OWN_FIELDS = [
    ("table", Schema.OPTIONAL_STRING),
    ("server_id", Schema.INT64),
    ("gtid", Schema.OPTIONAL_STRING),
    ("file", Schema.STRING),
    ("pos", Schema.INT64),
    ("row", Schema.INT32),
    ("thread", Schema.OPTIONAL_INT64),
    ("query", Schema.OPTIONAL_STRING),
]
_SOURCES = {name: source_schema(f"io.debezium.connector.{name}.Source", _OWN_FIELDS) for name in ("mysql", "mariadb")}

# Positions in its values, after those that all connectors have.
TABLE, SERVER_ID, GTID, FILE, POS, ROW, THREAD, QUERY = range(FIRST_OWN, FIRST_OWN + 8)

__all__ = [
    "FILE", "GTID", "POS", "QUERY", "ROW", "SERVER_ID", "SNAPSHOT", "TABLE", "THREAD", "TS_MS", "TS_NS", "TS_US",
    "connector_name", "source_block", "source_values",
]  # fmt: skip


def connector_name(*, is_mariadb: bool) -> str:
    """Returns the name of the connector in source blocks and names of schemas."""
    return "mariadb" if is_mariadb else "mysql"


def source_block(*, is_mariadb: bool) -> Schema:
    """Returns the schema; the same object for each call."""
    return _SOURCES[connector_name(is_mariadb=is_mariadb)]


def source_values(version: str, connector: str, name: str, database: str, table: str | None) -> list[Any]:
    """Returns the values of a source block, without those that differ between events. ``name`` is ``topic.prefix``."""
    return [version, connector, name, 0, "false", database, None, None, None, table, 0, None, "", 0, 0, None, None]
