"""Writes rows of the signal table."""

from __future__ import annotations

from connect.errors import ConfigError
from connectors.cdc.errors import RejectedStatementError
from connectors.mysql.config import MySqlConfig
from connectors.mysql.connection import quote_name
from connectors.mysql.sessions import MySqlSessions


class MySqlSignalWriter:
    """Writes and commits (a SignalTableWriter). ``has_written`` says whether the last statement was accepted."""

    def __init__(self, settings: MySqlConfig, sessions: MySqlSessions) -> None:
        table = settings.signals.table
        self._table = quote_name(*table).replace("%", "%%") if table is not None else ""
        self._sessions = sessions
        self.has_written = False

    def insert(self, signal_id: str, signal_type: str, data: str) -> None:
        self._write(f"INSERT INTO {self._table} VALUES (%s, %s, %s)", signal_id, signal_type, data)

    def delete(self, signal_id: str) -> None:
        self._write(f"DELETE FROM {self._table} WHERE id = %s", signal_id)

    def _write(self, sql: str, *values: str) -> None:
        self.has_written = False
        try:
            self._sessions.catalog().execute(sql, values)
        except ConfigError as e:  # the user lacks a privilege
            raise RejectedStatementError(e.message) from e
        self.has_written = True
