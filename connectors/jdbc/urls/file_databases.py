"""Parses URLs of databases in a file or in memory: ``jdbc:sqlite:`` and ``jdbc:duckdb:``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from sqlalchemy.engine import URL

from connect.errors import ConfigError
from connectors.jdbc.urls import authority, java_properties
from connectors.jdbc.urls.authority import unescaped
from connectors.jdbc.urls.driver_properties import DriverProperties
from connectors.jdbc.urls.target import ConnectionTarget, UrlInput, format_label

_MEMORY = ":memory:"

_PRAGMA_VALUE = re.compile(r"-?\w+|'[\w-]+'")
_MODES = {"deferred": "DEFERRED", "deffered": "DEFERRED", "immediate": "IMMEDIATE", "exclusive": "EXCLUSIVE"}
"""Transaction modes, including the misspelling of older drivers."""
_URI = ("mode", "cache", "immutable", "nolock", "psow", "vfs", "modeof")


def parse_sqlite_url(request: UrlInput) -> ConnectionTarget:
    """Parses ``jdbc:sqlite:file.db``, ``:memory:``, or ``file:...?mode=ro``. Relative paths start at the worker's directory."""
    path, _, query = request.text.partition("?")
    if path.startswith(":resource:"):
        raise ConfigError("a :resource: is inside a Java archive; use the path of a file")
    pairs = authority.parse_parameters(query, unescaped)
    is_uri = path.startswith("file:")
    of_uri = {name: value for name, value in pairs if is_uri and name.lower() in _URI}
    properties = DriverProperties([pair for pair in pairs if pair[0] not in of_uri], request.properties)
    arguments, statements = sqlite_arguments(properties)
    _without_users("SQLite", request, properties)
    if not is_uri:
        path = re.sub("^/{2,}", "/", path) or _MEMORY
    if _is_read_only(properties) and path != _MEMORY:
        path, is_uri = (path, True) if is_uri else (f"file:{quote(path)}", True)
        of_uri.setdefault("mode", "ro")
    url = URL.create("sqlite+pysqlite", database=path, query={**of_uri, "uri": "true"} if is_uri else {})
    return ConnectionTarget(
        url,
        arguments,
        properties.finish("SQLite", java_properties.SQLITE),
        format_label("sqlite", None, path.removeprefix("file:")),
        on_connect=statements,
    )


def _without_users(database: str, request: UrlInput, properties: DriverProperties) -> None:
    named = (request.user, request.password, properties.text("user", "username"), properties.text("password"))
    if any(named):
        properties.notice(f"user and password are ignored: {database} has no users")


def _is_read_only(properties: DriverProperties) -> bool:
    mode = properties.number("open_mode")  # bits; the lowest is SQLITE_OPEN_READONLY
    return bool(mode is not None and int(mode) & 1)


def sqlite_arguments(properties: DriverProperties) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns the arguments of ``sqlite3.connect`` and the pragmas that start each connection."""
    found: dict[str, Any] = {}
    busy, timeout = properties.number("busy_timeout"), properties.number("timeout")
    if busy is not None or timeout is not None:
        found["timeout"] = timeout if timeout is not None else (busy or 0) / 1000
    transaction = properties.choice(_MODES, "transaction_mode")
    if transaction is not None:
        found["isolation_level"] = transaction
    cached = properties.number("cached_statements")
    if cached is not None:
        found["cached_statements"] = cached
    properties.leave_out(
        "is ignored: times are written as milliseconds since 1970, the driver's default, and read as numbers or text; to write "
        "text, use TimestampConverter before the sink",
        "date_class", "date_precision", "date_string_format",
    )  # fmt: skip
    statements: list[str] = []
    for name in java_properties.SQLITE_PRAGMAS:
        value = properties.text(name)
        if value is None:
            continue
        if not _PRAGMA_VALUE.fullmatch(value.strip()):
            raise ConfigError(f"the property {name} is not a valid pragma value: expected a word or an integer")
        statements.append(f"PRAGMA {name} = {value.strip()}")
    return found, tuple(statements)


def parse_duckdb_url(request: UrlInput) -> ConnectionTarget:
    """Parses ``jdbc:duckdb:``, ``jdbc:duckdb:/path/file;name=value``, or ``jdbc:duckdb:md:name``."""
    path, *rest = re.split("[?;]", request.text, maxsplit=1)
    query = "".join(rest).replace("&", ";")
    properties = DriverProperties(authority.parse_parameters(query, unescaped, ";"), request.properties)
    _without_users("DuckDB", request, properties)
    arguments = duckdb_arguments(properties)
    path = re.sub("^/{2,}", "/", path) or _MEMORY
    url = URL.create("duckdb", database=path)
    return ConnectionTarget(url, arguments, properties.finish("DuckDB"), format_label("duckdb", None, path))


def duckdb_arguments(properties: DriverProperties) -> dict[str, Any]:
    """Returns the arguments of ``duckdb.connect``. Properties other than the JDBC driver's own are database settings."""
    read_only = properties.flag("duckdb.read_only", "read_only")
    access = properties.text("access_mode")
    for name in java_properties.DUCKDB:
        properties.leave_out("has no effect with DuckDB for Python and is ignored", name)
    config = properties.rest()
    if access and access.lower() != "read_only":
        config["access_mode"] = access
    found: dict[str, Any] = {"config": config} if config else {}
    if read_only or (access or "").lower() == "read_only":
        found["read_only"] = True
    return found


def with_properties(url: URL, given: Mapping[str, str]) -> tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]:
    """Returns arguments, statements, and notices for a SQLAlchemy URL with extra properties."""
    properties = DriverProperties((), given)
    properties.text("user", "username", "password")
    if url.get_backend_name() == "duckdb":
        return duckdb_arguments(properties), (), properties.finish("DuckDB")
    arguments, statements = sqlite_arguments(properties)
    return arguments, statements, properties.finish("SQLite", java_properties.SQLITE)
