"""Two processes, each with its own JVM, commit to the same Delta tables on a local disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.tables.delta.compaction import CompactionSettings
from connectors.spark.tables.delta.maintenance import DeltaMaintenance, MaintenanceSettings
from connectors.spark.tables.staging import open_location
from sluice.demo.delta_table import read_delta_table

ROUNDS = int(os.environ.get("SLUICE_COMMIT_ROUNDS", "20"))
"""Number of commits of each process to the append table; a fifth of that to the upsert table."""

_WRITER = """
import json, sys
import pyarrow as pa
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark import config, session
from connectors.spark.plan.deduplicate import DeduplicatedChanges
from connectors.spark.tables.open_table import open_table
from connectors.spark.tables.staging import Staging
from connectors.spark.tables.table import OffsetCommit, Upsert

props, number, rounds = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
partition = TopicPartition("t", number)
lease = session.lease(config.parse_config(props).spark)


def open_one(name, mode):
    parsed = config.parse_config({**props, "write.mode": mode})
    staging = Staging(parsed.location, f"{parsed.connector}-{number}")
    return open_table(parsed, name, lease, staging, lambda topic: TopicIdentity("c", "t"), str(number))


def wait():
    print(lease.session()._jvm.java.lang.ProcessHandle.current().pid(), flush=True)
    sys.stdin.readline()


def commit(table, write):
    # Like the sink: a call that returns None has changed nothing, and is repeated on the table's new version.
    for _ in range(1000):
        state = table.load([partition])
        first = state.ends.get(partition, 0)
        landed = write(state, OffsetCommit({partition: (first, first + 1)}, {partition: first + 1}))
        if landed is not None:
            return landed
    raise SystemExit("other writers always committed first")


def appended(number, round):
    return pa.table({"by": pa.array([number], pa.int64()), "n": pa.array([round], pa.int64())})


def upsert(state, commit, round):
    # One row of its own per round, and one that both processes write.
    rows = pa.table({"id": pa.array([100 * number + round, -1], pa.int64()), "by": pa.array([number, number], pa.int64())})
    changes = DeduplicatedChanges(rows, pa.table({}), pa.chunked_array([[False, False]]), {}, None)
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


def test_no_commit_of_two_processes_is_lost(props: dict[str, Any], tmp_path: Path) -> None:
    own = {**props, "spark.master": "local[1]", "spark.conf.spark.driver.memory": "512m"}
    command = [sys.executable, "-c", _WRITER, json.dumps(own)]
    writers = [
        subprocess.Popen([*command, str(n), str(ROUNDS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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
        for writer in writers:
            writer.communicate(timeout=240)
            assert writer.returncode == 0
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    lake = Path(props["table.location"])
    rows = read_delta_table(lake / "appended").to_pylist()
    assert Counter((row["by"], row["n"]) for row in rows) == Counter((by, n) for by in (0, 1) for n in range(ROUNDS))
    found = [row["id"] for row in read_delta_table(lake / "upserted").to_pylist()]
    assert sorted(found) == [-1, *(100 * by + n for by in (0, 1) for n in range(ROUNDS // 5))]
    for table, commits in (("appended", 2 * ROUNDS), ("upserted", 2 * (ROUNDS // 5))):
        logged = [
            json.loads(line) for log in (lake / table / "_delta_log").glob("*.json") for line in log.read_text().splitlines()
        ]
        ends = Counter(int(action["txn"]["version"]) for action in logged if "txn" in action)
        assert ends == Counter(dict.fromkeys(range(1, commits // 2 + 1), 2))


def test_vacuum_makes_no_commits_which_the_lock_would_not_guard(props: dict[str, Any], tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lease = session.lease(parse_config(props).spark)
    try:
        spark = lease.session()
        spark.sql(f"CREATE TABLE delta.`{path}` (n INT) USING delta")
        orphan = tmp_path / "t" / "part-orphan.parquet"
        orphan.touch()
        os.utime(orphan, (0, 0))
        maintenance = DeltaMaintenance(
            spark, path, *open_location(path), MaintenanceSettings(CompactionSettings(min_files=0), 1e-9)
        )
        maintenance.run(lambda: False, lambda: False)
        assert not orphan.exists()
    finally:
        lease.release()
    assert sorted(log.name for log in (tmp_path / "t" / "_delta_log").glob("*.json")) == ["00000000000000000000.json"]
