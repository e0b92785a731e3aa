"""The task's connections to the database."""

from __future__ import annotations

import math

from connectors.cdc.interrupt import Interrupt
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection, is_standby


class DatabaseSessions:
    """Opens connections, all with the task's interrupt. Those for catalog queries and for writing are opened on demand and
    shared."""

    def __init__(self, settings: PostgresConfig) -> None:
        self.interrupt = Interrupt()
        self._settings = settings
        self._catalog: Connection | None = None
        self._primary: Connection | None = None

    def catalog(self) -> Connection:
        """The connection for catalog queries and heartbeats."""
        if self._catalog is None:
            self._catalog = self.open()
        return self._catalog

    def writer(self) -> Connection:
        """The connection for what must be written: that of the primary if the server is a standby, else that for the catalog.

        Raises UnreachableError too.
        """
        catalog, primary = self.catalog(), self._settings.primary
        if primary is None or not is_standby(catalog):
            return catalog
        if self._primary is None:
            self._primary = Connection.open(primary, self.interrupt, query_timeout_s=self._settings.query_timeout_s or math.inf)
        return self._primary

    def open(self, *, replication: bool = False) -> Connection:
        """Opens a connection that the caller closes."""
        settings = self._settings
        return Connection.open(
            settings.address, self.interrupt, replication=replication, query_timeout_s=settings.query_timeout_s or math.inf
        )

    def close_catalog(self) -> None:
        for connection in (self._catalog, self._primary):
            if connection is not None:
                connection.close()
        self._catalog = self._primary = None
