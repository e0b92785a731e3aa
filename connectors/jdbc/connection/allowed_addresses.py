"""Connections to addresses that the worker allows (``connection.deny.addresses``)."""

from __future__ import annotations

import re
from typing import Any

from sqlalchemy import Engine, event

from connect.addresses import address_rules
from connectors.databases.postgresql.addresses import pin_addresses

_HOST_IN_DSN = re.compile(
    r"(?:\(\s*HOST\s*=\s*|(?:^|[;,])\s*(?:Server|HostName|Data Source|Address)\s*=\s*(?:tcp:)?|//)([^\s;,/:()\[\]]+)",
    re.IGNORECASE,
)


def check_addresses(engine: Engine) -> None:
    """Checks the hosts of each new connection, with the arguments that earlier listeners have set. Raises ConfigError on
    ``connect``.

    libpq gets the checked addresses, PyMySQL a socket (:mod:`connectors.databases.mysql.connections`). Other drivers resolve
    names again themselves.
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


def _check_names(engine: Engine, arguments: list[Any], keywords: dict[str, Any]) -> None:
    named = {engine.url.host, *(keywords.get(name) for name in ("host", "server", "address"))}
    for text in (*arguments, keywords.get("dsn")):
        named.update(_HOST_IN_DSN.findall(text) if isinstance(text, str) else ())
    for hosts in named:
        for host in hosts.split(",") if isinstance(hosts, str) and hosts else ():
            if not host.startswith("/"):
                address_rules().require(host.strip("[] "))
