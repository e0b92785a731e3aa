"""The task's connections to the file."""

from __future__ import annotations

from collections.abc import Callable

from connect.paths import path_rules
from connectors.cdc.errors import SourceChangedError
from connectors.cdc.interrupt import Interrupt
from connectors.sqlite.config import SqliteConfig
from connectors.sqlite.connection import SqliteConnection, read_file_identity


class StatementInterrupt(Interrupt):
    """Ends waits, and running statements."""

    def __init__(self, end_statements: Callable[[], None]) -> None:
        super().__init__()
        self._end_statements = end_statements

    def set(self) -> None:
        super().set()
        self._end_statements()


class DatabaseFile:
    """Opens connections on demand: one that reads, perhaps in a long transaction, and one that writes."""

    def __init__(self, settings: SqliteConfig) -> None:
        self.interrupt = StatementInterrupt(self._end_statements)
        self.is_wal = False
        """Whether readers and writers do not wait for one another, as of the opening."""
        self._path = settings.file
        self._busy_timeout_s = settings.busy_timeout_s
        self._reader: SqliteConnection | None = None
        self._writer: SqliteConnection | None = None

    def reader(self) -> SqliteConnection:
        if self._reader is None:
            self._reader = self._open()
            self.is_wal = self._reader.journal_mode() == "wal"
        return self._reader

    def writer(self) -> SqliteConnection:
        if self._writer is None:
            self._writer = self._open()
        return self._writer

    def _open(self) -> SqliteConnection:
        path_rules().require(self._path, "database.file")  # a link may have changed
        return SqliteConnection(self._path, self._busy_timeout_s, lambda: self.interrupt.is_set)

    def open_uninterrupted(self) -> SqliteConnection:
        """Opens a connection for what is left to do after the interruption; the caller closes it."""
        path_rules().require(self._path, "database.file")
        return SqliteConnection(self._path, self._busy_timeout_s)

    def _end_statements(self) -> None:
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.interrupt()

    def check_file(self) -> None:
        """Raises SourceChangedError if another file is at the path now: connections still have the old one."""
        for connection in (self._reader, self._writer):
            if connection is not None and read_file_identity(self._path) != connection.identity:
                raise SourceChangedError(f"database file {self._path} was replaced or removed; opening it again")

    @property
    def is_reading(self) -> bool:
        """Whether a transaction of the connection that reads is open."""
        return self._reader is not None and self._reader.in_transaction

    def close(self) -> None:
        for connection in (self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._reader = self._writer = None
