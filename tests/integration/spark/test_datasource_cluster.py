"""The data source on a cluster: executors that end in a read, and executors that cannot reach the spool."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import ConnectError
from connectors.spark.datasource import SpoolTables, check_executors
from sluice.embedded.postgres import EmbeddedPostgres
from sluice.embedded.spark_cluster import EmbeddedSparkCluster
from tests.integration.spark.spool_shop import Shop, lake_rows, open_session, open_shop, replayed, rows_of, wait_until
from tests.support.spark_cluster import fast_settings

pytestmark = [  # PySpark leaves the sockets of its results to the garbage collector
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
Spark = Any


@pytest.fixture(scope="module")
def spark(
    shared_cluster: EmbeddedSparkCluster,
    spark_props: dict[str, str],
    own_spark_of_module: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Spark]:
    """A session of a cluster. The driver has a working directory of its own, as each executor has."""
    shared_cluster.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("driver"))
        props = {
            "name": "s",
            "topics": "t",
            "table.location": str(tmp_path_factory.mktemp("lake")),
            "spark.jars": spark_props["spark.jars"],
            "spark.conf.spark.pyspark.python": sys.executable,
            # So that rows arrive while others are still read.
            "spark.conf.spark.sql.execution.arrow.maxRecordsPerBatch": "50",
            "spark.conf.spark.sql.shuffle.partitions": "2",
            **fast_settings(shared_cluster),
        }
        with open_session(props) as made:
            yield made


@pytest.fixture
def shop(postgres: EmbeddedPostgres, database: str, tmp_path: Path) -> Iterator[Shop]:
    with open_shop(postgres, database, tmp_path) as found:
        found.execute("insert into orders select g, 'more', repeat(g::text, 3000), 1 from generate_series(1001, 2000) g")
        yield found


def kill_once(marker: Path, *, executor: bool) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Passes rows on. In the middle of them, it once kills the executor, or its other Python processes, which read the rows. The
    marker has the number of killed processes then."""

    def parent_of(process: int) -> int:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])

    def children_of(process: int) -> list[int]:
        return [int(number) for number in Path(f"/proc/{process}/task/{process}/children").read_text().split()]

    def victims() -> list[int]:
        daemon = parent_of(os.getpid())
        java = parent_of(daemon)
        if executor:
            return [java]
        threads = [int(path.name) for path in Path(f"/proc/{java}/task").iterdir()]
        daemons = {int(n) for t in threads for n in Path(f"/proc/{java}/task/{t}/children").read_text().split()} | {daemon}
        return [worker for one in daemons for worker in children_of(one) if worker != os.getpid()]

    def passed_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            yield batch
            if number == 2:
                try:
                    descriptor = os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
                except FileExistsError:
                    continue
                found = victims()
                os.write(descriptor, b"%d" % len(found))
                for process in found:
                    os.kill(process, signal.SIGKILL)

    return passed_on


def test_read_is_repeated_when_the_executor_or_its_python_process_is_killed(spark: Spark, shop: Shop, tmp_path: Path) -> None:
    options = {**shop.options, "table": "public.orders", "spool.segment.max.bytes": "300000"}
    reader, executor = tmp_path / "reader", tmp_path / "executor"
    loaded = spark.read.format("sluice").options(**options).load()
    loaded.mapInArrow(kill_once(reader, executor=False), loaded.schema).write.format("delta").save(shop.table)
    assert int(reader.read_text()) > 0
    assert replayed(rows_of(shop.table)) == shop.rows()
    shop.execute("update orders set name = 'changed', big = big || 'x' where id > 1000; delete from orders where id <= 10")
    changes = spark.readStream.format("sluice").options(**options).load()
    killing = changes.mapInArrow(kill_once(executor, executor=True), changes.schema).writeStream.format("delta")
    query = killing.option("checkpointLocation", shop.checkpoint).start(shop.table)

    def is_complete() -> bool:
        assert query.exception() is None, query.exception()
        return replayed(rows_of(shop.table)) == shop.rows()

    wait_until(is_complete, shop.table)
    query.stop()
    assert executor.read_text() == "1"


def test_spool_that_executors_cannot_reach_is_named_with_host_and_remedy(spark: Spark, shop: Shop, tmp_path: Path) -> None:
    check_executors(spark, shop.options)
    assert not list(shop.spool.glob("probe-*"))
    options = {**shop.options, "spool.location": "/proc/self/cwd/spool"}  # another directory for each process
    shop.spool = Path.cwd() / "spool"
    remedy = r"spool\.location must be a directory that"
    problem = rf"/proc/self/cwd/spool on host \S+ is not the directory of the driver's host: {remedy} all hosts mount"
    with pytest.raises(ConnectError, match=problem):
        check_executors(spark, options)
    changes = spark.readStream.format("sluice").options(**options).load()
    stream = changes.writeStream.foreachBatch(lambda batch, _: batch.collect())
    query = stream.option("checkpointLocation", shop.checkpoint).start()
    with pytest.raises(Exception, match=rf"the spool /proc/self/cwd/spool does not exist on host .*{remedy} they all mount"):
        query.awaitTermination()
    assert query.lastProgress is None, "no batch was committed"


def test_tables_are_written_though_executors_cannot_reach_the_spool(spark: Spark, shop: Shop, tmp_path: Path) -> None:
    options = {**shop.options, "spool.location": "/proc/self/cwd/another-spool", "table.include.list": "public.orders"}
    shop.spool = Path.cwd() / "another-spool"
    sink = {"table.location": str(tmp_path), "table.name.format": "${table}", "write.mode": "upsert"}
    with SpoolTables(spark, options, sink) as tables:
        query = tables.stream().writeStream.foreachBatch(tables.write).option("checkpointLocation", shop.checkpoint).start()

        def is_complete() -> bool:
            assert (failure := query.exception()) is None, str(failure)
            return lake_rows(tmp_path / "orders") == shop.rows()

        wait_until(is_complete, tmp_path / "orders")
        shop.execute("update orders set name = 'changed' where id < 300; delete from orders where id > 1000")
        wait_until(is_complete, tmp_path / "orders")
        query.stop()
