"""Files of databases in files, within the worker's ``allowed.paths``."""

from __future__ import annotations

import sqlite3
from typing import Any
from urllib.parse import unquote

from sqlalchemy import Engine, event

from connect.errors import ConfigError
from connect.paths import path_rules


def confine_to_allowed_paths(engine: Engine) -> None:
    """Checks the file of a SQLite or DuckDB database, and keeps its statements from opening other files.

    Raises ConfigError if the file is not allowed. Does nothing without rules, or for other databases.
    """
    kind, path = engine.dialect.name, engine.url.database
    if kind not in ("sqlite", "duckdb") or path_rules().is_open:
        return
    if path and path != ":memory:":
        is_uri = path.startswith("file:")
        # SQLite reads file:///x, file://localhost/x, and file:x.
        plain = unquote(path.removeprefix("file:").removeprefix("//localhost")).partition("?")[0] if is_uri else path
        if "://" in plain:
            raise ConfigError(
                f"The location {plain} is not allowed on this worker, which has allowed.paths", key="connection.url"
            )
        path_rules().require(plain, "connection.url")
    event.listen(engine, "connect", _without_attachments if kind == "sqlite" else _without_files)


def _without_attachments(connection: Any, _: Any) -> None:
    if hasattr(connection, "setlimit"):
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)


def _without_files(connection: Any, _: Any) -> None:
    # Cannot be undone by a later statement.
    connection.cursor().execute("SET enable_external_access = false")
