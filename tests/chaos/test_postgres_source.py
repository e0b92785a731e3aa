"""The PostgreSQL source loses nothing when its worker, its server, or the network fails.

- the topics hold every committed change, in order, and replay to the tables,
- right after each failure, nothing that the slot has confirmed is missing from the topics,
- a server that lacks changes is refused, never followed silently.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.cluster.proxy import TcpProxy
from tests.support import randomness
from tests.support.numbered_changes import NumberedTables
from tests.support.postgres_copy import ServerCopy
from tests.support.postgres_options import postgres_source
from tests.support.source_stream import SourceStream
from tests.support.waiting import WAIT_S, eventually

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3000)]

WORKER_KILLS = randomness.size("SLUICE_KILLS", 3)
SERVER_KILLS = min(10, max(2, WORKER_KILLS // 10))
PROMOTIONS = RESTORES = CUTS = min(10, max(1, WORKER_KILLS // 10))


class Stream:
    """A stream of PostgreSQL, and what its slot has confirmed."""

    def __init__(self, server: EmbeddedPostgres, source: SourceStream) -> None:
        self.server = server
        """Which has the address now."""
        self.source = source
        self.worker, self.changes = source.worker, source.changes
        self.choice = randomness.chance("kills")

    def check_confirmed(self) -> int:
        """Promise 1: whatever the server need not send again is in the topic.

        What was committed before the first snapshot, at the start of the slot, is one of its rows. Returns the number of changes
        that are confirmed.
        """
        with self.server.connect() as connection:
            sql = "SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
            row = connection.execute(sql, (self.source.prefix,)).fetchone()
        values = (value for table in ("counters", "events") for value in self.source.values(table))
        start = min((value["source"]["lsn"] for value in values if value is not None and value["op"] == "r"), default=None)
        if row is None or row[0] is None or start is None:
            return 0
        needed = self.changes.numbers_until(int(row[0]), start)
        missing = needed.difference(self.source.numbers())
        assert not missing, f"the slot has confirmed {sorted(missing)[:10]}, which are not in the topic"
        return len(needed)

    def assert_nothing_is_lost(self) -> None:
        self.source.assert_nothing_is_lost()
        # The source confirms what has arrived soon after that.
        eventually(lambda: self.check_confirmed() > 0, "the confirmation of a change", self.worker.log_tail)


@contextmanager
def _stream(
    folder: Path, broker: EmbeddedBroker, server: EmbeddedPostgres, database: str, *, rows: int = 500, **options: str
) -> Iterator[Stream]:
    config = postgres_source(server, database, table_include_list="public.counters,public.events", **options)
    source = SourceStream(folder, broker, NumberedTables.in_postgres(server, database, rows), config)
    with source.running():
        yield Stream(server, source)


@pytest.fixture
def stream(tmp_path: Path, broker: EmbeddedBroker, postgres: EmbeddedPostgres, database: str) -> Iterator[Stream]:
    with _stream(tmp_path, broker, postgres, database) as stream:
        yield stream


@pytest.fixture
def snapshot_stream(tmp_path: Path, broker: EmbeddedBroker, postgres: EmbeddedPostgres, database: str) -> Iterator[Stream]:
    with _stream(tmp_path, broker, postgres, database, rows=20_000) as stream:
        yield stream


@pytest.mark.parametrize(
    "kills", [pytest.param((0, 2), id="twice"), pytest.param(range(WORKER_KILLS), id="often", marks=pytest.mark.long)]
)
def test_nothing_is_lost_when_the_worker_is_killed_at_random_moments(snapshot_stream: Stream, kills: Sequence[int]) -> None:
    """Kill 0 interrupts the snapshot, during writes; kill 1 comes after the snapshot has begun again."""
    stream = snapshot_stream
    for kill in kills:
        point = f"postgres.snapshot:{stream.choice.randint(1, 4)}" if kill == 0 else None
        stream.worker.start(point)
        if point is not None:
            stream.worker.wait_for_crash(point)
        elif kill == 1:
            stream.source.wait_for_snapshot()
            stream.worker.run_for(stream.choice.uniform(0, 0.8))
        elif stream.choice.random() < 0.8:
            stream.source.wait_for_events(1)
            stream.worker.run_for(stream.choice.uniform(0, 0.8))
        else:
            stream.worker.run_for(stream.choice.uniform(0.5, 3))
        stream.worker.kill()
        stream.check_confirmed()
    stream.worker.start()
    stream.assert_nothing_is_lost()


@pytest.mark.long
def test_nothing_is_lost_when_the_database_is_killed(stream: Stream) -> None:
    stream.worker.start()
    stream.source.wait_for_events(1)
    for kill in range(SERVER_KILLS):
        if kill % 2:
            stream.server.kill()
        else:  # an immediate shutdown
            stream.server._process.end(signal.SIGQUIT, WAIT_S)
        stream.server.start()
        stream.check_confirmed()
        stream.source.wait_for_events(20)
    stream.assert_nothing_is_lost()


class Servers:
    """Servers of one test, in a directory that the servers' user may enter."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._servers: list[EmbeddedPostgres] = []

    def start(self, name: str, **options: Any) -> EmbeddedPostgres:
        server = EmbeddedPostgres(self.directory / name, dies_with_parent=True, **options)
        self._servers.append(server)
        server.start()
        return server

    def copy(self, server: EmbeddedPostgres, name: str, **settings: str) -> EmbeddedPostgres:
        copy = ServerCopy(server, self.directory / name, **settings).server
        self._servers.append(copy)
        return copy

    def remove(self) -> None:
        for server in self._servers:
            server.remove()


