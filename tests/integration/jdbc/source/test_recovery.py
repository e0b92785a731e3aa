"""Interruptions of a task: stop, server restart, query timeout, killed process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from connect.errors import ConnectError
from connect.testing.harness import MemoryOffsets
from connectors.jdbc.source.task import JdbcSourceTask
from sluice.embedded.postgres import EmbeddedPostgres
from tests.integration.jdbc.source.conftest import Database, Sources, column
from tests.support.waiting import WAIT_S, eventually

ORDERS = "CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY, name TEXT)"


def fill(database: Database, count: int) -> None:
    text = "repeat('x', 200)" if database.kind == "postgres" else "'xxxxxxxxxx'"
    numbers = (
        f"SELECT n, {text} FROM generate_series(1, {count}) n"
        if database.kind == "postgres"
        else f"WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {count}) SELECT n, {text} FROM c"
    )
    database.execute(ORDERS, f"INSERT INTO orders {numbers}")


ENDLESS = {
    "postgres": "SELECT 1 AS a FROM pg_sleep(600)",
    "mariadb": "SELECT SLEEP(600) AS a",
    "sqlite": "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n AS a FROM c WHERE n < 0",
}


def test_stop_cancels_a_running_query(database: Database, start: Sources) -> None:
    source = start(database, mode="bulk", query=ENDLESS[database.kind])
    (harness,) = source.harnesses
    polled: list[object] = []
    thread = threading.Thread(target=lambda: polled.append(harness.poll()))
    thread.start()
    task = harness.task
    assert isinstance(task, JdbcSourceTask)
    eventually(lambda: task._in_use.is_busy or not thread.is_alive(), "a running query", pause_s=0)
    assert thread.is_alive()
    task.stop()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert polled == [[]]


def test_query_timeout_fails_the_task_and_names_the_key(postgres: Database, start: Sources) -> None:
    source = start(postgres, mode="bulk", query=ENDLESS["postgres"], statement_timeout_ms="1000")
    with pytest.raises(ConnectError, match="running the query"):
        source.read(1)


def test_a_database_that_is_locked_is_read_when_it_is_free(tmp_path: Path, sqlite: Database, start: Sources) -> None:
    sqlite.execute(ORDERS, "INSERT INTO orders VALUES (1, 'a')")
    sqlite.execute("PRAGMA journal_mode=DELETE")
    source = start(sqlite, mode="incrementing", incrementing_column_name="id", connection_timeout="0.01")
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert source.poll() == []
        other.execute("COMMIT")
    assert column(source.read(1), "id") == [1]


def test_server_restart_loses_no_row(postgres_server: EmbeddedPostgres, postgres: Database, start: Sources) -> None:
    fill(postgres, 20_000)
    source = start(
        postgres,
        mode="incrementing",
        incrementing_column_name="id",
        batch_max_rows="500",
        connection_attempts="1000",
        connection_backoff_ms="50",
    )
    records = source.read(3_000)
    postgres_server.stop()
    restarted = threading.Thread(target=postgres_server.start)
    restarted.start()
    records += source.read(20_000 - len(records))
    restarted.join()
    assert column(records, "id") == list(range(1, 20_001))
    postgres.execute("INSERT INTO orders VALUES (20001, 'new')")
    assert column(source.read(1), "id") == [20001]


def test_unavailable_server_fails_the_task_after_all_attempts(
    postgres_server: EmbeddedPostgres, postgres: Database, start: Sources
) -> None:
    fill(postgres, 10)
    source = start(
        postgres, mode="incrementing", incrementing_column_name="id", connection_attempts="2", connection_backoff_ms="10"
    )
    source.read(10)
    postgres_server.stop()
    with pytest.raises(ConnectError, match="cannot be reached") as caught:
        source.read(1)
    assert postgres.config["connection.password"] not in str(caught.value)


READER = """
import json, sys
from connect.testing.harness import MemoryOffsets, SourceHarness
from connectors.jdbc import JdbcSource

config, stored = json.loads(sys.argv[1]), json.loads(sys.argv[2])
offsets = MemoryOffsets()
for partition, offset in stored:
    offsets.store(partition, offset)
connector = JdbcSource()
connector.start(config)
(task_config,) = connector.task_configs(1)
connector.stop()
with SourceHarness(connector.task_class()(), task_config, offsets) as harness:
    while True:
        for record in harness.poll():
            print(json.dumps([record.value["id"], record.source_partition, record.source_offset]), flush=True)
"""


def test_killed_process_loses_and_repeats_nothing(postgres: Database) -> None:
    fill(postgres, 3_000)
    keys = {"mode": "incrementing", "incrementing.column.name": "id", "topic.prefix": "p-", "batch.max.rows": "100"}
    config = json.dumps({**postgres.config, **keys})
    seen: list[int] = []
    stored: list[object] = []
    for count in (700, 2_300):
        process = subprocess.Popen([sys.executable, "-c", READER, config, json.dumps(stored)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for _ in range(count):
            number, partition, offset = json.loads(process.stdout.readline())
            seen.append(number)
            stored = [[partition, offset]]
        os.kill(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()
    assert seen == list(range(1, 3_001))


def test_offsets_of_a_stopped_task_are_continued(database: Database, start: Sources) -> None:
    fill(database, 1_000)
    keys = {"mode": "incrementing", "incrementing_column_name": "id", "batch_max_rows": "100"}
    source = start(database, keys, offsets=MemoryOffsets())
    first = source.read(300)
    source.commit()
    source.stop()
    rest = start(database, keys, offsets=source.offsets).read(700)
    assert column(first + rest, "id") == list(range(1, 1_001))
