"""Connect timeouts for drivers that would wait forever for a server that accepts a connection and then stays silent."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, event

from connectors.databases.mysql.connections import connect_pymysql

CONNECT_TIMEOUT_S = 10
"""How long connecting and authenticating may take unless the URL sets it; the same as PostgreSQL's JDBC driver."""


def limit_connect_time(engine: Engine) -> None:
    """Limits how long PostgreSQL's and MySQL's drivers take to connect. PyMySQL's own limit covers only the TCP connection,
    which a stopped server, or a proxy without a server behind it, still accepts."""
    if engine.dialect.driver == "psycopg":
        event.listen(engine, "do_connect", _limit_psycopg)
    elif engine.dialect.driver == "pymysql":
        event.listen(engine, "do_connect", _connect_pymysql)


def _limit_psycopg(dialect: Any, record: Any, arguments: list[Any], keywords: dict[str, Any]) -> None:
    keywords.setdefault("connect_timeout", CONNECT_TIMEOUT_S)


def _connect_pymysql(dialect: Any, record: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    if keywords.get("read_timeout"):
        return connect_pymysql(*arguments, **keywords)
    limit = float(keywords.get("connect_timeout") or CONNECT_TIMEOUT_S)
    connection = connect_pymysql(*arguments, **(keywords | {"read_timeout": limit}))
    # Statements have no limit.
    connection._read_timeout = connection._current_timeout = None
    connection._sock.settimeout(None)
    return connection
