"""SQLite change data capture: triggers into a change table, read with snapshots, in Debezium's format."""

from connectors.sqlite.connector import SqliteSource
from connectors.sqlite.task import SqliteSourceTask

__all__ = ["SqliteSource", "SqliteSourceTask"]
