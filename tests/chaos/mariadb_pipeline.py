"""MariaDB -> topics on one worker: changes with DDL in between, the stored offset, and the files of the binary log."""

from __future__ import annotations

import contextlib
import re
import threading
from pathlib import Path
from typing import Any

import pymysql

from connect.errors import ConnectError
from connectors.mysql.errors import error_number
from connectors.mysql.offsets import FILE, GTIDS
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.chaos.pipeline import SOURCE, CommittedChanges
from tests.chaos.source_pipeline import ARRIVES_S, SourcePipeline, SourceStream, wait_until
from worker.storage.file_offset_store import OffsetFile

_DDL_EVERY = 40
_REBUILD_EVERY = 8_000
"""A table keeps the columns that were dropped until it is rebuilt, and may have 1,017 with them."""
_SHUTDOWN, _KILLED = 1053, 1927
_FIRST_OF_CLIENT = 2000


class MariaDbChanges(CommittedChanges):
    """Changes of MariaDB, the position after the commit of each number, and a column that comes and goes."""

    lost_connection = pymysql.err.Error

    def __init__(self, server: EmbeddedMariaDB, database: str) -> None:
        super().__init__()
        self._server = server
        self._database = database
        self._lock = threading.Lock()
        self._sequences: dict[int, int] = {}

    def _connect(self) -> Any:
        return self._server.connect(self._database, connect_timeout=5)

    def _is_lost(self, error: Exception) -> bool:
        number = error_number(error)
        return number in (0, _SHUTDOWN, _KILLED) or number >= _FIRST_OF_CLIENT

    def _last_number(self, connection: Any) -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT COALESCE(MAX(n), 0) FROM events")
            return int(cursor.fetchone()[0])

    def _commit_change(self, connection: Any, n: int) -> None:
        with connection.cursor() as cursor:
            if n % _REBUILD_EVERY == 0:
                cursor.execute("ALTER TABLE counters FORCE")
            if n % _DDL_EVERY == 0:
                cursor.execute("ALTER TABLE counters ADD COLUMN IF NOT EXISTS extra int NOT NULL DEFAULT 7 FIRST")
            elif n % _DDL_EVERY == _DDL_EVERY // 2:
                cursor.execute("ALTER TABLE counters DROP COLUMN IF EXISTS extra")
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO events VALUES (%s)", (n,))
            cursor.execute("UPDATE counters SET n = n + 1 WHERE id BETWEEN %s AND %s", (n % 50, n % 50 + 3))
            if n % 5 == 0:
                cursor.execute("INSERT INTO counters(id, n, note) VALUES (%s, 1, REPEAT(MD5(%s), 100))", (1000 + n, n))
            if n % 7 == 0:
                cursor.execute("DELETE FROM counters WHERE id = %s", (1000 + n - n % 5 - 10,))
            if n % 11 == 0:
                cursor.execute("UPDATE counters SET id = id + 1000000 WHERE id = %s", (1000 + n - n % 5 - 5,))
            cursor.execute("COMMIT")
            cursor.execute("SELECT @@last_gtid")
            gtid = cursor.fetchone()[0]
        with self._lock:
            self._sequences[n] = _sequence(gtid)

    def numbers_until(self, gtids: str) -> set[int]:
        """The numbers whose transactions a position contains."""
        last = _sequence(gtids)
        with self._lock:
            return {n for n, sequence in self._sequences.items() if sequence <= last}


def _sequence(gtids: str) -> int:
    """The sequence number of the server's only domain."""
    (found,) = re.findall(r"\b0-\d+-(\d+)", gtids)
    return int(found)


def create_tables(server: EmbeddedMariaDB, database: str, rows: int) -> None:
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE counters(id bigint PRIMARY KEY, n bigint NOT NULL, note text)")
        cursor.execute("CREATE TABLE events(n bigint NOT NULL, KEY (n))")
        cursor.execute("INSERT INTO counters SELECT seq, 1, REPEAT(MD5(seq), 100) FROM seq_0_to_999")
        cursor.execute(f"INSERT INTO counters SELECT -seq, 1, 'old' FROM seq_1_to_{rows}")


