"""Connections to one database: opened with retries, pooled, and closed.

All access goes through a :class:`Session`, which turns driver errors into the classes of :mod:`connectors.jdbc.errors`.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy
from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError

from connect.errors import ConfigError, ConnectError
from connectors.jdbc.connection.allowed_addresses import check_addresses
from connectors.jdbc.connection.allowed_paths import confine_to_allowed_paths
from connectors.jdbc.connection.connect_timeout import limit_connect_time
from connectors.jdbc.connection.session import DriverSession, translate_error
from connectors.jdbc.database_files import is_file_database
from connectors.jdbc.dialects.dialect import Dialect, create_dialect
from connectors.jdbc.errors import AuthenticationError, DatabaseUnreachableError
from connectors.jdbc.urls.connection_url import ConnectionTarget, require_driver

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How to reach a database. Of the target, only the label may be shown."""

    target: ConnectionTarget
    quotes: bool = True
    attempts: int = 3
    backoff_ms: int = 10_000
    statement_timeout_ms: int = 0
    isolation: str | None = None
    """SQLAlchemy's name of an isolation level, or None for the database's default."""
    pool_size: int = 2
    """How many connections may be open at once."""
    reads_only: bool = False
    """Whether nothing is ever written, as in a source."""


class StopRequested(Exception):
    """The task was asked to stop while it waited to connect."""


class Session(DriverSession):
    """A session with its whole dialect. Get one from :meth:`Database.session`."""

    dialect: Dialect

    def __init__(self, database: Database, connection: sqlalchemy.Connection) -> None:
        super().__init__(connection, database.dialect, database.label)


class Database:
    """A pool of connections to one database. Creating it does not connect. Thread-safe; its sessions are not."""

    def __init__(self, settings: ConnectionSettings, stop: threading.Event | None = None) -> None:
        """``stop`` interrupts waits between attempts. Raises ConfigError if the URL's dialect or driver is not installed."""
        self._settings = settings
        self._stop = stop or threading.Event()
        self.label = settings.target.label
        require_driver(settings.target)
        self.dialect = create_dialect(settings.target, quotes=settings.quotes)
        try:
            self._engine = sqlalchemy.create_engine(
                settings.target.url,
                connect_args=dict(settings.target.connect_args),
                pool_pre_ping=True,
                hide_parameters=True,
                **self._pool_options(),
            )
        except (NoSuchModuleError, ImportError, SQLAlchemyError) as e:
            raise ConfigError(f"SQLAlchemy cannot be used with {self.label}: {e}", key="connection.url") from e
        confine_to_allowed_paths(self._engine)
        limit_connect_time(self._engine)
        check_addresses(self._engine)
        self.dialect.attach(self._engine, settings.statement_timeout_ms)
        if settings.reads_only:
            self.dialect.attach_reader(self._engine)
        for notice in settings.target.notices:
            _warn_once(self.label, notice)
        statements = (*settings.target.on_connect, *self.dialect.session_statements(settings.statement_timeout_ms))
        if statements:
            sqlalchemy.event.listen(self._engine, "connect", lambda connection, _: _run_all(connection, statements))

    def _pool_options(self) -> dict[str, Any]:
        # An in-memory database is one connection, shared by all threads.
        url = self._settings.target.url
        in_memory = url.database in (None, "", ":memory:") or url.query.get("mode") == "memory"
        if in_memory and is_file_database(url):
            return {"poolclass": sqlalchemy.StaticPool}
        if self._settings.reads_only and self.dialect.releases_when_idle:
            return {"poolclass": sqlalchemy.NullPool}
        size = self._settings.pool_size
        return {"poolclass": sqlalchemy.QueuePool, "pool_size": size, "max_overflow": 0, "pool_timeout": 30}

    def session(self) -> Session:
        """Opens a session, with as many attempts as the settings allow. Raises AuthenticationError at once if the server rejects
        the user, DatabaseUnreachableError after the last attempt, and StopRequested if asked to stop while waiting."""
        attempts = max(1, self._settings.attempts)
        for attempt in range(1, attempts + 1):
            try:
                return self._open()
            except (ConfigError, AuthenticationError):
                raise
            except ConnectError as e:
                if attempt == attempts:
                    raise DatabaseUnreachableError(
                        f"{self.label} cannot be reached after {attempts} attempts ({e.message}); check connection.url and that "
                        "the server is running and accepts connections from here"
                    ) from e
                log.warning(
                    "%s (attempt %d of %d; retrying in %d ms)", e.message, attempt, attempts, self._settings.backoff_ms
                )  # fmt: skip
            if self._stop.wait(self._settings.backoff_ms / 1000):
                raise StopRequested
        raise AssertionError("unreachable")

    def _open(self) -> Session:
        try:
            # Drivers look for parameter marks in a statement only if they get parameters.
            connection = self._engine.connect().execution_options(no_parameters=True)
            if self._settings.isolation is not None:
                connection = connection.execution_options(isolation_level=self._settings.isolation)
        except ConfigError:
            raise
        except Exception as e:
            raise translate_error(self.dialect, self.label, e, "connecting") from e
        return Session(self, connection)

    def close(self) -> None:
        """Closes all idle connections. The database can be used again afterwards."""
        self._engine.dispose()


@functools.cache
def _warn_once(label: str, notice: str) -> None:
    log.warning("%s: %s", label, notice)


def _run_all(connection: Any, statements: Sequence[str]) -> None:
    cursor = connection.cursor()
    try:
        for statement in statements:
            cursor.execute(statement)
    finally:
        cursor.close()
