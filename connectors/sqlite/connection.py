"""Connections to a database file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from connect.errors import ConnectError
from connectors.cdc.errors import ConnectionLostError, WaitInterrupted
from connectors.sqlite.errors import is_interruption, translate_error

Rows = list[tuple[Any, ...]]
_FetchedT = TypeVar("_FetchedT")
_FIRST_ROWS, _MOST_ROWS = 8, 512
"""Rows that are fetched at once, before their sizes are known, and at most."""

_CHECKED_OPERATIONS = 100_000
"""Operations of SQLite's virtual machine between two looks at ``is_interrupted``: some milliseconds."""
_OLDEST = (3, 37, 0)
"""The first version with PRAGMA table_list and STRICT tables."""


@dataclass(frozen=True, slots=True)
class InvalidText:
    """A text that is not UTF-8. No type accepts it."""

    data: bytes


def quote_identifier(name: str) -> str:
    """A name as SQL."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Which file is at a path: another one replaces it with another inode."""

    device: int
    inode: int


def read_file_identity(path: str) -> FileIdentity | None:
    """Returns the identity of the file; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return FileIdentity(found.st_dev, found.st_ino)


class SqliteConnection:
    """A connection in autocommit mode. Every method raises ConnectionLostError for what a later attempt may heal, WaitInterrupted
    once the task is asked to stop, and ConnectError for anything else. For one thread."""

    def __init__(self, path: str, busy_timeout_s: float, is_interrupted: Callable[[], bool] = lambda: False) -> None:
        """Opens an existing file. ``is_interrupted`` says whether running statements are to end."""
        self.path = path
        self._is_interrupted = is_interrupted
        self._busy_timeout_s = busy_timeout_s
        self.identity = read_file_identity(path)
        if self.identity is None:
            raise ConnectionLostError(f"database file {path} does not exist or is not accessible; check database.file")
        if not os.path.isfile(path):
            raise ConnectError(f"database file {path} is not a regular file; check database.file")
        if sqlite3.sqlite_version_info < _OLDEST:
            raise ConnectError(f"Python's SQLite is {sqlite3.sqlite_version}; the connector needs 3.37 or later")
        with self._translated("open the database"):
            # mode=rw: a missing file is an error, not a new database.
            uri = f"file:{quote(os.path.abspath(path))}?mode=rw"
            self._db = sqlite3.connect(uri, timeout=busy_timeout_s, isolation_level=None, uri=True, check_same_thread=False)
            # Besides ``interrupt``, which ends no statement that begins right after it.
            self._db.set_progress_handler(is_interrupted, _CHECKED_OPERATIONS)
        try:
            self.query("SELECT count(*) FROM sqlite_master", what="read the database")
        except BaseException:
            self.close()
            raise

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as e:
            if self._is_interrupted() and is_interruption(e):
                raise WaitInterrupted from e
            raise translate_error(e, self.path, what) from e

    def query(self, sql: str, parameters: Sequence[Any] = (), *, what: str = "read") -> Rows:
        """Runs a statement and returns its rows. A text that is not UTF-8 becomes an InvalidText."""
        return self._run_query(sql, parameters, what, sqlite3.Cursor.fetchall)

    def query_part(self, sql: str, parameters: Sequence[Any], max_bytes: int, *, what: str) -> tuple[Rows, bool]:
        """Runs a statement, and returns its first rows, until they have about ``max_bytes``; and whether these are all."""
        return self._run_query(sql, parameters, what, lambda cursor: _fetch_part(cursor, max_bytes))

    def _run_query(
        self, sql: str, parameters: Sequence[Any], what: str, fetch: Callable[[sqlite3.Cursor], _FetchedT]
    ) -> _FetchedT:
        with self._translated(what):
            try:
                return fetch(self._db.execute(sql, parameters))
            except sqlite3.OperationalError as e:
                if getattr(e, "sqlite_errorcode", None) is not None:
                    raise
            self._db.text_factory = _decode
            try:
                return fetch(self._db.execute(sql, parameters))
            finally:
                self._db.text_factory = str

    def value(self, sql: str, parameters: Sequence[Any] = (), *, what: str = "read") -> Any:
        """The first value of the first row; None without rows."""
        rows = self.query(sql, parameters, what=what)
        return rows[0][0] if rows else None

    def execute(self, sql: str, parameters: Sequence[Any] = (), *, what: str = "write") -> int:
        """Runs a statement; returns the number of rows that it changed."""
        with self._translated(what):
            return self._db.execute(sql, parameters).rowcount

    @property
    def in_transaction(self) -> bool:
        return self._db.in_transaction

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A read transaction: all queries in it see the database as of the first one."""
        self.begin_read()
        try:
            yield
        finally:
            self.end_read()

    def begin_read(self) -> None:
        """Begins a read transaction."""
        self.execute("BEGIN", what="begin to read")

    def end_read(self) -> None:
        """Ends a read transaction, if there is one."""
        if self._db.in_transaction:
            self.execute("ROLLBACK", what="end reading")

    @contextmanager
    def waiting_for_locks(self, seconds: float) -> Iterator[None]:
        """Waits for locks that others hold no longer than this."""
        self._set_busy_timeout(seconds)
        try:
            yield
        finally:
            self._set_busy_timeout(self._busy_timeout_s)

    def _set_busy_timeout(self, seconds: float) -> None:
        self.query(f"PRAGMA busy_timeout = {round(seconds * 1000)}")

    @contextmanager
    def writing(self, what: str) -> Iterator[None]:
        """A write transaction, which holds the lock for writing from its beginning. It is rolled back after an error."""
        self.execute("BEGIN IMMEDIATE", what=what)
        try:
            yield
            self.execute("COMMIT", what=what)
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def journal_mode(self) -> str:
        """The journal mode, in lower case."""
        return str(self.value("PRAGMA journal_mode")).lower()

    def data_version(self) -> int:
        """A number that changes when another connection has committed."""
        return int(self.value("PRAGMA data_version"))

    def schema_version(self) -> int:
        """A number that changes with the schema."""
        return int(self.value("PRAGMA schema_version"))

    def interrupt(self) -> None:
        """Ends a running statement. Callable from any thread."""
        with suppress(sqlite3.ProgrammingError):  # it is closed
            self._db.interrupt()

    def close(self) -> None:
        self._db.close()


def _fetch_part(cursor: sqlite3.Cursor, max_bytes: int) -> tuple[Rows, bool]:
    found: Rows = []
    size, count = 0, _FIRST_ROWS
    while size < max_bytes:
        part = cursor.fetchmany(count)
        found += part
        if len(part) < count:
            return found, True
        size += sum(len(value) for row in part for value in row if type(value) in (str, bytes))
        fitting = (max_bytes - size) * len(found) // max(size, 1)
        count = max(1, min(fitting, 2 * count, _MOST_ROWS))
    cursor.close()
    return found, False


def _decode(data: bytes) -> str | InvalidText:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return InvalidText(data)