class MariaDbPipeline(SourcePipeline):
    """A worker that runs only the source of MariaDB, with its schema history in a topic."""

    def _worker(self) -> dict[str, str]:
        # An executor that outlives a killed worker may still read the log; one serves the connector and its only task.
        return {**super()._worker(), "task.executors": "1"}

    def topic(self, table: str) -> str:
        return f"{self.prefix}.{self.prefix}.{table}"

    def _source(self) -> dict[str, str]:
        return {
            "name": SOURCE,
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.hostname": self.server.host,
            "database.port": str(self.server.port),
            "database.user": self.server.user,
            "database.password": self.server.password,
            "database.server.id": "184054",
            "topic.prefix": self.prefix,
            "table.include.list": f"{self.prefix}.counters,{self.prefix}.events",
            "schema.history.internal.kafka.bootstrap.servers": self._broker.bootstrap,
            "schema.history.internal.kafka.topic": f"history.{self.prefix}",
            "poll.interval.ms": "50",
        }

    def stored_offset(self) -> dict[str, Any] | None:
        """The offset that the worker has stored; None if there is none. The worker must not run."""
        with OffsetFile(self.home / "offsets") as store:
            return store.get(SOURCE, {"server": self.prefix})


class MariaDbStream(SourceStream):
    """A stream of MariaDB."""

    def __init__(self, folder: Path, broker: EmbeddedBroker, server: EmbeddedMariaDB, database: str, **overrides: str) -> None:
        changes = MariaDbChanges(server, database)
        super().__init__(MariaDbPipeline(folder, broker, server, database, **overrides), changes)
        self.server = server
        self.database = database
        self._numbered = changes
        self.checked = 0
        """The most completed numbers that were looked up at once."""
        self.purged = 0
        """The files that were removed."""

    @property
    def stored_offset(self) -> dict[str, Any] | None:
        assert isinstance(self.pipeline, MariaDbPipeline)
        return self.pipeline.stored_offset()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with self.server.connect(self.database) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def check_stored(self) -> None:
        """Promise 1: what the stored offset contains is in the topic. The worker must not run."""
        offset = self.stored_offset
        if offset is None or not offset.get(GTIDS):
            return
        completed = self._numbered.numbers_until(offset[GTIDS]) if not offset.get("snapshot") else set()
        missing = completed.difference(self.pipeline.numbers())
        assert not missing, f"the offset {offset} contains {sorted(missing)[:10]}, which are not in the topic"
        self.checked = max(self.checked, len(completed))

    def wait_for_events(self, count: int) -> None:
        try:
            super().wait_for_events(count)
        except AssertionError as e:
            newest = self.query("SELECT MAX(n) FROM events")
            sessions = self.query("SELECT id, command, time, state, info FROM information_schema.processlist")
            e.add_note(f"the topic has {max(self.pipeline.numbers())}, the table {newest}; sessions: {sessions}")
            raise

    def stream_and_kill(self) -> None:
        """Runs the worker until it has stored an offset of the stream, and kills it."""
        self.pipeline.start()
        self.wait_for_stored_position()
        self.pipeline.kill()

    def wait_for_stored_position(self, file: str = "") -> None:
        """Waits until the running worker has stored an offset of the stream, in this file or a later one."""

        def is_stored() -> bool:
            assert self.pipeline.child is not None
            assert self.pipeline.child.poll() is None, self.pipeline.log_tail()
            try:
                stored = self.pipeline.client.offsets(SOURCE)
            except ConnectError:
                return False  # it is starting
            return bool(stored) and not stored[0]["offset"].get("snapshot") and stored[0]["offset"][FILE] >= file

        try:
            wait_until(is_stored, ARRIVES_S, f"an offset in {file or 'any file'}")
        except AssertionError as e:
            e.add_note(self.pipeline.log_tail())
            raise

    def switch_file(self) -> str:
        """Begins a file of the log and returns its name."""
        self.query("FLUSH BINARY LOGS")
        return str(self.query("SHOW MASTER STATUS")[0][0])

    def purge(self, file: str) -> None:
        """Removes the files before this one. The server keeps those that a connection still reads."""
        before = {name for name, *_ in self.query("SHOW BINARY LOGS")}
        self.query("SET GLOBAL slave_connections_needed_for_purge = 0")
        try:
            with contextlib.suppress(pymysql.err.InternalError, pymysql.err.OperationalError):
                self.query(f"PURGE BINARY LOGS TO '{file}'")
        finally:
            self.query("SET GLOBAL slave_connections_needed_for_purge = 1")
        self.purged += len(before.difference(name for name, *_ in self.query("SHOW BINARY LOGS")))

    def purge_read(self) -> None:
        """Removes the files that the source has read, as the stored offset says. The worker must not run."""
        if (offset := self.stored_offset) is not None:
            self.purge(offset[FILE])

    def purge_unread(self) -> None:
        """Removes all files but the newest one. The worker must not run."""
        newest = self.switch_file()

        def is_purged() -> bool:
            for (number,) in self.query("SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'"):
                with contextlib.suppress(pymysql.err.OperationalError):  # it has ended meanwhile
                    self.query(f"KILL {number}")
            self.purge(newest)
            return bool(self.query("SHOW BINARY LOGS")[0][0] == newest)

        wait_until(is_purged, ARRIVES_S, f"only {newest}")
