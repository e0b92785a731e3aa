"""Errors of SQLite, as the errors that decide what the task does next."""

from __future__ import annotations

import sqlite3
from typing import Final

from connect.errors import ConnectError
from connectors.cdc.errors import ConnectionLostError, PositionLostError

_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_TEMPORARY: Final = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_FULL})
_PRIMARY_CODE: Final = 0xFF
"""The bits of an extended result code that are the primary one."""


class DatabaseLockedError(ConnectionLostError):
    """Another process has held a lock on the file for longer than the busy timeout."""


class DatabaseReplacedError(PositionLostError):
    """The file at the path is not the database that the stored offset belongs to, or lacks its changes."""


class TriggersLostError(ConnectError):
    """A table was without triggers for some time. Changes in that time are unknown."""


def is_interruption(error: sqlite3.Error) -> bool:
    """Whether somebody has ended the statement."""
    return _has_code(error) and error.sqlite_errorcode & _PRIMARY_CODE == sqlite3.SQLITE_INTERRUPT


def translate_error(error: sqlite3.Error, path: str, what: str) -> ConnectError:
    """The error to raise for an error of SQLite; ``what`` is what the connector was doing."""
    code = error.sqlite_errorcode & _PRIMARY_CODE if _has_code(error) else None
    text = f"cannot {what} in {path}: {error}"
    if code in _BUSY:
        return DatabaseLockedError(
            f"{text}; another process holds a lock for longer than database.busy.timeout.ms: look for a transaction that stays "
            "open"
        )
    if code == sqlite3.SQLITE_NOTADB:
        return ConnectError(f"{path} is not a SQLite database, or it is encrypted, which this connector does not support")
    if code == sqlite3.SQLITE_CORRUPT:
        return ConnectError(f"{text}; check the file with PRAGMA integrity_check, and restore it from a backup if it is damaged")
    if code == sqlite3.SQLITE_READONLY:
        return ConnectError(
            f"{text}; the connector writes triggers and its change table: give its user permission to write the file and its "
            "directory"
        )
    if code in _TEMPORARY:
        return ConnectionLostError(f"{text}; check that file and directory exist, are writable, and have space")
    return ConnectError(text)


def _has_code(error: sqlite3.Error) -> bool:
    # Errors of the module itself, such as a text that is not UTF-8, have no code.
    return getattr(error, "sqlite_errorcode", None) is not None
