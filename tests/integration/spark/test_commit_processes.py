"""Two processes, each with its own JVM, commit to the same Delta tables on a local disk and on S3."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.tables.delta.log import DeltaLog
from connectors.spark.tables.delta.maintenance import DeltaMaintenance
from connectors.spark.tables.staging import open_location
from sluice.demo.delta_table import DeltaTableReader, read_delta_table
from tests.support import randomness
from tests.support.s3 import EmbeddedS3

pytestmark = pytest.mark.long

ROUNDS = randomness.size("SLUICE_ROUNDS", 10)
"""Number of commits of each process to the append table on a disk; a fifth of it to the upsert table."""
S3_ROUNDS = max(5, ROUNDS // 4)
"""The same on S3."""

_WRITER = """
import json, sys
import pyarrow as pa
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark import config, session
from connectors.spark.decode.change_batch import empty_rows
from connectors.spark.plan.deduplicate import DeduplicatedChanges
from connectors.spark.tables.open_table import open_table
from connectors.spark.tables.staging import Staging
from connectors.spark.tables.table import OffsetCommit, Upsert

props, number, rounds = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
partition = TopicPartition("t", number)
lease = session.lease(config.parse_config(props).spark)


def open_one(name, mode):
    parsed = config.parse_config({**props, "write.mode": mode})
    staging = Staging(parsed.location, f"{parsed.connector}-{number}", parsed.spark.s3)
    return open_table(parsed, name, lease, staging, lambda topic: TopicIdentity("c", "t"))


def wait():
    print(lease.session()._jvm.java.lang.ProcessHandle.current().pid(), flush=True)
    sys.stdin.readline()


def commit(table, write):
    # Like the sink: a call that returns None has changed nothing, and is repeated on the table's new version.
    for _ in range(1000):
        state = table.load([partition])
        first = state.ends.get(partition, 0)
        known = {partition: first} if first else {}
        landed = write(state, OffsetCommit({partition: (first, first + 1)}, {partition: first + 1}, known))
        if landed is not None:
            return landed
    raise SystemExit("other writers always committed first")


def appended(number, round):
    return pa.table({"by": pa.array([number], pa.int64()), "n": pa.array([round], pa.int64())})


def upsert(state, commit, round):
    # One row of its own per round, and one that both processes write.
    rows = pa.table({"id": pa.array([100 * number + round, -1], pa.int64()), "by": pa.array([number, number], pa.int64())})
    changes = DeduplicatedChanges(rows, empty_rows(2), pa.chunked_array([[False, False]]), {}, None)
    return table.upsert(Upsert(rows, changes, ("id",), state.columns, False), commit)


wait()
table = open_one("appended", "append")
if table.load([partition]).columns is None:
    table.create({"by": pa.int64(), "n": pa.int64()}, ())
for round in range(rounds):
    commit(table, lambda state, offsets: table.append(appended(number, round), offsets))
table = open_one("upserted", "upsert")
if table.load([partition]).columns is None:
    table.create({"id": pa.int64(), "by": pa.int64()}, ("id",))
