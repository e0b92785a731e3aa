"""Connections to one database: made, watched, mended and closed.

All access goes through a :class:`Session`, which turns the errors of drivers into the classes of :mod:`connectors.jdbc.errors`.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from connect.errors import ConfigError, ConnectError
from connectors.jdbc.connection.connect_timeout import bound_logins
from connectors.jdbc.dialects.dialect import Dialect
from connectors.jdbc.dialects.registry import dialect_of
from connectors.jdbc.errors import Blame, DatabaseLostError, DatabaseUnreachableError, LoginError, failure
from connectors.jdbc.sql import Sql
from connectors.jdbc.urls.connection_url import Target, require_driver

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How to reach a database. Of the target only the label may be shown."""

    target: Target
    quotes: bool = True
    attempts: int = 3
    backoff_ms: int = 10_000
    statement_timeout_ms: int = 0
    isolation: str | None = None
    """SQLAlchemy's name of an isolation level, or None for the database's own."""
    pool_size: int = 2
    """How many connections may be open at once."""
    reads_only: bool = False
    """Whether nothing is ever written: a source's."""


class Interrupted(Exception):
    """The task was asked to stop while it waited."""


class Session:
    """One connection, in use by one thread; a transaction begins with the first statement. Get one from
    :meth:`Database.session`."""

    def __init__(self, database: Database, connection: sqlalchemy.Connection) -> None:
        self._database = database
        self.connection = connection
        self.dialect: Dialect = database.dialect
        self.label = database.label

    @property
    def driver(self) -> Any:
        """The driver's own connection, for its fastest ways; use it inside of :meth:`guarded`."""
        return self.connection.connection.dbapi_connection

    def query(self, sql: Sql, doing: str) -> list[tuple[Any, ...]]:
        """All rows of a query. ``doing`` is for messages: "looking up the tables"."""
        with self.guarded(doing):
            return [tuple(row) for row in self._run(sql)]

    def execute(self, sql: Sql, doing: str) -> int:
        """Runs a statement; returns the number of rows that it changed, -1 where the driver does not tell."""
        with self.guarded(doing):
            return int(self._run(sql).rowcount)

    def execute_many(self, text: str, rows: Sequence[Sequence[Any]], doing: str) -> None:
        """Runs one statement, written in the driver's paramstyle, for each row."""
        if rows:
            with self.guarded(doing):
                self.connection.exec_driver_sql(text, [tuple(row) for row in rows])

    def _run(self, sql: Sql) -> sqlalchemy.CursorResult[Any]:
        text, values = sql.render(self.dialect.paramstyle)
        if values is None:
            return self.connection.exec_driver_sql(text)
        return self.connection.exec_driver_sql(text, values if isinstance(values, dict) else tuple(values))

    def commit(self) -> None:
        with self.guarded("committing"):
            self.connection.commit()

    def rollback(self) -> None:
        """Ends the transaction; a connection that is broken is thrown away. Raises nothing."""
        try:
            self.connection.rollback()
        except Exception as e:
            log.debug("%s: a rollback failed", self.label, exc_info=e)
            self.drop()

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """What is done inside happens whole or, when it raises, not at all; the transaction goes on."""
        with self.guarded("setting a savepoint"):
            point = self.connection.begin_nested()
        try:
            yield
        except DatabaseLostError:
            raise  # the transaction is gone with its savepoints, or has to go
        except BaseException:
            with self.guarded("going back to a savepoint"):
                point.rollback()
            raise
        with self.guarded("releasing a savepoint"):
            point.commit()

    @contextlib.contextmanager
    def guarded(self, doing: str) -> Iterator[None]:
        """Errors of the driver inside become the classes of :mod:`connectors.jdbc.errors`."""
        try:
            yield
        except ConnectError:
            raise
        except Exception as e:
            error = self._database.failure_of(e, doing)
            if isinstance(error, DatabaseLostError):
                self._drop_if_broken(e)
            raise error from e

    def _drop_if_broken(self, error: BaseException) -> None:
        original = getattr(error, "orig", None) or error
        if self.dialect.blame(original) is Blame.CONNECTION:
            self.drop()

    def drop(self) -> None:
        """Throws the connection away instead of giving it back: it is broken or in an unknown state."""
        with contextlib.suppress(Exception):
            self.connection.invalidate()

    def cancel(self) -> None:
        """Ends the statement that runs now, from another thread, where the driver can; it fails then."""
        with contextlib.suppress(Exception):
            self.dialect.cancel(self.driver)

    def close(self) -> None:
        """Gives the connection back; what was not committed is rolled back. May be called twice."""
        with contextlib.suppress(Exception):
            self.connection.close()


