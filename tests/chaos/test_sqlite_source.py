"""The SQLite source loses nothing when its worker or a writer is killed: the replayed topics equal the database."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.sqlite.triggers.ddl import CaptureNames
from rest.client import ConnectClient
from sluice.embedded import process
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import free_ports
from tests.chaos.source_pipeline import TopicReader, wait_until
from tests.integration.sqlite.replay import ReplayedTables
from tests.support.sqlite_writer import KEYS, create_tables, write_transaction

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3000)]

KILLS = max(3, int(os.environ.get("SLUICE_CHAOS_KILLS", "0")))
SEED = os.environ.get("SLUICE_CHAOS_SEED", "sqlite")
SOURCE = "chaos-sqlite"
_ARRIVES_S = 120.0


class SqlitePipeline:
    """A worker with the source alone, and a writer in another process."""

    def __init__(self, home: Path, broker: EmbeddedBroker, prefix: str) -> None:
        self.home, self.prefix, self.file = home, prefix, home / "shop.db"
        self.log = home / "worker.log"
        self.child: subprocess.Popen[bytes] | None = None
        self.writer: subprocess.Popen[bytes] | None = None
        port = free_ports(1)[0]
        self.client = ConnectClient(f"http://127.0.0.1:{port}")
        worker = {
            "bootstrap.servers": broker.bootstrap,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": str(home / "offsets"),
            "offset.flush.interval.ms": "100",
            "task.executors": "0",  # workers start twice as fast without
            "listeners": f"http://127.0.0.1:{port}",
        }
        source = {
            "name": SOURCE,
            "connector.class": "SqliteSource",
            "topic.prefix": prefix,
            "database.file": str(self.file),
            "binary.handling.mode": "hex",
            "database.busy.timeout.ms": "20000",
        }
        self._files = [self._write("worker", worker), self._write(SOURCE, source)]
        self._readers = {table: TopicReader(broker.bootstrap, f"{prefix}.main.{table}") for table in KEYS}
        self._replayed = ReplayedTables(KEYS)
        self._replayed_values = dict.fromkeys(KEYS, 0)

    def _write(self, name: str, properties: dict[str, str]) -> str:
        path = self.home / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
        return str(path)

    def start(self, crash_at: str = "") -> None:
        environment = {**os.environ, **({"SLUICE_CRASH_AT": f"worker/{crash_at}"} if crash_at else {})}
        command = [sys.executable, "-m", "sluice.run.standalone", *self._files]
        self.child = process.spawn(command, log=self.log, cwd=Path.cwd(), environment=environment, death_signal=signal.SIGKILL)

    def start_writer(self, seed: str) -> None:
        command = [sys.executable, "-m", "tests.support.sqlite_writer", str(self.file), seed]
        self.writer = subprocess.Popen(command)

    def kill_writer(self) -> None:
        if self.writer is not None:
            self.writer.kill()
            self.writer.wait(30)

    def wait_for_crash(self, timeout_s: float) -> bool:
        """Waits for the worker to kill itself. Returns whether it did in time."""
        assert self.child is not None
        try:
            return self.child.wait(timeout_s) == -signal.SIGKILL
        except subprocess.TimeoutExpired:
            return False

    def kill(self) -> None:
        self.client.close()
        if self.child is not None:
            self.child.kill()
            self.child.wait(30)

    def log_tail(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:]

    def replay(self) -> ReplayedTables:
        """The rows that the topics add up to, without the table whose rows have no key: it may have duplicates."""
        for table, reader in self._readers.items():
            values = reader.read() if KEYS[table] else []
            for value in values[self._replayed_values[table] :]:
                if value is not None:
                    self._replayed.apply(value)
            self._replayed_values[table] = len(values)
        return self._replayed

    def plain_rows(self) -> tuple[set[Any], set[Any]]:
        """Rows without a key that were ever in the topic, and those of the database."""
        images = (value[side] for value in self._readers["plain"].read() if value for side in ("before", "after"))
        with sqlite3.connect(self.file, timeout=60) as db:
            rows = set(db.execute("SELECT n, t FROM plain"))
        db.close()
        return {(image["n"], image["t"]) for image in images if image}, rows

    def differences(self) -> dict[str, Any]:
        db = sqlite3.connect(self.file, timeout=60)
        db.execute("CREATE TEMP VIEW named AS SELECT name, lower(hex(data)) AS data FROM main.named")
        try:
            return self.replay().differences(db, [table for table in KEYS if KEYS[table]])
        finally:
            db.close()

    def assert_nothing_is_lost(self) -> None:
        """Waits until the topics replay to the tables, while nothing is written."""
        self.kill_writer()
        try:
            wait_until(lambda: self.differences() == {}, _ARRIVES_S, "everything")
        except AssertionError as e:
            raise AssertionError(f"{SEED=}: {self.differences()}\n{self.log_tail()}") from e
        in_topic, in_database = self.plain_rows()
        assert in_database <= in_topic

    def close(self) -> None:
        self.kill_writer()
        self.kill()
        for reader in self._readers.values():
            reader.close()


@pytest.fixture
def pipeline(tmp_path: Path, broker: EmbeddedBroker, request: pytest.FixtureRequest) -> Iterator[SqlitePipeline]:
    print(f"to run it again: SLUICE_CHAOS_SEED={SEED} SLUICE_CHAOS_KILLS={KILLS}")
    pipeline = SqlitePipeline(tmp_path, broker, f"sqlite-{abs(hash(request.node.name)) % 10**8}")
    choice = random.Random(SEED)
    db = sqlite3.connect(pipeline.file, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    create_tables(db)
    numbers = "WITH RECURSIVE c(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM c WHERE i < 15000)"
    db.execute(f"{numbers} INSERT INTO children SELECT i, NULL FROM c")
    for _ in range(100):
        write_transaction(db, choice)
    db.close()
    yield pipeline
    pipeline.close()


def test_nothing_is_lost_when_worker_and_writer_are_killed_at_random_moments(pipeline: SqlitePipeline) -> None:
    """The first kills interrupt the snapshot, during writes."""
    choice = random.Random(SEED)
    pipeline.start_writer(SEED)
    for kill in range(KILLS):
        pipeline.start()
        assert not pipeline.wait_for_crash(choice.uniform(0.5, 3.5)), pipeline.log_tail()
        if choice.random() < 0.5:
            pipeline.kill_writer()
            pipeline.start_writer(f"{SEED}-{kill}")
        pipeline.kill()
    pipeline.start()
    pipeline.assert_nothing_is_lost()


@pytest.mark.parametrize(
    "point",
    [
        "sqlite.snapshot",
        "sqlite.deleted:2",
        # Points of all sources, at which other tests kill a worker in each run.
        pytest.param("source.produced", marks=pytest.mark.long),
        pytest.param("offsets.written", marks=pytest.mark.long),
    ],
)
def test_nothing_is_lost_when_the_worker_dies_at_a_crash_point(pipeline: SqlitePipeline, point: str) -> None:
    pipeline.start_writer(SEED)
    pipeline.start(point)
    assert pipeline.wait_for_crash(_ARRIVES_S), pipeline.log_tail()
    pipeline.start()
    pipeline.assert_nothing_is_lost()
    offset = json.dumps(pipeline.client.offsets(SOURCE))
    assert '"seq"' in offset
    db = sqlite3.connect(pipeline.file)
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
    assert len([name for name in names if CaptureNames.of("").is_trigger(name)]) == len(set(names) - {"count"})
    db.close()
