"""Iceberg tables of a Hive catalog: a metastore with and without locks, and one that cannot be reached for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from connect.errors import RetriableError
from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import parse_config
from sluice.embedded.ports import LOOPBACK
from tests.cluster.proxy import TcpProxy
from tests.integration.spark.lake import field, message
from tests.support.hive_metastore import EmbeddedHiveMetastore

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

KEY = "spark.conf.spark.sql.catalog.hive"
LOCKS = f"{KEY}.hadoop.iceberg.engine.hive.lock-enabled"
P0 = TopicPartition("t", 0)
ID, V, MORE = field("id", "int32"), field("v", "string"), field("more", "int64")


@contextlib.contextmanager
def started(server: EmbeddedHiveMetastore) -> Iterator[EmbeddedHiveMetastore]:
    server.start()
    try:
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="module")
def metastore(services_dir: Path) -> Iterator[EmbeddedHiveMetastore]:
    with started(EmbeddedHiveMetastore(services_dir / "hive", dies_with_parent=True)) as server:
        yield server


class HiveTable:
    """The topic ``t`` and the table ``t`` of a namespace, which does not exist yet."""

    def __init__(self, namespace: str, uri: str, metastore: EmbeddedHiveMetastore, props: dict[str, str]) -> None:
        self.folder = metastore.warehouse / f"{namespace}.db" / "t"
        self.name = f"hive.{namespace}.t"
        self.settings = {key: value for key, value in props.items() if key != "table.location"} | {
            KEY: "org.apache.iceberg.spark.SparkCatalog",
            f"{KEY}.type": "hive",
            f"{KEY}.uri": uri,
            f"{KEY}.warehouse": str(metastore.warehouse),
            f"{KEY}.cache-enabled": "false",
            f"{KEY}.hadoop.hive.metastore.client.connect.retry.delay": "0s",
            "table.format": "iceberg",
            "table.catalog": f"hive.{namespace}",
            "metadata.columns": "none",
        }

    @contextlib.contextmanager
    def spark(self) -> Iterator[Any]:
        """A session of Spark that has the catalog."""
        lease = session.lease(parse_config(self.settings).spark)
        try:
            yield lease.session()
        finally:
            lease.release()

    def check(self, *expected: tuple[Any, ...]) -> None:
        """Compares the rows that Spark and PyIceberg read."""
        with self.spark() as spark:
            found = sorted(tuple(row) for row in spark.sql(f"SELECT * FROM {self.name}").collect())
        newest = max((self.folder / "metadata").glob("*.metadata.json"))
        by_second_engine = StaticTable.from_metadata(str(newest)).scan().to_arrow()
        assert sorted(tuple(row.values()) for row in by_second_engine.to_pylist()) == found == list(expected)


def add(topic: Any, *rows: dict[str, Any], fields: tuple[dict[str, Any], ...] = (ID, V)) -> None:
    for row in rows:
        topic.add(None, message(list(fields), row))


def commit(task_run: Any) -> None:
    task_run.deliver()
    task_run.commit()


@pytest.mark.parametrize("settings", [{}, {"table.properties.engine.hive.lock-enabled": "false"}], ids=["locks", "no_locks"])
def test_tables_of_a_hive_catalog(
    metastore: EmbeddedHiveMetastore, props: dict[str, str], run: Any, topic: Any, settings: dict[str, str]
) -> None:
    table = HiveTable(f"shop{len(settings)}", metastore.uri, metastore, {**props, **settings})
    t = topic("t", schemas=True)
    first = run(table.settings, [t], raw=True, group={})
    add(t, {"id": 1, "v": "a"}, {"id": 2, "v": "b"})
    commit(first)
    add(t, {"id": 3, "v": "c", "more": 2**40}, fields=(ID, V, MORE))
    commit(first)
    table.check((1, "a", None), (2, "b", None), (3, "c", 2**40))
    first.task.close()
    # Without the consumer group's offsets.
    second = run({**table.settings, "write.mode": "upsert", "key.columns": "id"}, [t], raw=True, group={})
    assert second.position == {P0: 3}
    add(t, {"id": 2, "v": "d"}, {"id": 4, "v": "e"})
    commit(second)
    second.close()
    table.check((1, "a", None), (2, "d", None), (3, "c", 2**40), (4, "e", None))


def test_concurrent_writers_of_a_hive_table_lose_no_rows(
    metastore: EmbeddedHiveMetastore, props: dict[str, str], run: Any, topic: Any
) -> None:
    table = HiveTable("busy", metastore.uri, metastore, props)
    t = topic("t", schemas=True)
    t.logs[1] = []
    tasks = [run(table.settings, [t], raw=True, group={}, partitions=[number]) for number in (0, 1)]
    add(t, {"id": 0, "v": "first"})
    commit(tasks[0])

    def commit_rows(partition: int) -> None:
        for number in range(5):
            t.add(None, message([ID, V], {"id": number, "v": f"task {partition}"}), partition)
            tasks[partition].deliver()
            until_committed(tasks[partition])

    def insert_rows() -> None:
        with table.spark() as spark:
            for number in range(5):
                spark.sql(f"INSERT INTO {table.name} VALUES ({number}, 'spark')")

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(commit_rows, 0), pool.submit(commit_rows, 1), pool.submit(insert_rows)]:
            done.result()
    for one in tasks:
        one.close()
    writers = ("spark", "task 0", "task 1")
    table.check(*sorted([(0, "first"), *((number, writer) for number in range(5) for writer in writers)]))


def until_committed(task_run: Any) -> None:
    """Commits as the worker does: again after an error that passes."""
    for _ in range(20):
        with contextlib.suppress(RetriableError):
            task_run.commit()
            return
    raise AssertionError("no commit")


@contextlib.contextmanager
def locked(table: HiveTable, namespace: str, uri: str) -> Iterator[Callable[[], None]]:
    """Locks a table in the metastore, as a client that is in the middle of a commit; yields what releases the lock."""
    with table.spark() as spark:
        api = spark._jvm.org.apache.hadoop.hive.metastore
        conf = spark._jvm.org.apache.hadoop.hive.conf.HiveConf()
        conf.set("hive.metastore.uris", uri)
        client = api.HiveMetaStoreClient(conf)
        part = api.api.LockComponent(api.api.LockType.EXCLUSIVE, api.api.LockLevel.TABLE, namespace)
        part.setTablename("t")
        lock = client.lock(api.api.LockRequest([part], "somebody", "another host"))
        assert str(lock.getState()) == "ACQUIRED"
        try:
            yield lambda: client.unlock(lock.getLockid())
        finally:
            client.close()


def test_commit_is_repeated_while_somebody_else_has_locked_the_table(
    metastore: EmbeddedHiveMetastore, props: dict[str, str], run: Any, topic: Any
) -> None:
    table = HiveTable("locked", metastore.uri, metastore, props)
    table.settings[f"{KEY}.hadoop.iceberg.hive.lock-timeout-ms"] = "300"
    t = topic("t", schemas=True)
    task_run = run({**table.settings, "write.mode": "upsert", "key.columns": "id"}, [t], raw=True, group={})
    add(t, {"id": 1, "v": "a"})
    commit(task_run)
    add(t, {"id": 1, "v": "b"}, {"id": 2, "v": "b"})
    task_run.deliver()
    with locked(table, "locked", metastore.uri) as unlock:
        for _ in range(2):
            with pytest.raises(RetriableError, match=r"table t at hive\.locked\.t: .*LockException: .*lock-enabled=false"):
                task_run.task.flush({})
        table.check((1, "a"))
        unlock()
    task_run.close()
    table.check((1, "b"), (2, "b"))
    assert len(list((table.folder / "data").glob("*.parquet"))) == 2, "files of commits that were refused are deleted"


def test_metastore_without_locks_is_named(services_dir: Path, props: dict[str, str], run: Any, topic: Any) -> None:
    with started(EmbeddedHiveMetastore(services_dir / "hive-unlocked", has_locks=False, dies_with_parent=True)) as metastore:
        table = HiveTable("unlocked", metastore.uri, metastore, props)
        with_locks = {f"{KEY}.hadoop.iceberg.hive.lock-creation-timeout-ms": "1"}
        t = topic("t", schemas=True)
        for number, expected in enumerate(("another writer has created the table, but does not have it", "LockException")):
            add(t, {"id": number, "v": "a"})
            refused = run({**table.settings, **with_locks}, [t], raw=True, group={})
            refused.deliver()
            with pytest.raises(RetriableError, match=rf"t at hive\.unlocked\.t: .*{expected}.*hive\.lock-enabled=false"):
                refused.task.flush({})
            refused.task.close()
            written = run({**table.settings, LOCKS: "false"}, [t], raw=True, group={})
            written.deliver()
            written.close()
            assert len(list((table.folder / "data").iterdir())) == number + 1
        table.check((0, "a"), (1, "a"))


def test_metastore_that_cannot_be_reached_is_tried_again(
    metastore: EmbeddedHiveMetastore, props: dict[str, str], run: Any, topic: Any
) -> None:
    proxy = TcpProxy(metastore.port)
    proxy.start()
    table = HiveTable("down", f"thrift://{LOOPBACK}:{proxy.port}", metastore, props)
    table.settings[f"{KEY}.hadoop.hive.metastore.connect.retries"] = "1"
    t = topic("t", schemas=True)
    task_run = run(table.settings, [t], raw=True, group={})
    add(t, {"id": 1, "v": "a"})
    commit(task_run)
    proxy.close()
    add(t, {"id": 2, "v": "b"})
    task_run.deliver()
    with pytest.raises(RetriableError, match=r"table t at hive\.down\.t: .*Connection refused; start the Hive metastore, or"):
        task_run.task.flush({})
    again = TcpProxy(metastore.port)
    again.port = proxy.port
    again.start()
    task_run.close()
    table.check((1, "a"), (2, "b"))
    again.close()
