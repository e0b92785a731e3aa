"""Which dialect serves which database. Modules are imported when they are needed, for each pulls in its driver."""

from __future__ import annotations

import importlib

from connectors.jdbc.dialects.dialect import Dialect
from connectors.jdbc.urls.connection_url import Target

_MODULES: dict[str, tuple[str, str]] = {
    "postgresql": ("connectors.jdbc.dialects.postgres", "PostgresDialect"),
    "cockroachdb": ("connectors.jdbc.dialects.postgres", "PostgresDialect"),
    "mysql": ("connectors.jdbc.dialects.mysql", "MySqlDialect"),
    "mariadb": ("connectors.jdbc.dialects.mysql", "MySqlDialect"),
    "sqlite": ("connectors.jdbc.dialects.sqlite", "SqliteDialect"),
    "duckdb": ("connectors.jdbc.dialects.duckdb", "DuckDbDialect"),
    "mssql": ("connectors.jdbc.dialects.sqlserver", "SqlServerDialect"),
    "oracle": ("connectors.jdbc.dialects.oracle", "OracleDialect"),
}
"""By SQLAlchemy's name of the backend. All others are served by what SQLAlchemy itself offers."""

_ANY = ("connectors.jdbc.dialects.generic", "GenericDialect")


def dialect_of(target: Target, *, quotes: bool) -> Dialect:
    """The dialect for a target."""
    module, name = _MODULES.get(target.url.get_backend_name(), _ANY)
    made: Dialect = getattr(importlib.import_module(module), name)(target, quotes=quotes)
    return made
