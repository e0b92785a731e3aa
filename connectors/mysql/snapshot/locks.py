"""Locks that hold writes up while a snapshot begins (``snapshot.locking.mode``).

A connection of its own has the locks, because UNLOCK TABLES ends the transaction of a connection that has locked tables.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from typing import Final

from connect.errors import ConfigError, ConnectError
from connectors.cdc.errors import QueryTimeoutError
from connectors.mysql.config import MySqlConfig
from connectors.mysql.connection import MySqlConnection, quote_name
from connectors.mysql.errors import MySqlServerError
from connectors.mysql.schema.model import TableId
from connectors.mysql.sessions import MySqlSessions

log = logging.getLogger(__name__)

_LOCK_WAIT_TIMEOUT: Final = 1205
_SYNTAX_ERRORS: Final = (1064, 1235)
_NO_TABLE: Final = 1146
_GRACE_S: Final = 5.0
"""How much later than the server's timeout the client gives up."""
_BACKUP: Final = ("minimal_percona", "minimal_percona_no_table_locks")


class SnapshotLock:
    """Takes and releases the locks. Not thread-safe."""

    def __init__(self, sessions: MySqlSessions, settings: MySqlConfig) -> None:
        self._sessions = sessions
        self._mode = settings.snapshot.locking
        self._timeout_s = settings.snapshot.lock_timeout_s
        self._connection: MySqlConnection | None = None
        self.stops_commits = False
        """Whether captured tables cannot change now."""

    @property
    def is_allowed(self) -> bool:
        """Whether the mode has locks."""
        return self._mode != "none"

    @property
    def is_backup_lock(self) -> bool:
        """Whether the mode has Percona's backup lock, which stops DDL, but no commits."""
        return self._mode in _BACKUP

    @property
    def is_held_to_the_end(self) -> bool:
        """Whether rows must not change until all are read."""
        return self._mode == "extended"

    def acquire(self, tables: Iterable[TableId]) -> None:
        """Locks: all tables, or those that are captured if the user has no privilege for the former.

        Raises ConfigError without the privilege for either, and ConnectError after ``snapshot.lock.timeout.ms``.
        """
        connection = self._connection = self._sessions.open()
        connection.execute(f"SET SESSION lock_wait_timeout = {max(1, math.ceil(self._timeout_s)):d}")
        if self.is_backup_lock:
            self._acquire_backup_lock(connection)
            return
        try:
            self._lock(connection, "FLUSH TABLES WITH READ LOCK")
        except ConfigError as e:
            log.info("no global read lock for the snapshot, so the captured tables are locked one by one: %s", e.message)
            self._acquire_table_locks(connection, tables)
        self.stops_commits = True

    def _acquire_backup_lock(self, connection: MySqlConnection) -> None:
        try:
            self._lock(connection, "LOCK TABLES FOR BACKUP")
        except MySqlServerError as e:
            if e.number not in _SYNTAX_ERRORS:
                raise
            raise ConfigError(
                f"{connection.address.where} has no LOCK TABLES FOR BACKUP, which only Percona Server has: set "
                "snapshot.locking.mode=minimal",
                key="snapshot.locking.mode",
            ) from e

    def _acquire_table_locks(self, connection: MySqlConnection, tables: Iterable[TableId]) -> None:
        locked = list(tables)
        while locked:
            try:
                self._lock(connection, "LOCK TABLES " + ", ".join(f"{quote_name(*id)} READ" for id in locked))
                return
            except ConfigError as e:
                raise ConfigError(
                    f"a snapshot needs a lock: GRANT RELOAD ON *.*, or GRANT LOCK TABLES, SELECT ON <database>.* TO "
                    f"'{connection.address.user}'; snapshot.locking.mode=none does without. {e.message}",
                    key="snapshot.locking.mode",
                ) from e
            except MySqlServerError as e:
                # Dropped since the list was read. The message has the name.
                remaining = [id for id in locked if f"{id.database}.{id.name}'" not in e.message]
                if e.number != _NO_TABLE or len(remaining) == len(locked):
                    raise
                locked = remaining

    def _lock(self, connection: MySqlConnection, sql: str) -> None:
        try:
            connection.execute(sql, timeout_s=max(1.0, self._timeout_s) + _GRACE_S)
        except (MySqlServerError, QueryTimeoutError) as e:
            if isinstance(e, MySqlServerError) and e.number != _LOCK_WAIT_TIMEOUT:
                raise
            raise ConnectError(
                f"no lock for the snapshot within snapshot.lock.timeout.ms={self._timeout_s * 1000:g}: end the transaction or "
                f"query that holds tables, raise the timeout, or set snapshot.locking.mode=none. {e.message}"
            ) from e

    def release(self) -> None:
        """Releases the locks. May be called twice; never raises."""
        connection, self._connection, self.stops_commits = self._connection, None, False
        if connection is None:
            return
        try:
            connection.execute("UNLOCK TABLES")
        except Exception as e:
            log.debug("the locks of the snapshot end with their connection: %s", e)
        connection.close()
