"""Finds the dialect of a database. Dialect modules are imported on demand because each imports its driver."""

from __future__ import annotations

import importlib

from connectors.jdbc.dialects.dialect import Dialect
from connectors.jdbc.urls.connection_url import ConnectionTarget

_DIALECTS: dict[str, tuple[str, str]] = {
    "postgresql": ("connectors.jdbc.dialects.postgres", "PostgresDialect"),
    "cockroachdb": ("connectors.jdbc.dialects.postgres", "PostgresDialect"),
    "mysql": ("connectors.jdbc.dialects.mysql", "MySqlDialect"),
    "mariadb": ("connectors.jdbc.dialects.mysql", "MySqlDialect"),
    "sqlite": ("connectors.jdbc.dialects.sqlite", "SqliteDialect"),
    "duckdb": ("connectors.jdbc.dialects.duckdb", "DuckDbDialect"),
    "mssql": ("connectors.jdbc.dialects.sqlserver", "SqlServerDialect"),
    "oracle": ("connectors.jdbc.dialects.oracle", "OracleDialect"),
}
"""Module and class by SQLAlchemy's backend name. All other databases use the generic dialect."""

_GENERIC = ("connectors.jdbc.dialects.generic", "GenericDialect")


def create_dialect(target: ConnectionTarget, *, quotes: bool) -> Dialect:
    """Creates the dialect for a target."""
    module, name = _DIALECTS.get(target.url.get_backend_name(), _GENERIC)
    dialect: Dialect = getattr(importlib.import_module(module), name)(target, quotes=quotes)
    return dialect
