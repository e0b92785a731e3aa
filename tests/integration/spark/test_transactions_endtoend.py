"""Transactions of PostgreSQL over two tables, through a broker into Delta tables: no round ever shows half of one."""

from __future__ import annotations

import contextlib
import random
import threading
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.compute as pc
import pytest

from connect.errors import ConnectError, NotFoundError
from sluice.demo.delta_table import DeltaTableReader
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.chaos.pipeline import SOURCE, Pipeline

SINK = "bank-lake"
TABLES = ("accounts", "savings")
ROWS, BALANCE = 50, 1_000
TOTAL = len(TABLES) * ROWS * BALANCE


class Bank(Pipeline):
    """The source with transaction metadata, and one sink for both tables."""

    def _connectors(self) -> list[dict[str, str]]:
        source = {
            **self._source(),
            "table.include.list": ",".join(f"public.{table}" for table in TABLES),
            "provide.transaction.metadata": "true",
            "topic.creation.default.partitions": "3",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.groups": "ends",
            "topic.creation.ends.include": f"{self.prefix}[.]transaction",
            "topic.creation.ends.partitions": "1",
        }
        sink = {
            **self._sink(SINK, "accounts", "upsert"),
            "topics": ",".join([f"{self.prefix}.transaction", *(f"{self.prefix}.public.{table}" for table in TABLES)]),
            "commit.scope": "transaction",
            "commit.interval.ms": "200",
        }
        return [source, sink]

    def is_streaming(self) -> bool:
        """Whether the source has read its snapshot."""
        with contextlib.suppress(ConnectError):
            return any((task.get("details") or {}).get("phase") == "streaming" for task in self.client.progress(SOURCE))
        return False


class Transfers:
    """Moves money between random rows of both tables, several per transaction, until it is stopped."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="transfers", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        chance = random.Random(1)
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not self._stop.wait(0.02):
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
    pipeline = Bank(tmp_path, broker, postgres, database)
    pipeline.start()
    # Changes begin when the snapshot is over, so that every round has whole tables.
    pipeline.wait_for(pipeline.is_streaming, 240, "the snapshot")
    transfers = Transfers(postgres.dsn(database))
    try:
        pipeline.wait_for(lambda: len(read_rounds(pipeline.lake)) >= 8, 240, "rounds")
    finally:
        transfers.stop()
    with postgres.connect(database) as connection:
        expected = {t: dict(connection.execute(f"SELECT id, balance FROM {t}").fetchall()) for t in TABLES}

    def is_complete() -> bool:
        versions = dict(read_rounds(pipeline.lake)[-1]["tables"])
        rows = {t: DeltaTableReader(pipeline.lake / t, versions[t]).read().to_pylist() for t in TABLES}
        return {t: {row["id"]: row["balance"] for row in listed} for t, listed in rows.items()} == expected

    pipeline.wait_for(is_complete, 120, "the last transaction")
    assert pipeline.stop() == 0
    rounds = read_rounds(pipeline.lake)
    assert {total_at(pipeline.lake, row) for row in rounds} == {TOTAL}
    assert [row["lsn"] for row in rounds] == sorted({row["lsn"] for row in rounds})
    assert sum(row["transactions"] for row in rounds) > len(rounds)
