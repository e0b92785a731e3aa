"""The worker is killed again and again, at chosen points and at random; the promises hold.

- the upsert table equals the database,
- the topics hold every change at least once, and in order,
- the append table holds every record of its topic exactly once.
"""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path

import orjson
import pytest

from connect.crash_points import POINTS
from connect.errors import NotFoundError
from sluice.demo.compare import compare_table
from sluice.demo.delta_table import DeltaTableReader, read_delta_table
from sluice.demo.shops.postgres import PostgresTable
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.chaos.pipeline import APPEND, UPSERT, Changes, Pipeline, assert_versions_in_order, create_tables

# 2 are the snapshot and the point that no other test covers, 9 every point once, 17 the later ones twice; the rest come at random
# moments.
KILLS = int(os.environ.get("SLUICE_CHAOS_KILLS", "2"))
SEED = int(os.environ.get("SLUICE_CHAOS_SEED", "20261121"))
NOT_COVERED_ELSEWHERE = "postgres.confirmed"
REACHED_S = 300.0
"""Within which a worker comes to any point. Python, Spark and its first commit take more than a minute on a busy machine."""


def caught_up(pipeline: Pipeline) -> bool:
    """Both sinks have delivered everything that is in their topics."""
    try:
        lags = [task["lag"] for name in (UPSERT, APPEND) for task in pipeline.client.progress(name)]
    except NotFoundError:
        return False  # the worker is still creating its connectors, one after the other
    return len(lags) == 2 and all(lag and not any(lag.values()) for lag in lags)


def assert_promises(pipeline: Pipeline, postgres: EmbeddedPostgres, database: str) -> None:
    with postgres.connect(database) as connection:
        table = PostgresTable(connection, "public", "counters")
        found = compare_table(table, DeltaTableReader(pipeline.lake / "counters"), ["id"])
        assert found.equal, found.differences
        expected = [row[0] for row in connection.execute("SELECT n FROM events ORDER BY n").fetchall()]
    payloads = [orjson.loads(value)["payload"] for value in pipeline.topic_values("events") if value is not None]
    numbers = [payload["after"]["n"] for payload in payloads]
    assert sorted(set(numbers)) == expected, "the topic lacks an event"
    # Rows of a snapshot that was begun again come after changes that were streamed before it; changes keep their own order.
    inserts = in_first_order([payload["after"]["n"] for payload in payloads if payload["op"] == "c"])
    assert inserts == sorted(inserts), "the topic has an event out of order"
    table = read_delta_table(pipeline.lake / "events", ["n", "__offset"])
    offsets = sorted(table.column("__offset").to_pylist())
    assert offsets == list(range(len(numbers))), "the append table has a record of its topic twice, or not at all"
    by_offset = sorted(zip(table.column("__offset").to_pylist(), table.column("n").to_pylist(), strict=True))
    assert [n for _, n in by_offset] == numbers
    changes = (None if value is None else orjson.loads(value)["payload"] for value in pipeline.topic_values("counters"))
    assert_versions_in_order(changes)


def in_first_order(numbers: list[int]) -> list[int]:
    """The numbers in the order of their first appearance: a replay repeats, it never skips ahead."""
    return list(dict.fromkeys(numbers))


def settle_and_check(pipeline: Pipeline, changes: Changes, postgres: EmbeddedPostgres, database: str) -> None:
    """Lets the worker, which is no longer disturbed, finish the job, then checks every promise."""
    changes.stop()
    with postgres.connect(database) as connection:
        row = connection.execute("SELECT max(n) FROM events").fetchone()
    assert row is not None

    def everything_there() -> bool:
        value = pipeline.newest_value("events")
        return bool(value and orjson.loads(value)["payload"]["after"]["n"] == row[0] and caught_up(pipeline))

    try:
        pipeline.wait_for(everything_there, 240, "everything to arrive")
        assert_promises(pipeline, postgres, database)
        assert pipeline.stop() == 0
    finally:
        if pipeline.child is not None and pipeline.child.poll() is None:
            pipeline.kill()


@pytest.mark.chaos
@pytest.mark.timeout(3000)
def test_worker_killed_many_times_loses_nothing(
    tmp_path: Path,
    broker: EmbeddedBroker,
    postgres: EmbeddedPostgres,
    database: str,
) -> None:
    create_tables(postgres, database, rows=20_000)
    pipeline = Pipeline(tmp_path, broker, postgres, database)
    changes = Changes(postgres.dsn(database))
    changes.start()
    chance = random.Random(SEED)
    # The snapshot is over after the second start, no record of this pipeline fails, its sink is neither a database nor Parquet,
    # and commits table by table, its worker is alone, and its source writes to Kafka.
    elsewhere = ("errors.", "dead_letters.", "jdbc.", "parquet.", "cluster.", "transactions.", "spool.", "mysql.")
    later = [point for point in POINTS if point != "postgres.snapshot" and not point.startswith(elsewhere)]
    once = [f"{point}:{chance.randint(1, 2)}" for point in later]
    again = [f"{point}:{chance.randint(2, 4)}" for point in later]
    chance.shuffle(once)
    once.sort(key=lambda one: not one.startswith(NOT_COVERED_ELSEWHERE))
    chance.shuffle(again)
    plan: list[str | None] = [*once, *again]
    plan = ["postgres.snapshot", *plan][:KILLS]
    plan += [None] * (KILLS - len(plan))
    missed: list[str] = []
    for point in plan:
        pipeline.start(point)
        if point is None:
            if not pipeline.wait_for_crash(chance.uniform(0.5, 9)):
                pipeline.kill()
        elif not pipeline.wait_for_crash(REACHED_S):
            missed.append(point)
            pipeline.kill()
    assert not missed, f"never reached: {missed}"
    pipeline.start()
    settle_and_check(pipeline, changes, postgres, database)


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_no_record_is_lost_when_servers_are_killed_and_restarted(
    tmp_path: Path, broker: EmbeddedBroker, postgres: EmbeddedPostgres, database: str
) -> None:
    create_tables(postgres, database, rows=500)
    pipeline = Pipeline(tmp_path, broker, postgres, database)
    changes = Changes(postgres.dsn(database))
    changes.start()
    pipeline.start()
    servers: tuple[EmbeddedBroker | EmbeddedPostgres, ...] = (broker, postgres)

    def moved_on(committed: int, events: int) -> bool:
        return changes.committed > committed + 50 and pipeline.end_offset("events") > events + 50

    try:
        pipeline.wait_for(lambda: (pipeline.lake / "events" / "_delta_log").is_dir(), 180, "the first table")
        for server in servers:
            committed, events = changes.committed, pipeline.end_offset("events")
            server.kill()
            server.start()
            pipeline.wait_for(partial(moved_on, committed, events), 120, "changes after the restart")
        settle_and_check(pipeline, changes, postgres, database)
    finally:
        if pipeline.child is not None and pipeline.child.poll() is None:
            pipeline.kill()
