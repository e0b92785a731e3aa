"""A worker with exactly-once is killed in the middle of a snapshot and of the stream: nothing is lost or repeated (promise 5)."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.cluster.cluster import Cluster
from tests.cluster.topics import Stored, latest, read_topic
from tests.support import randomness
from tests.support.numbered_changes import CommittedChanges, NumberedTables
from tests.support.postgres_options import postgres_source
from tests.support.replayed_topics import TopicFollower
from tests.support.waiting import WAIT_S

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
KILLS = randomness.size("SLUICE_KILLS", 3)


def crashes(run: int) -> list[str]:
    """Where the kills of a run are: the first run has both points, others choose by the seed."""
    if run == 0:
        return [f"{point}:{most}" for point, most in CRASHES.items()]
    choice = randomness.chance(f"crashes-{run}")
    chosen = [choice.choice(list(CRASHES)) for _ in CRASHES]
    return [f"{point}:{choice.randint(1, CRASHES[point])}" for point in chosen]


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.long), 3])
@pytest.mark.parametrize("run", range(max(1, KILLS // 4)))
@pytest.mark.long
def test_a_killed_snapshot_loses_and_repeats_no_row(
    tmp_path: Path, broker: EmbeddedBroker, postgres: EmbeddedPostgres, database: str, run: int, threads: int
) -> None:
    topic = f"{database}.public.t"
    config = source_config(postgres, database, snapshot_max_threads=str(threads))
    with postgres.connect(database, autocommit=True) as db, Cluster(broker, tmp_path, 1, PROPERTIES) as cluster:
        db.execute(f"create table t(id int primary key, v int); insert into t select i, 0 from generate_series(1, {ROWS}) i")
        db.execute("create table z(id int primary key)")
        worker, has_begun = cluster.workers[0], False
        for number, crash in enumerate(crashes(run)):
            worker.start(crash_at=crash)
            if number == 0:
                worker.wait_until_up()
                cluster.client().create("snapshot", config)
            worker.wait_for_crash(crash)
            has_begun = bool(reads(read_topic(cluster.bootstrap, topic)))
            db.execute(f"update t set v = {number + 1} where id in (1, 3000, {ROWS})")
            db.execute(f"delete from t where id = {number + 2}; insert into t values ({-number}, 9)")
            db.execute(f"update t set id = id + {ROWS} where id in ({number + 10}, {ROWS - 10 - number})")
        cluster.start()
        cluster.wait_for(lambda: phase(cluster) == "streaming", WAIT_S, "the end of the snapshot")
        db.execute("insert into z values (1)")
        cluster.wait_for(lambda: f"{database}.public.z" in cluster.client().topics("snapshot"), WAIT_S, "the last change")
        records = read_topic(cluster.bootstrap, topic)
        rows = {(id_, v) for id_, v in db.execute("select id, v from t").fetchall()}
        log = worker.log_tail()
        cluster.stop()
    found = {(value["after"]["id"], value["after"]["v"]) for value in latest(records).values() if value["after"] is not None}
    assert found == rows
    changed = {1, 2, 3, 10, 11, 3000, ROWS, ROWS - 10, ROWS - 11}
    assert {count for id_, count in reads(records).items() if 0 < id_ <= ROWS and id_ not in changed} == {1}
    assert ("the snapshot continues" in log) == has_begun


@pytest.mark.long
def test_a_killed_stream_loses_and_repeats_no_change(
    tmp_path: Path, broker: EmbeddedBroker, postgres: EmbeddedPostgres, database: str
) -> None:
    """Kills are at random moments, or between the records of a transaction and its commit."""
    tables = NumberedTables.in_postgres(postgres, database, 0)
    changes, choice = CommittedChanges(tables), randomness.chance("moments")
    with (
        Cluster(broker, tmp_path, 1, PROPERTIES) as cluster,
        closing(TopicFollower(cluster.bootstrap, f"{database}.public.events")) as events,
        closing(TopicFollower(cluster.bootstrap, f"{database}.public.counters")) as counters,
    ):
        worker = cluster.workers[0]
        for number in range(KILLS):
            crash = f"source.produced:{choice.randint(2, 40)}" if choice.random() < 0.5 else None
            worker.start(crash_at=crash)
            if number == 0:
                worker.wait_until_up()
                cluster.client().create("stream", source_config(postgres, database, snapshot_mode="no_data"))
                cluster.wait_for_state("stream", tasks=1)
                cluster.wait_for(lambda: phase(cluster, "stream") == "streaming", WAIT_S, "the stream")
                changes.start()
            before = len(events.values())

            def has_new_events(before: int = before) -> bool:
                return len(events.values()) > before

            if crash is not None:
                worker.wait_for_crash(crash)
            else:
                worker.wait_for(has_new_events, WAIT_S, "changes")
                worker.run_for(choice.uniform(0, 0.5))
                worker.kill()
        changes.stop()
        cluster.start()
        numbers = tables.numbers()
        versions = dict(tables.query("select id, n from counters where id < 1000"))
        cluster.wait_for(lambda: any(e["after"]["n"] == numbers[-1] for e in events.values()[::-1]), WAIT_S, "the last change")
        cluster.stop()
        assert [event["after"]["n"] for event in events.values()] == numbers
        changed = [(value["after"]["id"], value["after"]["n"]) for value in counters.values() if value and value["op"] == "u"]
    found: dict[int, list[int]] = {}
    for id_, n in changed:
        if id_ < 1000:
            found.setdefault(id_, []).append(n)
    assert found == {id_: list(range(2, n + 1)) for id_, n in versions.items() if n > 1}


def source_config(server: EmbeddedPostgres, database: str, **options: str) -> dict[str, str]:
    topics = {"topic_creation_default_replication_factor": "1", "topic_creation_default_partitions": "1"}
    return postgres_source(server, database, slot_drop_on_stop="true", **topics, **options)


def phase(cluster: Cluster, connector: str = "snapshot") -> str:
    tasks = cluster.client().progress(connector)
    return str(tasks[0]["details"].get("phase")) if tasks else ""


def reads(records: list[Stored]) -> Counter[Any]:
    return Counter(record.json["after"]["id"] for record in records if record.json is not None and record.json["op"] == "r")
