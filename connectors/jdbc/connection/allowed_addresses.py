"""Connections to addresses that the worker allows (``connection.deny.addresses``)."""

from __future__ import annotations

import re
import socket
from typing import Any

from sqlalchemy import Engine, event

from connect.addresses import address_rules
from connectors.databases.postgresql.addresses import pin_addresses

_HOST_IN_DSN = re.compile(
    r"(?:\(\s*HOST\s*=\s*|(?:^|[;,])\s*(?:Server|HostName|Data Source|Address)\s*=\s*(?:tcp:)?|//)([^\s;,/:()\[\]]+)",
    re.IGNORECASE,
)
_CANNOT_CONNECT = 2003


def check_addresses(engine: Engine) -> None:
    """Checks the hosts of each new connection, with the arguments that earlier listeners have set. Raises ConfigError on
    ``connect``.

    libpq gets the checked addresses, PyMySQL a socket (:func:`connect_pymysql`). Other drivers resolve names again themselves.
    """
    if engine.dialect.driver in ("psycopg", "psycopg2"):
        event.listen(engine, "do_connect", _connect_libpq)
    elif engine.dialect.driver != "pymysql" and engine.dialect.name not in ("sqlite", "duckdb"):
        event.listen(engine, "do_connect", lambda _, __, arguments, keywords: _check_names(engine, arguments, keywords))


def _connect_libpq(dialect: Any, record: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    host, hostaddr = str(keywords.get("host") or ""), str(keywords.get("hostaddr") or "")
    if not host and not hostaddr:
        return None  # a service of the host's own file, or the default socket
    try:
        pinned = pin_addresses(address_rules(), host, str(keywords.get("port") or "5432"), hostaddr)
    except OSError as e:
        raise dialect.loaded_dbapi.OperationalError(f"failed to resolve host '{host}': {e}") from e
    # Not into ``keywords``, which serve the next connection too: its names are resolved anew, as after a failover.
    return dialect.connect(*arguments, **(keywords | pinned))


def connect_pymysql(*arguments: Any, **keywords: Any) -> Any:
    """Calls ``pymysql.connect``, over a socket to a checked address; TLS still verifies the name."""
    import pymysql  # optional, and only loaded for MySQL

    if keywords.get("unix_socket"):
        return pymysql.connect(*arguments, **keywords)
    connection = pymysql.connect(*arguments, **keywords, defer_connect=True)
    source = None if connection.bind_address is None else (connection.bind_address, 0)
    try:
        link = address_rules().open_socket(connection.host, connection.port, connection.connect_timeout, source)
    except OSError as e:
        text = f"Can't connect to MySQL server on {connection.host!r} ({e})"
        raise pymysql.err.OperationalError(_CANNOT_CONNECT, text) from e
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.connect(link)
    return connection


def _check_names(engine: Engine, arguments: list[Any], keywords: dict[str, Any]) -> None:
    named = {engine.url.host, *(keywords.get(name) for name in ("host", "server", "address"))}
    for text in (*arguments, keywords.get("dsn")):
        named.update(_HOST_IN_DSN.findall(text) if isinstance(text, str) else ())
    for hosts in named:
        for host in hosts.split(",") if isinstance(hosts, str) and hosts else ():
            if not host.startswith("/"):
                address_rules().require(host.strip("[] "))
