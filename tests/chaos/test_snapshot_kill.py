"""A worker with exactly-once is killed in the middle of a snapshot: no row is lost, and none is repeated (promise 5)."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.cluster.cluster import Cluster
from tests.cluster.topics import Stored, latest, read_topic

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]

ROWS = 40_000
PROPERTIES = {
    "exactly.once.source.support": "enabled",
    "task.executors": "0",
    "session.timeout.ms": "1500",
    "heartbeat.interval.ms": "300",
    "scheduled.rebalance.max.delay.ms": "0",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}
CRASHES = {"postgres.snapshot": 5, "source.produced": 3}
"""While rows are read, and before the transaction of rows and their offset is committed; with the highest number of the batch or
transaction, whose batches become more and more."""
KILLS = int(os.environ.get("SLUICE_CHAOS_KILLS", "0"))
SEED = os.environ.get("SLUICE_CHAOS_SEED", "snapshot")


def crashes(run: int) -> list[str]:
    """Where the kills of a run are: the first run has both points, others choose by the seed."""
    if run == 0:
        return [f"{point}:{most}" for point, most in CRASHES.items()]
    choice = random.Random(f"{SEED}-{run}")
    chosen = [choice.choice(list(CRASHES)) for _ in CRASHES]
    return [f"{point}:{choice.randint(1, CRASHES[point])}" for point in chosen]


@pytest.mark.parametrize("threads", [1, 3] if KILLS else [3])
@pytest.mark.parametrize("run", range(max(1, KILLS // 4)))
def test_a_killed_snapshot_loses_and_repeats_no_row(
    tmp_path: Path, broker: EmbeddedBroker, postgres: EmbeddedPostgres, database: str, run: int, threads: int
) -> None:
    print(f"to run it again: SLUICE_CHAOS_SEED={SEED} SLUICE_CHAOS_KILLS={KILLS}: {crashes(run)}")  # shown if the test fails
    topic = f"{database}.public.t"
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": postgres.host,
        "database.port": str(postgres.port),
        "database.user": postgres.user,
        "database.password": postgres.password,
        "database.dbname": database,
        "topic.prefix": database,
        "plugin.name": "pgoutput",
        "slot.name": f"slot_{database}",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "1",
        "slot.drop.on.stop": "true",
        "snapshot.max.threads": str(threads),
    }
    with postgres.connect(database, autocommit=True) as db, Cluster(broker, tmp_path, 1, PROPERTIES) as cluster:
        db.execute(f"create table t(id int primary key, v int); insert into t select i, 0 from generate_series(1, {ROWS}) i")
        db.execute("create table z(id int primary key)")
        worker, has_begun = cluster.workers[0], False
        for number, crash in enumerate(crashes(run)):
            worker.start(crash_at=crash)
            if number == 0:
                worker.wait_until_up()
                cluster.client().create("snapshot", config)
            assert worker.wait_for_crash(60), f"{crash} was not reached\n{worker.log_tail()}"
            has_begun = bool(reads(read_topic(cluster.bootstrap, topic)))
            db.execute(f"update t set v = {number + 1} where id in (1, 3000, {ROWS})")
            db.execute(f"delete from t where id = {number + 2}; insert into t values ({-number}, 9)")
            db.execute(f"update t set id = id + {ROWS} where id in ({number + 10}, {ROWS - 10 - number})")
        cluster.start()
        cluster.wait_for(lambda: phase(cluster) == "streaming", 60, "the end of the snapshot")
        db.execute("insert into z values (1)")
        cluster.wait_for(lambda: f"{database}.public.z" in cluster.client().topics("snapshot"), 60, "the last change")
        records = read_topic(cluster.bootstrap, topic)
        rows = {(id_, v) for id_, v in db.execute("select id, v from t").fetchall()}
        log = worker.log_tail()
        cluster.stop()
    found = {(value["after"]["id"], value["after"]["v"]) for value in latest(records).values() if value["after"] is not None}
    assert found == rows
    changed = {1, 2, 3, 10, 11, 3000, ROWS, ROWS - 10, ROWS - 11}
    assert {count for id_, count in reads(records).items() if 0 < id_ <= ROWS and id_ not in changed} == {1}
    assert ("the snapshot continues" in log) == has_begun


def phase(cluster: Cluster) -> str:
    tasks = cluster.client().progress("snapshot")
    return str(tasks[0]["details"].get("phase")) if tasks else ""


def reads(records: list[Stored]) -> Counter[Any]:
    return Counter(record.json["after"]["id"] for record in records if record.json is not None and record.json["op"] == "r")
