"""DuckDB: whole columns are read and written as Arrow arrays."""

from connectors.jdbc.dialects.duckdb.dialect import DuckDbDialect

__all__ = ["DuckDbDialect"]
