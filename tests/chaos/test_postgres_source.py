"""The PostgreSQL source loses nothing when its worker, its server, or the network fails.

- the topics hold every committed change, in order, and replay to the tables,
- right after each failure, nothing that the slot has confirmed is missing from the topics,
- a server that lacks changes is refused, never followed silently.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.chaos.pipeline import create_tables
from tests.chaos.source_pipeline import ARRIVES_S, ConfirmedChanges, NumberedChanges, SourcePipeline, SourceStream, wait_until
from tests.cluster.proxy import TcpProxy
from tests.support.postgres_copy import ServerCopy

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3000)]

KILLS = int(os.environ.get("SLUICE_CHAOS_KILLS", "0"))
WORKER_KILLS = max(3, KILLS)
SERVER_KILLS = min(10, max(2, KILLS // 10))
PROMOTIONS = RESTORES = CUTS = min(10, max(1, KILLS // 10))
SEED = os.environ.get("SLUICE_CHAOS_SEED", "postgres")


class Stream(SourceStream):
    """A stream of PostgreSQL."""

    def __init__(self, server: EmbeddedPostgres, pipeline: SourcePipeline, changes: NumberedChanges) -> None:
        super().__init__(pipeline, changes)
        self.server = server
        self.confirmed = ConfirmedChanges(pipeline, changes)
        self.choice = random.Random(SEED)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with self.server.connect(self.pipeline.prefix) as connection:
            return connection.execute(sql.encode()).fetchall()

    def move_to(self, server: EmbeddedPostgres) -> None:
        """Another server is at the address now."""
        self.server = server
        self.pipeline.server = server

    def assert_nothing_is_lost(self) -> None:
        super().assert_nothing_is_lost()
        # The source confirms what has arrived soon after that.
        wait_until(lambda: self.confirmed.check(self.server) > 0, ARRIVES_S, "the confirmation of a change")


@contextmanager
def _stream(
    folder: Path, broker: EmbeddedBroker, server: EmbeddedPostgres, database: str, *, rows: int = 500, **overrides: str
) -> Iterator[Stream]:
    print(f"to run it again: SLUICE_CHAOS_SEED={SEED} SLUICE_CHAOS_KILLS={KILLS}")  # shown if the test fails
    create_tables(server, database, rows)
    changes = NumberedChanges(f"{server.dsn(database)} target_session_attrs=read-write")
    pipeline = SourcePipeline(folder, broker, server, database, **overrides)
    changes.start()
    try:
        yield Stream(server, pipeline, changes)
    finally:
        pipeline.close()
        changes.stop()


@pytest.fixture
def stream(tmp_path: Path, broker: EmbeddedBroker, postgres: EmbeddedPostgres, database: str) -> Iterator[Stream]:
    with _stream(tmp_path, broker, postgres, database) as stream:
        yield stream


@pytest.fixture
def snapshot_stream(tmp_path: Path, broker: EmbeddedBroker, postgres: EmbeddedPostgres, database: str) -> Iterator[Stream]:
    with _stream(tmp_path, broker, postgres, database, rows=20_000) as stream:
        yield stream


def test_nothing_is_lost_when_the_worker_is_killed_at_random_moments(snapshot_stream: Stream) -> None:
    """The first kills interrupt the snapshot, during writes."""
    stream = snapshot_stream
    for kill in range(WORKER_KILLS):
        stream.pipeline.start()
        if kill > 1 and stream.choice.random() < 0.8:
            stream.wait_for_events(1)
            if stream.pipeline.wait_for_crash(stream.choice.uniform(0, 0.8)):
                pytest.fail(stream.pipeline.log_tail())
        else:
            stream.pipeline.wait_for_crash(stream.choice.uniform(0.5, 3))
        stream.pipeline.kill()
        stream.confirmed.check(stream.server)
    stream.pipeline.start()
    stream.assert_nothing_is_lost()


def test_nothing_is_lost_when_the_database_is_killed(stream: Stream) -> None:
    stream.pipeline.start()
    stream.wait_for_events(1)
    for kill in range(SERVER_KILLS):
        if kill % 2:
            stream.server.kill()
        else:  # an immediate shutdown
            stream.server._process.end(signal.SIGQUIT, 20.0)
        stream.server.start()
        stream.confirmed.check(stream.server)
        stream.wait_for_events(20)
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


def test_a_silent_network_is_noticed_and_nothing_is_lost(proxied: tuple[Stream, TcpProxy]) -> None:
    stream, proxy = proxied

    def noticed(cuts: int) -> bool:
        return stream.pipeline.log.read_text().count("has sent nothing for 2 s") >= cuts

    stream.pipeline.start()
    stream.wait_for_events(1)
    for cut in range(1, CUTS + 1):
        # A query, such as for a large value, would wait for its own time limit.
        with stream.changes.paused():
            stream.wait_for_everything()
            proxy.cut()
        wait_until(partial(noticed, cut), ARRIVES_S, "the end of the connection")
        stream.confirmed.check(stream.server)
        proxy.restore()
        stream.wait_for_events(20)
    stream.assert_nothing_is_lost()


def test_promoted_standbys_with_the_slot_are_followed_without_loss(
    tmp_path: Path, servers: Servers, broker: EmbeddedBroker, database: str
) -> None:
    """Each primary is killed during writes. Its changes reach the topic only after they have reached the standby."""
    server = _primary(servers, database)
    with _stream(tmp_path, broker, server, database, slot_failover="true") as stream:
        stream.pipeline.start()
        stream.wait_for_events(1)
        for promotion in range(PROMOTIONS):
            _fail_over(stream, servers, f"standby-{promotion}", with_slot=True)
            stream.wait_for_events(20)
            stream.confirmed.check(stream.server)
        stream.assert_nothing_is_lost()


def test_promoted_standbys_without_the_slot_are_refused(
    tmp_path: Path, servers: Servers, broker: EmbeddedBroker, database: str
) -> None:
    server = _primary(servers, database)
    with _stream(tmp_path, broker, server, database) as stream:
        stream.pipeline.start()
        stream.wait_for_events(1)
        for promotion in range(PROMOTIONS):
            _fail_over(stream, servers, f"standby-{promotion}", with_slot=False)
            stream.wait_for_failure("does not exist on PostgreSQL at")
            stream.pipeline.kill()
            stream.pipeline.configure(snapshot_mode="when_needed")
            stream.pipeline.start()
            stream.wait_for_events(20)
            stream.pipeline.kill()
            stream.pipeline.configure(snapshot_mode="initial")
            stream.pipeline.start()
            stream.wait_for_events(1)
        stream.assert_no_event_is_missing()


@pytest.mark.parametrize("restore", range(RESTORES))
@pytest.mark.parametrize(
    "with_slot",
    [
        # Like a promoted standby without the slot.
        pytest.param(False, id="without the slot", marks=pytest.mark.long),
        pytest.param(True, id="with a slot"),
    ],
)
def test_a_restored_backup_is_refused(
    tmp_path: Path, servers: Servers, broker: EmbeddedBroker, database: str, with_slot: bool, restore: int
) -> None:
    """A backup has no slots. Even with one at the same place, what was read after the backup is missing from the database."""
    server = _primary(servers, database)
    with _stream(tmp_path, broker, server, database) as stream:
        stream.pipeline.start()
        stream.wait_for_events(1)
        servers.copy(server, "backup")
        stream.wait_for_events(stream.choice.randint(20, 80) + restore)
        port = server.port
        if with_slot:  # a running worker may come before the slot exists, and is refused because of that
            stream.pipeline.kill()
        server.kill()
        stream.move_to(_promoted(servers, "backup", port, server.password))
        with stream.server.connect(database) as db:
            db.execute("CREATE TABLE noise AS SELECT generate_series(1, 50000) i")  # past the stored offset
            if with_slot:
                db.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [database])
        if with_slot:
            stream.pipeline.start()
        stream.wait_for_failure("left timeline" if with_slot else "does not exist on PostgreSQL at")
        stream.pipeline.kill()
        stream.pipeline.configure(snapshot_mode="when_needed")
        stream.pipeline.start()
        stream.wait_for_events(20)
        stream.assert_no_event_is_missing()


def _primary(servers: Servers, database: str) -> EmbeddedPostgres:
    server = servers.start("primary")
    server.create_database(database)
    return server


def _fail_over(stream: Stream, servers: Servers, name: str, *, with_slot: bool) -> None:
    """Kills the primary during writes and promotes a standby, at the same address."""
    primary, slot = stream.server, stream.pipeline.prefix
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

                wait_until(is_synced, ARRIVES_S, "the slot on the standby")
        wait_until(lambda: _is_close(copy, primary), ARRIVES_S, "the standby to catch up")
    port = primary.port
    primary.kill()
    copy.stop()
    stream.move_to(_promoted(servers, name, port, primary.password))
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