class Database:
    """A pool of connections to one database. Made without connecting. Safe from any thread; sessions are not."""

    def __init__(self, settings: ConnectionSettings, stop: threading.Event | None = None) -> None:
        """``stop`` ends waits between attempts. Raises ConfigError when the URL's dialect or driver is not there."""
        self._settings = settings
        self._stop = stop or threading.Event()
        self.label = settings.target.label
        require_driver(settings.target)
        self.dialect = dialect_of(settings.target, quotes=settings.quotes)
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
        bound_logins(self._engine)
        self.dialect.attach(self._engine, settings.statement_timeout_ms)
        if settings.reads_only:
            self.dialect.attach_reader(self._engine)
        for notice in settings.target.notices:
            _tell_once(self.label, notice)
        statements = (*settings.target.on_connect, *self.dialect.session_statements(settings.statement_timeout_ms))
        if statements:
            sqlalchemy.event.listen(self._engine, "connect", lambda connection, _: _run_all(connection, statements))

    def _pool_options(self) -> dict[str, Any]:
        # One database in memory is one connection, whichever thread asks.
        url = self._settings.target.url
        in_memory = url.database in (None, "", ":memory:") or url.query.get("mode") == "memory"
        if in_memory and url.get_backend_name() in ("sqlite", "duckdb"):
            return {"poolclass": sqlalchemy.StaticPool}
        if self._settings.reads_only and self.dialect.releases_when_idle:
            return {"poolclass": sqlalchemy.NullPool}
        size = self._settings.pool_size
        return {"poolclass": sqlalchemy.QueuePool, "pool_size": size, "max_overflow": 0, "pool_timeout": 30}

    def session(self) -> Session:
        """A session, with as many attempts as the settings say. Raises LoginError at once where the server refuses the login,
        DatabaseUnreachableError after the last attempt, Interrupted when asked to stop while waiting."""
        attempts = max(1, self._settings.attempts)
        for attempt in range(1, attempts + 1):
            try:
                return self._open()
            except (ConfigError, LoginError):
                raise
            except ConnectError as e:
                if attempt == attempts:
                    raise DatabaseUnreachableError(
                        f"{self.label} cannot be reached after {attempts} attempts ({e.message}); check connection.url and that "
                        "the server runs and takes connections from here"
                    ) from e
                log.warning("%s (attempt %d of %d; the next in %d ms)", e.message, attempt, attempts, self._settings.backoff_ms)
            if self._stop.wait(self._settings.backoff_ms / 1000):
                raise Interrupted
        raise AssertionError("unreachable")

    def _open(self) -> Session:
        try:
            # Drivers look for marks of parameters in a text only when they are given some.
            connection = self._engine.connect().execution_options(no_parameters=True)
            if self._settings.isolation is not None:
                connection = connection.execution_options(isolation_level=self._settings.isolation)
        except Exception as e:
            raise self.failure_of(e, "connecting") from e
        return Session(self, connection)

    def failure_of(self, error: BaseException, doing: str) -> ConnectError:
        """The product's error for one of a driver or of SQLAlchemy."""
        if isinstance(error, PoolTimeoutError):
            return failure(Blame.MOMENT, doing, self.label, "all connections of the pool are in use")
        original = error.orig if isinstance(error, DBAPIError) else error
        if original is None:
            original = error
        broken = isinstance(error, DBAPIError) and error.connection_invalidated
        blame = Blame.CONNECTION if broken else self.dialect.blame(original)
        return failure(blame, doing, self.label, self.dialect.words(original))

    def close(self) -> None:
        """Closes all connections that are not in use. Afterwards it can be used again."""
        self._engine.dispose()


@functools.cache
def _tell_once(label: str, notice: str) -> None:
    log.warning("%s: %s", label, notice)


def _run_all(connection: Any, statements: Sequence[str]) -> None:
    cursor = connection.cursor()
    try:
        for statement in statements:
            cursor.execute(statement)
    finally:
        cursor.close()