@pytest.fixture
def servers(services_dir: Path) -> Iterator[Servers]:
    directory = services_dir / "failover"
    directory.mkdir(mode=0o755)
    made = Servers(directory)
    yield made
    made.remove()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def proxied(
    tmp_path: Path, broker: EmbeddedBroker, postgres: EmbeddedPostgres, database: str
) -> Iterator[tuple[Stream, TcpProxy]]:
    proxy = TcpProxy(postgres.port)
    proxy.start()
    try:
        with _stream(
            tmp_path, broker, postgres, database, database_port=str(proxy.port), wal_receiver_timeout_ms="2000"
        ) as stream:
            yield stream, proxy
    finally:
        proxy.close()


@pytest.mark.long
def test_a_silent_network_is_noticed_and_nothing_is_lost(proxied: tuple[Stream, TcpProxy]) -> None:
    stream, proxy = proxied

    def noticed(cuts: int) -> bool:
        return stream.worker.out.read_text().count("has sent nothing for 2 s") >= cuts

    stream.worker.start()
    stream.source.wait_for_events(1)
    for cut in range(1, CUTS + 1):
        # A query, such as for a large value, would wait for its own time limit.
        with stream.changes.paused():
            stream.source.wait_for_everything()
            proxy.cut()
        eventually(partial(noticed, cut), "the end of the connection")
        stream.check_confirmed()
        proxy.restore()
        stream.source.wait_for_events(20)
    stream.assert_nothing_is_lost()


@pytest.mark.long
def test_promoted_standbys_with_the_slot_are_followed_without_loss(
    tmp_path: Path, servers: Servers, broker: EmbeddedBroker, database: str
) -> None:
    """Each primary is killed during writes. Its changes reach the topic only after they have reached the standby."""
    server = _primary(servers, database)
    with _stream(tmp_path, broker, server, database, slot_failover="true") as stream:
        stream.worker.start()
        stream.source.wait_for_events(1)
        for promotion in range(PROMOTIONS):
            _fail_over(stream, servers, f"standby-{promotion}", with_slot=True)
            stream.source.wait_for_events(20)
            stream.check_confirmed()
        stream.assert_nothing_is_lost()


@pytest.mark.long
def test_promoted_standbys_without_the_slot_are_refused(
    tmp_path: Path, servers: Servers, broker: EmbeddedBroker, database: str
) -> None:
    server = _primary(servers, database)
    with _stream(tmp_path, broker, server, database) as stream:
        stream.worker.start()
        stream.source.wait_for_events(1)
        for promotion in range(PROMOTIONS):
            _fail_over(stream, servers, f"standby-{promotion}", with_slot=False)
            stream.source.wait_for_failure("does not exist on PostgreSQL at")
            stream.worker.kill()
            stream.source.configure(snapshot_mode="when_needed")
            stream.worker.start()
            stream.source.wait_for_events(20)
            stream.worker.kill()
            stream.source.configure(snapshot_mode="initial")
            stream.worker.start()
            stream.source.wait_for_events(1)
        stream.source.assert_no_event_is_missing()


