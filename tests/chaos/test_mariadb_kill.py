"""The source of MariaDB loses nothing when its worker, server, or broker is killed, and when files of the log are removed.

The topics hold every committed change, in order, and replay to the tables. After each kill, what the stored offset contains is in
the topic. ``SLUICE_KILLS`` is the number of kills.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

from connect.errors import ConnectError
from connectors.mysql.offsets import FILE, GTIDS
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.support import randomness
from tests.support.numbered_changes import NumberedTables
from tests.support.source_stream import SOURCE, SourceStream
from tests.support.standalone_worker import SOURCE_ONLY
from tests.support.waiting import eventually
from worker.storage.file_offset_store import OffsetFile

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3000)]

WORKER_KILLS = randomness.size("SLUICE_KILLS", 3)
SERVER_KILLS = min(10, max(1, WORKER_KILLS // 10))
BROKER_KILLS = min(5, max(1, WORKER_KILLS // 20))
POINTS = {
    "mysql.snapshot": 4,
    "source.polled": 3,
    "source.produced": 3,
    "offsets.drafted": 2,
    "offsets.written": 2,
    "mysql.history": 2,
}
"""Where the worker kills itself, at the latest at the n-th time."""


class MariaDbStream:
    """A stream of MariaDB, the offset that its worker has stored, and the files of the log."""

    def __init__(self, server: EmbeddedMariaDB, source: SourceStream) -> None:
        self.server = server
        self.source = source
        self.worker, self.changes, self.query = source.worker, source.changes, source.tables.query
        self.checked = 0
        """The most completed numbers that were looked up at once."""
        self.purged = 0
        """The files that were removed."""

    @property
    def stored_offset(self) -> dict[str, Any] | None:
        """None if there is none. The worker must not run."""
        with OffsetFile(self.worker.home / "offsets") as store:
            return store.get(SOURCE, {"server": self.source.prefix})

    def check_stored(self) -> None:
        """Promise 1: what the stored offset contains is in the topic. The worker must not run."""
        offset = self.stored_offset
        if offset is None or not offset.get(GTIDS):
            return
        (sequence,) = re.findall(r"\b0-\d+-(\d+)", offset[GTIDS])  # the server has one domain
        completed = self.changes.numbers_until(int(sequence)) if not offset.get("snapshot") else set()
        missing = completed.difference(self.source.numbers())
        assert not missing, f"the offset {offset} contains {sorted(missing)[:10]}, which are not in the topic"
        self.checked = max(self.checked, len(completed))

    def stream_and_kill(self) -> None:
        """Runs the worker until it has stored an offset of the stream, and kills it."""
        self.worker.start()
        self.wait_for_stored_position()
        self.worker.kill()

    def wait_for_stored_position(self, file: str = "") -> None:
        """Waits until the running worker has stored an offset of the stream, in this file or a later one."""

        def is_stored() -> bool:
            try:
                stored = self.worker.client.offsets(SOURCE)
            except ConnectError:
                return False  # it is starting
            return bool(stored) and not stored[0]["offset"].get("snapshot") and stored[0]["offset"][FILE] >= file

        self.source.wait_for(is_stored, f"an offset in {file or 'any file'}")

    def switch_file(self) -> str:
        """Begins a file of the log and returns its name."""
        self.query("FLUSH BINARY LOGS")
        return str(self.query("SHOW MASTER STATUS")[0][0])

    def purge(self, file: str) -> None:
        """Removes the files before this one. The server keeps those that a connection still reads."""
        before = {name for name, *_ in self.query("SHOW BINARY LOGS")}
        self.query("SET GLOBAL slave_connections_needed_for_purge = 0")
        try:
            with suppress(pymysql.err.InternalError, pymysql.err.OperationalError):
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
                with suppress(pymysql.err.OperationalError):  # it has ended meanwhile
                    self.query(f"KILL {number}")
            self.purge(newest)
            return bool(self.query("SHOW BINARY LOGS")[0][0] == newest)

        eventually(is_purged, f"only {newest}")


@contextmanager
def _stream(folder: Path, broker: EmbeddedBroker, server: EmbeddedMariaDB, database: str, rows: int) -> Iterator[MariaDbStream]:
    """A worker that runs only the source, with its schema history in a topic."""
    config = {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "database.server.id": "184054",
        "topic.prefix": database,
        "table.include.list": f"{database}.counters,{database}.events",
        "schema.history.internal.kafka.bootstrap.servers": broker.bootstrap,
        "schema.history.internal.kafka.topic": f"history.{database}",
        "poll.interval.ms": "50",
        "retriable.restart.connector.wait.ms": "200",
    }
    # An executor that outlives a killed worker may still read the log; one serves the connector and its only task.
    properties = {**SOURCE_ONLY, "task.executors": "1"}
    source = SourceStream(folder, broker, NumberedTables.in_mariadb(server, database, rows), config, properties=properties)
    with source.running():
        yield MariaDbStream(server, source)


@pytest.fixture
def stream(tmp_path: Path, broker: EmbeddedBroker, mariadb: EmbeddedMariaDB, mariadb_database: str) -> Iterator[MariaDbStream]:
    with _stream(tmp_path, broker, mariadb, mariadb_database, rows=500) as stream:
        yield stream


@pytest.fixture
def snapshot_stream(
    tmp_path: Path, broker: EmbeddedBroker, mariadb: EmbeddedMariaDB, mariadb_database: str
) -> Iterator[MariaDbStream]:
    with _stream(tmp_path, broker, mariadb, mariadb_database, rows=20_000) as stream:
        yield stream


@pytest.mark.long
def test_nothing_is_lost_when_the_worker_is_killed_at_random_moments(snapshot_stream: MariaDbStream) -> None:
    """The first kill interrupts the snapshot; the second one comes after the snapshot has begun again.

    Files of the log begin at any moment; those that were read are removed.
    """
    stream, choice = snapshot_stream, randomness.chance("moments")
    for kill in range(WORKER_KILLS):
        point = f"mysql.snapshot:{choice.randint(1, 4)}" if kill == 0 else None
        stream.worker.start(point)
        if point is not None:
            stream.worker.wait_for_crash(point)
        elif kill == 1:
            stream.source.wait_for_snapshot()
            stream.worker.run_for(choice.uniform(0, 0.8))
        elif choice.random() < 0.8:
            stream.source.wait_for_events(1)
            if choice.random() < 0.5:
                stream.switch_file()
            stream.worker.run_for(choice.uniform(0, 0.8))
        else:
            stream.worker.run_for(choice.uniform(0.5, 4))
        stream.worker.kill()
        stream.check_stored()
        if choice.random() < 0.5:
            stream.switch_file()
        stream.purge_read()
    # However early those kills were, the next one is in the stream, and files were read before.
    stream.worker.start()
    stream.wait_for_stored_position(stream.switch_file())
    stream.worker.kill()
    stream.check_stored()
    stream.purge_read()
    stream.worker.start()
    stream.source.assert_nothing_is_lost()
    assert stream.checked
    assert stream.purged


@pytest.mark.long
def test_nothing_is_lost_at_any_crash_point(snapshot_stream: MariaDbStream) -> None:
    stream, choice = snapshot_stream, randomness.chance("points")
    for point, times in POINTS.items():
        stream.worker.start(f"{point}:{choice.randint(1, times)}")
        stream.worker.wait_for_crash(point)
        stream.check_stored()
        stream.switch_file()
        stream.purge_read()
    stream.worker.start()
    stream.source.assert_nothing_is_lost()


@pytest.mark.long
def test_nothing_is_lost_when_the_database_is_killed(stream: MariaDbStream) -> None:
    stream.worker.start()
    stream.source.wait_for_events(1)
    for _ in range(SERVER_KILLS):
        stream.server.kill()
        stream.server.start()
        stream.source.wait_for_events(20)
    stream.wait_for_stored_position()
    stream.worker.kill()
    stream.check_stored()
    stream.worker.start()
    stream.source.assert_nothing_is_lost()
    assert stream.checked


@pytest.mark.harms_broker
@pytest.mark.long
def test_nothing_is_lost_when_the_broker_is_killed(stream: MariaDbStream, broker: EmbeddedBroker) -> None:
    stream.worker.start()
    stream.source.wait_for_events(1)
    for _ in range(BROKER_KILLS):
        broker.kill()
        stream.switch_file()
        broker.start()
        stream.source.wait_for_events(20)
    stream.source.assert_nothing_is_lost()


@pytest.mark.long
def test_removed_files_that_were_not_read_are_a_lost_position(stream: MariaDbStream) -> None:
    """It is named, and ``snapshot.mode=when_needed`` recovers by a new snapshot."""
    stream.stream_and_kill()
    stored, committed = set(stream.source.numbers()), stream.changes.committed
    eventually(lambda: stream.changes.committed > committed, "an event that is not read")
    with stream.changes.paused():
        stream.purge_unread()
    assert {n for (n,) in stream.query("SELECT n FROM events")} - stored, "nothing was lost"
    stream.worker.start()
    stream.source.wait_for_failure("it was removed before the connector read it. Take a new snapshot (snapshot.mode=when_needed)")
    stream.worker.kill()
    stream.source.configure(snapshot_mode="when_needed")
    stream.worker.start()
    stream.source.wait_for_events(20)
    stream.source.assert_no_event_is_missing()
    # The topic still has counters whose deletes were lost.
    stream.source.wait_for(lambda: not stream.source.differences()[0], "all counters")
