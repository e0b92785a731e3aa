"""The task's connections to the database."""

from __future__ import annotations

import math

from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection, Interrupt


class DatabaseSessions:
    """Opens connections, all with the task's interrupt. The one for catalog queries is opened on demand and shared."""

    def __init__(self, settings: PostgresConfig) -> None:
        self.interrupt = Interrupt()
        self._settings = settings
        self._catalog: Connection | None = None

    def catalog(self) -> Connection:
        """The connection for catalog queries and heartbeats."""
        if self._catalog is None:
            self._catalog = self.open()
        return self._catalog

    def open(self, *, replication: bool = False) -> Connection:
        """Opens a connection that the caller closes."""
        settings = self._settings
        return Connection.open(
            settings.address, self.interrupt, replication=replication, query_timeout_s=settings.query_timeout_s or math.inf
        )

    def close_catalog(self) -> None:
        if self._catalog is not None:
            self._catalog.close()
        self._catalog = None
