"""The worker is killed again and again, at chosen points and at random; the promises hold.

- the upsert table equals the database,
- the topics hold every change at least once, and in order,
- the append table holds every record of its topic exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from connect.crash_points import POINTS
from connect.errors import ConnectError
from sluice.demo.compare import compare_table
from sluice.demo.delta_table import DeltaTableReader, read_delta_table
from sluice.demo.shops.postgres import PostgresTable
from sluice.embedded import jars
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.cluster.worker_process import WorkerProcess
from tests.support import randomness
from tests.support.numbered_changes import NumberedTables
from tests.support.postgres_options import postgres_source
from tests.support.small_spark import delta_sink
from tests.support.source_stream import SourceStream
from tests.support.standalone_worker import SHORT_SESSIONS
from tests.support.waiting import WAIT_S

# 9 are every point once, 17 the later ones twice; the rest come at random moments.
KILLS = randomness.size("SLUICE_KILLS", 9)
REACHED_S = 300.0
"""Within which a worker comes to any point. Python, Spark and its first commit take more than a minute on a busy machine."""


UPSERT, APPEND = "chaos-upsert", "chaos-append"


@contextmanager
def _stream(home: Path, broker: EmbeddedBroker, server: EmbeddedPostgres, database: str, rows: int) -> Iterator[SourceStream]:
    jars.ensure_jars("spark")
    source = postgres_source(server, database, table_include_list="public.counters,public.events")
    spark = {"spark.master": "local[2]", "spark.conf.spark.driver.memory": "1g", "commit.interval.ms": "1000"}
    sinks = {
        UPSERT: delta_sink(home / "lake", f"{database}.public.counters", "upsert", **spark),
        APPEND: delta_sink(home / "lake", f"{database}.public.events", "append", **spark),
    }
    tables = NumberedTables.in_postgres(server, database, rows)
    stream = SourceStream(home, broker, tables, source, sinks=sinks, properties=SHORT_SESSIONS)
    with stream.running():
        yield stream


def caught_up(worker: WorkerProcess) -> bool:
    """Both sinks have delivered everything that is in their topics."""
    try:
        lags = [task["lag"] for name in (UPSERT, APPEND) for task in worker.client.progress(name)]
    except ConnectError:
        return False  # the worker is still creating its connectors, one after the other
    return len(lags) == 2 and all(lag and not any(lag.values()) for lag in lags)


def settle_and_check(stream: SourceStream, postgres: EmbeddedPostgres, database: str) -> None:
    """Lets the worker, which is no longer disturbed, finish the job, then checks every promise."""
    stream.changes.stop()
    last = stream.tables.numbers()[-1]

    def everything_there() -> bool:
        return last in stream.numbers() and not any(stream.differences()) and caught_up(stream.worker)

    stream.wait_for(everything_there, "everything to arrive", REACHED_S)
    stream.assert_nothing_is_lost()
    lake = stream.worker.home / "lake"
    with postgres.connect(database) as connection:
        found = compare_table(PostgresTable(connection, "public", "counters"), DeltaTableReader(lake / "counters"), ["id"])
    assert found.equal, found.differences
    rows = read_delta_table(lake / "events", ["n", "__offset"]).to_pylist()
    by_offset = sorted((row["__offset"], row["n"]) for row in rows)
    # No record of the topic is in the append table twice, or not at all.
    assert by_offset == list(enumerate(stream.numbers()))
    stream.worker.stop(WAIT_S)


@pytest.mark.chaos
@pytest.mark.timeout(3000)
@pytest.mark.long
def test_worker_killed_many_times_loses_nothing(
    tmp_path: Path,
    broker: EmbeddedBroker,
    postgres: EmbeddedPostgres,
    database: str,
) -> None:
    chance = randomness.chance("kills")
    # The snapshot is over after the second start, no record of this pipeline fails, its sink is neither a database nor Parquet,
    # its worker is alone, and its source reads PostgreSQL and writes to Kafka.
    elsewhere = ("errors.", "dead_letters.", "jdbc.", "parquet.", "cluster.", "spool.", "mysql.", "sqlite.")
    later = [point for point in POINTS if point != "postgres.snapshot" and not point.startswith(elsewhere)]
    once = [f"{point}:{chance.randint(1, 2)}" for point in later]
    again = [f"{point}:{chance.randint(2, 4)}" for point in later]
    chance.shuffle(once)
    chance.shuffle(again)
    plan: list[str | None] = [*once, *again]
    plan = ["postgres.snapshot", *plan][:KILLS]
    plan += [None] * (KILLS - len(plan))
    with _stream(tmp_path, broker, postgres, database, rows=20_000) as stream:
        for point in plan:
            stream.worker.start(point)
            if point is None:
                stream.worker.run_for(chance.uniform(0.5, 9))
                stream.worker.kill()
            else:
                stream.worker.wait_for_crash(point, REACHED_S)
        stream.worker.start()
        settle_and_check(stream, postgres, database)


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.long
@pytest.mark.harms_broker
def test_no_record_is_lost_when_servers_are_killed_and_restarted(
    tmp_path: Path, broker: EmbeddedBroker, postgres: EmbeddedPostgres, database: str
) -> None:
    servers: tuple[EmbeddedBroker | EmbeddedPostgres, ...] = (broker, postgres)
    with _stream(tmp_path, broker, postgres, database, rows=500) as stream:
        stream.worker.start()

        def moved_on(committed: int, events: int) -> bool:
            return stream.changes.committed > committed + 50 and len(stream.values("events")) > events + 50

        stream.wait_for((tmp_path / "lake" / "events" / "_delta_log").is_dir, "the first table", REACHED_S)
        for server in servers:
            committed, events = stream.changes.committed, len(stream.values("events"))
            server.kill()
            server.start()
            stream.wait_for(partial(moved_on, committed, events), "changes after the restart")
        settle_and_check(stream, postgres, database)
