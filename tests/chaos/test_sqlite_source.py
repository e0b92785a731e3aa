"""The SQLite source loses nothing when its worker or a writer is killed: the replayed topics equal the database."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from connectors.sqlite.triggers.ddl import CaptureNames
from sluice.embedded.broker import EmbeddedBroker
from tests.support import randomness
from tests.support.replayed_topics import ReplayedTopics
from tests.support.sqlite_writer import KEYS, create_tables, write_transaction
from tests.support.standalone_worker import SOURCE_ONLY, create_worker
from tests.support.waiting import WAIT_S, eventually

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3000)]

KILLS = randomness.size("SLUICE_KILLS", 3)
SOURCE = "chaos-sqlite"


class SqliteStream:
    """A worker with the source alone, and a writer in another process."""

    def __init__(self, home: Path, broker: EmbeddedBroker, prefix: str) -> None:
        self.file = home / "shop.db"
        self._writer: subprocess.Popen[bytes] | None = None
        source = {
            "connector.class": "SqliteSource",
            "topic.prefix": prefix,
            "database.file": str(self.file),
            "binary.handling.mode": "hex",
            "database.busy.timeout.ms": "20000",
        }
        self.worker = create_worker(home, broker, {SOURCE: source}, SOURCE_ONLY)
        # A table whose rows have no key may have duplicates.
        self._keys = {table: key for table, key in KEYS.items() if key}
        self._topics = ReplayedTopics(broker.bootstrap, {table: f"{prefix}.main.{table}" for table in KEYS}, self._keys)

    def start_writer(self, name: str = "first") -> None:
        command = [sys.executable, "-m", "tests.support.sqlite_writer", str(self.file), f"{randomness.SEED}-{name}"]
        self._writer = subprocess.Popen(command)

    def kill_writer(self) -> None:
        if self._writer is not None:
            self._writer.kill()
            self._writer.wait(WAIT_S)

    def differences(self) -> dict[str, Any]:
        with closing(sqlite3.connect(self.file, timeout=WAIT_S)) as db:
            db.execute("CREATE TEMP VIEW named AS SELECT name, lower(hex(data)) AS data FROM main.named")
            return self._topics.replay().differences(db.execute, self._keys)

    def assert_nothing_is_lost(self) -> None:
        """Waits until the topics replay to the tables, while nothing is written."""
        self.kill_writer()
        eventually(lambda: self.differences() == {}, "everything", lambda: (self.differences(), self.worker.log_tail()))
        images = (value[side] for value in self._topics.values("plain") if value for side in ("before", "after"))
        in_topic = {(image["n"], image["t"]) for image in images if image}
        with closing(sqlite3.connect(self.file, timeout=WAIT_S)) as db:
            assert set(db.execute("SELECT n, t FROM plain")) <= in_topic

    def close(self) -> None:
        self.kill_writer()
        self.worker.end()
        self._topics.close()


@pytest.fixture
def stream(tmp_path: Path, broker: EmbeddedBroker, unique_name: Callable[[str], str]) -> Iterator[SqliteStream]:
    stream = SqliteStream(tmp_path, broker, unique_name("sqlite"))
    choice = randomness.chance("rows")
    with closing(sqlite3.connect(stream.file, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        create_tables(db)
        numbers = "WITH RECURSIVE c(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM c WHERE i < 15000)"
        db.execute(f"{numbers} INSERT INTO children SELECT i, NULL FROM c")
        for _ in range(100):
            write_transaction(db, choice)
    yield stream
    stream.close()


@pytest.mark.long
def test_nothing_is_lost_when_worker_and_writer_are_killed_at_random_moments(stream: SqliteStream) -> None:
    choice = randomness.chance("kills")
    stream.start_writer()
    for kill in range(KILLS):
        stream.worker.start()
        stream.worker.wait_until_up()
        stream.worker.run_for(choice.uniform(0, 3))
        if choice.random() < 0.5:
            stream.kill_writer()
            stream.start_writer(str(kill))
        stream.worker.kill()
    stream.worker.start()
    stream.assert_nothing_is_lost()


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("sqlite.snapshot", marks=pytest.mark.long),
        "sqlite.deleted:2",
        # Points of all sources, at which other tests kill a worker in each run.
        pytest.param("source.produced", marks=pytest.mark.long),
        pytest.param("offsets.written", marks=pytest.mark.long),
    ],
)
def test_nothing_is_lost_when_the_worker_dies_at_a_crash_point(stream: SqliteStream, point: str) -> None:
    stream.start_writer()
    stream.worker.start(point)
    stream.worker.wait_for_crash(point)
    stream.worker.start()
    stream.assert_nothing_is_lost()
    offset = json.dumps(stream.worker.client.offsets(SOURCE))
    assert '"seq"' in offset
    db = sqlite3.connect(stream.file)
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
    assert len([name for name in names if CaptureNames.of("").is_trigger(name)]) == len(set(names) - {"count"})
    db.close()
