"""A server of MySQL that sends what a test says."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.cdc.errors import ConnectionLostError
from connectors.mysql.binlog import BinlogDecoder
from connectors.mysql.binlog_client import BinlogClient, BinlogStart
from connectors.mysql.config import MySqlAddress, MySqlConfig
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.server import ServerInfo
from connectors.mysql.sessions import MySqlSessions
from tests.unit.connectors.mysql.streaming.logged_transactions import UUID, transaction, with_checksum

VARIABLES = {"gtid_mode": "ON", "log_bin": "ON", "binlog_format": "ROW", "server_id": "7"}
SERVER = ServerInfo("8.4.3", (8, 4, 3), False, {**VARIABLES, "server_uuid": "new"})
CONFIG = {
    "topic.prefix": "shop",
    "database.hostname": "h",
    "database.user": "u",
    "database.server.id": "5",
    "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
    "poll.interval.ms": "1",
}
FIRST = [with_checksum(data) for data in transaction(6, 1000, is_compressed=False)]
SECOND = [with_checksum(data) for data in transaction(7, 2000, is_compressed=False)]


Connection = Sequence[Sequence[bytes] | Exception] | Exception
"""The batches of a connection, or the error with which it is refused."""


class ScriptedClient(BinlogClient):
    """Sends batches of events, one each time that it is read, and raises errors."""

    def __init__(self, batches: Sequence[Sequence[bytes] | Exception]) -> None:
        self.batches = list(batches)

    def decoder(self) -> BinlogDecoder:
        return BinlogDecoder(master_checksum="CRC32")

    def read(self, timeout_s: float) -> list[bytes]:
        batch = self.batches.pop(0) if self.batches else ()
        if isinstance(batch, Exception):
            raise batch
        return list(batch)

    def close(self, over: MySqlConnection | None = None) -> None:
        self.batches.clear()


class CatalogConnection(MySqlConnection):
    """A connection of a server that has purged nothing. Statements that change something lose it."""

    def __init__(self, address: MySqlAddress, server: ServerInfo) -> None:
        self.address = address
        self.server = server

    @property
    def version_text(self) -> str:
        return self.server.version_text

    def query(
        self, sql: str, params: Sequence[str | int | None] = (), *, timeout_s: float | None = None
    ) -> list[tuple[str | None, ...]]:
        if sql.startswith("SHOW GLOBAL VARIABLES"):
            return list(self.server.variables.items())
        if "information_schema" in sql:
            return []
        return [(f"{UUID}:1-9" if sql == "SELECT @@GLOBAL.gtid_executed" else "",)]

    def execute(self, sql: str, params: Sequence[str | int | None] = (), *, timeout_s: float | None = None) -> None:
        raise ConnectionLostError(f"lost the connection while it ran {sql}")


class ScriptedSessions(MySqlSessions):
    """Connections to a server whose log is a script."""

    def __init__(self, settings: MySqlConfig) -> None:
        super().__init__(settings)
        self.connections: list[Connection] = []
        self.starts: list[BinlogStart] = []
        self.server = SERVER

    def catalog(self) -> MySqlConnection:
        return CatalogConnection(self._settings.address, self.server)

    def stream(self, start: BinlogStart, *, ends_at_end: bool = False) -> BinlogClient:
        self.starts.append(start)
        batches = self.connections.pop(0)
        if isinstance(batches, Exception):
            raise batches
        return ScriptedClient(batches)
