"""Transactions of PostgreSQL over two tables, through a broker into Delta tables: no round ever shows half of one."""

from __future__ import annotations

import contextlib
import threading
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.compute as pc
import pytest

from connect.errors import ConnectError, NotFoundError
from sluice.demo.delta_table import DeltaTableReader
from sluice.embedded import jars
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.cluster.worker_process import WorkerProcess
from tests.support import randomness
from tests.support.background import BackgroundWriter
from tests.support.postgres_options import postgres_source
from tests.support.small_spark import delta_sink
from tests.support.standalone_worker import create_worker
from tests.support.waiting import WAIT_S

pytestmark = pytest.mark.long

SOURCE, SINK = "bank", "bank-lake"
TABLES = ("accounts", "savings")
ROWS, BALANCE = 50, 1_000
TOTAL = len(TABLES) * ROWS * BALANCE


def create_bank(home: Path, broker: EmbeddedBroker, server: EmbeddedPostgres, database: str) -> WorkerProcess:
    """Creates a worker of the source with transaction metadata, and of one sink for both tables."""
    tables = [f"public.{table}" for table in TABLES]
    source = {
        **postgres_source(server, database, table_include_list=",".join(tables)),
        "provide.transaction.metadata": "true",
        "topic.creation.default.partitions": "3",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.groups": "ends",
        "topic.creation.ends.include": f"{database}[.]transaction",
        "topic.creation.ends.partitions": "1",
    }
    topics = ",".join(f"{database}.{name}" for name in ("transaction", *tables))
    options = {"commit.scope": "transaction", "commit.interval.ms": "200"}
    spark = {"spark.master": "local[2]", "spark.conf.spark.driver.memory": "1g"}
    jars.ensure_jars("spark")
    return create_worker(home, broker, {SOURCE: source, SINK: delta_sink(home / "lake", topics, **options, **spark)})


def is_streaming(worker: WorkerProcess) -> bool:
    """Whether the source has read its snapshot."""
    with contextlib.suppress(ConnectError):
        return any((task.get("details") or {}).get("phase") == "streaming" for task in worker.client.progress(SOURCE))
    return False


def transfer(dsn: str, stop: threading.Event) -> None:
    """Moves money between random rows of both tables, several per transaction, until it is stopped."""
    chance = randomness.chance("transfers")
    with psycopg.connect(dsn, autocommit=True) as connection:
        while not stop.wait(0.02):
            with connection.transaction():
                for _ in range(chance.randint(1, 4)):
                    amount = chance.randint(1, 100)
                    for sign in (-1, 1):
                        table, row = chance.choice(TABLES), chance.randrange(ROWS)
                        connection.execute(f"UPDATE {table} SET balance = balance + {sign * amount} WHERE id = {row}")


def read_rounds(lake: Path) -> list[dict[str, Any]]:
    try:
        rows = DeltaTableReader(lake / "_sluice_transactions").read().to_pylist()
    except NotFoundError:
        return []
    return sorted(rows, key=lambda row: row["round"])


def total_at(lake: Path, row: dict[str, Any]) -> int:
    """The money in all tables at the versions that a round names."""
    versions = dict(row["tables"])
    assert set(versions) == set(TABLES)
    return sum(pc.sum(DeltaTableReader(lake / table, versions[table]).read(["balance"])["balance"]).as_py() for table in TABLES)


@pytest.mark.timeout(600)
def test_money_in_two_tables_is_constant_at_every_round(
    tmp_path: Path, broker: EmbeddedBroker, postgres: EmbeddedPostgres, database: str
) -> None:
    with postgres.connect(database) as connection:
        for table in TABLES:
            connection.execute(f"CREATE TABLE {table}(id bigint PRIMARY KEY, balance bigint NOT NULL)")
            connection.execute(f"INSERT INTO {table} SELECT i, {BALANCE} FROM generate_series(0, {ROWS - 1}) i")
    worker, lake = create_bank(tmp_path, broker, postgres, database), tmp_path / "lake"
    worker.start()
    try:
        # Changes begin when the snapshot is over, so that every round has whole tables.
        worker.wait_for(partial(is_streaming, worker), 240, "the snapshot")
        with BackgroundWriter("transfers", partial(transfer, postgres.dsn(database))):
            worker.wait_for(lambda: len(read_rounds(lake)) >= 8, 240, "rounds")
        with postgres.connect(database) as connection:
            expected = {t: dict(connection.execute(f"SELECT id, balance FROM {t}").fetchall()) for t in TABLES}

        def is_complete() -> bool:
            versions = dict(read_rounds(lake)[-1]["tables"])
            rows = {t: DeltaTableReader(lake / t, versions[t]).read().to_pylist() for t in TABLES}
            return {t: {row["id"]: row["balance"] for row in listed} for t, listed in rows.items()} == expected

        worker.wait_for(is_complete, WAIT_S, "the last transaction")
        worker.stop()
    finally:
        worker.end()
    rounds = read_rounds(lake)
    assert {total_at(lake, row) for row in rounds} == {TOTAL}
    assert [row["lsn"] for row in rounds] == sorted({row["lsn"] for row in rounds})
    assert sum(row["transactions"] for row in rounds) > len(rounds)
