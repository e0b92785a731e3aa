"""A table that cannot be read is skipped only when the stream has reached the end of the log of that time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from connectors.cdc.incremental.chunks import ChunkDelayed, TableSkipped
from connectors.cdc.incremental.context import DataCollection, TableScan
from connectors.cdc.offsets import source_partition
from connectors.cdc.schema.filters import Filters
from connectors.mysql.binlog import HeartbeatEvent, MariaDbGtidPosition, Rotate
from connectors.mysql.binlog.events import EventHeader
from connectors.mysql.config import parse_config
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.incremental.chunks import BinlogChunkReader, FollowedStream
from connectors.mysql.incremental.signal_writer import MySqlSignalWriter
from connectors.mysql.offsets import BinlogPosition
from connectors.mysql.position_tracker import BinlogPositionTracker
from connectors.mysql.schema.captured_tables import MySqlCapturedTables
from connectors.mysql.schema.history.history import SchemaHistory
from connectors.mysql.schema.history.store import MemoryHistoryStore
from connectors.mysql.schema.tables import TableStructures
from connectors.mysql.server import ServerInfo
from connectors.mysql.sessions import MySqlSessions

SERVER = ServerInfo("11.4.5-MariaDB", (11, 4, 5), True, {"server_id": "2", "server_uid": "new"})
COLLECTION = DataCollection("db", "t")


class EmptyServer(MySqlConnection):
    """A server without tables, whose log ends in a file."""

    def __init__(self, file: str, position: int, gtids: str) -> None:
        self.end = file, str(position), gtids

    @property
    def version_text(self) -> str:
        return SERVER.version_text

    @property
    def is_closed(self) -> bool:
        return False

    def query(
        self, sql: str, params: Sequence[str | int | None] = (), *, timeout_s: float | None = None
    ) -> list[tuple[str | None, ...]]:
        if sql.startswith("SHOW GLOBAL VARIABLES"):
            return list(SERVER.variables.items())
        file, position, gtids = self.end
        return [(gtids,)] if sql == "SELECT @@GLOBAL.gtid_binlog_pos" else [(file, position, "", "")]

    def execute(self, sql: str, params: Sequence[str | int | None] = (), *, timeout_s: float | None = None) -> None:
        """Sets variables of the session."""

    def close(self) -> None:
        """Nothing is open."""


class EmptySessions(MySqlSessions):
    """Connections to servers without tables, one after the other."""

    servers: list[EmptyServer]

    def open(self) -> MySqlConnection:
        return self.servers[0]


class JudgingReader:
    """A reader of chunks, and the stream that it follows."""

    def __init__(self, *servers: EmptyServer) -> None:
        config = {"topic.prefix": "shop", "database.hostname": "h", "database.user": "u", "database.server.id": "5"}
        history_class = "io.debezium.relational.history.MemorySchemaHistory"
        settings = parse_config({**config, "schema.history.internal": history_class}, is_mariadb=True)
        self.sessions = EmptySessions(settings)
        self.sessions.servers = list(servers)
        tables = MySqlCapturedTables(settings, Filters(settings.capture))
        history = SchemaHistory(MemoryHistoryStore(), source_partition("shop"), settings.history)
        structures = TableStructures(history, lambda ddl, database, changes: True)
        writer = MySqlSignalWriter(settings, self.sessions)
        stream = FollowedStream(lambda: self.tracker, lambda: SERVER)
        self.reader = BinlogChunkReader(settings, tables, structures, self.sessions, stream, writer, "1")

    def connect(self, file: str, position: int, gtids: str) -> None:
        """The stream continues at a position."""
        self.tracker = BinlogPositionTracker(BinlogPosition(file, position, gtids), MariaDbGtidPosition.parse(gtids))

    def is_skipped(self) -> bool:
        """Reads a chunk; returns whether the table is given up."""
        with pytest.raises((ChunkDelayed, TableSkipped)) as found:
            self.reader.read(COLLECTION, TableScan())
        return found.type is TableSkipped


@pytest.fixture
def judging() -> Iterator[JudgingReader]:
    made = JudgingReader(EmptyServer("binlog.000002", 700, "0-2-9"), EmptyServer("binlog.000007", 300, "0-2-9"))
    yield made
    made.sessions.interrupt.close()


def header() -> EventHeader:
    return EventHeader(0, 0, 1, 0, 0, 0x20)


def test_place_in_files_of_the_old_server_does_not_skip_a_table(judging: JudgingReader) -> None:
    judging.connect("binlog.000042", 90_000, "0-1-8")
    assert not judging.is_skipped()
    judging.tracker.track(Rotate(header(), "binlog.000002", 4))
    assert not judging.is_skipped()
    judging.tracker.track(HeartbeatEvent(header(), "binlog.000002", 700))
    assert judging.is_skipped()


def test_end_of_the_log_of_the_old_server_does_not_skip_a_table(judging: JudgingReader) -> None:
    judging.connect("binlog.000002", 4, "0-1-8")
    judging.tracker.track(Rotate(header(), "binlog.000002", 4))
    assert not judging.is_skipped()
    judging.reader.close()
    judging.sessions.servers.pop(0)
    judging.connect("binlog.000002", 4, "0-1-8")
    judging.tracker.track(Rotate(header(), "binlog.000007", 4))
    assert not judging.is_skipped(), "the end of this log is further"
    judging.tracker.track(HeartbeatEvent(header(), "binlog.000007", 300))
    assert judging.is_skipped()
