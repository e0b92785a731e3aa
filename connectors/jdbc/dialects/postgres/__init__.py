"""PostgreSQL, and what speaks its protocol and enough of its SQL. Rows are read and written by COPY."""

from connectors.jdbc.dialects.postgres.dialect import PostgresDialect

__all__ = ["PostgresDialect"]
