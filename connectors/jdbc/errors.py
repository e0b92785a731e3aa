"""Database errors, classified by what can be done about them. A message quotes the database's own error, never a password."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from connect.errors import ConnectError, DataError, RetriableError, UnreachableError


class ErrorKind(Enum):
    """The cause of a driver's error. A dialect classifies it by SQLSTATE or error number, never by a text that may change."""

    CONNECTION = "connection"
    """The connection is broken, or the server is shutting down: a new connection may work."""
    TRANSIENT = "transient"
    """Deadlock, lock timeout, serialization failure, too many connections: the same statement may succeed later."""
    ROW = "row"
    """The values of a row: a constraint, or a value that is too long, out of range, or malformed."""
    AUTHENTICATION = "authentication"
    """The server does not know the user, the password, or the database."""
    TIMEOUT = "timeout"
    """The statement took longer than statement.timeout.ms."""
    TABLE = "table"
    """A table or column does not exist (any more): the cached description is outdated."""
    STATEMENT = "statement"
    """Anything else: missing privileges, syntax. The same statement will not succeed."""


class DatabaseLostError(RetriableError):
    """The connection broke, or the database asks to retry. Uncommitted changes are lost."""


class RowRejectedError(DataError):
    """The database rejected values of one or more rows. The statement had no effect."""


class TableChangedError(ConnectError):
    """A table or column differs from its cached description. Describe it again; fail if nothing changed."""


class StatementError(ConnectError):
    """The database rejected a statement whatever its values, or the statement timed out."""


class AuthenticationError(ConnectError):
    """The database does not let this user in."""


class DatabaseUnreachableError(UnreachableError):
    """No connection within the configured number of attempts."""


_CLASSES: dict[ErrorKind, type[ConnectError]] = {
    ErrorKind.CONNECTION: DatabaseLostError,
    ErrorKind.TRANSIENT: DatabaseLostError,
    ErrorKind.ROW: RowRejectedError,
    ErrorKind.AUTHENTICATION: AuthenticationError,
    ErrorKind.TIMEOUT: StatementError,
    ErrorKind.TABLE: TableChangedError,
    ErrorKind.STATEMENT: StatementError,
}


def build_error(kind: ErrorKind, doing: str, label: str, message: str) -> ConnectError:
    """Builds the error for a failed ``doing`` ("reading public.orders"). ``label`` names the database; ``message`` is its own."""
    return _CLASSES[kind](f"{doing} in {label} failed: {message}")


_CODE = re.compile(r" \((?:SQLSTATE \w{5}|error \d+)\)")


def redact_error(error: ConnectError) -> ConnectError:
    """The error of a masked statement: without its causes and without the database's message, which may quote the statement."""
    if isinstance(error, RowRejectedError | TableChangedError | StatementError):
        doing, _, message = error.message.partition(" failed: ")
        code = _CODE.search(message)
        return type(error)(
            f"{doing} failed{code[0] if code else ''}; the database's message is omitted because it may quote the masked query; "
            "run the query in the database's own client to see it"
        )
    error.__cause__ = None
    error.__suppress_context__ = True
    return error


# --- hints for errors whose message does not say what to do

READ_ONLY: Final = "the server or this database is read-only (a standby, or configured so): point connection.url to the primary"
TOO_MANY: Final = "the server or this user has no connection left: lower tasks.max (each task uses one), or raise the limit"
LOCKED: Final = "another session holds a lock on it: look there for a transaction that was left open"
FULL: Final = "the disk of the database is full: free some space, then restart the task if it has failed"
TOO_WIDE: Final = "omit fields (fields.whitelist, field.exclude.list, ReplaceField), or spread them over several tables"
NO_UNIQUE_KEY: Final = (
    "insert.mode=upsert needs a primary key or unique index over exactly the columns of the key; create one: CREATE UNIQUE INDEX"
)


def with_hint(message: str, hint: str | None) -> str:
    """Appends a hint, if there is one, to the database's message."""
    return f"{message}; {hint}" if hint else message
