"""SQLAlchemy URLs, which are taken as they are; only a driver is chosen where none is named."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from connect.errors import ConfigError
from connectors.jdbc.urls import drivers, file_databases, mysql, postgresql
from connectors.jdbc.urls.authority import Host
from connectors.jdbc.urls.target import ConnectionTarget, UrlInput, label

# As SQLAlchemy reads it: what follows the host, and the parameters.
_PARTS = re.compile(r"[\w+]+://(?:[^:/]*(?::[^@]*)?@)?(?:\[[^/?]+\]|[^/:?]+)?(?::[^/?]*)?(?:/([^?]*))?(?:\?(.*))?", re.S)
_PORT_AND_PATH = re.compile(r"[0-9]{1,5}/[^?]*\?")
_FILES = ("sqlite", "duckdb")
_LIBPQ = ("psycopg", "psycopg2")


def target(request: UrlInput) -> ConnectionTarget:
    """The target for ``dialect+driver://user:password@host:port/database?name=value``."""
    url = _parsed(request.text)
    url = url.set(drivername=_drivername(url))
    drivers.check_dialect(url.drivername)
    given = dict(request.properties)
    user, password = _login(request, given)
    notices: tuple[str, ...] = ()
    if url.get_backend_name() in _FILES:
        if user or password:
            notices = ("user and password are left out: the database is a file",)
    elif user or password:
        url = url.set(username=user or url.username, password=password or url.password)
    arguments, statements, more = _arguments(url, given)
    if url.drivername.endswith("+pyodbc"):
        url, arguments = url.update_query_dict(given), {}
    return ConnectionTarget(url, arguments, notices + more, _label(url), statements)


def _parsed(text: str) -> URL:
    found = _PARTS.match(text)
    try:
        url = make_url(text, keep_blank_values=True)
    except (ArgumentError, ValueError):
        found = None
    if found is None or found.end() < len(text):
        # SQLAlchemy's words may repeat a password that was taken for a port, and what it cannot read at the end it leaves out.
        raise ConfigError("it has not the form dialect+driver://user:password@host:port/database?name=value")
    if url.get_backend_name() not in _FILES and _has_stray_at(url, found[1] or "", found[2] or ""):
        # A part of a password was taken for host, database or parameter, or a parameter for a password.
        raise ConfigError("it has an @ too many: outside of user:password@ it is written %40, as are / %2F and ? %3F inside")
    return url


def _has_stray_at(url: URL, path: str, query: str) -> bool:
    if "@" in (url.host or ""):
        return True
    if url.password is None:
        return False
    return "@" in path or "@" in query or _PORT_AND_PATH.match(str(url.password)) is not None


def _drivername(url: URL) -> str:
    backend, plus, driver = url.drivername.partition("+")
    if not plus:
        return drivers.PREFERRED.get(backend, backend)
    return f"postgresql+{driver}" if backend == "postgres" else url.drivername


def _login(request: UrlInput, given: dict[str, str]) -> tuple[str | None, str | None]:
    """User and password beside the URL; they are taken out of the properties."""
    named = {name.lower(): name for name in given}
    user, username, password = (given.pop(named[word], "") if word in named else "" for word in ("user", "username", "password"))
    return request.user or user or username or None, request.password or password or None


def _arguments(url: URL, given: dict[str, str]) -> tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]:
    backend, _, driver = url.drivername.partition("+")
    if driver in _LIBPQ:
        arguments, notices = postgresql.with_properties(url, given)
        return arguments, (), notices
    if driver == "pymysql":
        arguments, notices = mysql.with_properties(url, given)
        # What the URL says of the same is SQLAlchemy's to read.
        return {name: value for name, value in arguments.items() if name not in url.query}, (), notices
    if backend in _FILES:
        arguments, statements, notices = file_databases.with_properties(url, given)
        return arguments, statements, notices
    return dict(given), (), ()


def _label(url: URL) -> str:
    hosts = url.query.get("host")
    if hosts and not url.host:
        shown = hosts if isinstance(hosts, str) else ",".join(hosts)
    else:
        shown = str(Host(url.host or "", url.port))
    return label(url.get_backend_name(), shown, url.database)
