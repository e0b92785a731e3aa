"""Spark reads databases without Kafka: a load and a stream that continues there, records, restarts, and what is refused."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from connect.spool.locks import WRITER, SpoolLock
from connect.spool.positions import START
from connect.spool.reader import SpoolReader
from connectors.spark.datasource import SpoolTables
from connectors.spark.datasource.source import SpoolStreamReader
from sluice.embedded.mariadb import EmbeddedMariaDB
from sluice.embedded.postgres import EmbeddedPostgres
from tests.integration.spark.spool_shop import (
    Shop,
    is_table,
    lake_rows,
    open_session,
    open_shop,
    replayed,
    rows_of,
    stop_connector,
    wait_until,
)
from tests.integration.spark.table_access import CATALOG, IcebergAccess, configure_catalog
from tests.support.cases import first_fast

pytestmark = [  # PySpark leaves the sockets of its results to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
Spark = Any


@pytest.fixture(scope="module")
def spark(spark_props: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    props = {**spark_props, "name": "s", "topics": "t", "table.location": str(tmp_path_factory.mktemp("lake"))}
    with open_session(props) as made:
        yield made
        jvm = made._jvm.java.lang.ProcessHandle.current().pid()
    assert psutil.pid_exists(jvm), "a connection of foreachBatch was waited for until the JVM had ended"


@pytest.fixture
def shop(postgres: EmbeddedPostgres, database: str, tmp_path: Path) -> Iterator[Shop]:
    with open_shop(postgres, database, tmp_path) as found:
        yield found


@pytest.mark.timeout(600)
@pytest.mark.long
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
    query.stop()  # in the middle of the changes
    before = shop.confirmed_lsn()
    query = stream()
    # Of its own, or that of the stopped query, which it has joined.
    wait_until(lambda: query.lastProgress is not None and shop.process() is not None)
    process = shop.process()
    assert process is not None
    os.kill(process, signal.SIGKILL)
    shop.execute("update orders set amount = amount + 1 where id > 1050; delete from orders where id = 1")

    def is_complete() -> bool:
        assert query.exception() is None, query.exception()
        return replayed(spark.read.format("delta").load(shop.table).collect()) == shop.rows()

    wait_until(is_complete, shop.table)
    shop.execute("insert into orders values (5000, 'last', null, 0)")
    wait_until(is_complete, shop.table)
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
@pytest.mark.long
def test_rows_of_a_first_batch_are_not_given_to_a_query_that_has_lost_its_checkpoint(spark: Spark, shop: Shop) -> None:
    """The batch is in the table, but Spark has not committed it."""
    options = {**shop.options, "table": "public.orders"}
    # A query that was killed before Spark stored its first offset was given nothing.
    killed = SpoolStreamReader(options, None, False)
    wait_until(lambda: killed.latestOffset()["segment"] > 0)
    killed.stop()
    Path(shop.checkpoint).mkdir()
    fails = threading.Event()
    fails.set()

    def write(batch: Any, batch_id: int) -> None:
        numbered = batch.write.format("delta").mode("append").option("txnAppId", "orders")
        numbered.option("txnVersion", batch_id).save(shop.table)
        if fails.is_set():
            raise OSError("the driver ends")

    def start(**more: str) -> Any:
        changes = spark.readStream.format("sluice").options(**options, **more).load()
        return changes.writeStream.foreachBatch(write).option("checkpointLocation", shop.checkpoint).start()

    with pytest.raises(Exception, match="the driver ends"):
        start().awaitTermination()
    written = replayed(rows_of(shop.table))
    assert written
    fails.clear()
    checkpoint, kept = Path(shop.checkpoint), Path(f"{shop.checkpoint}-kept")
    checkpoint.rename(kept)
    for _ in range(2):  # the second time, the new checkpoint has the offsets of the batch that was refused
        with pytest.raises(Exception, match=r"has no checkpoint, but rows of the spool .* were given to an earlier query"):
            start().awaitTermination()
    assert replayed(rows_of(shop.table)) == written
    shutil.rmtree(checkpoint)
    kept.rename(checkpoint)
    query = start()  # the first batch is repeated
    shop.execute("insert into orders values (5000, 'last', null, 0)")

    def is_complete() -> bool:
        assert query.exception() is None, query.exception()
        return replayed(rows_of(shop.table)) == shop.rows()

    wait_until(is_complete, shop.table)
    query.stop()


@pytest.mark.timeout(600)
@pytest.mark.long
def test_iceberg_table_of_a_stream_equals_the_source(spark: Spark, shop: Shop, tmp_path: Path) -> None:
    configure_catalog(spark, tmp_path / "warehouse")
    spark.sql(f"create namespace {CATALOG}.db")
    table, access = f"{CATALOG}.db.orders", IcebergAccess(tmp_path / "warehouse" / "db" / "orders")

    changes = spark.readStream.format("sluice").options(**shop.options, maxRowsPerTrigger="120").option("table", "public.orders")
    stream = changes.load().writeStream.format("iceberg").option("checkpointLocation", shop.checkpoint)
    query = stream.toTable(table)
    wait_until(lambda: query.lastProgress is not None and query.lastProgress.batchId >= 1)
    shop.execute("update orders set name = 'changed' where id <= 50; delete from orders where id between 100 and 120")

    def is_complete() -> bool:
        assert query.exception() is None, query.exception()
        return replayed(access.by_second_engine().to_pylist()) == shop.rows()

    wait_until(is_complete, access.path)
    query.stop()
    assert replayed(spark.sql(f"select * from {table}").collect()) == shop.rows()


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Path]:
    found = tmp_path / "spool"
    yield found
    stop_connector(found)


@pytest.mark.timeout(600)
@pytest.mark.long
def test_load_and_stream_of_the_jdbc_source_have_each_row_once(
    spark: Spark, mariadb: EmbeddedMariaDB, mariadb_database: str, spool: Path, tmp_path: Path
) -> None:
    options = {
        "name": "maria",
        "connector.class": "JdbcSource",
        "connection.url": f"jdbc:mariadb://{mariadb.host}:{mariadb.port}/{mariadb_database}",
        "connection.user": mariadb.user,
        "connection.password": mariadb.password,
        "catalog.pattern": mariadb_database,
        "mode": "timestamp+incrementing",
        "incrementing.column.name": "id",
        "timestamp.column.name": "changed",
        "topic.prefix": "shop.",
        "poll.interval.ms": "100",
        "spool.location": str(spool),
        "table": "orders",
    }
    table, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")

    def execute(*statements: str) -> list[Any]:
        with contextlib.closing(mariadb.connect(mariadb_database)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def start() -> Any:
        changes = spark.readStream.format("sluice").options(**options, maxRowsPerTrigger="40").load()
        return changes.writeStream.format("delta").option("checkpointLocation", checkpoint).start(table)

    def wait_for_rows(count: int) -> None:
        def is_complete() -> bool:
            assert query.exception() is None, query.exception()
            return len(rows_of(table)) >= count

        wait_until(is_complete, table)

    changed = "changed timestamp(6) not null default current_timestamp(6) on update current_timestamp(6)"
    execute(
        f"create table orders (id int auto_increment primary key, name varchar(20) not null, {changed})",
        "insert into orders (name) select concat('name ', seq) from seq_1_to_300",
        f"create table other (id int auto_increment primary key, {changed})",
    )
    spark.read.format("sluice").options(**options).load().write.format("delta").save(table)
    assert len(rows_of(table)) == 300
    execute(
        "update orders set name = 'changed' where id <= 50",
        "insert into orders (name) select 'late' from seq_1_to_100",
    )
    query = start()
    wait_until(lambda: query.lastProgress is not None and query.lastProgress.batchId >= 1)
    query.stop()  # in the middle of the changes
    execute("update orders set name = 'again' where id between 201 and 210", "insert into orders (name) values ('last')")
    query = start()
    wait_for_rows(300 + 150 + 11)
    execute("insert into orders (name) values ('very last')")
    wait_for_rows(300 + 150 + 11 + 1)
    query.stop()
    found = rows_of(table)
    assert len({(row["id"], row["changed"]) for row in found}) == len(found) == 300 + 150 + 11 + 1
    latest = {row["id"]: row["name"] for row in sorted(found, key=lambda row: row["changed"])}
    assert latest == dict(execute("select id, name from orders"))


@pytest.mark.long
def test_processes_of_queries_import_pyspark_from_its_folder(spark: Spark) -> None:
    """From a ZIP file, each process compiles it first: on busy machines, Spark gave queries up before they answered."""
    assert ".zip" not in spark._jvm.org.apache.spark.api.python.PythonUtils.sparkPythonPath()


@pytest.mark.timeout(600)
@pytest.mark.long
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


@pytest.mark.timeout(600)
@pytest.mark.parametrize("reads_records", first_fast([False, True]), ids=["bounds", "records"])
@pytest.mark.long
def test_one_stream_fills_all_tables_and_repeated_batches_change_nothing(
    spark: Spark, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads_records: bool
) -> None:
    monkeypatch.setattr("connectors.spark.datasource.tables._COMMIT_BYTES", 1)
    shop.options["spool.segment.max.bytes"] = "300000"
    lake = tmp_path / "lake"
    shop.execute("create table events (text text); insert into events values ('first'), ('first')")
    upserts = {
        "name": "tables", "topics": "shop.public.orders,shop.public.other", "table.location": str(lake),
        "table.name.format": "${table}", "write.mode": "upsert",
    }  # fmt: skip
    appends = {"name": "events", "topics": "shop.public.events", "table.location": str(lake), "write.mode": "append"}

    def events() -> list[str]:
        table = lake / "shop.public.events"
        return sorted(row["text"] for row in rows_of(str(table))) if is_table(table) else []

    with SpoolTables(spark, shop.options, upserts, appends) as tables:

        def write_twice(batch: Any, batch_id: int) -> None:
            tables.write(batch, batch_id)
            tables.write(batch, batch_id)

        records = spark.readStream.format("sluice").options(**shop.options).load()
        batches = records if reads_records else tables.stream()
        query = batches.writeStream.foreachBatch(write_twice).option("checkpointLocation", shop.checkpoint).start()

        def is_complete() -> bool:
            assert query.exception() is None, query.exception()
            return lake_rows(lake / "orders") == shop.rows()

        wait_until(is_complete, lake / "orders")
        shop.execute(
            "update orders set amount = amount + 1 where id < 20; update orders set id = 9001 where id = 7;"
            "delete from orders where id between 100 and 120; alter table orders add column note text;"
            "insert into orders values (5000, 'new', null, 1, 'noted'); insert into events values ('second')"
        )
        wait_until(lambda: is_complete() and events() == ["first", "first", "second"])
        # Twice, also in the last batch: 303 rows of snapshots, 19 updates, a key change, 21 deletes, and two inserts.
        events_twice = 2 * (303 + 19 + 2 + 21 + 2)
        wait_until(lambda: tables.progress()["events"] >= events_twice)
        query.stop()
        assert tables.progress()["events"] == events_twice
        assert tables.progress()["tables"]["shop.public.events"]["rows"] == 3
        assert tables.progress()["latency_ms"]["p50"] is not None
    assert spark.read.format("delta").load(str(lake / "orders")).where("note = 'noted'").count() == 1
    assert spark.read.format("delta").load(str(lake / "other")).count() == 1


class Interrupted(Exception):
    """The query ended between two commits of a batch."""


@pytest.mark.timeout(600)
@pytest.mark.long
def test_batch_that_was_interrupted_between_its_commits_is_completed(
    spark: Spark, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.spark.datasource.tables._COMMIT_BYTES", 1)
    shop.options |= {"spool.segment.max.bytes": "300000", "table.include.list": "public.orders"}
    sink = {"table.location": str(tmp_path), "table.name.format": "${table}", "write.mode": "append"}
    table, interrupted = tmp_path / "orders", 0
    with SpoolTables(spark, shop.options, sink) as tables:
        commit = tables._commit_slices

        def write(batch: Any, batch_id: int) -> None:
            nonlocal interrupted
            commits = 0

            def commit_once(*arguments: Any) -> None:
                nonlocal commits
                if commits:
                    raise Interrupted
                commits += 1
                commit(*arguments)

            with monkeypatch.context() as patch:
                patch.setattr(tables, "_commit_slices", commit_once)
                try:
                    tables.write(batch, batch_id)
                except Interrupted:
                    interrupted += 1
            tables.write(batch, batch_id)

        query = tables.stream().writeStream.foreachBatch(write).option("checkpointLocation", shop.checkpoint).start()
        wait_until(lambda: query.exception() is not None or (is_table(table) and len(rows_of(str(table))) >= 300), table)
        assert (failure := query.exception()) is None, str(failure)
        query.stop()
    assert interrupted > 0
    assert lake_rows(table) == shop.rows()


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
        return lake_rows(tmp_path / "lake" / "orders") == shop.rows()

    for cell in cells:
        if "spark.read." in cell:  # a person waits until the rows are there
            wait_until(is_complete, tmp_path / "lake" / "orders")
            reads += 1
        exec(compile(cell, str(notebook), "exec"), names)
    assert reads == 2
    assert not names["query"].isActive
    assert lake_rows(tmp_path / "lake" / "orders")[1][1] == "changed"


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("changes", "problem"),
    first_fast(
        [
            ({"connector.class": "PostgresConector"}, "No connector class PostgresConector found.*Did you mean Postgres"),
            ({"slot.nam": "x"}, "Nothing reads slot.nam.*Did you mean slot.name"),
            ({"spool.max.byte": "1"}, "There is no option spool.max.byte; did you mean spool.max.bytes"),
            ({"table": "public.odrers"}, "no record of table public.odrers.*did you mean public.orders"),
            ({"database.port": "1"}, "Connection refused"),
        ]
    ),
)
def test_options_that_cannot_work_are_refused_by_name(spark: Spark, shop: Shop, changes: dict[str, str], problem: str) -> None:
    options = {"table": "public.orders", **shop.options, **changes}
    with pytest.raises(Exception, match=f"(?s){problem}"):
        spark.readStream.format("sluice").options(**options).load()
