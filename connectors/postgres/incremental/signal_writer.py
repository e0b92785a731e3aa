"""Writes rows of the signal table."""

from __future__ import annotations

from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import quote_name
from connectors.postgres.sessions import DatabaseSessions


class PostgresSignalWriter:
    """Writes where the database accepts it: on the primary if the server is a standby (a SignalTableWriter)."""

    def __init__(self, settings: PostgresConfig, sessions: DatabaseSessions) -> None:
        table = settings.signals.table
        self._table = quote_name(*table) if table is not None else ""
        self._sessions = sessions

    def insert(self, signal_id: str, signal_type: str, data: str) -> None:
        values = [signal_id, signal_type, data]
        self._sessions.writer().execute(f"INSERT INTO {self._table} VALUES ($1, $2, $3)", values)

    def delete(self, signal_id: str) -> None:
        self._sessions.writer().execute(f"DELETE FROM {self._table} WHERE id = $1", [signal_id])
