"""DuckDB: whole columns go in and out as Arrow."""

from connectors.jdbc.dialects.duckdb.dialect import DuckDbDialect

__all__ = ["DuckDbDialect"]
