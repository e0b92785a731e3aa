"""PostgreSQL and databases that are compatible with it. Rows are read and written with COPY."""

from connectors.jdbc.dialects.postgres.dialect import PostgresDialect

__all__ = ["PostgresDialect"]
