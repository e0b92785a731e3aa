"""Files of SQLite and DuckDB databases, checked before a connector opens them, which could create them."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy.engine import URL

from connect.errors import ConfigError
from connect.paths import path_rules

_KEY = "connection.url"
_DATABASES = ("sqlite", "duckdb")
_ADVICE = "relative paths start at the worker's working directory"


def is_file_database(url: URL) -> bool:
    """Whether the database is in a file or in memory, without a server."""
    return url.get_backend_name() in _DATABASES


def database_file(url: URL) -> Path | None:
    """Returns the file of a database. None for servers, databases in memory, and other locations than plain paths."""
    path = url.database
    if not is_file_database(url) or not path or path.startswith((":", "file:", "md:")) or "://" in path:
        return None
    return Path(path)


def require_usable_file(path: Path, *, creates: bool) -> None:
    """Raises ConfigError if a database file cannot be read, or, if the connector ``creates`` it, neither written nor created.

    The worker's path rules come first: nobody learns whether a file exists that connectors may not open.
    """
    path_rules().require(path, _KEY)
    folder = path.absolute().parent
    problem = ""
    # Not Path.exists, which raises an error for what a folder without permission contains.
    if os.path.exists(path):
        if not os.access(path, os.R_OK | (os.W_OK if creates else 0)):
            problem = f"file {path} may not be {'written' if creates else 'read'} by the worker's user"
    elif not creates:
        problem = f"file {path} does not exist"
    elif not os.path.isdir(folder):
        problem = f"folder {folder} does not exist"
    elif not os.access(folder, os.W_OK | os.X_OK):
        problem = f"folder {folder} may not be written by the worker's user"
    if problem:
        raise ConfigError(f"{_KEY}: {problem}; {_ADVICE}", key=_KEY)
