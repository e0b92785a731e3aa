"""Databases in a file or in memory: ``jdbc:sqlite:`` and ``jdbc:duckdb:`` URLs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from sqlalchemy.engine import URL

from connect.errors import ConfigError
from connectors.jdbc.urls import authority, java_properties
from connectors.jdbc.urls.authority import as_written
from connectors.jdbc.urls.driver_properties import Properties
from connectors.jdbc.urls.target import ConnectionTarget, UrlInput, label

_MEMORY = ":memory:"

_PRAGMA_VALUE = re.compile(r"-?\w+|'[\w-]+'")
_MODES = {"deferred": "DEFERRED", "deffered": "DEFERRED", "immediate": "IMMEDIATE", "exclusive": "EXCLUSIVE"}
"""Of transactions; one is written as older drivers had it."""
_URI = ("mode", "cache", "immutable", "nolock", "psow", "vfs", "modeof")


def sqlite_target(request: UrlInput) -> ConnectionTarget:
    """``jdbc:sqlite:file.db``, ``:memory:``, ``file:...?mode=ro``; a relative path counts from the worker's folder."""
    path, _, query = request.text.partition("?")
    if path.startswith(":resource:"):
        raise ConfigError("a :resource: is inside of a Java archive; give the path of a file")
    pairs = authority.parameters(query, as_written)
    is_uri = path.startswith("file:")
    of_uri = {name: value for name, value in pairs if is_uri and name.lower() in _URI}
    properties = Properties([pair for pair in pairs if pair[0] not in of_uri], request.properties)
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
        label("sqlite", None, path.removeprefix("file:")),
        on_connect=statements,
    )


def _without_users(database: str, request: UrlInput, properties: Properties) -> None:
    named = (request.user, request.password, properties.text("user", "username"), properties.text("password"))
    if any(named):
        properties.notice(f"user and password are left out: {database} knows none")


def _is_read_only(properties: Properties) -> bool:
    mode = properties.number("open_mode")  # bits; the lowest is SQLITE_OPEN_READONLY
    return bool(mode is not None and int(mode) & 1)


def sqlite_arguments(properties: Properties) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Arguments of ``sqlite3.connect``, and the pragmas that a connection begins with."""
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
        "is left out: times are written as milliseconds since 1970, the driver's default, and read as numbers and as text; times "
        "as text are had with TimestampConverter before a sink",
        "date_class", "date_precision", "date_string_format",
    )  # fmt: skip
    statements: list[str] = []
    for name in java_properties.SQLITE_PRAGMAS:
        value = properties.text(name)
        if value is None:
            continue
        if not _PRAGMA_VALUE.fullmatch(value.strip()):
            raise ConfigError(f"the property {name} is not a value of a pragma: a word or a whole number")
        statements.append(f"PRAGMA {name} = {value.strip()}")
    return found, tuple(statements)


def duckdb_target(request: UrlInput) -> ConnectionTarget:
    """``jdbc:duckdb:``, ``jdbc:duckdb:/path/file;name=value``, ``jdbc:duckdb:md:name``."""
    path, *rest = re.split("[?;]", request.text, maxsplit=1)
    query = "".join(rest).replace("&", ";")
    properties = Properties(authority.parameters(query, as_written, ";"), request.properties)
    _without_users("DuckDB", request, properties)
    arguments = duckdb_arguments(properties)
    path = re.sub("^/{2,}", "/", path) or _MEMORY
    url = URL.create("duckdb", database=path)
    return ConnectionTarget(url, arguments, properties.finish("DuckDB"), label("duckdb", None, path))


def duckdb_arguments(properties: Properties) -> dict[str, Any]:
    """Arguments of ``duckdb.connect``. Every property that is not the JDBC driver's own is a setting of the database."""
    read_only = properties.flag("duckdb.read_only", "read_only")
    access = properties.text("access_mode")
    for name in java_properties.DUCKDB:
        properties.leave_out("means nothing to DuckDB for Python and is left out", name)
    config = properties.rest()
    if access and access.lower() != "read_only":
        config["access_mode"] = access
    found: dict[str, Any] = {"config": config} if config else {}
    if read_only or (access or "").lower() == "read_only":
        found["read_only"] = True
    return found


def with_properties(url: URL, given: Mapping[str, str]) -> tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]:
    """Arguments, statements and notices for an SQLAlchemy URL with properties beside it."""
    properties = Properties((), given)
    properties.text("user", "username", "password")
    if url.get_backend_name() == "duckdb":
        return duckdb_arguments(properties), (), properties.finish("DuckDB")
    arguments, statements = sqlite_arguments(properties)
    return arguments, statements, properties.finish("SQLite", java_properties.SQLITE)
