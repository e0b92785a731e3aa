"""Snapshots of tasks that are interrupted, by the worker or the server: topics equal tables, and rows are not read twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from connect.record import SourceRecord
from connectors.mysql.offsets import SNAPSHOT_STATE
from connectors.mysql.snapshot import row_stream, table_plan
from tests.integration.mysql.conftest import MariaDbRunningSource
from tests.support import randomness
from tests.support.cases import first_fast

TABLES = "ab"


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_stream, "BATCH_ROWS", 100)
    monkeypatch.setattr(table_plan, "MIN_PARALLEL_BYTES", 16 << 10)


def create_tables(source: MariaDbRunningSource) -> None:
    for name in TABLES:
        source.sql(
            f"create table {name}(id int primary key, v varchar(20))",
            f"insert into {name} select seq, seq from seq_1_to_1000",
            f"analyze table {name}",
        )


def replay(records: list[SourceRecord], table: str) -> list[tuple[Any, ...]]:
    """The rows that a consumer of the topic has, with the columns of the last version."""
    rows: dict[int, tuple[Any, ...]] = {}
    for record in records:
        if record.topic.rpartition(".")[2] == table and record.value is not None:
            after = record.value["after"]
            if after is None:
                rows.pop(record.key["id"], None)
            else:
                rows[record.key["id"]] = tuple(after.as_dict().values())
    return sorted(rows.values())


def reads(records: list[SourceRecord], table: str) -> Counter[int]:
    return Counter(
        record.value["after"]["id"]
        for record in records
        if record.topic.rpartition(".")[2] == table and record.value is not None and record.value["op"] == "r"
    )


def assert_equal(source: MariaDbRunningSource, records: list[SourceRecord]) -> None:
    for name in TABLES:
        assert replay(records, name) == sorted(source.sql(f"select * from {name}"))


@pytest.mark.parametrize("threads", first_fast(["3", "1"]))
def test_snapshot_continues_after_the_worker_was_killed(source: MariaDbRunningSource, threads: str) -> None:
    create_tables(source)
    source.start(snapshot_max_threads=threads)
    records = source.read_before_failure(700)
    source.store(records[-1])
    source.kill()
    source.sql(
        "update a set v = 'changed' where id % 10 = 0",
        "delete from a where id % 50 = 7",
        "flush binary logs",
        "alter table b add column w int default 3",
        "update b set w = 4 where id < 5",
        "insert into b values (-1, 'new', 5)",
    )
    source.start()
    rest = source.until("streaming")
    source.sql("insert into a values (-1, 'last')")
    rest += source.read(1)
    assert_equal(source, records + rest)
    assert not reads(records, "a") & reads(rest, "a")
    assert rest[-1].source_offset is not None
    assert SNAPSHOT_STATE not in rest[-1].source_offset


def test_rows_that_are_deleted_before_an_offset_is_stored_do_not_stay_in_topics(source: MariaDbRunningSource) -> None:
    create_tables(source)
    source.start()
    records = source.read_before_failure(700)
    assert reads(records, "a")[7]
    source.kill()
    source.sql("delete from a where id = 7", "delete from b where id = 7")
    source.start()
    rest = source.until("streaming")
    assert_equal(source, records + rest)
    assert any(record.value is not None and record.value["op"] == "d" for record in rest)


def test_snapshot_starts_over_if_the_log_of_one_without_an_offset_is_gone(source: MariaDbRunningSource) -> None:
    create_tables(source)
    source.start()
    source.read_before_failure(700)
    source.kill()
    source.sql("insert into a values (-1, 'new')")
    source.purge_log()
    source.start()
    records = source.until("streaming")
    assert_equal(source, records)


@pytest.mark.long
def test_snapshot_continues_after_a_lost_connection(source: MariaDbRunningSource) -> None:
    create_tables(source)
    source.start(retriable_restart_connector_wait_ms="100")
    records = source.read_before_failure(500)
    source.sql("update a set v = 'changed' where id in (1, 999)")
    for (number,) in source.sql(
        "select id from information_schema.processlist where id <> connection_id() and user <> 'system user'"
    ):
        source.sql(f"kill {number}")
    rest = source.until("streaming")
    source.sql("insert into a values (-1, 'last')")
    rest += source.read(1)
    assert_equal(source, records + rest)
    assert max(reads(records + rest, "a").values()) == 1


@pytest.mark.long
def test_interruption_while_the_stream_catches_up(source: MariaDbRunningSource) -> None:
    create_tables(source)
    source.start(max_batch_size="20")
    records = source.read_before_failure(300)
    source.store(records[-1])
    source.kill()
    source.sql("update a set v = 'one'", "update b set v = 'two'")
    for _ in range(2):
        source.start()
        records += source.until("catching up")
        records += source.read_before_failure(1)
        source.store(records[-1])
        source.kill()
    source.start()
    rest = source.until("streaming")
    assert_equal(source, records + rest)
    assert not reads(records, "a") & reads(rest, "a")


@pytest.mark.parametrize("run", range(2))
@pytest.mark.long
def test_random_interruptions(source: MariaDbRunningSource, run: int) -> None:
    chance = randomness.chance(f"interruptions-{run}")
    create_tables(source)
    records: list[SourceRecord] = []
    for number in range(8):
        source.start(snapshot_max_threads=chance.choice("12"))
        for _ in range(chance.randint(1, 10)):
            records += source.poll()
        if records and (source.offsets.stored is None or chance.random() < 0.7):
            source.store(records[-1])
        source.kill()
        name, key = chance.choice(TABLES), chance.randint(1, 1000)
        source.sql(
            f"update {name} set v = 'u{number}' where id between {key} and {key + 50}",
            f"delete from {name} where id = {key + 3}",
            f"replace into {name} values ({-number}, 'n'), ({key + 10}, 'r')",
            f"update ignore {name} set id = 2000 - id where id = {key + 20}",
        )
    source.start()
    records += source.until("streaming")
    source.sql("insert into a values (5000, 'last')")
    records += source.read(1)
    assert_equal(source, records)
