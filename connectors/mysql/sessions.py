"""The task's connections to the database."""

from __future__ import annotations

import math

from connect.errors import ConnectError
from connectors.cdc.interrupt import Interrupt
from connectors.mysql.binlog_client import BinlogClient, BinlogClientSettings, BinlogStart
from connectors.mysql.config import MySqlConfig
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.errors import DuplicateServerIdError
from connectors.mysql.server import describe_replicas


class MySqlSessions:
    """Opens connections, all with the task's interrupt. That for catalog queries is opened on demand and shared."""

    def __init__(self, settings: MySqlConfig) -> None:
        self.interrupt = Interrupt()
        self._settings = settings
        self._catalog: MySqlConnection | None = None

    def catalog(self) -> MySqlConnection:
        """The connection for catalog queries, heartbeats, and signals; a new one if it was lost."""
        if self._catalog is None or self._catalog.is_closed:
            self._catalog = self.open()
        return self._catalog

    def open(self) -> MySqlConnection:
        """Opens a connection that the caller closes."""
        settings = self._settings
        return MySqlConnection.open(settings.address, self.interrupt, query_timeout_s=settings.query_timeout_s or math.inf)

    def stream(self, start: BinlogStart, *, ends_at_end: bool = False) -> BinlogClient:
        """Starts to read the binary log. The caller closes the client, best with ``close(over=sessions.catalog())``."""
        binlog = self._settings.binlog
        settings = BinlogClientSettings(
            server_id=binlog.server_id,
            heartbeat_s=binlog.heartbeat_s,
            silence_s=binlog.silence_s,
            annotates=binlog.includes_query,
            ends_at_end=ends_at_end,
            net_write_timeout_s=binlog.net_write_timeout_s,
            net_read_timeout_s=binlog.net_read_timeout_s,
        )
        connection = MySqlConnection.open(self._settings.address, self.interrupt, runs_initial_statements=False)
        return BinlogClient.open(connection, start, settings)

    def explain_duplicate(self, error: DuplicateServerIdError) -> DuplicateServerIdError:
        """Adds to the error who uses the server ID, if the server can be asked."""
        server_id = self._settings.binlog.server_id
        try:
            found = describe_replicas(self.catalog(), server_id)
        except ConnectError:
            # It must not replace the error: a lost connection would be retried, and end the stream of the other replica.
            found = ""
        where = f"; the server lists {found}" if found else ""
        return DuplicateServerIdError(
            f"{error.message}. Give each connector and replica its own ID: database.server.id={server_id} is used twice{where}"
        )

    def close_catalog(self) -> None:
        if self._catalog is not None:
            self._catalog.close()
        self._catalog = None