for round in range(rounds // 5):
    commit(table, lambda state, offsets: upsert(state, offsets, round))
session.stop()
"""


@pytest.fixture
def s3() -> Iterator[EmbeddedS3]:
    server = EmbeddedS3()
    yield server
    server.stop()


class OptimizingSpark:
    """A third Spark, which optimizes tables until the others have ended. On a local disk, their lock would not keep it away."""

    def __init__(self, props: dict[str, Any], tables: list[str], storage_options: dict[str, str]) -> None:
        self._lease = session.lease(parse_config(props).spark)
        self._spark = self._lease.session()
        self._tables = tables
        self._storage_options = storage_options
        self.rounds = 0

    def optimize(self) -> None:
        for table in self._tables:
            if not DeltaTable.is_deltatable(table, self._storage_options):
                continue
            try:
                self._spark.sql(f"OPTIMIZE delta.`{table}`")
                self.rounds += 1
            except Exception as e:
                if "DELTA_CONCURRENT" not in str(e):
                    raise

    def close(self) -> None:
        self._lease.release()


def test_no_commit_of_two_processes_on_a_disk_is_lost(props: dict[str, Any]) -> None:
    run_writers(props, ROUNDS, lambda: None)
    check_tables(props, ROUNDS, {})


@pytest.mark.long
def test_no_commit_of_two_processes_on_s3_is_lost(props: dict[str, Any], s3: EmbeddedS3) -> None:
    prefix = "spark.conf.spark.hadoop.fs.s3a."
    own = {**props, "table.location": f"s3a://{s3.create_bucket()}/lake", f"{prefix}endpoint": s3.endpoint}
    own |= {f"{prefix}access.key": "test", f"{prefix}secret.key": "test", f"{prefix}endpoint.region": "us-east-1"}
    tables = [f"{own['table.location']}/{name}" for name in ("appended", "upserted")]
    optimizing = OptimizingSpark(own, tables, s3.storage_options)
    try:
        run_writers(own, S3_ROUNDS, optimizing.optimize)
        optimizing.optimize()
    finally:
        optimizing.close()
    assert optimizing.rounds
    check_tables(own, S3_ROUNDS, s3.storage_options)


def run_writers(props: dict[str, Any], rounds: int, meanwhile: Callable[[], None]) -> None:
    own = {**props, "spark.master": "local[1]", "spark.conf.spark.driver.memory": "512m"}
    command = [sys.executable, "-c", _WRITER, json.dumps(own)]
    writers = [
        subprocess.Popen([*command, str(n), str(rounds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for n in (0, 1)
    ]
    try:
        machines = [writer.stdout.readline().strip() for writer in writers if writer.stdout]
        assert len(set(machines)) == 2
        assert all(machine.isdecimal() for machine in machines)
        for writer in writers:
            assert writer.stdin
            writer.stdin.write("\n")
            writer.stdin.flush()
        while any(writer.poll() is None for writer in writers):
            meanwhile()
            with contextlib.suppress(subprocess.TimeoutExpired):
                writers[0].wait(3.0)
        for writer in writers:
            writer.communicate(timeout=240)
            assert writer.returncode == 0
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()


def check_tables(props: dict[str, Any], rounds: int, storage_options: dict[str, str]) -> None:
    """Both tables have the rows of all commits, and each commit is in the log once."""
    lake = props["table.location"]
    rows = read_delta_table(f"{lake}/appended", None, storage_options).to_pylist()
    assert Counter((row["by"], row["n"]) for row in rows) == Counter((by, n) for by in (0, 1) for n in range(rounds))
    found = [row["id"] for row in read_delta_table(f"{lake}/upserted", None, storage_options).to_pylist()]
    assert sorted(found) == [-1, *(100 * by + n for by in (0, 1) for n in range(rounds // 5))]
    for table, commits in (("appended", rounds), ("upserted", rounds // 5)):
        files, folder = open_location(f"{lake}/{table}", parse_config(props).spark.s3)
        log = DeltaLog(files, folder)
        newest = DeltaTableReader(f"{lake}/{table}", storage_options=storage_options).version
        ends = Counter(end for commit in log.backwards(newest) for end in commit.transactions.values())
        assert ends == Counter(dict.fromkeys(range(1, commits + 1), 2))


def test_vacuum_makes_no_commits_which_the_lock_would_not_guard(props: dict[str, Any], tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lease = session.lease(parse_config(props).spark)
    try:
        spark = lease.session()
        spark.sql(f"CREATE TABLE delta.`{path}` (n INT) USING delta")
        orphan = tmp_path / "t" / "part-orphan.parquet"
        orphan.touch()
        os.utime(orphan, (0, 0))
        maintenance = DeltaMaintenance(spark, path, *open_location(path), 1e-9)
        maintenance.run(lambda: False, lambda: False)
        assert not orphan.exists()
    finally:
        lease.release()
    assert sorted(log.name for log in (tmp_path / "t" / "_delta_log").glob("*.json")) == ["00000000000000000000.json"]
