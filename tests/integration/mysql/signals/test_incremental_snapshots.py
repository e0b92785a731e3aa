"""Incremental snapshots: rows are read in chunks while their table changes, and the replayed topic is the table."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from connect.record import SourceRecord
from connectors.mysql.types import MYSQL_JAVA_KEYS


def signal(source: Any, type_: str, data: dict[str, Any] | None = None, id_: str = "") -> None:
    values = (id_ or f"{type_}-{time.monotonic_ns()}", type_, json.dumps(data or {}))
    source.execute("INSERT INTO signals VALUES (%s, %s, %s)", values)


def execute(source: Any, *tables: str, **data: Any) -> None:
    names = [f"{source.database}.{table}" for table in tables]
    signal(source, "execute-snapshot", {"data-collections": names, **data}, "s1")


class ReplayedTopic:
    """What a consumer of a topic has: rows by key."""

    def __init__(self, table: str) -> None:
        self.table = table
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.operations: list[str] = []

    def apply(self, records: list[SourceRecord]) -> None:
        for record in records:
            if record.topic.rpartition(".")[2] != self.table:
                continue
            key = tuple(record.key.values)
            if record.value is None:
                self.rows.pop(key, None)
                continue
            event = record.value.as_dict()
            self.operations.append(event["op"])
            if event["op"] == "d":
                self.rows.pop(key, None)
            else:
                self.rows[key] = event["after"]

    def listed(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in self.rows.values())


def until_read(source: Any, replayed: ReplayedTopic, timeout_s: float = 40) -> list[SourceRecord]:
    """Polls until no incremental snapshot runs, and stores offsets on the way."""
    found: list[SourceRecord] = []
    deadline = time.monotonic() + timeout_s
    started = False
    while not started or "incremental_snapshot" in source.task.progress():
        assert time.monotonic() < deadline, source.task.progress()
        records = source.poll()
        found += records
        replayed.apply(records)
        started = started or "incremental_snapshot" in source.task.progress() or any(map(is_read, records))
        if records:
            source.store(records[-1])
    return found


def is_read(record: SourceRecord) -> bool:
    return record.value is not None and "op" in record.value_schema.field_names and record.value["op"] == "r"


class Workload:
    """Sessions that change a table all the time."""

    def __init__(self, source: Any, change: Callable[[Any, random.Random], None], sessions: int = 2) -> None:
        self._source = source
        self._change = change
        self._stopped = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(seed,)) for seed in range(sessions)]

    def _run(self, seed: int) -> None:
        rng = random.Random(seed)
        try:
            with self._source.sql() as db, db.cursor() as cursor:
                while not self._stopped.is_set():
                    self._change(cursor, rng)
                    self._stopped.wait(0.002)
        except BaseException as e:
            self._errors.append(e)

    def __enter__(self) -> Workload:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        assert not self._errors


def change_anything(db: Any, rng: random.Random) -> None:
    """Each of these locks one row, or rows in the order of the key, so that sessions do not deadlock."""
    key = rng.randrange(1, 4000)
    match rng.randrange(5):
        case 0:
            db.execute("INSERT IGNORE INTO t VALUES (%s, 'new')", (key,))
        case 1:
            db.execute("DELETE FROM t WHERE id = %s", (key,))
        case 2:
            db.execute("UPDATE IGNORE t SET id = %s WHERE id = %s", (key + 10_000, key))
        case 3:
            db.execute("BEGIN")
            for text in ("a", "b"):
                name = f"{text}{rng.random()}"
                db.execute("UPDATE t SET name = %s WHERE id = %s", (name, key))
            db.execute("COMMIT")
        case _:
            db.execute("UPDATE t SET name = %s WHERE id = %s", (f"c{rng.random()}", key))


@pytest.fixture
def table(source: Any) -> Any:
    """A table with rows that were never captured."""
    source.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(50))")
    source.execute("INSERT INTO t SELECT seq, 'old' FROM seq_1_to_3000")
    return source


def rows_of(source: Any, table: str = "t") -> list[tuple[Any, ...]]:
    return sorted(source.execute(f"SELECT * FROM {table}"))


@pytest.mark.parametrize("read_only", ["false", "true"])
def test_topic_equals_a_table_that_changes_during_the_snapshot(table: Any, read_only: str) -> None:
    table.start(incremental_snapshot_chunk_size="100", read_only=read_only)
    replayed = ReplayedTopic("t")
    with Workload(table, change_anything):
        execute(table, "t")
        records = until_read(table, replayed)
    replayed.apply(table.quiet())
    assert replayed.listed() == rows_of(table)
    assert replayed.operations.count("r") > 1500
    assert len(replayed.operations) > replayed.operations.count("r")
    written = [r.value["after"]["type"] for r in records if r.topic.endswith(".signals") and r.value["after"]]
    assert ("snapshot-window-open" in written) == (read_only == "false")
