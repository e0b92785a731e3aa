"""Parses SQLAlchemy URLs; only chooses a driver if none is named."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from connect.errors import ConfigError
from connectors.jdbc.urls import drivers, file_databases, mysql, postgresql
from connectors.jdbc.urls.authority import Host
from connectors.jdbc.urls.target import ConnectionTarget, UrlInput, format_label

# As SQLAlchemy parses it: the text after the host, and the parameters.
_PARTS = re.compile(r"[\w+]+://(?:[^:/]*(?::[^@]*)?@)?(?:\[[^/?]+\]|[^/:?]+)?(?::[^/?]*)?(?:/([^?]*))?(?:\?(.*))?", re.S)
_PORT_AND_PATH = re.compile(r"[0-9]{1,5}/[^?]*\?")
_FILES = ("sqlite", "duckdb")
_LIBPQ = ("psycopg", "psycopg2")


def parse_url(request: UrlInput) -> ConnectionTarget:
    """Parses ``dialect+driver://user:password@host:port/database?name=value``."""
    url = _parsed(request.text)
    url = url.set(drivername=_drivername(url))
    drivers.check_dialect(url.drivername)
    given = dict(request.properties)
    user, password = _login(request, given)
    notices: tuple[str, ...] = ()
    if url.get_backend_name() in _FILES:
        if user or password:
            notices = ("user and password are ignored: the database is a file",)
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
        # SQLAlchemy's message may quote a password that was parsed as a port, and SQLAlchemy ignores an invalid end.
        raise ConfigError("expected the form dialect+driver://user:password@host:port/database?name=value")
    if url.get_backend_name() not in _FILES and _has_stray_at(url, found[1] or "", found[2] or ""):
        # Part of a password was parsed as host, database, or parameter, or a parameter as a password.
        raise ConfigError("it has an extra @: outside user:password@ write %40; inside, write %2F for a / and %3F for a ?")
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
    """Returns user and password from outside the URL; removes them from the properties."""
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
        # SQLAlchemy parses those of the URL.
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
    return format_label(url.get_backend_name(), shown, url.database)
