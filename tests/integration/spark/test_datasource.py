"""Spark reads a database without Kafka: a load and a stream that continues there, records, restarts, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.spool.locks import WRITER, SpoolLock
from connect.spool.positions import START
from connect.spool.reader import SpoolReader
from connect.spool.status import WriterState, read_status
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.datasource import SpoolTables, register
from sluice.embedded.postgres import EmbeddedPostgres

pytestmark = [  # PySpark leaves the sockets of its results to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
DEADLINE_S = 240.0
Spark = Any


@pytest.fixture(scope="module")
def spark(spark_props: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    props = {**spark_props, "name": "s", "topics": "t", "table.location": str(tmp_path_factory.mktemp("lake"))}
    lease = session.lease(parse_config(props).spark)
    made = lease.session()
    register(made)
    yield made
    for query in made.streams.active:
        query.stop()
    lease.release()


class Shop:
    """A database, and the options that read it."""

    def __init__(self, server: EmbeddedPostgres, database: str, folder: Path) -> None:
        self._server = server
        self._database = database
        self.spool = folder / "spool"
        self.table = str(folder / "table")
        self.checkpoint = str(folder / "checkpoint")
        self.slot = f"slot_{database}"
        self.options = {
            "name": "shop",
            "connector.class": "PostgresConnector",
            "database.hostname": server.host,
            "database.port": str(server.port),
            "database.user": server.user,
            "database.password": server.password,
            "database.dbname": database,
            "topic.prefix": "shop",
            "plugin.name": "pgoutput",
            "slot.name": self.slot,
            "poll.interval.ms": "50",
            "offset.flush.interval.ms": "200",
            "spool.location": str(self.spool),
        }

    def execute(self, statements: str) -> list[Any]:
        with self._server.connect(self._database) as connection:
            cursor = connection.execute(statements)
            return cursor.fetchall() if cursor.description else []

    def rows(self) -> dict[int, tuple[Any, ...]]:
        return {row[0]: tuple(row) for row in self.execute("select id, name, big, amount from orders")}

    def process(self) -> int | None:
        """The process that runs the connector, if it runs."""
        status = read_status(self.spool)
        return status.process if status is not None and status.state is WriterState.RUNNING else None

    def confirmed_lsn(self) -> int:
        found = self.execute(
            f"select confirmed_flush_lsn - '0/0'::pg_lsn from pg_replication_slots where slot_name = '{self.slot}'"
        )
        return int(found[0][0])


@pytest.fixture
def shop(postgres: EmbeddedPostgres, database: str, tmp_path: Path) -> Iterator[Shop]:
    found = Shop(postgres, database, tmp_path)
    found.execute(
        "create table orders (id int primary key, name text, big text, amount numeric(10, 2));"
        "alter table orders alter column big set storage external;"
        "create table other (id int primary key);"
        "insert into other values (1);"
        "insert into orders select g, 'name ' || g, repeat(g::text, 3000), g / 4.0 from generate_series(1, 300) g"
    )
    yield found
    status = read_status(found.spool)
    if status is not None and not SpoolLock(found.spool, WRITER).is_free():
        os.kill(status.process, signal.SIGTERM)
        wait_until(lambda: SpoolLock(found.spool, WRITER).is_free())


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


def replayed(rows: list[Any]) -> dict[int, tuple[Any, ...]]:
    """The table after all changes, by the position of each. Each change occurs once."""
    found: dict[int, tuple[Any, ...]] = {}
    assert len({row["_position"] for row in rows}) == len(rows)
    for row in sorted(rows, key=lambda row: row["_position"]):
        if row["_op"] == "d":
            del found[row["id"]]
            continue
        before = found.get(row["id"])
        values = [row[name] for name in ("id", "name", "big", "amount")]
        if row["_unchanged"]:
            assert row["_unchanged"] == ["big"]
            assert before is not None
            values[2] = before[2]
        found[row["id"]] = tuple(values)
    return found


@pytest.mark.timeout(600)
def test_load_and_stream_make_the_table_and_each_change_occurs_once(spark: Spark, shop: Shop) -> None:
    loaded = spark.read.format("sluice").options(**shop.options).option("table", "public.orders").load()
    assert [field.simpleString() for field in loaded.schema] == [
        "id:int", "name:string", "big:string", "amount:decimal(38,2)",
        "_op:string", "_ts:timestamp", "_position:string", "_unchanged:array<string>",
    ]  # fmt: skip
    loaded.write.format("delta").save(shop.table)
    shop.execute(
        "update orders set name = 'changed' where id <= 50; delete from orders where id between 100 and 120;"
        "insert into orders select g, 'late', null, 1 from generate_series(1001, 1100) g"
    )
    assert loaded.count() == 300, "a load is repeatable, and has no changes"

    def stream() -> Any:
        changes = spark.readStream.format("sluice").options(**shop.options).option("table", "public.orders")
        return (
            changes.option("maxRowsPerTrigger", "100")
            .load()
            .writeStream.format("delta")
            .option("checkpointLocation", shop.checkpoint)
            .start(shop.table)
        )

    query = stream()
    wait_until(lambda: query.lastProgress is not None and query.lastProgress.batchId >= 1)
    stopped = shop.process()
    query.stop()  # in the middle of the changes
    before = shop.confirmed_lsn()
    query = stream()
    wait_until(lambda: shop.process() not in (None, stopped))
    os.kill(shop.process() or 0, signal.SIGKILL)
    shop.execute("update orders set amount = amount + 1 where id > 1050; delete from orders where id = 1")

    def is_complete() -> bool:
        assert query.exception() is None, query.exception()
        return replayed(spark.read.format("delta").load(shop.table).collect()) == shop.rows()

    wait_until(is_complete)
    shop.execute("insert into orders values (5000, 'last', null, 0)")
    wait_until(is_complete)
    wait_until(lambda: shop.confirmed_lsn() > before)
    query.stop()
    wait_until(lambda: SpoolLock(shop.spool, WRITER).is_free())
    reader = SpoolReader(shop.spool)
    reader.refresh()
    assert reader.confirmed() > START

    # --- what a query is not given

    lost = spark.readStream.format("sluice").options(**shop.options).load()
    with pytest.raises(Exception, match=r"the query has no checkpoint, but the spool .* was committed by a query"):
        run_to_the_end(lost)
    assert run_to_the_end(spark.readStream.format("sluice").options(**shop.options).option("startingOffsets", "confirmed").load())
    with pytest.raises(Exception, match=r"was committed up to .* by a stream"):
        loaded.count()


def run_to_the_end(frame: Any, **more: str) -> list[Any]:
    """The rows that a query without a checkpoint finds, up to now."""
    name = f"rows_{time.monotonic_ns()}"
    query = frame.writeStream.format("memory").queryName(name).options(**more).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return list(frame.sparkSession.sql(f"select * from {name}").collect())


@pytest.mark.timeout(600)
def test_records_are_those_of_spark_s_kafka_source(spark: Spark, shop: Shop) -> None:
    frame = spark.readStream.format("sluice").options(**shop.options).load()
    assert [field.simpleString() for field in frame.schema] == [
        "key:binary", "value:binary", "topic:string", "partition:int", "offset:bigint", "timestamp:timestamp",
        "timestampType:int", "headers:array<struct<key:string,value:binary>>",
    ]  # fmt: skip
    query = frame.writeStream.format("memory").queryName("records").start()
    wait_until(lambda: spark.sql("select * from records").count() == 301 or query.exception() is not None)
    assert query.exception() is None
    with pytest.raises(Exception, match=r"another reader .process .* on host .*Stop that query"):
        run_to_the_end(frame)
    query.stop()
    rows = spark.sql("select * from records order by offset").collect()
    assert [row["offset"] for row in rows] == list(range(301))
    assert {row["topic"] for row in rows} == {"shop.public.orders", "shop.public.other"}
    last = next(row for row in rows if row["topic"] == "shop.public.other")
    assert bytes(last["key"]).endswith(b'"payload":{"id":1}}')
    assert b'"after":{"id":1}' in bytes(last["value"])


def is_table(folder: Path) -> bool:
    """Whether a Delta table was created there; its log exists before its first commit."""
    return any((folder / "_delta_log").glob("*.json"))


def lake_rows(spark: Spark, table: Path) -> dict[int, tuple[Any, ...]]:
    """The rows of a Delta table by ID; none before it exists."""
    if not is_table(table):
        return {}
    rows = spark.read.format("delta").load(str(table)).select("id", "name", "big", "amount").collect()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: tuple(row) for row in rows}


@pytest.mark.timeout(600)
def test_one_stream_fills_all_tables_and_repeated_batches_change_nothing(spark: Spark, shop: Shop, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    shop.execute("create table events (text text); insert into events values ('first'), ('first')")
    upserts = {
        "name": "tables", "topics": "shop.public.orders,shop.public.other", "table.location": str(lake),
        "table.name.format": "${table}", "write.mode": "upsert",
    }  # fmt: skip
    appends = {"name": "events", "topics": "shop.public.events", "table.location": str(lake), "write.mode": "append"}

    def events() -> list[str]:
        table = lake / "shop.public.events"
        rows = spark.read.format("delta").load(str(table)).collect() if is_table(table) else []
        return sorted(row["text"] for row in rows)

    with SpoolTables(spark, shop.options, upserts, appends) as tables:

        def write_twice(batch: Any, batch_id: int) -> None:
            tables.write(batch, batch_id)
            tables.write(batch, batch_id)

        records = spark.readStream.format("sluice").options(**shop.options).load()
        query = records.writeStream.foreachBatch(write_twice).option("checkpointLocation", shop.checkpoint).start()

        def is_complete() -> bool:
            assert query.exception() is None, query.exception()
            return lake_rows(spark, lake / "orders") == shop.rows()

        wait_until(is_complete)
        shop.execute(
            "update orders set amount = amount + 1 where id < 20; update orders set id = 9001 where id = 7;"
            "delete from orders where id between 100 and 120; alter table orders add column note text;"
            "insert into orders values (5000, 'new', null, 1, 'noted'); insert into events values ('second')"
        )
        wait_until(lambda: is_complete() and events() == ["first", "first", "second"])
        query.stop()
        # Twice 303 rows of snapshots, 19 updates, a key change, 21 deletes, and two inserts.
        assert tables.progress()["events"] == 2 * (303 + 19 + 2 + 21 + 2)
        assert tables.progress()["tables"]["shop.public.events"]["rows"] == 3
        assert tables.progress()["latency_ms"]["p50"] is not None
    assert spark.read.format("delta").load(str(lake / "orders")).where("note = 'noted'").count() == 1
    assert spark.read.format("delta").load(str(lake / "other")).count() == 1


@pytest.mark.timeout(600)
def test_notebook_fills_a_table(
    spark: Spark, shop: Shop, postgres: EmbeddedPostgres, database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    notebook = Path(__file__).parents[3] / "docs" / "spark-data-source.ipynb"
    cells = ["".join(cell["source"]) for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    libpq = {"PGHOST": postgres.host, "PGPORT": postgres.port, "PGUSER": postgres.user, "PGDATABASE": database}
    for name, value in {**libpq, "PGPASSWORD": postgres.password}.items():
        monkeypatch.setenv(name, str(value))
    # The JVM, which otherwise hands its environment on, has started before.
    monkeypatch.setitem(spark.sparkContext.environment, "PGPASSWORD", str(postgres.password))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    reads = 0

    def is_complete() -> bool:
        assert names["query"].exception() is None, names["query"].exception()
        return lake_rows(spark, tmp_path / "lake" / "orders") == shop.rows()

    for cell in cells:
        if "spark.read." in cell:  # a person waits until the rows are there
            wait_until(is_complete)
            reads += 1
        exec(compile(cell, str(notebook), "exec"), names)
    assert reads == 2
    assert not names["query"].isActive
    assert lake_rows(spark, tmp_path / "lake" / "orders")[1][1] == "changed"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"connector.class": "PostgresConector"}, "No connector class PostgresConector found.*Did you mean Postgres"),
        ({"slot.nam": "x"}, "Nothing reads slot.nam.*Did you mean slot.name"),
        ({"spool.max.byte": "1"}, "There is no option spool.max.byte; did you mean spool.max.bytes"),
        ({"table": "public.odrers"}, "no record of table public.odrers.*did you mean public.orders"),
        ({"database.port": "1"}, "Connection refused"),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(spark: Spark, shop: Shop, changes: dict[str, str], problem: str) -> None:
    options = {"table": "public.orders", **shop.options, **changes}
    with pytest.raises(Exception, match=f"(?s){problem}"):
        spark.readStream.format("sluice").options(**options).load()
