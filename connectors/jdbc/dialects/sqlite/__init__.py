"""SQLite, through Python's own module: types by declaration and affinity, as the Java driver sees them."""

from connectors.jdbc.dialects.sqlite.dialect import SqliteDialect

__all__ = ["SqliteDialect"]
