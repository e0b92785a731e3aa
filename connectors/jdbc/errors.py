"""What went wrong in a database, by what can be done about it. Messages hold the database's own words, never a password."""

from __future__ import annotations

import re
from enum import Enum

from connect.errors import ConnectError, DataError, RetriableError, UnreachableError


class Blame(Enum):
    """What a driver's error is about, as a dialect tells (by SQLSTATE or error number, never by a text that may change)."""

    CONNECTION = "connection"
    """It is broken, or the server is going down: the next one may work."""
    MOMENT = "moment"
    """Deadlock, lock timeout, serialization failure, too many connections: the same may succeed later."""
    ROW = "row"
    """The values of a row: a constraint, a value that is too long, out of range or of the wrong form."""
    LOGIN = "login"
    """The server does not know the user, the password or the database."""
    TIMEOUT = "timeout"
    """The statement was ended because it took too long (statement.timeout.ms)."""
    TABLE = "table"
    """A table or column that is not there (any more): what was known of it is out of date."""
    STATEMENT = "statement"
    """Anything else: rights, syntax. The same statement will not succeed."""


class DatabaseLostError(RetriableError):
    """The connection broke, or the database asks to try again. What was not committed did not happen."""


class RowRefusedError(DataError):
    """The database refuses the values of one or more rows of a statement. Nothing of the statement happened."""


class TableChangedError(ConnectError):
    """A table or column is not (or no more) what was known of it. Look again, then fail if nothing differs."""


class StatementError(ConnectError):
    """The database refuses a statement whatever its values are, or it took longer than allowed."""


class LoginError(ConnectError):
    """The database does not let this user in."""


class DatabaseUnreachableError(UnreachableError):
    """No connection within the attempts that the configuration allows."""


_CLASSES: dict[Blame, type[ConnectError]] = {
    Blame.CONNECTION: DatabaseLostError,
    Blame.MOMENT: DatabaseLostError,
    Blame.ROW: RowRefusedError,
    Blame.LOGIN: LoginError,
    Blame.TIMEOUT: StatementError,
    Blame.TABLE: TableChangedError,
    Blame.STATEMENT: StatementError,
}


def failure(blame: Blame, doing: str, label: str, words: str) -> ConnectError:
    """The error for a failed ``doing`` ("reading public.orders"); ``label`` names the database, ``words`` are its own."""
    return _CLASSES[blame](f"{doing} in {label} failed: {words}")


_CODE = re.compile(r" \((?:SQLSTATE \w{5}|error \d+)\)")


def without_words(error: ConnectError) -> ConnectError:
    """The failure of a statement that may not be shown: without its causes, and without the database's words, which quote it."""
    if isinstance(error, RowRefusedError | TableChangedError | StatementError):
        doing, _, words = error.message.partition(" failed: ")
        code = _CODE.search(words)
        return type(error)(
            f"{doing} failed{code[0] if code else ''}; the database's words may quote what is masked, so they are left out: its "
            "own client shows them"
        )
    error.__cause__ = None
    error.__suppress_context__ = True
    return error
