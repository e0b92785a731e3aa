"""The source of MariaDB loses nothing when its worker, server, or broker is killed, and when files of the log are removed.

The topics hold every committed change, in order, and replay to the tables. After each kill, what the stored offset contains is in
the topic. ``SLUICE_CHAOS_KILLS`` is the number of kills.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.chaos.mariadb_pipeline import MariaDbStream, create_tables
from tests.chaos.source_pipeline import ARRIVES_S, wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3000)]

KILLS = int(os.environ.get("SLUICE_CHAOS_KILLS", "0"))
WORKER_KILLS = max(3, KILLS)
SERVER_KILLS = min(10, max(1, KILLS // 10))
BROKER_KILLS = min(5, max(1, KILLS // 20))
SEED = os.environ.get("SLUICE_CHAOS_SEED", "mariadb")
REACHED_S = 60.0
POINTS = {
    "mysql.snapshot": 4,
    "source.polled": 3,
    "source.produced": 3,
    "offsets.drafted": 2,
    "offsets.written": 2,
    "mysql.history": 2,
}
"""Where the worker kills itself, at the latest at the n-th time."""


@contextmanager
def _stream(folder: Path, broker: EmbeddedBroker, server: EmbeddedMariaDB, database: str, rows: int) -> Iterator[MariaDbStream]:
    print(f"to run it again: SLUICE_CHAOS_SEED={SEED} SLUICE_CHAOS_KILLS={KILLS}")  # shown if the test fails
    create_tables(server, database, rows)
    stream = MariaDbStream(folder, broker, server, database)
    stream.changes.start()
    try:
        yield stream
    finally:
        stream.pipeline.close()
        stream.changes.stop()


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


def test_nothing_is_lost_when_the_worker_is_killed_at_random_moments(snapshot_stream: MariaDbStream) -> None:
    """The first kills interrupt the snapshot. Files of the log begin at any moment; those that were read are removed."""
    stream, choice = snapshot_stream, random.Random(SEED)
    for kill in range(WORKER_KILLS):
        stream.pipeline.start()
        if kill > 1 and choice.random() < 0.8:
            stream.wait_for_events(1)
            if choice.random() < 0.5:
                stream.switch_file()
            assert not stream.pipeline.wait_for_crash(choice.uniform(0, 0.8)), stream.pipeline.log_tail()
        else:
            stream.pipeline.wait_for_crash(choice.uniform(0.5, 4))
        stream.pipeline.kill()
        stream.check_stored()
        if choice.random() < 0.5:
            stream.switch_file()
        stream.purge_read()
    # However early those kills were, the next one is in the stream, and files were read before.
    stream.pipeline.start()
    stream.wait_for_stored_position(stream.switch_file())
    stream.pipeline.kill()
    stream.check_stored()
    stream.purge_read()
    stream.pipeline.start()
    stream.assert_nothing_is_lost()
    assert stream.checked
    assert stream.purged


def test_nothing_is_lost_at_any_crash_point(snapshot_stream: MariaDbStream) -> None:
    stream, choice = snapshot_stream, random.Random(SEED)
    for point, times in POINTS.items():
        stream.pipeline.start(f"{point}:{choice.randint(1, times)}")
        assert stream.pipeline.wait_for_crash(REACHED_S), f"{point} was not reached: {stream.pipeline.log_tail()}"
        stream.check_stored()
        stream.switch_file()
        stream.purge_read()
    stream.pipeline.start()
    stream.assert_nothing_is_lost()


def test_nothing_is_lost_when_the_database_is_killed(stream: MariaDbStream) -> None:
    stream.pipeline.start()
    stream.wait_for_events(1)
    for _ in range(SERVER_KILLS):
        stream.server.kill()
        stream.server.start()
        stream.wait_for_events(20)
    stream.wait_for_stored_position()
    stream.pipeline.kill()
    stream.check_stored()
    stream.pipeline.start()
    stream.assert_nothing_is_lost()
    assert stream.checked


def test_nothing_is_lost_when_the_broker_is_killed(stream: MariaDbStream, broker: EmbeddedBroker) -> None:
    stream.pipeline.start()
    stream.wait_for_events(1)
    for _ in range(BROKER_KILLS):
        broker.kill()
        stream.switch_file()
        broker.start()
        stream.wait_for_events(20)
    stream.assert_nothing_is_lost()


def test_removed_files_that_were_not_read_are_a_lost_position(stream: MariaDbStream) -> None:
    """It is named, and ``snapshot.mode=when_needed`` recovers by a new snapshot."""
    stream.stream_and_kill()
    stored, committed = set(stream.pipeline.numbers()), stream.changes.committed
    wait_until(lambda: stream.changes.committed > committed, ARRIVES_S, "an event that is not read")
    with stream.changes.paused():
        stream.purge_unread()
    assert {n for (n,) in stream.query("SELECT n FROM events")} - stored, "nothing was lost"
    stream.pipeline.start()
    stream.wait_for_failure("it was removed before the connector read it. Take a new snapshot (snapshot.mode=when_needed)")
    stream.pipeline.kill()
    stream.pipeline.configure(snapshot_mode="when_needed")
    stream.pipeline.start()
    stream.wait_for_events(20)
    stream.assert_no_event_is_missing()
    rows = {id: (n, note) for id, n, note in stream.query("SELECT id, n, note FROM counters")}
    assert {id: row for id, row in stream.counters().items() if id in rows} == rows
