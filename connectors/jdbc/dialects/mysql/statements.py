"""Statements on PyMySQL's own connection, beneath SQLAlchemy."""

from __future__ import annotations

from typing import Any, Final

from connectors.databases.mysql import protocol
from connectors.databases.mysql.connections import connect_pymysql
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.urls.connection_url import ConnectionTarget

_SIDE_TIMEOUT_S: Final = 10


def begin(session: DriverSession) -> Any:
    """Returns PyMySQL's connection within a transaction that SQLAlchemy knows about, so that it will end it."""
    if not session.connection.in_transaction():
        session.connection.begin()
    return session.driver


def execute(driver: Any, sql: bytes | str) -> int:
    """Runs one statement; returns the number of affected rows."""
    return int(driver.query(sql))


def kill_query(target: ConnectionTarget, driver: Any) -> None:
    """Cancels the running statement of a connection over a new one. Thread-safe. Raises PyMySQL's errors."""
    _, arguments = target.url.get_dialect()().create_connect_args(target.url)
    arguments.update(target.connect_args)
    arguments.update(connect_timeout=_SIDE_TIMEOUT_S, read_timeout=_SIDE_TIMEOUT_S, write_timeout=_SIDE_TIMEOUT_S)
    protocol.kill_query(connect_pymysql(**arguments), driver)
