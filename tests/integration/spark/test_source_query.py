"""Rows of SQL queries become events by a cursor: each row once, in an order that restarts repeat."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import ConfigError, ConnectError
from connect.record import SourceRecord
from connect.testing import MemoryOffsets, SourceHarness
from connectors.spark import session
from connectors.spark.source.config import parse_config
from connectors.spark.source.offsets import table_partition
from connectors.spark.source.query.cursors import cursor_text
from connectors.spark.source.query.positions import CursorPosition
from connectors.spark.source.query.range_reader import RangeReader
from connectors.spark.source.task import SparkSourceTask
from tests.support import randomness
from tests.support.cases import first_fast
from tests.support.delta_writer import DeltaWriter
from tests.support.parquet_directory import ParquetDirectory
from tests.support.replayed_events import FAST, as_counter, events, plain, poll_all, read_all

pytestmark = [
    pytest.mark.timeout(300),
    # PySpark's toArrow() leaves the socket it read from to Python's reference counting.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

COLUMNS: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "n": pa.int32(),
    "at": pa.timestamp("us", "UTC"),
    "clock": pa.timestamp("us"),
    "day": pa.date32(),
    "amount": pa.decimal128(12, 2),
    "v": pa.string(),
    "tags": pa.list_(pa.struct([("k", pa.string())])),
    "labels": pa.map_(pa.string(), pa.int32()),
}
START = dt.datetime(2026, 1, 1)


def lease_of(config: Mapping[str, str]) -> session.Lease:
    """The Spark that runs the query of a source."""
    query = parse_config(config).query
    assert query is not None
    return session.lease(query.spark)


def row(number: int, cursor: int | None = None) -> dict[str, Any]:
    """A row whose cursors, of any type, are in the order of one number."""
    n = number if cursor is None else cursor
    clock = START + dt.timedelta(days=n, microseconds=n)
    return {
        "id": number,
        "n": n,
        "at": clock.replace(tzinfo=dt.UTC),
        "clock": clock,
        "day": clock.date(),
        "amount": decimal.Decimal(n) / 4,
        "v": f"{n:05d}",
        "tags": [{"k": f"t{number}"}],
        "labels": {"a": number},
    }


@pytest.fixture(scope="module")
def spark(spark_props: dict[str, str]) -> dict[str, str]:
    """Keys of the source for the JVM that the tests share."""
    return {**spark_props, "source.format": "query", "topic": "t", "poll.interval.ms": "1"}


@pytest.fixture
def directory(tmp_path: Path) -> ParquetDirectory:
    return ParquetDirectory(tmp_path / "rows")


def config_of(spark: Mapping[str, str], directory: ParquetDirectory, **config: str) -> dict[str, str]:
    keys = {name.replace("_", "."): value for name, value in config.items()}
    return {**spark, "source.query": f"SELECT * FROM parquet.`{directory.folder}`", "cursor.column": "n", **keys}


def read(config: Mapping[str, str], offsets: MemoryOffsets | None = None) -> list[SourceRecord]:
    with SourceHarness(SparkSourceTask(), {**FAST, **config}, offsets) as harness:
        records = poll_all(harness)
        harness.commit()
    return records


def ids(records: list[SourceRecord]) -> list[int]:
    return [after["id"] for _, _, after in events(records)]


def test_rows_after_the_cursor_are_read_in_its_order_wherever_the_task_restarts(
    spark: dict[str, str], directory: ParquetDirectory
) -> None:
    # Several rows of each cursor, in two files and in no order; staged as sorted files.
    shuffled = randomness.chance("files").sample(range(40), 40)
    directory.add("a.parquet", [row(i, i // 5) for i in shuffled[:20]], COLUMNS)
    directory.add("b.parquet", [row(i, i // 5) for i in shuffled[20:]], COLUMNS)
    config = config_of(spark, directory, key_columns="id", batch_max_rows="7")
    offsets = MemoryOffsets()
    records = read(config, offsets)
    assert ids(records) == list(range(40))
    assert {op for op, _, _ in events(records)} == {"r"}
    for cut in (7, 38):
        kept = MemoryOffsets()
        assert records[cut].source_offset is not None
        kept.store(table_partition("t"), records[cut].source_offset)
        assert ids(read(config, kept)) == list(range(cut + 1, 40))
    directory.add("c.parquet", [row(40, 8), row(41, 9)], COLUMNS)
    assert [(op, after["id"]) for op, _, after in events(read(config, offsets))] == [("c", 40), ("c", 41)]
    assert read(config, offsets) == []


@pytest.mark.parametrize("cursor", first_fast(["at", "clock", "day", "amount", "v"]))
def test_cursors_of_every_type_continue_among_equal_ones(spark: dict[str, str], directory: ParquetDirectory, cursor: str) -> None:
    directory.add("a.parquet", [row(i, i // 5) for i in range(20)], COLUMNS)
    query = parse_config(config_of(spark, directory, cursor_column=cursor)).query
    assert query is not None
    reader = RangeReader(query, ("id",), 0, 1000, "test")
    try:
        at = cursor_text(pa.scalar(row(0, 2)[cursor], COLUMNS[cursor]))
        found = reader.next_range(CursorPosition(0, False, at, row=2))
        assert found is not None
        assert [one["id"] for rows in found.read(1000) for one in rows.to_pylist()] == list(range(10, 20))
        after = reader.next_range(CursorPosition(0, False, at))
        assert after is not None
        assert after.rows == 5
        assert reader.next_range(CursorPosition(0, False, after.upper)) is None
    finally:
        reader.close()


def test_events_have_the_types_of_a_delta_table_and_offsets_the_cursor(
    spark: dict[str, str], directory: ParquetDirectory, tmp_path: Path
) -> None:
    directory.add("a.parquet", [row(7)], COLUMNS)
    table = DeltaWriter(tmp_path / "delta", COLUMNS).create([row(7)])
    (expected,) = read_all(table.folder)
    for batch in ("1000", "1"):
        (record,) = read(config_of(spark, directory, batch_max_rows=batch))
        assert record.value_schema is not None
        assert expected.value_schema is not None
        before, after = (schema.field("after") for schema in (expected.value_schema, record.value_schema))
        assert before is not None
        assert after is not None
        assert after.schema == before.schema
        assert plain(record.value)["after"] == plain(expected.value)["after"]
    source = plain(record.value)["source"]
    version = source["table_version"]
    assert record.source_partition == {"table": "t"}
    assert record.source_offset == {"version": version, "snapshot": False, "cursor": "7"}
    assert (source["table"], source["snapshot"], source["sequence"]) == ("t", "true", f'["{version}","0"]')


def test_large_ranges_are_staged_in_order_and_removed(spark: dict[str, str], tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    config = {
        **FAST,
        **spark,
        "source.query": "SELECT 5000 - id AS n, sha2(CAST(id AS STRING), 256) AS v FROM range(5000)",
        "cursor.column": "n",
        "batch.max.rows": "1000",
        "source.spool.location": str(spool),
    }
    with SourceHarness(SparkSourceTask(), config) as harness:
        records = harness.poll_records(1, 100)
        assert list(spool.rglob("part-*.parquet"))
        records += poll_all(harness)
    assert [plain(record.value)["after"]["n"] for record in records] == list(range(1, 5001))
    assert not list(spool.rglob("part-*"))


def test_rows_of_the_last_moments_wait_for_late_transactions(spark: dict[str, str], directory: ParquetDirectory) -> None:
    now = dt.datetime.now(dt.UTC)
    rows = [{"id": i, "at": now - dt.timedelta(hours=age)} for i, age in ((1, 9), (2, 2), (3, -1))]
    directory.add("a.parquet", rows, {"id": pa.int64(), "at": COLUMNS["at"]})
    config = config_of(spark, directory, cursor_column="at")
    offsets = MemoryOffsets()
    assert ids(read({**config, "source.lag.ms": str(4 * 3_600_000)}, offsets)) == [1]
    assert ids(read(config, offsets)) == [2]
    assert ids(read({**config, "source.start": "latest"})) == []


def test_rows_without_a_cursor_fail_the_task_or_are_counted(spark: dict[str, str], directory: ParquetDirectory) -> None:
    directory.add("a.parquet", [row(1), {**row(2), "n": None}], COLUMNS)
    config = config_of(spark, directory)
    with pytest.raises(ConnectError, match=r"1 rows of source.query have no value in n \(cursor.column\).*cursor.on.null=skip"):
        read(config)
    with SourceHarness(SparkSourceTask(), {**FAST, **config, "cursor.on.null": "skip"}) as harness:
        assert ids(poll_all(harness)) == [1]
        assert harness.task.progress()["table_progress"]["t"]["rows_without_cursor"] == 1


@pytest.mark.long
def test_every_row_of_a_random_history_is_delivered_once(spark: dict[str, str], directory: ParquetDirectory) -> None:
    chance = randomness.chance("history")
    config = config_of(spark, directory, batch_max_rows="4", key_columns="id")
    offsets, delivered, cursor = MemoryOffsets(), list[SourceRecord](), 0
    for number in range(3):
        rows: list[dict[str, Any]] = []
        for _ in range(chance.randint(1, 20)):
            cursor += chance.choice([0, 0, 1])
            rows.append(row(len(directory.rows) + len(rows), cursor))
        chance.shuffle(rows)
        directory.add(f"{number}.parquet", rows, COLUMNS)
        cursor += 1
        with SourceHarness(SparkSourceTask(), {**FAST, **config}, offsets) as harness:
            found = poll_all(harness) if number % 2 else harness.poll_records(1, 100)
        # Promise 5: the task is killed when the broker has the records up to one of them.
        kept = found[: chance.randint(1, len(found))]
        delivered += kept
        assert kept[-1].source_offset is not None
        offsets.store(table_partition("t"), kept[-1].source_offset)
    delivered += read(config, offsets)
    assert sorted(ids(delivered)) == sorted(one["id"] for one in directory.rows)
    sequences = [tuple(map(int, json.loads(plain(record.value)["source"]["sequence"]))) for record in delivered]
    assert sequences == sorted(set(sequences))


LCASE = "CAST(x AS STRING COLLATE UTF8_LCASE)"
TEXTS, ZEROS = ("'a'", "'A'"), ("0.0D", "-0.0D")


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (LCASE, TEXTS),
        (f"array({LCASE})", TEXTS),
        (f"named_struct('s', {LCASE})", TEXTS),
        (f"map('k', {LCASE})", TEXTS),
        ("x", ZEROS),
        ("named_struct('f', array(CAST(x AS FLOAT)))", ZEROS),
        ("map('k', x)", tuple(f"TIMESTAMP '2026-01-01 00:00:00.00000{n}'" for n in (1, 2))),
        ("map('k', array(x))", tuple(f"TIMESTAMP_NTZ '2026-01-01 00:00:00.00000{n}'" for n in (1, 2))),
    ],
)
def test_rows_that_differ_only_in_what_sorting_ignores_have_one_order(
    spark: dict[str, str], column: str, values: tuple[str, str]
) -> None:
    found = []
    for first, second in (values, values[::-1]):
        query = f"SELECT 1 AS n, {column} AS v FROM VALUES ({first}), ({second}) AS t(x)"
        records = read({**spark, "source.query": query, "cursor.column": "n"})
        found.append([repr(after["v"]) for _, _, after in events(records)])
    assert found[0] == found[1]
    assert len(set(found[0])) == 2


@pytest.mark.long
def test_order_of_equal_cursors_may_not_change_among_them(spark: dict[str, str], directory: ParquetDirectory) -> None:
    directory.add("a.parquet", [row(1, 7), row(2, 7), row(3, 8)], COLUMNS)
    config = config_of(spark, directory, key_columns="id")
    first = read(config)[0]
    assert {**(first.source_offset or {}), "version": 0, "order": ""} == {
        "version": 0, "snapshot": True, "cursor": "7", "row": 1, "order": "",
    }  # fmt: skip
    offsets = MemoryOffsets()
    assert first.source_offset is not None
    offsets.store(table_partition("t"), first.source_offset)
    with pytest.raises(
        ConnectError, match=r"in the middle of the rows with the cursor 7.*PATCH the offset to {\"cursor\": \"7\"}"
    ):
        read({**config, "key.columns": "v"}, offsets)
    offsets.store(table_partition("t"), {"cursor": 7})
    assert ids(read(config, offsets)) == [3]
    offsets.store(table_partition("t"), {"cursor": "7", "row": 0})
    assert ids(read(config, offsets)) == [1, 2, 3]
    offsets.store(table_partition("t"), {"cursor": "seven"})
    with pytest.raises(ConnectError, match="the stored cursor 'seven' is no value of n, which is INT"):
        read(config, offsets)


@pytest.mark.parametrize(
    ("config", "words"),
    first_fast(
        [
            ({"source.query": "SELECT id,\n  nope FROM {t}"}, r"source.query: \[UNRESOLVED_COLUMN.*nope.*\(line 2, position 3\)"),
            ({"cursor.column": "idd"}, r"source.query returns no column idd \(cursor.column\); did you mean id\?"),
            ({"key.columns": "ids"}, r"has no column ids \(key.columns\); did you mean id\?"),
            ({"source.query": "SELECT id\nFRM {t}"}, r"source.query: \[PARSE_SYNTAX_ERROR\].*\(line 2, position \d+\)"),
            (
                {"source.query": "SELECT * FROM nowhere"},
                r"source.query: \[TABLE_OR_VIEW_NOT_FOUND\].*nowhere.*\(line 1, position 15\)",
            ),
            ({"source.query": "DROP TABLE {t}"}, r"source.query: \[PARSE_SYNTAX_ERROR\]"),
            (
                {"source.query": "SELECT CAST(n / (n - n) AS INT) AS n FROM {t}"},
                r"DIVIDE_BY_ZERO.*\(line 1, position 13\)",
            ),
            ({"source.query": "SELECT n, n FROM {t}"}, "source.query returns two columns n"),
            ({"source.query": "SELECT n, parse_json(v) AS j FROM {t}"}, "column j of source.query cannot be read: VARIANT"),
            ({"cursor.column": "tags"}, "the column is ARRAY"),
        ],
        3,
    ),
)
def test_bad_queries_name_the_place_and_the_remedy(
    spark: dict[str, str], directory: ParquetDirectory, config: dict[str, str], words: str
) -> None:
    directory.add("a.parquet", [row(1)], COLUMNS)
    query = config.get("source.query", "SELECT * FROM {t}").format(t=f"parquet.`{directory.folder}`")
    with pytest.raises((ConfigError, ConnectError), match=words):
        read({**config_of(spark, directory), **config, "source.query": query})


@pytest.mark.long
def test_one_range_is_one_transaction(spark: dict[str, str], directory: ParquetDirectory) -> None:
    directory.add("a.parquet", [row(i) for i in range(10)], COLUMNS)
    config = {**FAST, **config_of(spark, directory, batch_max_rows="3"), "transaction.boundary": "connector"}
    with SourceHarness(SparkSourceTask(), config) as harness:
        assert harness.transactions is not None
        records: list[SourceRecord] = []
        while not harness.transactions.commits:
            records += harness.poll()
    assert len(records) == 10
    assert as_counter([{"n": len({(record.source_offset or {})["version"] for record in records})}]) == as_counter([{"n": 1}])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("own_spark")
def test_query_continues_in_another_jvm(spark: dict[str, str], directory: ParquetDirectory) -> None:
    directory.add("a.parquet", [row(1)], COLUMNS)
    config = {**FAST, **config_of(spark, directory)}
    with SourceHarness(SparkSourceTask(), config) as harness:
        assert ids(poll_all(harness)) == [1]
        lease = lease_of(config)
        process: Any = lease.session()
        os.kill(process._jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)
        lease.release()
        directory.add("b.parquet", [row(2)], COLUMNS)
        found: list[SourceRecord] = []
        while not found:
            found = harness.poll()
        assert ids(found) == [2]


def active_jobs(observer: Any, plan: str) -> set[int]:
    """The jobs that run for queries with this text in their plan. Other tests use the same Spark."""
    executions = observer._jsparkSession.sharedState().statusStore().executionsList()
    found: set[int] = set()
    for number in range(executions.size()):
        execution = executions.apply(number)
        if plan in execution.physicalPlanDescription():
            jobs = execution.jobs().keysIterator()
            while jobs.hasNext():
                found.add(jobs.next())
    return found & set(observer.sparkContext.statusTracker().getActiveJobsIds())


def test_task_that_stops_interrupts_its_query(spark: dict[str, str]) -> None:
    rows = 1_000_000_000 + os.getpid()
    slow = f"SELECT count(*) AS n FROM range({rows}) a, range({rows}) b WHERE a.id * b.id = 7"
    config = {**FAST, **spark, "source.query": slow, "cursor.column": "n"}
    lease = lease_of(config)
    observer = lease.session()
    try:
        with SourceHarness(SparkSourceTask(), config) as harness:
            while not active_jobs(observer, str(rows)):
                assert harness.poll() == []
        while active_jobs(observer, str(rows)):
            threading.Event().wait(0.05)
    finally:
        lease.release()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("own_spark")
def test_queries_run_on_spark_connect(
    spark: dict[str, str], connect_address: str, directory: ParquetDirectory, tmp_path: Path
) -> None:
    directory.add("a.parquet", [row(i, i // 3) for i in range(20)], COLUMNS)
    own = {key: value for key, value in spark.items() if not key.startswith("spark.")}
    remote = {**own, "spark.remote": connect_address, "source.spool.location": str(tmp_path / "spool")}
    for batch in ("4", "1000"):
        offsets = MemoryOffsets()
        config = config_of(remote, directory, batch_max_rows=batch, key_columns="id", cursor_column="at")
        assert ids(read(config, offsets)) == list(range(20))
        assert read(config, offsets) == []
    with pytest.raises(ConfigError, match=r"TABLE_OR_VIEW_NOT_FOUND.*\(line 1, position 15\)"):
        read({**config_of(remote, directory), "source.query": "SELECT * FROM nowhere"})
