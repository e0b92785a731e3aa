"""A session: one connection in use by one thread. It knows no dialect beyond the few methods of :class:`SqlDialect`."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import sqlalchemy
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from connect.errors import ConnectError
from connectors.jdbc.errors import DatabaseLostError, ErrorKind, build_error
from connectors.jdbc.sql import Sql
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)


class SqlDialect(Protocol):
    """What a session and the code that works through one need of a dialect: see
    :class:`connectors.jdbc.dialects.dialect.Dialect`."""

    @property
    def paramstyle(self) -> str: ...

    def quote(self, name: str) -> str: ...

    def table_ref(self, table: TableName) -> str: ...

    def classify(self, error: BaseException) -> ErrorKind: ...

    def error_message(self, error: BaseException) -> str: ...

    def cancel(self, driver_connection: Any) -> None: ...


class DriverSession:
    """One connection, in use by one thread; the first statement starts a transaction. Driver errors become the classes of
    :mod:`connectors.jdbc.errors`."""

    dialect: SqlDialect

    def __init__(self, connection: sqlalchemy.Connection, dialect: SqlDialect, label: str) -> None:
        """``label`` names the database in messages."""
        self.connection = connection
        self.dialect = dialect
        self.label = label

    @property
    def driver(self) -> Any:
        """The driver's own connection, for its fast paths; use it inside :meth:`guarded`."""
        return self.connection.connection.dbapi_connection

    def begin(self) -> None:
        """Starts a transaction unless one is running, for statements that bypass SQLAlchemy."""
        if not self.connection.in_transaction():
            with self.guarded("beginning a transaction"):
                self.connection.begin()

    def query(self, sql: Sql, doing: str) -> list[tuple[Any, ...]]:
        """Returns all rows of a query. ``doing`` is for messages: "looking up the tables"."""
        with self.guarded(doing):
            return [tuple(row) for row in self._run(sql)]

    def execute(self, sql: Sql, doing: str) -> int:
        """Runs a statement; returns the number of rows that it changed, -1 if the driver does not report it."""
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
        """Rolls back the transaction; drops a broken connection. Raises nothing."""
        try:
            self.connection.rollback()
        except Exception as e:
            log.debug("%s: rollback failed", self.label, exc_info=e)
            self.drop()

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """Rolls back the statements of the block if it raises; the transaction continues either way."""
        with self.guarded("setting a savepoint"):
            point = self.connection.begin_nested()
        try:
            yield
        except DatabaseLostError:
            raise  # the transaction and its savepoints are lost, or must be rolled back
        except BaseException:
            with self.guarded("rolling back to a savepoint"):
                point.rollback()
            raise
        with self.guarded("releasing a savepoint"):
            point.commit()

    @contextlib.contextmanager
    def guarded(self, doing: str) -> Iterator[None]:
        """Translates driver errors of the block into the classes of :mod:`connectors.jdbc.errors`."""
        try:
            yield
        except ConnectError:
            raise
        except Exception as e:
            error = translate_error(self.dialect, self.label, e, doing)
            if isinstance(error, DatabaseLostError):
                self._drop_if_broken(e)
            raise error from e

    def _drop_if_broken(self, error: BaseException) -> None:
        original = getattr(error, "orig", None) or error
        if self.dialect.classify(original) is ErrorKind.CONNECTION:
            self.drop()

    def drop(self) -> None:
        """Discards the connection instead of returning it to the pool: it is broken or in an unknown state."""
        with contextlib.suppress(Exception):
            self.connection.invalidate()

    def cancel(self) -> None:
        """Cancels the running statement, which then fails, if the driver can do that. Called from another thread."""
        with contextlib.suppress(Exception):
            self.dialect.cancel(self.driver)

    def close(self) -> None:
        """Returns the connection to the pool and rolls back uncommitted changes. May be called twice."""
        with contextlib.suppress(Exception):
            self.connection.close()


def translate_error(dialect: SqlDialect, label: str, error: BaseException, doing: str) -> ConnectError:
    """Translates an error of a driver or of SQLAlchemy into one of :mod:`connectors.jdbc.errors`."""
    if isinstance(error, PoolTimeoutError):
        return build_error(ErrorKind.TRANSIENT, doing, label, "all connections of the pool are in use")
    original = error.orig if isinstance(error, DBAPIError) else error
    if original is None:
        original = error
    broken = isinstance(error, DBAPIError) and error.connection_invalidated
    kind = ErrorKind.CONNECTION if broken else dialect.classify(original)
    return build_error(kind, doing, label, dialect.error_message(original))
