"""A server that takes a connection and says nothing: the login ends after a while, where neither driver nor URL sees to it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event

LOGIN_TIMEOUT_S = 10
"""How long connecting and logging in may take, as with PostgreSQL's JDBC driver, unless the URL says otherwise."""


def bound_logins(engine: Engine) -> None:
    """Gives the drivers of PostgreSQL and MySQL a limit. PyMySQL's own ends with the TCP connection, which a stopped server, or
    a proxy without one behind it, still takes."""
    if engine.dialect.driver == "psycopg":
        event.listen(engine, "do_connect", _bound_psycopg)
    elif engine.dialect.driver == "pymysql":
        event.listen(engine, "do_connect", _connect_pymysql)


def _bound_psycopg(dialect: Any, record: Any, arguments: list[Any], keywords: dict[str, Any]) -> None:
    keywords.setdefault("connect_timeout", LOGIN_TIMEOUT_S)


def _connect_pymysql(dialect: Any, record: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    if keywords.get("read_timeout"):
        return None
    limit = float(keywords.get("connect_timeout") or LOGIN_TIMEOUT_S)
    connection = dialect.connect(*arguments, **(keywords | {"read_timeout": limit}))
    # From now on a statement may take as long as it needs.
    connection._read_timeout = connection._current_timeout = None
    connection._sock.settimeout(None)
    return connection