@pytest.mark.parametrize("restore", range(RESTORES))
@pytest.mark.parametrize(
    "with_slot",
    [
        # Like a promoted standby without the slot.
        pytest.param(False, id="without the slot", marks=pytest.mark.long),
        pytest.param(True, id="with a slot"),
    ],
)
@pytest.mark.long
def test_a_restored_backup_is_refused(
    tmp_path: Path, servers: Servers, broker: EmbeddedBroker, database: str, with_slot: bool, restore: int
) -> None:
    """A backup has no slots. Even with one at the same place, what was read after the backup is missing from the database."""
    server = _primary(servers, database)
    with _stream(tmp_path, broker, server, database) as stream:
        stream.worker.start()
        stream.source.wait_for_events(1)
        servers.copy(server, "backup")
        stream.source.wait_for_events(stream.choice.randint(20, 80) + restore)
        port = server.port
        if with_slot:  # a running worker may come before the slot exists, and is refused because of that
            stream.worker.kill()
        server.kill()
        stream.server = _promoted(servers, "backup", port, server.password)
        with stream.server.connect(database) as db:
            db.execute("CREATE TABLE noise AS SELECT generate_series(1, 50000) i")  # past the stored offset
            if with_slot:
                db.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [database])
        if with_slot:
            stream.worker.start()
        stream.source.wait_for_failure("left timeline" if with_slot else "does not exist on PostgreSQL at")
        stream.worker.kill()
        stream.source.configure(snapshot_mode="when_needed")
        stream.worker.start()
        stream.source.wait_for_events(20)
        stream.source.assert_no_event_is_missing()


def _primary(servers: Servers, database: str) -> EmbeddedPostgres:
    server = servers.start("primary")
    server.create_database(database)
    return server


def _fail_over(stream: Stream, servers: Servers, name: str, *, with_slot: bool) -> None:
    """Kills the primary during writes and promotes a standby, at the same address."""
    primary, slot = stream.server, stream.source.prefix
    settings = {
        "primary_conninfo": f"{primary.dsn(slot)} application_name=standby",
        "primary_slot_name": "standby",
        "hot_standby_feedback": "on",
        "sync_replication_slots": "on" if with_slot else "off",
    }
    with primary.connect(slot) as db:
        db.execute("SELECT pg_create_physical_replication_slot('standby', true)")
        copy = servers.copy(primary, name, **settings)
        copy.start()
        if with_slot:
            db.execute("ALTER SYSTEM SET synchronized_standby_slots = 'standby'")
            db.execute("SELECT pg_reload_conf()")
            with copy.connect() as standby:
                synced = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND synced AND NOT temporary"

                def is_synced() -> bool:
                    db.execute("SELECT pg_log_standby_snapshot()")
                    return standby.execute(synced, (slot,)).fetchone() is not None

                eventually(is_synced, "the slot on the standby")
        eventually(lambda: _is_close(copy, primary), "the standby to catch up")
    port = primary.port
    primary.kill()
    copy.stop()
    stream.server = _promoted(servers, name, port, primary.password)
    primary.remove()


def _promoted(servers: Servers, name: str, port: int, password: str) -> EmbeddedPostgres:
    """Starts the copy at the port of its primary and promotes it."""
    # The copy may have a setting that waits for its own standby.
    settings = {"synchronized_standby_slots": ""}
    server = servers.start(name, port=port, password=password, settings=settings)
    with server.connect() as db:
        assert db.execute("SELECT pg_promote()").fetchone() == (True,)
    return server


def _is_close(standby: EmbeddedPostgres, primary: EmbeddedPostgres) -> bool:
    with primary.connect() as db:
        end = db.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
    with standby.connect() as db:
        return db.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn - 100000", end).fetchone() == (True,)
