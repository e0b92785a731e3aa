"""A worker with exactly-once is killed in the middle of a snapshot and of the stream: nothing is lost or repeated (promise 5)."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.chaos.pipeline import Changes, create_tables
from tests.cluster.cluster import Cluster
from tests.cluster.topics import Stored, latest, read_topic, topic_reader

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
    config = source_config(postgres, database, **{"snapshot.max.threads": str(threads)})
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


def test_a_killed_stream_loses_and_repeats_no_change(
    tmp_path: Path, broker: EmbeddedBroker, postgres: EmbeddedPostgres, database: str
) -> None:
    """Kills are at random moments, or between the records of a transaction and its commit."""
    print(f"to run it again: SLUICE_CHAOS_SEED={SEED} SLUICE_CHAOS_KILLS={KILLS}")  # shown if the test fails
    create_tables(postgres, database, 0)
    topics = [f"{database}.public.events", f"{database}.public.counters"]
    changes, choice = Changes(postgres.dsn(database)), random.Random(SEED)
    with Cluster(broker, tmp_path, 1, PROPERTIES) as cluster, topic_reader(cluster.bootstrap) as reader:
        worker, records = cluster.workers[0], list[Stored]()
        for number in range(max(3, KILLS)):
            is_at_point = choice.random() < 0.5
            worker.start(crash_at=f"source.produced:{choice.randint(2, 40)}" if is_at_point else None)
            if number == 0:
                worker.wait_until_up()
                cluster.client().create("stream", source_config(postgres, database, **{"snapshot.mode": "no_data"}))
                cluster.wait_for_state("stream", tasks=1)
                cluster.wait_for(lambda: phase(cluster, "stream") == "streaming", 60, "the stream")
                changes.start()
            before = len(records)

            def has_new_records(before: int = before) -> bool:
                records.extend(reader.new_records(topics))
                return len(records) > before

            if is_at_point:
                assert worker.wait_for_crash(60), f"the crash point was not reached\n{worker.log_tail()}"
            else:
                worker.wait_for(has_new_records, 60, "changes")
                worker.wait_for_crash(choice.uniform(0, 0.5))
                worker.kill()
        changes.stop()
        cluster.start()
        with postgres.connect(database) as db:
            events = [n for (n,) in db.execute("select n from events order by n").fetchall()]
            counters = dict(db.execute("select id, n from counters where id < 1000").fetchall())

        def has_arrived() -> bool:
            records.extend(reader.new_records(topics))
            return any(r.topic == topics[0] and r.json["after"]["n"] == events[-1] for r in records[::-1])

        cluster.wait_for(has_arrived, 60, "the last change")
        cluster.stop()
        records.extend(reader.new_records(topics))
    assert [r.json["after"]["n"] for r in records if r.topic == topics[0]] == events
    found: dict[int, list[int]] = {}
    for value in (r.json for r in records if r.topic == topics[1] and r.value is not None):
        if value["op"] == "u" and value["after"]["id"] < 1000:
            found.setdefault(value["after"]["id"], []).append(value["after"]["n"])
    assert found == {id_: list(range(2, n + 1)) for id_, n in counters.items() if n > 1}


def source_config(server: EmbeddedPostgres, database: str, **more: str) -> dict[str, str]:
    """The connector of a test, whose topics begin with the database's name."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "database.dbname": database,
        "topic.prefix": database,
        "plugin.name": "pgoutput",
        "slot.name": f"slot_{database}",
        "slot.retry.delay.ms": "200",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "1",
        "slot.drop.on.stop": "true",
        **more,
    }


def phase(cluster: Cluster, connector: str = "snapshot") -> str:
    tasks = cluster.client().progress(connector)
    return str(tasks[0]["details"].get("phase")) if tasks else ""


def reads(records: list[Stored]) -> Counter[Any]:
    return Counter(record.json["after"]["id"] for record in records if record.json is not None and record.json["op"] == "r")
